"""A cluster of five processes on Kafka and PostgreSQL loses a collector and a scorer under load, and nothing else.

It goes on from the data of one process. Traffic comes straight and through a real OpenTelemetry Collector; Prometheus
and Alertmanager watch all the while.
"""

from __future__ import annotations

import queue
import random
import threading
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx
import kafka_broker
import otelcol
import pytest
import torture
from alerting import asked, watching, webhook
from cluster import SALT, Cluster, until
from sqlalchemy import func, select

from groundwatch_alerts.alertmanager import alertmanager_files
from groundwatch_alerts.estimator import estimate
from groundwatch_alerts.objectives import AlertsConfig, Objective
from groundwatch_alerts.rule_set import rule_files
from groundwatch_alerts.tallies import sums
from groundwatch_collector.storage import open_engine
from groundwatch_collector.tables import sampled_traces
from groundwatch_deploy.cli import main
from groundwatch_deploy.serve import Monitor, judging_everything
from groundwatch_deploy.settings import load
from groundwatch_scorer.judgement import Criterion
from groundwatch_scorer.local_judge import IDENTIFIER

pytestmark = [
    pytest.mark.service("kafka"),
    pytest.mark.service("postgresql"),
    pytest.mark.service("prometheus"),
    pytest.mark.service("alertmanager"),
    pytest.mark.service("otelcol"),
]

OBJECTIVES = [
    Objective("kept", "any_failure", 0.5, app="torture", window="6h"),
    Objective("missed", "any_failure", 0.03, app="torture", window="1h"),
]
PATIENCE = 30.0  # nine programs share two cores
NO_PORTS = {"ingest_port": 0, "console_port": 0, "metrics_port": 0}
ALERTS = AlertsConfig(min_judged=10)
RIGHT = [("missed", "generation", pytest.approx(10, abs=3))]  # each tenth answer is wrong
TO_KAFKA = """
exporters:
  kafka:
    brokers: ["{bootstrap}"]
    traces: {{topic: groundwatch-spans, encoding: otlp_proto}}
    partition_traces_by_id: true
    record_partitioner: {{sticky_key: {{hasher: murmur2}}}}
    producer: {{required_acks: -1, allow_auto_topic_creation: false}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [kafka]}}
"""


class Traffic(threading.Thread):
    """Sends one trace after the other to any door until it is acknowledged; each tenth answer is wrong."""

    def __init__(self, cluster: Cluster, otel_url: str) -> None:
        super().__init__(daemon=True)
        ours = (cluster.addresses[name]["ingest"] for name in ("collector-1", "collector-2"))
        self.doors = (*ours, otel_url)
        self.acknowledged: dict[str, str] = {}  # trace id to door
        self.wrong: set[str] = set()
        self.halt = threading.Event()
        self._draw = random.Random(3)

    def run(self) -> None:
        while not self.halt.wait(0.005):
            trace_id = f"{self._draw.getrandbits(128):032x}"
            body = torture.body([trace_id])
            if len(self.acknowledged) % 10 == 0:
                body = _wrong(body)
                self.wrong.add(trace_id)
            door = self._draw.choice(self.doors)
            while not torture.post(door, body):
                self.halt.wait(0.05)
                door = self._draw.choice(self.doors)
            self.acknowledged[trace_id] = door

    def wait_for_more(self, count: int = 60) -> None:
        wanted = len(self.acknowledged) + count
        until(lambda: len(self.acknowledged) >= wanted, "traffic goes on")


@pytest.fixture
def broker():
    with kafka_broker.running() as made:
        made.create_topic("groundwatch-spans", 4)
        yield made


@pytest.fixture
def otel(broker):
    """Address of an OpenTelemetry Collector that fills the topic."""
    made = otelcol.Collector(TO_KAFKA.format(bootstrap=broker.bootstrap))
    try:
        made.start()
        yield f"http://127.0.0.1:{made.port}"
    finally:
        made.remove()


@contextmanager
def alarmed(folder, cluster):
    """URLs of Prometheus and Alertmanager with the rules of OBJECTIVES, and the messages that a person gets."""
    files = {**rule_files(OBJECTIVES, ALERTS), **alertmanager_files()}
    with (
        webhook() as (receiver, messages),
        # Longer than in other tests: a scrape may take a second while five processes start on two cores.
        watching(folder, files, cluster.metrics, receiver, window="30s", scrape="2s") as urls,
    ):
        yield *urls, messages


