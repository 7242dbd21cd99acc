"""What the receiver took and refused, and how the span log is doing. No label holds anything that a sender chose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from groundwatch_collector.limits import MENDS, SPAN_REASONS, Reason
from groundwatch_collector.log_protocol import AppendLog
from groundwatch_collector.spanlog import SpanLog

Signal = Literal["traces", "feedback"]

_MOST_PROJECTS = 200
_OTHER = "__other__"
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class IntakeMetrics:
    """Counters of the receiver. Every reason is there from the start, at 0."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._requests = Counter(
            "groundwatch_received_requests",
            "Requests acknowledged after they were durable.",
            ("signal", "encoding"),
            registry=registry,
        )
        self._spans = Counter("groundwatch_received_spans", "Spans in acknowledged requests.", registry=registry)
        self._bytes = Counter(
            "groundwatch_received_bytes", "Bytes of acknowledged bodies after decompression.", registry=registry
        )
        self._rejected_requests = Counter(
            "groundwatch_rejected_requests", "Requests refused as a whole.", ("reason",), registry=registry
        )
        self.refused_connections = Counter(
            "groundwatch_refused_connections", "Connections beyond [server] max_connections.", registry=registry
        )
        self._rejected_spans = Counter(
            "groundwatch_rejected_spans", "Spans left out of a request.", ("reason",), registry=registry
        )
        self._mended_spans = Counter(
            "groundwatch_mended_spans",
            "Spans kept although a value had to be mended.",
            ("reason",),
            registry=registry,
        )
        self._seconds = Histogram(
            "groundwatch_intake_seconds",
            "From the first byte of a request to its durable acknowledgement.",
            ("signal",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._fsync_seconds = Histogram(
            "groundwatch_log_fsync_seconds", "Time of one sync of the span log.", buckets=_SECONDS, registry=registry
        )
        self.bytes_in_flight = Gauge(
            "groundwatch_intake_in_flight_bytes", "Bytes of bodies in hand now.", registry=registry
        )
        self.bytes_in_flight_max = Gauge(
            "groundwatch_intake_in_flight_bytes_max", "Above this, requests are answered 429.", registry=registry
        )
        self._projects = Counter(
            "groundwatch_project_requests",
            "Acknowledged requests by the project of their ingest key; none without keys.",
            ("project",),
            registry=registry,
        )
        self._named_projects: frozenset[str] = frozenset()
        self._create_at_zero()

    def _create_at_zero(self) -> None:
        kinds = (("traces", "protobuf"), ("traces", "json"), ("feedback", "json"))
        # Looked up once: finding a child by its labels costs more than counting.
        self._requests_of = {kind: self._requests.labels(*kind) for kind in kinds}
        self._seconds_of = {signal: self._seconds.labels(signal) for signal in ("traces", "feedback")}
        for reason in Reason:
            self._rejected_requests.labels(reason.value)
        for reason in SPAN_REASONS:
            self._rejected_spans.labels(reason.value)
        for mend in MENDS:
            self._mended_spans.labels(mend)

    def name_projects(self, projects: Sequence[str]) -> None:
        """Give each of the first projects a series of its own; those beyond share one."""
        self._named_projects = frozenset(projects[:_MOST_PROJECTS])
        for project in (*sorted(self._named_projects), *((_OTHER,) if len(projects) > _MOST_PROJECTS else ())):
            self._projects.labels(project)

    def project(self, project: str) -> None:
        """Count one acknowledged request."""
        if project:
            self._projects.labels(project if project in self._named_projects else _OTHER).inc()

    def watch(self, log: AppendLog) -> None:
        """Export *log* with the rest, where it is on this disk. A log elsewhere exports itself."""
        if not isinstance(log, SpanLog):
            return
        log.on_sync = self._fsync_seconds.observe
        self._registry.register(_LogCollector(log))

    def accepted(self, signal: Signal, encoding: str, size: int, seconds: float) -> None:
        self._requests_of[signal, encoding].inc()
        self._bytes.inc(size)
        self._seconds_of[signal].observe(seconds)

    def spans(self, kept: int, rejected: Mapping[str, int], mended: Mapping[str, int]) -> None:
        """Count the spans of an acknowledged request, and what was wrong with some."""
        self._spans.inc(kept)
        self.rejected_spans(rejected)
        for mend, count in mended.items():
            self._mended_spans.labels(mend).inc(count)

    def rejected_spans(self, rejected: Mapping[str, int]) -> None:
        for reason, count in rejected.items():
            self._rejected_spans.labels(reason).inc(count)

    def rejected(self, reason: Reason) -> None:
        self._rejected_requests.labels(reason.value).inc()


class _LogCollector:
    def __init__(self, log: SpanLog) -> None:
        self._log = log

    def describe(self) -> Iterable[Metric]:
        return []  # registration must not touch the log

    def collect(self) -> Iterable[Metric]:
        log = self._log
        gauges = (
            ("start_position", "Position of the oldest record that is kept.", log.start_position),
            ("end_position", "Position after the newest durable record.", log.end_position),
            ("bytes", "Size of the span log on disk.", log.total_bytes),
            ("bytes_max", "At this size the span log refuses appends.", log.max_bytes),
            ("pending_bytes", "Bytes that wait to become durable.", log.pending_bytes),
            ("segments", "Files of the span log.", log.segment_count),
            ("in_trouble", "1 while appends fail.", int(bool(log.trouble))),
            ("damaged_bytes", "Bytes that could not be read and were skipped.", sum(log.damage.values())),
            ("torn_bytes", "Unfinished bytes cut from the end at the last start.", log.torn_bytes),
        )
        for name, text, value in gauges:
            yield GaugeMetricFamily(f"groundwatch_log_{name}", text, value)
        yield CounterMetricFamily("groundwatch_log_appends", "Records made durable.", log.appended_records)
        failures = CounterMetricFamily(
            "groundwatch_log_append_failures", "Records that could not be kept.", labels=["reason"]
        )
        for cause, count in sorted(log.failures.items()):
            failures.add_metric([cause], count)
        yield failures
