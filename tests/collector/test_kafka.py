"""The span log in Kafka, on a real Apache Kafka: what was acknowledged is in the ledger once, whatever happens."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import kafka_broker
import kafka_worker
import orjson
import pytest
import torture
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client import CollectorRegistry
from sqlalchemy import Engine, func, select

from groundwatch import names
from groundwatch_collector import kafka_consumer, refused, tables
from groundwatch_collector.decision import DEFAULT_RATES, DecideConfig, Decider
from groundwatch_collector.intake_metrics import IntakeMetrics
from groundwatch_collector.kafka_consumer import KafkaPipelines
from groundwatch_collector.kafka_metrics import KafkaMetrics
from groundwatch_collector.kafka_partition import Fenced, OwnedPlace, RangeReader, partition_of
from groundwatch_collector.kafka_producer import KafkaLog
from groundwatch_collector.kafka_settings import KafkaConfig, KafkaSecrets
from groundwatch_collector.limits import Limits, Rejected
from groundwatch_collector.pipeline import Pipeline
from groundwatch_collector.receiver import asgi_app
from groundwatch_collector.spanlog import LogFailed, LogFull, SpanLog
from groundwatch_collector.storage import metadata, open_engine
from groundwatch_collector.traffic_metrics import TrafficMetrics

# kafka-python leaves sockets of failed connections to the garbage collector, which warns; see `reachable`.
pytestmark = [
    pytest.mark.service("kafka"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

SALT = kafka_worker.SALT
SECRETS = KafkaSecrets()


@pytest.fixture(scope="module")
def broker() -> Iterator[kafka_broker.Broker]:
    with kafka_broker.running(secure=bool(shutil.which("openssl"))) as made:
        yield made


class Monitor:
    """Receiver's end, pipelines and tables of one topic."""

    def __init__(self, broker: kafka_broker.Broker, folder: Path, topic: str, **changes: Any) -> None:
        self.config = KafkaConfig(
            **{
                "bootstrap_servers": broker.bootstrap,
                "topic": topic,
                "group_id": topic,
                "session_timeout_seconds": 2.0,
                "delivery_timeout_seconds": 3.0,
                "probe_seconds": 0.1,
                **changes,
            }
        )
        self.registry = CollectorRegistry()
        self.metrics = KafkaMetrics(self.registry)
        self.log = KafkaLog(self.config, SECRETS, Limits(), self.metrics, now=time.time)
        self.engine: Engine = open_engine(f"sqlite:///{folder / 'kafka.db'}")
        metadata.create_all(self.engine)
        self.decide = kafka_worker.DECIDE
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, decide: DecideConfig | None = None) -> None:
        self._stop = threading.Event()
        pipelines = KafkaPipelines(
            self.config,
            SECRETS,
            kafka_worker.opener(self.engine),
            decide or self.decide,
            traffic=TrafficMetrics(CollectorRegistry()),
            metrics=self.metrics,
            now=time.time,
        )
        self._thread = threading.Thread(target=pipelines.run, args=(self._stop,))
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(30)
            assert not self._thread.is_alive()

    def send(self, trace_ids: list[str]) -> Future[int]:
        return self.log.append("otlp_protobuf", torture.body(trace_ids))

    def value(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"groundwatch_kafka_{name}", labels) or 0.0

    def rows(self, table: Any) -> list[Any]:
        with self.engine.connect() as connection:
            return list(connection.execute(select(table)))

    def ledger(self) -> dict[str, Any]:
        return {row.trace_id: row for row in self.rows(tables.ledger)}

    def counted(self) -> int:
        with self.engine.connect() as connection:
            total = connection.execute(select(func.coalesce(func.sum(tables.traffic_tally.c.received), 0)))
            return int(total.scalar_one())

    def close(self) -> None:
        self.stop()
        self.log.close()
        self.engine.dispose()


@pytest.fixture
def monitor(broker, tmp_path, request) -> Iterator[Callable[..., Monitor]]:
    made: list[Monitor] = []

    def build(partitions: int = 2, configs: dict[str, str] | None = None, **changes: Any) -> Monitor:
        topic = re.sub(r"\W+", "-", request.node.name.removeprefix("test_"))
        broker.create_topic(topic, partitions, **(configs or {}))
        made.append(Monitor(broker, tmp_path, topic, **changes))
        assert made[-1].log.wait_ready(15)
        return made[-1]

    yield build
    for each in made:
        each.close()
    gc.collect()