@pytest.mark.timeout(600)  # 89 s beside sixteen busy processes on two cores
@pytest.mark.parametrize("new_database", ["postgresql"], indirect=True)
def test_a_member_of_each_kind_dies_and_nothing_is_lost_or_counted_twice(broker, otel, new_database, tmp_path):
    url = new_database("cluster")
    engine = open_engine(url)
    cluster = Cluster(tmp_path, broker.bootstrap, url)
    old = _moved_from_one_process(tmp_path / "old", cluster)
    with cluster, alarmed(tmp_path, cluster) as (prometheus, alertmanager, messages):
        door = cluster.addresses["collector-1"]["ingest"]
        until(lambda: torture.post(door, torture.body(old)), "a sender tries again what one process had")
        traffic = Traffic(cluster, otel)
        traffic.start()
        for victim in ("collector-1", "scorer-1", "console"):
            traffic.wait_for_more()
            cluster.kill(victim)
            cluster.start(victim)
        traffic.wait_for_more()
        until(lambda: _active(alertmanager) == RIGHT, "the alert says what is so, after all these deaths")
        traffic.halt.set()
        traffic.join()

        every = {*old, *traffic.acknowledged}
        account = torture.wait_decided(url, every, seconds=60)
        assert (account["lost"], account["doubled"], account["in_ledger"]) == (0, 0, len(every))
        assert set(traffic.acknowledged.values()) == set(traffic.doors)
        until(lambda: _judged(engine) == len(every), "every trace is judged, whoever had claimed it")

        found = estimate(sums(engine, app="torture", criterion=Criterion.ANY_FAILURE, judge=IDENTIFIER))
        assert found is not None
        assert found.judged == len(every)
        assert found.rate == pytest.approx((20 + len(traffic.wrong)) / len(every))
        assert httpx.get(cluster.addresses["console"]["console"], timeout=PATIENCE).status_code == 200
        until(partial(_prometheus_counts, prometheus, len(every)), "Prometheus has the same count")
        assert _told(messages) == {("RagFailureRateAboveObjective", "torture", "missed")}
    engine.dispose()


def _moved_from_one_process(folder, cluster: Cluster) -> list[str]:
    """Ids of the traces that one process counted and judged before the cluster took its rows over; half are wrong."""
    folder.mkdir()
    (folder / "sampling.salt").write_text(SALT)
    ids = [f"{number:016x}{number + 99:016x}" for number in range(1, 41)]
    with Monitor(judging_everything(load(None, data_directory=folder, **NO_PORTS))) as monitor:
        url = monitor.start().ingest
        assert torture.post(url, _wrong(torture.body(ids[:20]))) and torture.post(url, torture.body(ids[20:]))
        until(lambda: _judged(monitor.engine) == len(ids), "one process judges")
    assert main(["move", "--data-dir", str(folder), "--config", str(cluster.config)]) == 0
    return ids


def _wrong(body: bytes) -> bytes:
    return body.replace(b"kept for 30 days [1]", b"kept for 90 days [1]")  # the document says 30


def _judged(engine) -> int:
    with engine.connect() as connection:
        query = select(func.count()).select_from(sampled_traces).where(sampled_traces.c.state == "judged")
        return int(connection.execute(query).scalar_one())


def _active(alertmanager: str) -> list[Any]:
    """Objective, layer and the share that it names, of every alert that is firing now."""
    alerts = asked(f"{alertmanager}/api/v2/alerts", active="true")
    return [(a["labels"].get("objective"), a["labels"].get("fault_layer"), _percent(a)) for a in alerts]


def _percent(alert: Any) -> float:
    return float(alert["annotations"]["summary"].partition("%")[0])


def _prometheus_counts(base: str, count: int) -> bool:
    reply = asked(f"{base}/api/v1/query", query='sum(rag_traces_total{app="torture"})')
    result = reply["data"]["result"]
    return bool(result) and float(result[0]["value"][1]) == count


def _told(messages: queue.Queue[dict[str, Any]]) -> set[tuple[str, str, str]]:
    """Name, application and objective of every alert that anybody was told of."""
    alerts = [alert["labels"] for _ in range(messages.qsize()) for alert in messages.get()["alerts"]]
    return {(labels["alertname"], labels.get("app", ""), labels.get("objective", "")) for labels in alerts}
