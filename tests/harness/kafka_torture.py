"""Kill -9 collectors that share a Kafka topic, and the broker now and then; then account for every trace.

Run: `python tests/harness/kafka_torture.py --kills 20`. The last line is one JSON object: kills, broker_restarts,
acknowledged, in_ledger, lost (acknowledged and not in the ledger), doubled (counted more than once).
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import kafka_broker
import kafka_worker
import torture
from prometheus_client import CollectorRegistry

from groundwatch_collector.kafka_metrics import KafkaMetrics
from groundwatch_collector.kafka_producer import KafkaLog
from groundwatch_collector.kafka_settings import KafkaConfig, KafkaSecrets
from groundwatch_collector.limits import Limits, Rejected
from groundwatch_collector.spanlog import LogFailed
from groundwatch_collector.storage import metadata, open_engine

_PARTITIONS = 4
_WORKERS = 2


def append(log: KafkaLog, batch: bytes) -> bool:
    """Hand *batch* to the receiver's end; whether the broker acknowledged it."""
    try:
        log.append("otlp_protobuf", batch).result(60)
    except (LogFailed, Rejected):
        return False
    return True


class Collectors:
    """Worker processes on one topic and one database."""

    def __init__(self, broker: kafka_broker.Broker, folder: Path, url: str) -> None:
        self._folder, self._url = folder, url
        settings = {"bootstrap_servers": broker.bootstrap, "topic": "torture", "group_id": "torture"}
        self._settings = json.dumps(settings | {"session_timeout_seconds": 2.0, "probe_seconds": 0.1})
        self._running: list[subprocess.Popen[bytes] | None] = [None] * _WORKERS
        for number in range(_WORKERS):
            self.start(number)

    def start(self, number: int) -> None:
        command = [sys.executable, kafka_worker.__file__, self._settings, self._url]
        with (self._folder / f"worker-{number}.log").open("ab") as log:
            self._running[number] = subprocess.Popen(
                [*command, str(self._folder / f"worker-{number}.json")], stderr=log
            )

    def kill(self, number: int) -> None:
        process = self._running[number]
        if process is not None:
            process.kill()
            process.wait()

    def kill_all(self) -> None:
        for number in range(_WORKERS):
            self.kill(number)


def run(kills: int, seed: int, folder: Path, broker_every: int = 10) -> dict[str, int]:
    """Kill one collector after the other under load, and restart the broker after each *broker_every* kills."""
    rng = random.Random(seed)
    url = f"sqlite:///{folder / 'torture.db'}"
    engine = open_engine(url)
    metadata.create_all(engine)
    engine.dispose()
    broker = kafka_broker.Broker()
    restarts = 0
    try:
        broker.start()
        broker.create_topic("torture", _PARTITIONS)
        config = KafkaConfig(bootstrap_servers=broker.bootstrap, topic="torture", delivery_timeout_seconds=5.0)
        log = KafkaLog(config, KafkaSecrets(), Limits(), KafkaMetrics(CollectorRegistry()), now=time.time)
        log.wait_ready(30)
        load = torture.Load(partial(append, log), random.Random(seed + 1), pause=0.01)
        collectors = Collectors(broker, folder, url)
        thread = threading.Thread(target=load.run)
        thread.start()
        try:
            for number in range(1, kills + 1):
                time.sleep(rng.uniform(0.1, 2.0))
                victim = rng.randrange(_WORKERS)
                collectors.kill(victim)
                if broker_every and number % broker_every == 0:
                    (broker.kill if rng.random() < 0.5 else broker.stop)()
                    time.sleep(rng.uniform(0, 3))
                    broker.start()
                    restarts += 1
                collectors.start(victim)
                print(f"kill {number}/{kills}: {len(load.acknowledged)} acknowledged", file=sys.stderr, flush=True)
        finally:
            load.stop.set()
            thread.join()
        result = torture.wait_decided(url, load.acknowledged, seconds=120)
        collectors.kill_all()
        log.close()
    finally:
        with suppress(UnboundLocalError):
            collectors.kill_all()
        broker.remove()
    return {"kills": kills, "broker_restarts": restarts, "refused": load.refused, **result}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broker-every", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        outcome = run(options.kills, options.seed, Path(scratch), options.broker_every)
    print(json.dumps(outcome))
    sys.exit(0 if outcome["lost"] == 0 and outcome["doubled"] == 0 else 1)
