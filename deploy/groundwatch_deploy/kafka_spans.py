"""The span log of a monitor when it is a Kafka topic instead of files in the data directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry
from sqlalchemy import Engine

from groundwatch_collector import kafka_audit
from groundwatch_collector.decision import DecideConfig
from groundwatch_collector.kafka_consumer import KafkaPipelines, OpenPipeline
from groundwatch_collector.kafka_metrics import KafkaMetrics
from groundwatch_collector.kafka_producer import KafkaLog
from groundwatch_collector.kafka_settings import KafkaConfig, KafkaMissing, KafkaSecrets, reachable, require_client
from groundwatch_collector.ledger import LedgerReport
from groundwatch_collector.limits import Limits
from groundwatch_collector.spanlog import LogError
from groundwatch_collector.traffic_metrics import TrafficMetrics
from groundwatch_deploy.config import ConfigError

_FIRST_ANSWER_SECONDS = 5.0  # until then senders hear 503; a broker that is away does not stop the start


def require_kafka() -> None:
    """Raise :class:`ConfigError` with the line that installs the client, where it is missing."""
    try:
        require_client()
    except KafkaMissing as error:
        raise ConfigError(str(error)) from error


def read_topic(
    engine: Engine, config: KafkaConfig, limits: Limits, environ: Mapping[str, str] = os.environ
) -> LedgerReport:
    """The account of a deployment whose span log is a topic. Raises :class:`ConfigError` where it cannot be read."""
    require_kafka()
    if not reachable(config):
        raise ConfigError(f"[kafka] bootstrap_servers: {config.bootstrap_servers} takes no connections")
    try:
        return kafka_audit.report(engine, config, KafkaSecrets.read(environ), limits)
    except LogError as error:
        raise ConfigError(str(error)) from error


class KafkaSpans:
    """Both ends of the topic for one process. Close it last: what was handed over waits for the broker's word."""

    def __init__(
        self,
        config: KafkaConfig,
        limits: Limits,
        registry: CollectorRegistry,
        now: Callable[[], float],
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        require_kafka()
        self._config, self._limits, self._now = config, limits, now
        self._secrets = KafkaSecrets.read(environ)
        self._metrics = KafkaMetrics(registry)
        self.log = KafkaLog(config, self._secrets, limits, self._metrics, now=now)
        self.log.wait_ready(_FIRST_ANSWER_SECONDS)

    def pipelines(self, open_pipeline: OpenPipeline, decide: DecideConfig, traffic: TrafficMetrics) -> KafkaPipelines:
        return KafkaPipelines(
            self._config,
            self._secrets,
            open_pipeline,
            decide,
            traffic=traffic,
            metrics=self._metrics,
            now=self._now,
            limits=self._limits,
        )

    def close(self) -> None:
        self.log.close()