def some_traces(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [f"{rng.getrandbits(128):032x}" for _ in range(count)]


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    wait, deadline = threading.Event(), time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        wait.wait(0.05)


def post(
    app: Any, path: str, body: bytes, content_type: str = "application/x-protobuf"
) -> tuple[int, dict[str, str]]:
    """One request to an ASGI application, without a network."""
    scope = {"type": "http", "method": "POST", "path": path, "headers": [(b"content-type", content_type.encode())]}
    answer: dict[str, Any] = {}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        answer.update(message)

    asyncio.run(app(scope, receive, send))
    return answer["status"], {name.decode(): value.decode() for name, value in answer["headers"]}


def test_what_the_receiver_acknowledged_is_in_the_ledger_once(monitor):
    world = monitor(partitions=4)
    app = asgi_app(world.log, Limits(), IntakeMetrics(CollectorRegistry()))
    ids = some_traces(60, seed=1)
    for start in range(0, 60, 6):
        body = torture.body(ids[start : start + 6])
        assert post(app, "/v1/traces", body)[0] == 200
        if start % 12 == 0:
            assert post(app, "/v1/traces", body)[0] == 200  # the same again, as after a lost answer
    world.start()
    until(lambda: world.ledger().keys() == set(ids))
    until(lambda: world.value("lag_records") == 0)
    assert world.counted() == 60
    partitions = {trace: partition_of(row.first_position) for trace, row in world.ledger().items()}
    assert set(partitions.values()) == {0, 1, 2, 3}
    assert world.value("rekeyed_messages_total", reason="several_traces") == 0


def test_the_sample_is_the_one_of_the_embedded_log(monitor, tmp_path):
    world = monitor(partitions=3)
    ids = some_traces(80, seed=2)
    log = SpanLog(tmp_path / "log", group_seconds=0.0)
    engine = open_engine(f"sqlite:///{tmp_path / 'embedded.db'}")
    metadata.create_all(engine)
    embedded = Pipeline(log, engine, world.decide, TrafficMetrics(CollectorRegistry()), salt=SALT, now=time.time)
    for start in range(0, 80, 8):
        world.send(ids[start : start + 8]).result(10)
        log.append("otlp_protobuf", torture.body(ids[start : start + 8])).result(10)
    embedded.drain()
    world.start()
    until(lambda: len(world.ledger()) == 80)
    with engine.connect() as connection:
        expected = {row.trace_id: (row.verdict, row.stratum) for row in connection.execute(select(tables.ledger))}
    assert {trace: (row.verdict, row.stratum) for trace, row in world.ledger().items()} == expected
    assert {verdict for verdict, _ in expected.values()} == {"sampled", "not_sampled"}
    log.close()
    engine.dispose()


def test_asking_again_is_noticed_whatever_partition_the_question_is_on(monitor, make):
    world = monitor(partitions=4)
    world.start()

    def ask(numbers: range, ago: float) -> None:
        for number in numbers:
            spans = make.request(number, start=time.time() - ago, root={names.SESSION: f"s-{number % 8}"})
            world.log.append("otlp_json", make.otlp_json(spans)).result(30)
        until(lambda: len(world.ledger()) == numbers.stop - 1)

    ask(range(1, 9), ago=60.0)
    ask(range(9, 17), ago=30.0)
    partitions = {trace: partition_of(row.first_position) for trace, row in world.ledger().items()}
    first = [make.trace_id(number) for number in range(1, 9)]
    assert any(partitions[first[n - 1]] != partitions[make.trace_id(n + 8)] for n in range(1, 9))
    assert sorted(row.trace_id for row in world.rows(tables.feedback)) == sorted(first)


def test_a_killed_collector_hands_over_everything(monitor, tmp_path):
    """Two processes share a topic; one dies without a word while traces flow."""
    world = monitor(partitions=4)
    workers = [worker(world, tmp_path, number) for number in range(2)]
    try:
        until(lambda: all(len(assignment(tmp_path, number)) == 2 for number in range(2)), 40)
        ids = some_traces(400, seed=3)
        for start in range(0, 400, 10):
            world.send(ids[start : start + 10]).result(10)
            if start == 200:
                workers[0].send_signal(signal.SIGKILL)
        until(lambda: world.ledger().keys() == set(ids), 40)
        assert world.counted() == 400
        # Partitions are opened one by one, and the last may hold nothing that the ledger waits for.
        until(lambda: len(assignment(tmp_path, 1)) == 4)
    finally:
        for process in workers:
            process.kill()
            process.wait()


def worker(world: Monitor, folder: Path, number: int) -> subprocess.Popen[bytes]:
    settings: dict[str, Any] = {"bootstrap_servers": world.config.bootstrap_servers, "topic": world.config.topic}
    settings |= {"group_id": world.config.group_id, "session_timeout_seconds": 2.0, "probe_seconds": 0.1}
    command = [sys.executable, kafka_worker.__file__, json.dumps(settings), str(world.engine.url)]
    with (folder / f"worker-{number}.log").open("wb") as log:
        return subprocess.Popen([*command, str(folder / f"worker-{number}.json")], stderr=log)


def assignment(folder: Path, number: int) -> list[int]:
    path = folder / f"worker-{number}.json"
    return json.loads(path.read_text()) if path.exists() else []


def test_a_reader_that_was_taken_over_writes_nothing(monitor):
    world = monitor(partitions=1)
    first = OwnedPlace(world.config.topic, 0, "first", 0, 100)
    second = OwnedPlace(world.config.topic, 0, "second", 0, 100)
    first.begin(world.engine)
    with world.engine.begin() as connection:
        first.set(connection, 7)
    assert second.begin(world.engine) == 7
    with pytest.raises(Fenced), world.engine.begin() as connection:
        first.set(connection, 9)
    with world.engine.begin() as connection:
        second.set(connection, 8)
    assert [row.position for row in world.rows(tables.partition_positions)] == [8]


def test_undecided_traces_survive_a_restart(monitor):
    """What was read and not decided is read again: the position is that of the oldest undecided trace."""
    world = monitor(partitions=1)
    early, late = some_traces(2, seed=4)
    half = torture.body([early])
    world.log.append("otlp_protobuf", without_root(half)).result(10)
    world.send([late]).result(10)
    world.start()
    until(lambda: late in world.ledger())
    world.stop()
    assert early not in world.ledger()
    assert [row.position for row in world.rows(tables.partition_positions)] == [0]
    world.log.append("otlp_protobuf", half).result(10)
    world.start()
    until(lambda: early in world.ledger())
    assert world.ledger()[early].stratum != "incomplete"
    assert world.counted() == 2


def without_root(body: bytes) -> bytes:
    request = ExportTraceServiceRequest.FromString(body)
    spans = request.resource_spans[0].scope_spans[0].spans
    kept = [span for span in spans if span.parent_span_id]
    del spans[:]
    spans.extend(kept)
    return request.SerializeToString()


def test_a_broker_that_goes_and_comes_back(broker, monitor):
    world = monitor(partitions=2)
    app = asgi_app(world.log, Limits(), IntakeMetrics(CollectorRegistry()))
    world.start()
    ids = some_traces(60, seed=5)
    world.send(ids[:20]).result(10)
    until(lambda: len(world.ledger()) == 20)
    broker.kill()
    lost = [world.log.append("otlp_protobuf", torture.body(ids[20:30]))]
    with pytest.raises(LogFailed):
        lost[0].result(20)
    status, headers = post(app, "/v1/traces", torture.body(ids[20:30]))
    assert (status, "retry-after" in headers, bool(world.log.trouble)) == (503, True, True)
    assert world.log.pending_bytes == 0
    broker.start()
    until(lambda: not world.log.trouble, 30)
    assert post(app, "/v1/traces", torture.body(ids[20:]))[0] == 200
    until(lambda: world.ledger().keys() == set(ids), 40)
    assert world.counted() == 60
    assert world.value("in_trouble") == 0


def test_what_waits_for_the_broker_is_bounded(broker, monitor):
    world = monitor(partitions=1, max_pending_bytes=20_000)
    body = torture.body(some_traces(10, seed=6))
    pauses = threading.Event()
    real, world.log._send_piece = world.log._send_piece, lambda *a: (pauses.wait(5), real(*a))[1]
    kept = []
    with pytest.raises(LogFull):
        for _ in range(100):
            kept.append(world.log.append("otlp_protobuf", body))
    assert len(kept) * len(body) <= 20_000
    pauses.set()
    for future in kept:
        future.result(10)
    assert world.value("pending_bytes") == 0
    assert world.value("produce_failures_total", reason="pending") == 1


def foreign_producer(world: Monitor) -> Any:
    from kafka import KafkaProducer

    return KafkaProducer(bootstrap_servers=world.config.bootstrap_servers)


@pytest.mark.parametrize("encoding", ["otlp_proto", "otlp_json"])
def test_a_topic_without_keys_is_split_and_keyed(monitor, make, encoding, caplog):
    """What an OpenTelemetry Collector's exporter does by default: batches of several traces, spread at random."""
    world = monitor(partitions=3, encoding=encoding)
    ids = some_traces(30, seed=7)
    pieces = [torture.body([trace]) for trace in ids]
    producer = foreign_producer(world)
    for start in range(0, 30, 5):
        producer.send(world.config.topic, value=foreign_body(pieces[start : start + 5], encoding, root=False))
    for start in range(0, 30, 3):
        producer.send(world.config.topic, value=foreign_body(pieces[start : start + 3], encoding, root=True))
    producer.close()
    world.start()
    until(lambda: world.ledger().keys() == set(ids))
    assert world.counted() == 30
    assert {row.stratum for row in world.ledger().values()} & {"incomplete"} == set()
    assert world.value("rekeyed_messages_total", reason="several_traces") == 16
    assert sum("partition_traces_by_id" in message for message in caplog.messages) == 1


def foreign_body(pieces: list[bytes], encoding: str, *, root: bool) -> bytes:
    """One batch of the spans of several traces: their roots, or all others."""
    batch = ExportTraceServiceRequest()
    for piece in pieces:
        batch.MergeFromString(piece)
    for resource in batch.resource_spans:
        spans = resource.scope_spans[0].spans
        kept = [span for span in spans if bool(span.parent_span_id) != root]
        del spans[:]
        spans.extend(kept)
    return batch.SerializeToString() if encoding == "otlp_proto" else as_json(batch)


def as_json(batch: Any) -> bytes:
    from google.protobuf.json_format import MessageToDict

    body = MessageToDict(batch)
    for resource in body["resourceSpans"]:
        for span in resource["scopeSpans"][0]["spans"]:
            for key in ("traceId", "spanId", "parentSpanId"):
                if key in span:
                    span[key] = in_hex(span[key])
    return orjson.dumps(body)


def in_hex(base64_text: str) -> str:
    import base64

    return base64.b64decode(base64_text).hex()


def test_messages_that_are_keyed_by_their_trace_stay_where_they_are(monitor):
    world = monitor(partitions=2)
    ids = some_traces(10, seed=8)
    producer = foreign_producer(world)
    for number, trace in enumerate(ids):
        key = trace.encode() if number % 2 else bytes.fromhex(trace)
        producer.send(world.config.topic, key=key, value=torture.body([trace]), partition=number % 2)
    producer.close()
    world.start()
    until(lambda: world.ledger().keys() == set(ids))
    assert all(
        world.value("rekeyed_messages_total", reason=r) == 0 for r in ("no_key", "several_traces", "other_key")
    )


def test_a_message_that_can_never_be_read_is_kept_aside(monitor):
    world = monitor(partitions=1)
    producer = foreign_producer(world)
    producer.send(world.config.topic, value=b"\xff\xffnot OTLP at all")
    producer.send(world.config.topic, key=b"x", value=None)
    producer.close()
    (trace,) = some_traces(1, seed=9)
    world.send([trace]).result(10)
    world.start()
    until(lambda: trace in world.ledger())
    world.stop()
    world.start()
    until(lambda: world.value("rebalances_total") == 2 and world.value("lag_records") == 0)
    (letter,) = world.rows(tables.dead_letters)
    assert (letter.reason, letter.position, letter.body) == ("malformed", 0, b"\xff\xffnot OTLP at all")


def test_late_feedback_brings_a_trace_back_from_the_topic(monitor):
    world = monitor(partitions=2)
    ids = some_traces(20, seed=10)
    world.send(ids).result(10)
    world.start(
        DecideConfig(**{**vars(world.decide), "rates": dict.fromkeys(DEFAULT_RATES, 1e-9) | {"feedback_neg": 1.0}})
    )
    until(lambda: len(world.ledger()) == 20)
    assert {row.verdict for row in world.ledger().values()} == {"not_sampled"}
    record = orjson.dumps({"trace_id": ids[0], "name": "thumbs", "score": -1.0, "id": "f1", "label": "", "by": "p"})
    world.log.append("feedback", record).result(10)
    until(lambda: len(world.rows(tables.sampled_traces)) == 1)
    (sampled,) = world.rows(tables.sampled_traces)
    assert (sampled.trace_id, sampled.family) == (ids[0], "late")
    (given,) = world.rows(tables.feedback)
    assert partition_of(given.position) == partition_of(world.ledger()[ids[0]].first_position)


def test_late_feedback_finds_a_trace_that_another_hash_put_on_another_partition(monitor):
    world = monitor(partitions=2)
    trace = next(t for t in some_traces(50, seed=16) if our_partition(t, 2) == 1)
    producer = foreign_producer(world)
    producer.send(world.config.topic, key=trace.encode(), value=torture.body([trace]), partition=0)
    producer.close()
    rates = dict.fromkeys(DEFAULT_RATES, 1e-9) | {"feedback_neg": 1.0}
    world.start(DecideConfig(**{**vars(world.decide), "rates": rates}))
    until(lambda: trace in world.ledger())
    record = orjson.dumps({"trace_id": trace, "name": "thumbs", "score": -1.0, "id": "f1", "label": "", "by": "p"})
    world.log.append("feedback", record).result(10)
    until(lambda: len(world.rows(tables.sampled_traces)) == 1)
    (given,) = world.rows(tables.feedback)
    assert (partition_of(world.ledger()[trace].first_position), partition_of(given.position)) == (0, 1)


def test_a_fault_of_ours_on_one_trace_stops_no_other_of_its_partition(monitor, monkeypatch):
    world = monitor(partitions=1)
    ids = some_traces(6, seed=41)
    decide = Decider.decide

    def fail_on_one(self: Any, pending: Any, *args: Any, **kwargs: Any) -> Any:
        if pending.trace_id == ids[2]:
            raise KeyError("a defect")
        return decide(self, pending, *args, **kwargs)

    monkeypatch.setattr(Decider, "decide", fail_on_one)
    world.start()
    world.send(ids).result(10)
    until(lambda: len(world.ledger()) == len(ids), seconds=10)
    assert {key for key, row in world.ledger().items() if row.reason == refused.OURS} == {ids[2]}


def test_a_rebalance_that_outlasts_one_poll_is_finished(broker, tmp_path, monkeypatch):
    """A topic that is made later changes the metadata, and the join that follows takes longer than a poll waits."""
    monkeypatch.setattr(kafka_consumer, "_POLL_MILLISECONDS", 1)
    world = Monitor(broker, tmp_path, "made-after-the-start")
    try:
        world.start()
        until(lambda: group_state(broker, "made-after-the-start") == "Stable")
        broker.create_topic("made-after-the-start", 2)
        assert world.log.wait_ready(15)
        ids = some_traces(20, seed=17)
        world.send(ids).result(10)
        until(lambda: set(ids) == set(world.ledger()))
        assert world.counted() == 20
    finally:
        world.close()
        gc.collect()


def group_state(broker: kafka_broker.Broker, name: str) -> str:
    from kafka.admin import KafkaAdminClient
    from kafka.errors import CoordinatorLoadInProgressError

    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        return next((g["group_state"] for g in admin.list_groups() if g["group_id"] == name), "")
    except CoordinatorLoadInProgressError:  # the first group of a new broker
        return ""
    finally:
        admin.close()


def our_partition(trace: str, partitions: int) -> int:
    from kafka.partitioner.default import murmur2

    return int((murmur2(trace.encode()) & 0x7FFFFFFF) % partitions)


def test_a_trace_larger_than_a_message_is_sent_in_parts(monitor):
    world = monitor(partitions=1, max_message_bytes=20_000)
    (trace,) = some_traces(1, seed=11)
    request = ExportTraceServiceRequest.FromString(torture.body([trace]))
    for span in request.resource_spans[0].scope_spans[0].spans:
        span.attributes.add(key="padding").value.string_value = "x" * 15_000
    world.log.append("otlp_protobuf", request.SerializeToString()).result(10)
    assert world.value("produced_messages_total") == 2
    world.start()
    until(lambda: trace in world.ledger())
    request.resource_spans[0].scope_spans[0].spans[0].attributes[-1].value.string_value = "x" * 30_000
    with pytest.raises(Rejected, match="max_message_bytes") as refusal:
        world.log.append("otlp_protobuf", request.SerializeToString()).result(10)
    assert refusal.value.status == 413
    assert (world.value("too_large_requests_total"), world.value("pending_bytes")) == (1, 0)


def test_a_topic_that_takes_less_than_we_were_told_refuses_for_good(monitor):
    world = monitor(partitions=1, configs={"max.message.bytes": "2000"}, compression="none")
    with pytest.raises(Rejected, match=r"max\.message\.bytes") as refusal:
        world.log.append("otlp_protobuf", fat_trace()).result(10)
    assert refusal.value.status == 413
    assert not world.log.trouble


def fat_trace() -> bytes:
    request = ExportTraceServiceRequest.FromString(torture.body(some_traces(1, seed=12)))
    request.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="p").value.string_value = "x" * 5000
    return request.SerializeToString()


