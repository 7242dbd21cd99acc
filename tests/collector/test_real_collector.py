"""An OpenTelemetry Collector in front: its exporters, over HTTP and over Kafka, and our doors get on together."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import kafka_broker
import kafka_worker
import otelcol
import pytest
import torture
from prometheus_client import CollectorRegistry

from groundwatch_collector.kafka_consumer import KafkaPipelines
from groundwatch_collector.kafka_metrics import KafkaMetrics
from groundwatch_collector.kafka_settings import KafkaConfig, KafkaSecrets
from groundwatch_collector.storage import metadata, open_engine
from groundwatch_collector.traffic_metrics import TrafficMetrics

pytestmark = [
    pytest.mark.service("otelcol"),
    # kafka-python leaves sockets of failed connections to the garbage collector, which warns.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

TO_HTTP = """
exporters:
  otlp_http:
    endpoint: http://127.0.0.1:{port}
    retry_on_failure: {{initial_interval: 100ms, max_interval: 200ms}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [otlp_http]}}
"""
TO_KAFKA = """
exporters:
  kafka:
    brokers: ["{bootstrap}"]
    partition_traces_by_id: {keyed}
    traces: {{topic: {topic}, encoding: {encoding}}}
    producer: {{allow_auto_topic_creation: false}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [kafka]}}
"""


@pytest.fixture
def collector() -> Iterator[Callable[[str], str]]:
    """Start a collector with a pipeline; gives its URL."""
    made: list[otelcol.Collector] = []

    def start(pipeline: str) -> str:
        made.append(otelcol.Collector(pipeline))
        made[-1].start()
        return f"http://127.0.0.1:{made[-1].port}"

    yield start
    for each in made:
        each.remove()


def some_traces(count: int) -> list[str]:
    rng = random.Random(count)
    return [f"{rng.getrandbits(128):032x}" for _ in range(count)]


def test_traces_through_a_collector_are_in_the_ledger_once(collector, tmp_path):
    """Also those sent while we are away: the Collector tries again."""
    port, ids = torture.free_port(), some_traces(60)
    url = collector(TO_HTTP.format(port=port))
    assert torture.post(url, torture.body(ids[:20]))
    ours = torture.start(tmp_path / "data", port)
    try:
        torture.wait_ready(f"http://127.0.0.1:{port}", time.monotonic() + 60)
        for start in range(20, 60, 10):
            assert torture.post(url, torture.body(ids[start : start + 10]))
        found = torture.wait_decided(f"sqlite:///{tmp_path / 'data' / 'groundwatch.db'}", set(ids), 30)
    finally:
        ours.terminate()
        ours.wait(20)
    assert found == {"acknowledged": 60, "in_ledger": 60, "lost": 0, "doubled": 0}


@pytest.fixture(scope="module")
def broker() -> Iterator[kafka_broker.Broker]:
    with kafka_broker.running() as made:
        yield made


@pytest.mark.service("kafka")
@pytest.mark.parametrize(
    ("encoding", "keyed"), [("otlp_proto", "true"), ("otlp_proto", "false"), ("otlp_json", "true")]
)
def test_a_topic_that_a_collector_fills_is_read(broker, collector, tmp_path, encoding, keyed):
    """Also as it fills one by default, without keys."""
    topic, ids = f"filled-{encoding}-{keyed}", some_traces(40)
    broker.create_topic(topic, 3)
    url = collector(TO_KAFKA.format(bootstrap=broker.bootstrap, topic=topic, encoding=encoding, keyed=keyed))
    for start in range(0, 40, 5):
        assert torture.post(url, torture.body(ids[start : start + 5]))
    assert read_topic(broker, topic, encoding, tmp_path, set(ids)) == {
        "acknowledged": 40,
        "in_ledger": 40,
        "lost": 0,
        "doubled": 0,
    }


def read_topic(broker: kafka_broker.Broker, topic: str, encoding: str, folder: Path, ids: set[str]) -> dict[str, int]:
    config = KafkaConfig(
        bootstrap_servers=broker.bootstrap, topic=topic, group_id=topic, encoding=encoding, probe_seconds=0.1
    )
    url, registry = f"sqlite:///{folder / 'kafka.db'}", CollectorRegistry()
    engine = open_engine(url)
    metadata.create_all(engine)
    pipelines = KafkaPipelines(
        config,
        KafkaSecrets(),
        kafka_worker.opener(engine),
        kafka_worker.DECIDE,
        traffic=TrafficMetrics(registry),
        metrics=KafkaMetrics(registry),
        now=time.time,
    )
    stop = threading.Event()
    thread = threading.Thread(target=pipelines.run, args=(stop,))
    thread.start()
    try:
        return torture.wait_decided(url, ids, 30)
    finally:
        stop.set()
        thread.join(30)
        engine.dispose()
