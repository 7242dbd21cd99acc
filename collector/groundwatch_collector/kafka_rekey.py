"""Messages that others put on the topic: kept where they are when they are keyed by their one trace, else produced
again by trace. Until the broker has the copies, the original is not passed by."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from groundwatch_collector.kafka_metrics import KafkaMetrics
from groundwatch_collector.kafka_partition import header_kind, log_record
from groundwatch_collector.kafka_producer import close_producer, open_producer, send_piece
from groundwatch_collector.kafka_settings import KafkaConfig, KafkaSecrets
from groundwatch_collector.kafka_split import Split, split
from groundwatch_collector.limits import Limits, Rejected
from groundwatch_collector.log_segments import LogRecord
from groundwatch_collector.spanlog import LogError

logger = logging.getLogger(__name__)

_SAID = {
    "no_key": "have no key",
    "several_traces": "hold several traces",
    "other_key": "are keyed by something else than their trace",
}


class Rekeyer:
    """Turn fetched messages into records of the pipeline."""

    def __init__(
        self,
        config: KafkaConfig,
        secrets: KafkaSecrets,
        limits: Limits,
        metrics: KafkaMetrics,
        now: Callable[[], float],
    ) -> None:
        self._config = config
        self._secrets = secrets
        self._limits = limits
        self._metrics = metrics
        self._now = now
        self._producer: Any = None
        self._told: set[str] = set()

    def records(self, messages: Sequence[Any]) -> list[LogRecord]:
        """One record for each message; a message that was produced again leaves an empty one in its place.

        Raises :class:`LogError` when the broker did not confirm a copy; then the messages are to be read again.
        """
        now = self._now()
        found: list[LogRecord] = []
        sent: list[Any] = []
        for message in messages:
            kind = header_kind(message)
            parts = None if kind else self._misplaced(message)
            if parts is None:
                found.append(log_record(message, kind or self._config.kind, now))
                continue
            received_at = log_record(message, self._config.kind, now, b"").received_at
            sent += [self._send(piece, received_at) for piece in parts.pieces]
            self._metrics.refused_spans.inc(parts.refused_spans)
            found.append(log_record(message, "otlp_protobuf", now, b""))
        self._confirm(sent)
        return found

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            close_producer(producer, 1.0)

    def _misplaced(self, message: Any) -> Split | None:
        """How to split *message*; None when it may stay, or cannot be read at all (the pipeline keeps it aside)."""
        try:
            parts = split(
                self._config.kind, message.value or b"", self._config.max_message_bytes, self._limits, trusted=False
            )
        except Rejected:
            return None
        traces = parts.trace_ids
        reason = ""
        if len(traces) > 1:
            reason = "several_traces"
        elif not message.key:
            reason = "no_key"
        elif traces and message.key not in _keys(next(iter(traces))):
            reason = "other_key"
        if not reason:
            return None if traces else parts
        self._tell(reason)
        return parts

    def _tell(self, reason: str) -> None:
        self._metrics.rekeyed.labels(reason).inc()
        if reason not in self._told:
            self._told.add(reason)
            logger.warning(
                "topic %s: messages %s; they are split and produced again, which doubles their traffic. In an "
                "OpenTelemetry Collector set partition_traces_by_id: true on its Kafka exporter",
                self._config.topic,
                _SAID[reason],
            )

    def _send(self, piece: Any, received_at: float) -> Any:
        try:
            if self._producer is None:
                self._producer = open_producer(self._config, self._secrets)
            return send_piece(self._producer, self._config.topic, self._config.kind, piece, received_at)
        except Exception as error:
            self.close()
            raise LogError(f"a message could not be produced again: {type(error).__name__}") from error

    def _confirm(self, sent: Sequence[Any]) -> None:
        try:
            for future in sent:
                future.get(timeout=self._config.delivery_timeout_seconds)
        except Exception as error:
            self.close()
            raise LogError(f"the broker did not confirm a message: {type(error).__name__}") from error


def _keys(trace_id: str) -> tuple[bytes, ...]:
    """The trace id as exporters write it into a key."""
    return trace_id.encode(), trace_id.upper().encode(), bytes.fromhex(trace_id)