def test_the_lag_is_what_is_not_read(monitor):
    world = monitor(partitions=1)
    world.engine.dispose()
    for trace in some_traces(25, seed=13):
        world.send([trace]).result(10)
    with world.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE traffic_tally RENAME TO away")  # reads, but cannot decide
    world.start(DecideConfig(**{**vars(world.decide), "batch_records": 5}))
    until(lambda: world.value("consumer_failures_total", kind="database") > 0)
    until(lambda: 0 < world.value("partition_lag_records", partition="0") <= 25)
    assert world.ledger() == {}
    with world.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE away RENAME TO traffic_tally")
    until(lambda: len(world.ledger()) == 25)
    until(lambda: world.value("lag_records") == 0)
    until(lambda: committed(world) == 25)


def committed(world: Monitor) -> int:
    """What the broker's own tools see of the group."""
    from kafka.admin import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=world.config.bootstrap_servers)
    try:
        offsets = admin.list_group_offsets(world.config.group_id)
    finally:
        admin.close()
    return next((entry.offset for entry in _flat(offsets).values()), -1)


def _flat(found: Any) -> dict[Any, Any]:
    values = list(found.values())
    return values[0] if values and isinstance(values[0], dict) else found


def test_records_that_the_broker_deleted_are_counted_not_waited_for(broker, monitor):
    world = monitor(partitions=1)
    for trace in some_traces(5, seed=14):
        world.send([trace]).result(10)
    owner = OwnedPlace(world.config.topic, 0, "before", 0, 5)
    owner.begin(world.engine)
    delete_before(world, 3)
    world.start()
    until(lambda: len(world.ledger()) == 2)
    assert world.value("lost_records_total") == 3


