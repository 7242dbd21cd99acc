"""Keys and what users wrote stay out of everything that a monitor says about itself: stdout, stderr, /metrics."""

from __future__ import annotations

import contextlib
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
import pytest

from groundwatch_collector.decision import DecideConfig

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
        self, folder: Path, model: tuple[str, threading.Event, list[str]], *, unredacted: bool = True
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
            "[decide.rates]\n" + "".join(f"{stratum} = 1.0\n" for stratum in DecideConfig().rates)
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
            return httpx.get(f"{self.addresses['metrics']}/metrics").text

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
