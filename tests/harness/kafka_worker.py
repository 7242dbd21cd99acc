"""A collector process for the tests: decide what the group gives it, and write down which partitions those are.

`python kafka_worker.py SETTINGS_JSON DATABASE_URL ASSIGNMENT_FILE`
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client import CollectorRegistry
from sqlalchemy import Engine

from groundwatch_collector.decision import DEFAULT_RATES, DecideConfig
from groundwatch_collector.decision_store import Place
from groundwatch_collector.kafka_consumer import KafkaPipelines, OpenPipeline
from groundwatch_collector.kafka_metrics import KafkaMetrics
from groundwatch_collector.kafka_settings import KafkaConfig, KafkaSecrets
from groundwatch_collector.log_protocol import DecisionLog
from groundwatch_collector.pipeline import Pipeline
from groundwatch_collector.storage import open_engine
from groundwatch_collector.traffic_metrics import TrafficMetrics

SALT = b"a salt for tests"
DECIDE = DecideConfig(
    grace_seconds=0.2,
    idle_seconds=20.0,
    position_interval_seconds=0.0,
    rates=dict.fromkeys(DEFAULT_RATES, 0.5),
)


def opener(engine: Engine) -> OpenPipeline:
    """Pipelines that write to *engine*."""

    def open_pipeline(
        log: DecisionLog, config: DecideConfig, metrics: TrafficMetrics, *, now: Callable[[], float], place: Place
    ) -> Pipeline:
        return Pipeline(log, engine, config, metrics, salt=SALT, now=now, place=place)

    return open_pipeline


def main() -> None:
    settings, url, path = json.loads(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    registry = CollectorRegistry()
    engine = open_engine(url)
    pipelines = KafkaPipelines(
        KafkaConfig(**settings),
        KafkaSecrets(),
        opener(engine),
        DECIDE,
        traffic=TrafficMetrics(registry),
        metrics=KafkaMetrics(registry),
        now=time.time,
    )
    stop = threading.Event()
    thread = threading.Thread(target=pipelines.run, args=(stop,), daemon=True)
    thread.start()
    while thread.is_alive():
        half = path.with_suffix(".half")
        half.write_text(json.dumps(pipelines.partitions))
        half.replace(path)
        thread.join(0.1)


if __name__ == "__main__":
    main()