def delete_before(world: Monitor, offset: int) -> None:
    from kafka import TopicPartition
    from kafka.admin import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=world.config.bootstrap_servers)
    try:
        admin.delete_records({TopicPartition(world.config.topic, 0): offset})
    finally:
        admin.close()


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the broker's certificate")
@pytest.mark.parametrize("password", [kafka_broker.PASSWORD, "wrong"])
def test_a_broker_with_tls_and_a_password(broker, monitor, password, tmp_path, caplog):
    world = monitor(partitions=1)
    config = KafkaConfig(
        bootstrap_servers=f"127.0.0.1:{broker.secure_port}",
        topic=world.config.topic,
        delivery_timeout_seconds=3.0,
        security_protocol="SASL_SSL",
        ssl_cafile=str(broker.certificate),
        sasl_mechanism="PLAIN",
        sasl_username=kafka_broker.USER,
    )
    metrics = KafkaMetrics(CollectorRegistry())
    log = KafkaLog(config, KafkaSecrets(password=password), Limits(), metrics, now=time.time)
    if password == kafka_broker.PASSWORD:
        assert log.wait_ready(15)
        log.append("otlp_protobuf", torture.body(some_traces(1, seed=15))).result(10)
        again = RangeReader(config, KafkaSecrets(password=password), time.time)
        assert len(again.read(0, 10)) == 1
        again.close()
    else:
        assert not log.wait_ready(4)
        until(lambda: "does not take messages" in log.trouble)
        assert "wrong" not in caplog.text
    log.close()
    caplog.clear()  # records hold errors, and those the sockets of their client
