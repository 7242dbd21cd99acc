"""Keys and what users wrote stay out of everything that a monitor says about itself: stdout, stderr, /metrics."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import hashlib
import http.server
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import grpc
import httpx
import kafka_broker
import pytest
from exportable import NOW, REVIEWER, add
from kafka import KafkaProducer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from groundwatch_collector import otlp
from groundwatch_collector.decision import DecideConfig
from groundwatch_collector.limits import Limits
from groundwatch_collector.mapping import to_ragtrace
from groundwatch_collector.storage import open_engine
from groundwatch_deploy import cli, migrations
from groundwatch_review import candidates
from groundwatch_review.desk import Refused
from groundwatch_review.formats import FORMATS, render

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
# Letters that stand nowhere else: not in a number, a path or a name of ours.
INGEST_KEY = "gwk_birdxq-ingest-key"
WRONG_KEY = "gwk_birdxq-wrong-key"
LLM_KEY = "sk-birdxq-llm-key"
QUERY = "birdxq query: does Jane Roe of 12 Elm Street have cancer"
ANSWER = "birdxq answer is yes"
COMMENT = "birdxq comment"
SESSION = "birdxq-session"
SALT = "c0ffee" * 8 + "0" * 16
CANARIES = (INGEST_KEY, WRONG_KEY, LLM_KEY, QUERY, ANSWER, COMMENT, SESSION, SALT, "birdxq", "Jane Roe", "Elm Street")
JSON = {"content-type": "application/json"}


def trace(number: int) -> dict[str, Any]:
    texts = {
        "groundwatch.stage": "request",
        "input.value": QUERY,
        "output.value": ANSWER,
        "session.id": SESSION,
        "groundwatch.context.documents": json.dumps([{"id": "d", "rank": 1, "content": QUERY}]),
    }
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in texts.items()]
    span = {
        "traceId": f"{number:032x}", "spanId": f"{number:016x}", "name": "ask", "startTimeUnixNano": "1000",
        "endTimeUnixNano": "2000", "attributes": attributes,
    }  # fmt: skip
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "bot"}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]}


@contextlib.contextmanager
def echoing_model():
    """A model server that refuses every call and repeats all of it in its error, as some gateways do.

    Gives its address, an event that is set once it has repeated the question and the key, and all that it was sent.
    """
    repeated = threading.Event()
    bodies: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            said = self.rfile.read(int(self.headers["content-length"])).decode()
            bodies.append(said)
            body = json.dumps({"error": {"message": f"{self.headers['authorization']} {said}"}}).encode()
            self.send_response(400)
            self.send_header("content-length", str(len(body)))
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(body)
            if QUERY.encode() in body and LLM_KEY.encode() in body:
                repeated.set()

        def log_message(self, format, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", repeated, bodies
        finally:
            server.shutdown()


class Served:
    """`groundwatch serve` in a process of its own, and all that it prints."""

    def __init__(
        self, folder: Path, model: tuple[str, threading.Event, list[str]], *, unredacted: bool = True, more: str = ""
    ) -> None:
        self.folder = folder
        model_url, self.model_repeated, self.model_was_sent = model
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            grpc_port = probe.getsockname()[1]
        digest = hashlib.sha256(INGEST_KEY.encode()).hexdigest()
        config = folder / "groundwatch.toml"
        config.write_text(
            f'[server]\ningest_keys = ["shop:{digest}"]\ngrpc_port = {grpc_port}\n'
            f'[judge]\nllm_model = "judge-1"\nllm_base_url = "{model_url}"\n'
            f"llm_send_unredacted = {str(unredacted).lower()}\n"
            "[decide]\ngrace_seconds = 0.05\nidle_seconds = 0.2\n"
            "[decide.rates]\n" + "".join(f"{stratum} = 1.0\n" for stratum in DecideConfig().rates) + more
        )
        self.data = folder / "data"
        command = [sys.executable, "-m", "groundwatch_deploy", "serve", "--json", "--config", str(config)]
        command += ["--data-dir", str(self.data), "--ingest-port", "0", "--console-port", "0", "--metrics-port", "0"]
        environment = os.environ | {"GROUNDWATCH_LLM_API_KEY": LLM_KEY, "GROUNDWATCH_SAMPLING_SALT": SALT}
        environment["PYTHONFAULTHANDLER"] = "1"  # a crash says where
        self._stderr = (folder / "stderr").open("wb")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._stderr, env=environment)
        assert self.process.stdout is not None
        self.first_line = self.process.stdout.readline().decode()
        if not self.first_line:
            raise AssertionError(self.stop())
        self.addresses = json.loads(self.first_line)

    @contextlib.contextmanager
    def explained(self):
        """Where no answer came, say whether the monitor still runs and what it said last."""
        try:
            yield
        except httpx.TransportError as error:
            said = (self.folder / "stderr").read_text()[-2000:]
            raise AssertionError(f"{error!r}; exit status {self.process.poll()}; {said}") from error

    def post(self, path: str, body: bytes, key: str = INGEST_KEY, **headers: str) -> httpx.Response:
        named = {"authorization": f"Bearer {key}"} | JSON | {k.replace("_", "-"): v for k, v in headers.items()}
        with self.explained():
            return httpx.post(f"{self.addresses['ingest']}{path}", content=body, headers=named)

    def metrics(self) -> str:
        with self.explained():
            return httpx.get(f"{self.addresses['metrics']}/metrics", timeout=30).text

    def wait(self, pattern: str, seconds: float = 30) -> str:
        deadline = time.monotonic() + seconds
        while not re.search(pattern, text := self.metrics() + (self.folder / "stderr").read_text()):
            assert time.monotonic() < deadline, text[-3000:]
            time.sleep(0.05)
        return text

    def stop(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        rest, _ = self.process.communicate(timeout=30)
        self._stderr.close()
        return self.first_line + rest.decode() + (self.folder / "stderr").read_text()


@pytest.fixture
def served(tmp_path):
    with echoing_model() as model:
        monitor = Served(tmp_path, model)
        yield monitor
        if monitor.process.poll() is None:
            monitor.process.kill()
            monitor.stop()


@pytest.fixture
def served_with_defaults(tmp_path):
    with echoing_model() as model:
        monitor = Served(tmp_path, model, unredacted=False)
        yield monitor
        if monitor.process.poll() is None:
            monitor.process.kill()
            monitor.stop()


def clean(text: str) -> None:
    """No canary, nor a piece of one that an escape or an encoding would leave."""
    for canary in CANARIES:
        assert canary not in text
        assert canary.encode().hex() not in text
        assert json.dumps(canary)[1:-1] not in text


def test_no_canary_is_said_whatever_comes_in(served):
    good = json.dumps(trace(1)).encode()
    assert served.post("/v1/traces", good).status_code == 200
    answers = [
        served.post("/v1/traces", good, key=WRONG_KEY),
        served.post("/v1/traces", good[:-4]),
        served.post("/v1/traces", good, content_type="application/x-protobuf"),
        served.post("/v1/traces", gzip.compress(good)[:-5], content_encoding="gzip"),
        served.post("/v1/traces", json.dumps({"resourceSpans": QUERY}).encode()),
        served.post("/v1/traces", good.replace(b'"1000"', json.dumps(QUERY).encode())),
        served.post(f"/v1/{QUERY}", good),
        served.post("/v1/feedback", json.dumps({"trace_id": QUERY, "name": "thumbs"}).encode()),
        served.post("/v1/feedback", json.dumps({"trace_id": "1" * 32, "name": "thumbs", COMMENT: 1}).encode()),
    ]
    assert [answer.status_code for answer in answers] == [401, 400, 400, 400, 400, 400, 404, 400, 400]
    for answer in answers[:-1]:  # the last names the unknown key, to its sender only
        clean(answer.text)
    feedback = {"trace_id": f"{1:032x}", "name": "thumbs", "score": -1, "comment": COMMENT, "by": "x"}
    assert served.post("/v1/feedback", json.dumps(feedback).encode()).status_code == 202
    with grpc.insecure_channel(served.addresses["grpc"].partition("//")[2]) as channel:
        for key, body in ((WRONG_KEY, b""), (INGEST_KEY, good)):
            with pytest.raises(grpc.RpcError) as refused:
                channel.unary_unary(EXPORT)(body, timeout=10, metadata=(("authorization", f"Bearer {key}"),))
            clean(str(refused.value.details()))
    said = served.wait(r'groundwatch_project_requests_total\{project="shop"\} 2.0')
    assert served.model_repeated.wait(30)
    said += served.wait(r"groundwatch_judge_failures_total\{.*\} [1-9]")
    clean(said + served.metrics() + served.stop())


def test_no_canary_is_said_when_the_database_refuses_a_row(served):
    """A driver's error carries the row's values, the start and the end of each; they must not reach the log."""
    connection = sqlite3.connect(served.data / "groundwatch.db")
    with connection:
        for table in ("sampled_traces", "feedback"):
            refusal = f"SELECT RAISE(ABORT, 'refused by test: {table}')"
            connection.execute(f"CREATE TRIGGER refuse_{table} BEFORE INSERT ON {table} BEGIN {refusal}; END")
    connection.close()
    feedback = {"trace_id": f"{2:032x}", "name": "thumbs", "score": -1, "comment": COMMENT, "by": "x"}
    assert served.post("/v1/feedback", json.dumps(feedback).encode()).status_code == 202
    clean(served.wait("refused by test: feedback"))
    connection = sqlite3.connect(served.data / "groundwatch.db")
    with connection:
        connection.execute("DROP TRIGGER refuse_feedback")
    connection.close()
    assert served.post("/v1/traces", json.dumps(trace(2)).encode()).status_code == 200
    said = served.wait("refused by test: sampled_traces") + served.stop()
    clean(said)
    assert "[parameters: (" not in said


PERSONAL = {
    "mail": "jane.roe.birdxq@example.org",
    "phone": "13812340987",
    "id": "11010519491231002X",
    "card": "4000056655665556",
    "key": "ghp_q1W2e3R4t5Y6u7I8o9P0aSdFgHjKlZxCvBnM",
    "name": "Bernadette Kowalski",
    "address": "221B Baker Street, London NW1 6XE",
}


def test_the_model_is_sent_nothing_personal_by_default(served_with_defaults):
    """In the question, the answer and the documents; the judge then says that it could not be asked, and why."""
    body = json.dumps(trace(3))
    mixed = "; ".join(f"my {name} is {value}" for name, value in PERSONAL.items())
    for text in (QUERY, ANSWER):
        body = body.replace(text, f"How large may a file be? {mixed}")
    assert served_with_defaults.post("/v1/traces", body.encode()).status_code == 200
    served_with_defaults.wait(r"groundwatch_judge_failures_total\{.*\} [1-9]")
    sent = "".join(served_with_defaults.model_was_sent)
    assert "How large may a file be?" in sent
    for value in PERSONAL.values():
        assert value not in sent
    assert "[[EMAIL_1]]" in sent
    served_with_defaults.stop()


# Every field of every convention, by every door; then everything that the monitor and its commands say.

RECORDED = Path(__file__).parents[1] / "collector" / "data"  # real bodies, one for each instrumentor
POISON = " birdxq " + "; ".join(f"my {name} is {value}" for name, value in PERSONAL.items()) + "."
MAY_HOLD_TEXT = {  # table -> columns in which what people wrote stands until its days are over
    "sampled_traces": {"payload"},
    "judgements": {"explanation", "detail"},
    "feedback": {"comment", "by"},
    "dead_letters": {"body"},
}
LABELS = re.compile(r"model|^service\.(?:name|version)$|\.type$|\.kind$|operation\.name")  # what an operator writes


def poisoned(text: str) -> str:
    """*text* with the canaries in it; JSON stays JSON, with the canaries in each of its longer texts."""

    def deep(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: deep(item) for key, item in value.items()}
        if isinstance(value, list):
            return [deep(item) for item in value]
        return value + POISON if isinstance(value, str) and " " in value else value

    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return json.dumps(deep(found), ensure_ascii=False) if isinstance(found, dict | list) else text + POISON


def poison(attributes: Any, *, sentences_only: bool) -> None:
    for attribute in attributes:
        if attribute.value.HasField("string_value") and not LABELS.search(attribute.key):
            text = attribute.value.string_value
            if not sentences_only or " " in text or text[:1] in "[{":
                attribute.value.string_value = poisoned(text)


WHOLE_AND_FAILED = "*-[en][ro]r*.pb.gz"  # normal and error: the other cases of a family have no fields of their own


def recorded_traces(pattern: str = WHOLE_AND_FAILED, *, sentences_only: bool) -> list[tuple[bytes, set[str]]]:
    """Each recording as a body under new ids, its fields poisoned: sentences, or all texts and names there are."""
    found = []
    for path in sorted(RECORDED.glob(pattern)):
        request = ExportTraceServiceRequest.FromString(gzip.decompress(path.read_bytes()))
        ids = set()
        for resource in request.resource_spans:
            poison(resource.resource.attributes, sentences_only=sentences_only)
            for scope in resource.scope_spans:
                poison(scope.scope.attributes, sentences_only=sentences_only)
                for span in scope.spans:
                    span.trace_id = hashlib.md5(path.name.encode() + span.trace_id + bytes([sentences_only])).digest()
                    ids.add(span.trace_id.hex())
                    parts: list[Any] = [span, *span.events, *span.links]
                    for part in parts:
                        poison(part.attributes, sentences_only=sentences_only)
                    for event in () if sentences_only else span.events:
                        event.name += POISON
                    span.status.message += POISON
                    span.name += "" if sentences_only else POISON
                    span.trace_state += "" if sentences_only else POISON
        found.append((request.SerializeToString(), ids))
    return found


SDK_APP = f"""
import groundwatch
headers = {{"authorization": "Bearer " + KEY}}
groundwatch.configure(service="bot", endpoint=ENDPOINT, capture_content="text", headers=headers)
with groundwatch.request({QUERY + POISON!r}, session={SESSION!r}, user="birdxq-user") as request:
    request.context([groundwatch.Document(id="d", text={"Uploads may be up to 20 MB." + POISON!r})])
    request.answer({"Up to 500 MB." + POISON!r})
