"""How the span log in Kafka is doing. Every series is there from the start; no label holds what a sender chose."""

from __future__ import annotations

import copy

from prometheus_client import CollectorRegistry, Counter, Gauge

from groundwatch_collector.traffic_metrics import TrafficMetrics

FAILURES = ("pending", "away", "closed")
REKEYED = ("no_key", "several_traces", "other_key")
CONSUMER_FAILURES = ("broker", "database", "log", "other")
LABELLED_PARTITIONS = 200  # more have no lag series of their own; their lag is in the sum


class KafkaMetrics:
    """Both ends of the topic."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"groundwatch_kafka_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"groundwatch_kafka_{name}", text, labels, registry=registry)

        self.messages = counter("produced_messages", "Messages that the broker acknowledged.")
        self.bytes = counter("produced_bytes", "Bytes of those messages before compression.")
        self.failures = counter("produce_failures", "Requests that could not be kept.", "reason")
        self.too_large = counter("too_large_requests", "Requests refused because one span exceeds a message.")
        self.pending_bytes = gauge("pending_bytes", "Bytes that wait for the broker.")
        self.in_trouble = gauge("in_trouble", "1 while the broker takes nothing.")
        self.records = counter("consumed_records", "Records that were read from assigned partitions.")
        self.rekeyed = counter("rekeyed_messages", "Messages of others, split and produced again by trace.", "reason")
        self.refused_spans = counter("refused_spans", "Spans without a usable trace id in messages of others.")
        self.rebalances = counter("rebalances", "Assignments of partitions to this process.")
        self.fenced = counter("fenced_partitions", "Partitions given up because another process had taken them.")
        self.lost_records = counter("lost_records", "Records that the broker deleted before they were decided.")
        self.consumer_failures = counter("consumer_failures", "Rounds that failed and are repeated.", "kind")
        self.partitions = gauge("assigned_partitions", "Partitions that this process reads now.")
        self.lag = gauge("lag_records", "Records of all assigned partitions that are not read yet.")
        self.partition_lag = gauge("partition_lag_records", "Records that are not read yet.", "partition")
        for reason in FAILURES:
            self.failures.labels(reason)
        for reason in REKEYED:
            self.rekeyed.labels(reason)
        for kind in CONSUMER_FAILURES:
            self.consumer_failures.labels(kind)


class Share:
    """One part of a gauge that is the sum of several."""

    def __init__(self, whole: Gauge) -> None:
        self._whole = whole
        self._value = 0.0

    def set(self, value: float) -> None:
        self._whole.inc(value - self._value)
        self._value = value


class PartitionMetrics:
    """Traffic metrics for one of several pipelines: counters are common, gauges add up."""

    _SHARED = ("pending_traces", "pending_bytes", "pending_bytes_capacity", "pending_spans", "pending_spans_capacity")

    def __init__(self, common: TrafficMetrics) -> None:
        self.traffic = copy.copy(common)
        self._shares = [Share(getattr(common, name)) for name in self._SHARED]
        for name, share in zip(self._SHARED, self._shares, strict=True):
            setattr(self.traffic, name, share)
        # Positions of a topic are no bytes; its lag is exported in records.
        self.traffic.log_backlog_bytes = Gauge("unused", "unused", registry=None)

    def close(self) -> None:
        """Take this part out of the sums."""
        for share in self._shares:
            share.set(0)
