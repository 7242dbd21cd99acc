"""Take the Kafka broker away for some minutes under a light load, and watch memory and file descriptors.

Run: `python tests/harness/kafka_outage.py --minutes 10`. The last line is one JSON object: refused requests, memory
before, most during and after, most file descriptors, seconds until the first write and until everything was decided,
acknowledged, lost, doubled.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

import kafka_broker
import kafka_worker
import torture
from prometheus_client import CollectorRegistry

from groundwatch_collector.kafka_consumer import KafkaPipelines
from groundwatch_collector.kafka_metrics import KafkaMetrics
from groundwatch_collector.kafka_producer import KafkaLog
from groundwatch_collector.kafka_settings import KafkaConfig, KafkaSecrets
from groundwatch_collector.limits import Limits
from groundwatch_collector.spanlog import LogFailed
from groundwatch_collector.storage import metadata, open_engine
from groundwatch_collector.traffic_metrics import TrafficMetrics


class Sender:
    def __init__(self, log: KafkaLog, seed: int) -> None:
        self._log = log
        self._rng = random.Random(seed)
        self.acknowledged: set[str] = set()
        self.refused = 0

    def send(self, requests: int) -> None:
        for _ in range(requests):
            batch = [f"{self._rng.getrandbits(128):032x}" for _ in range(10)]
            try:
                self._log.append("otlp_protobuf", torture.body(batch)).result(60)
            except LogFailed:
                self.refused += 1
            else:
                self.acknowledged.update(batch)


def memory_mb() -> int:
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) // 1024


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def outage(minutes: float, folder: Path) -> dict[str, float]:
    """One process with both ends of the topic."""
    url = f"sqlite:///{folder / 'outage.db'}"
    engine = open_engine(url)
    metadata.create_all(engine)
    broker = kafka_broker.Broker()
    stop = threading.Event()
    try:
        broker.start()
        broker.create_topic("outage", 4)
        config = KafkaConfig(bootstrap_servers=broker.bootstrap, topic="outage")
        registry = CollectorRegistry()
        metrics, traffic = KafkaMetrics(registry), TrafficMetrics(registry)
        log = KafkaLog(config, KafkaSecrets(), Limits(), metrics, now=time.time)
        log.wait_ready(30)
        open_pipeline = kafka_worker.opener(engine)
        decide = kafka_worker.DECIDE
        pipelines = KafkaPipelines(
            config, KafkaSecrets(), open_pipeline, decide, traffic=traffic, metrics=metrics, now=time.time
        )
        reading = threading.Thread(target=pipelines.run, args=(stop,))
        reading.start()
        sender = Sender(log, seed=1)
        sender.send(20)
        result: dict[str, float] = {"minutes": minutes, "memory_mb_before": memory_mb()}
        result |= _away(broker, sender, minutes)
        began = time.monotonic()
        log.wait_ready(60)
        result["seconds_to_first_write"] = round(time.monotonic() - began, 1)
        sender.send(20)
        while (account := torture.account(url, sender.acknowledged))["lost"] and time.monotonic() < began + 120:
            time.sleep(0.2)
        result["seconds_to_decided"] = round(time.monotonic() - began, 1)
        result |= {"refused": sender.refused, "memory_mb_after": memory_mb(), **account}
        stop.set()
        reading.join()
        log.close()
    finally:
        stop.set()
        broker.remove()
        engine.dispose()
    return result


def _away(broker: kafka_broker.Broker, sender: Sender, minutes: float) -> dict[str, float]:
    broker.kill()
    until = time.monotonic() + minutes * 60
    most_memory = most_descriptors = 0
    while time.monotonic() < until:
        sender.send(1)
        most_memory, most_descriptors = max(most_memory, memory_mb()), max(most_descriptors, descriptors())
        time.sleep(0.5)
    broker.start()
    return {"memory_mb_most": most_memory, "descriptors_most": most_descriptors}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        outcome = outage(options.minutes, Path(scratch))
    print(json.dumps(outcome))
    sys.exit(0 if outcome["lost"] == 0 and outcome["doubled"] == 0 else 1)