print(groundwatch.flush(10))
"""


def database(path: Path) -> dict[tuple[str, str], str]:
    """Everything in it, by table and column."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {}
    for table in tables:
        cursor = connection.execute(f"SELECT * FROM {table}")
        rows = cursor.fetchall()
        for place, column in enumerate(cursor.description):
            found[table, column[0]] = "\n".join(str(row[place]) for row in rows)
    connection.close()
    return found


def said_by(*arguments: str, codes: tuple[int, ...] = (0,), **environment: str) -> str:
    command = [sys.executable, "-m", "groundwatch_deploy", *arguments]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=os.environ | environment, timeout=60
    )
    assert done.returncode in codes, done.stderr
    return done.stdout + done.stderr


def no_secret(text: str) -> None:
    found = [name for name, value in PERSONAL.items() if value in text]
    assert found == []  # not the text itself: a comparison of that is megabytes


@pytest.mark.timeout(300)  # half a minute of computing, in several processes
def test_canaries_in_every_field_come_out_nowhere(served_with_defaults, tmp_path):
    monitor = served_with_defaults
    sentences = recorded_traces("*-normal.pb.gz", sentences_only=True)
    everything = recorded_traces("*-error.pb.gz", sentences_only=False)
    protobuf = {"content-type": "application/x-protobuf"}
    for body, _ids in (*sentences[::2], *everything):
        answer = monitor.post("/v1/traces", body, **protobuf)
        assert answer.status_code == 200
        clean(answer.text)
    with grpc.insecure_channel(monitor.addresses["grpc"].partition("//")[2]) as channel:
        for body, _ids in sentences[1::2]:
            channel.unary_unary(EXPORT)(body, timeout=10, metadata=(("authorization", f"Bearer {INGEST_KEY}"),))
    whole = json.dumps(trace(7)).replace(json.dumps(QUERY)[1:-1], QUERY + POISON).replace(ANSWER, ANSWER + POISON)
    assert monitor.post("/v1/traces", whole.encode()).status_code == 200
    app = SDK_APP.replace("ENDPOINT", repr(monitor.addresses["ingest"])).replace("KEY", repr(INGEST_KEY))
    sdk = subprocess.run([sys.executable, "-c", app], check=True, capture_output=True, text=True, timeout=60)
    assert "sent" in sdk.stdout
    clean(sdk.stdout + sdk.stderr)
    ids = {trace_id for _body, own in (*sentences, *everything) for trace_id in own} | {f"{7:032x}"}
    for trace_id in ids:
        given = {"trace_id": trace_id, "name": "thumbs", "score": -1, "comment": POISON, "by": "birdxq-user"}
        assert monitor.post("/v1/feedback", json.dumps(given).encode()).status_code == 202
    assert monitor.post("/v1/feedback", b'{"trace_id": ' + POISON.encode()).status_code == 400

    path = monitor.data / "groundwatch.db"
    deadline = time.monotonic() + 60
    while "waiting" in (states := database(path)["sampled_traces", "state"]) or states.count("judged") < len(
        sentences
    ):
        assert time.monotonic() < deadline, states
        time.sleep(0.2)
    assert database(path)["feedback", "comment"].count(POISON) == len(ids)
    metrics = monitor.metrics()
    monitor.process.send_signal(signal.SIGSEGV)  # a crash, with the stacks of all threads
    clean(metrics + monitor.stop())
    assert "Fatal Python error" in (tmp_path / "stderr").read_text()
    no_secret("".join(monitor.model_was_sent))
    assert "birdxq" in "".join(monitor.model_was_sent)  # it was asked

    held = {place for place, text in database(path).items() if "birdxq" in text}
    assert {("sampled_traces", "payload"), ("feedback", "comment"), ("judgements", "detail")} <= held
    assert held <= {(table, column) for table, columns in MAY_HOLD_TEXT.items() for column in columns}
    folder = str(monitor.data)
    for arguments in (["ledger"], ["compare"], ["rules", "preview"]):
        clean(said_by(*arguments, "--data-dir", folder, codes=(0, 1, 2)))
    assert "birdxq" in said_by("inspect", f"{7:032x}", "--data-dir", folder)  # shows one trace to its operator
    (tmp_path / "broken.pb").write_bytes(everything[0][0][:-9])
    clean(said_by("inspect", str(tmp_path / "broken.pb"), codes=(0, 1, 2)))


