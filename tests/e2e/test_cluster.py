"""A cluster of five processes on Kafka and PostgreSQL loses a collector and a scorer under load, and nothing else."""

from __future__ import annotations

import json
import random
import threading
from functools import partial

import httpx
import kafka_broker
import pytest
import torture
from cluster import Cluster, until
from sqlalchemy import func, select

from groundwatch_alerts.estimator import estimate
from groundwatch_alerts.tallies import sums
from groundwatch_collector.storage import open_engine
from groundwatch_collector.tables import sampled_traces
from groundwatch_scorer.judgement import Criterion
from groundwatch_scorer.local_judge import IDENTIFIER

pytestmark = [pytest.mark.service("kafka"), pytest.mark.service("postgresql"), pytest.mark.service("prometheus")]


class Traffic(threading.Thread):
    """Sends one trace after the other to any collector until it is acknowledged; each tenth answer is wrong."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self.cluster = cluster
        self.acknowledged: set[str] = set()
        self.wrong: set[str] = set()
        self.halt = threading.Event()
        self._draw = random.Random(3)

    def run(self) -> None:
        while not self.halt.wait(0.005):
            trace_id = f"{self._draw.getrandbits(128):032x}"
            body = torture.body([trace_id])
            if len(self.acknowledged) % 10 == 0:
                body = body.replace(b"kept for 30 days [1]", b"kept for 90 days [1]")
                self.wrong.add(trace_id)
            while not self._sent(body):
                self.halt.wait(0.05)
            self.acknowledged.add(trace_id)

    def _sent(self, body: bytes) -> bool:
        door = self._draw.choice(("collector-1", "collector-2"))
        return torture.post(self.cluster.addresses[door]["ingest"], body)


@pytest.fixture
def broker():
    made = kafka_broker.Broker()
    try:
        made.start()
        made.create_topic("groundwatch-spans", 4)
        yield made
    finally:
        made.remove()


@pytest.mark.parametrize("new_database", ["postgresql"], indirect=True)
def test_a_member_of_each_kind_dies_and_nothing_is_lost_or_counted_twice(broker, new_database, prometheus, tmp_path):
    url = new_database("cluster")
    engine = open_engine(url)
    with Cluster(tmp_path, broker.bootstrap, url) as cluster:
        traffic = Traffic(cluster)
        traffic.start()
        for victim in ("collector-1", "scorer-1", "console"):
            sent = len(traffic.acknowledged)
            until(partial(_has_sent, traffic, sent + 60), "traffic goes on")
            cluster.kill(victim)
            cluster.start(victim)
        sent = len(traffic.acknowledged)
        until(partial(_has_sent, traffic, sent + 60), "traffic goes on after the last death")
        traffic.halt.set()
        traffic.join()

        account = torture.wait_decided(url, traffic.acknowledged, seconds=60)
        assert (account["lost"], account["doubled"]) == (0, 0)
        until(lambda: _judged(engine) == len(traffic.acknowledged), "every trace is judged, whoever had claimed it")

        found = estimate(sums(engine, app="torture", criterion=Criterion.ANY_FAILURE, judge=IDENTIFIER))
        assert found is not None
        assert found.judged == len(traffic.acknowledged)
        assert found.rate == pytest.approx(len(traffic.wrong) / len(traffic.acknowledged))
        _console_and_prometheus_say_the_same(cluster, prometheus, traffic)
    engine.dispose()


def _has_sent(traffic: Traffic, count: int) -> bool:
    return len(traffic.acknowledged) >= count


def _judged(engine) -> int:
    with engine.connect() as connection:
        query = select(func.count()).select_from(sampled_traces).where(sampled_traces.c.state == "judged")
        return int(connection.execute(query).scalar_one())


def _console_and_prometheus_say_the_same(cluster, prometheus, traffic) -> None:
    address = cluster.addresses["console"]
    assert httpx.get(address["console"]).status_code == 200
    base = prometheus(address["metrics"].removeprefix("http://"))
    query = 'sum(rag_traces_total{app="torture"})'

    def counted() -> bool:
        reply = httpx.get(f"{base}/api/v1/query", params={"query": query})
        result = json.loads(reply.text)["data"]["result"]
        return bool(result) and float(result[0]["value"][1]) == len(traffic.acknowledged)

    until(counted, "Prometheus has the count of the deployment")