def test_no_canary_leaves_by_a_candidate_an_export_the_gate_or_the_audit_trail(tmp_path, monkeypatch, capsys):
    """The candidates are made of what the recordings were read as, with the canaries in every field of each."""
    data = tmp_path / "data"
    data.mkdir()
    engine = open_engine(f"sqlite:///{data / 'groundwatch.db'}")
    migrations.upgrade(engine)
    conventions: set[str] = set()
    for body, _ids in recorded_traces("*-normal.pb.gz", sentences_only=False):
        read = to_ragtrace(list(otlp.decode(body, "protobuf", Limits()).spans))
        if read is not None and read.query is not None and len(conventions) < 8:
            conventions.add(read.trace_id)
            known = dataclasses.replace(read, user_hash="birdxq-user-hash", session=SESSION)
            candidate_id = add(engine, known, confirm=False, at=time.time())
            with contextlib.suppress(Refused):  # BLOCKED: it stays here
                candidates.confirm(engine, candidate_id, REVIEWER, NOW)
    assert len(conventions) >= 5
    engine.dispose()

    config = tmp_path / "groundwatch.toml"
    config.write_text('[candidates]\nconsent = "NOT_PERSONAL"\nlicense = "CC0-1.0"\n')
    files = [tmp_path / "dev.jsonl", tmp_path / "holdout.jsonl"]
    options = ["--holdout", str(files[1]), "--config", str(config), "--data-dir", str(data)]
    assert cli.main(["export", str(files[0]), *options]) == 0
    stored = database(data / "groundwatch.db")
    no_secret(stored["candidates", "document"])
    assert not any("birdxq" in text for (table, _), text in stored.items() if table in ("audit_log", "outbox"))
    lines = [line for file in files for line in file.read_text().splitlines()]
    assert lines
    others = [render(FORMATS[layout], [json.loads(line) for line in lines])[0] for layout in FORMATS]
    manifests = [file.with_name(f"{file.name}.manifest.json").read_text() for file in files]
    no_secret("".join([*lines, *others, *manifests, *capsys.readouterr()]))

    (tmp_path / "set.jsonl").write_text("\n".join(lines[:2]) + "\n")
    (tmp_path / "shouting.py").write_text(f"def ask(request):\n    raise ValueError({POISON!r})\n")
    (tmp_path / "echo.py").write_text(f"import sys\nsys.stderr.write(sys.stdin.read())\nprint({POISON!r})\n")
    monkeypatch.syspath_prepend(tmp_path)
    written = [tmp_path / "gate.md", tmp_path / "run.json"]
    reports = ["--report", str(written[0]), "--save-baseline", str(written[1]), "--retries", "0"]
    for target in (["--python", "shouting:ask"], ["--command", f"{sys.executable} {tmp_path / 'echo.py'}"]):
        assert cli.main(["gate", "--set", str(tmp_path / "set.jsonl"), *target, *reports]) == 3
        clean("".join([*capsys.readouterr(), *(file.read_text() for file in written)]))


@pytest.mark.service("kafka")
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_canary_is_said_of_what_comes_by_kafka(tmp_path):
    """Through the door, and records that others put into the topic: one that is no OTLP, one that cannot be read."""
    broker = kafka_broker.Broker()
    try:
        broker.start()
        broker.create_topic("groundwatch-spans", 1)
        with echoing_model() as model:
            kafka = f'[kafka]\nbootstrap_servers = "{broker.bootstrap}"\nprobe_seconds = 0.1\n'
            monitor = Served(tmp_path, model, unredacted=False, more=kafka)
            try:
                _through_kafka(monitor, broker.bootstrap)
            finally:
                if monitor.process.poll() is None:
                    monitor.process.kill()
                    monitor.stop()
    finally:
        broker.remove()


def _through_kafka(monitor: Served, bootstrap: str) -> None:
    whole = json.dumps(trace(8)).replace(json.dumps(QUERY)[1:-1], QUERY + POISON).replace(ANSWER, ANSWER + POISON)
    assert monitor.post("/v1/traces", whole.encode()).status_code == 200
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for body in (POISON.encode(), b'{"resourceSpans": ' + POISON.encode(), b"\x0a\xff" + POISON.encode()):
        producer.send("groundwatch-spans", key=POISON.encode(), value=body, headers=[("birdxq", POISON.encode())])
    producer.flush()
    producer.close()
    said = monitor.wait(
        r"(?s)groundwatch_dead_letters_total\{.*\} [1-9].*groundwatch_judge_failures_total\{.*\} [1-9]", 60
    )
    path = monitor.data / "groundwatch.db"
    deadline = time.monotonic() + 60
    while database(path)["sampled_traces", "state"] != "judged":
        assert time.monotonic() < deadline
        time.sleep(0.2)
    clean(said + monitor.metrics() + monitor.stop())
    no_secret("".join(monitor.model_was_sent))
    held = {place for place, text in database(path).items() if "birdxq" in text}
    assert ("dead_letters", "body") in held
    assert held <= {(table, column) for table, columns in MAY_HOLD_TEXT.items() for column in columns}
