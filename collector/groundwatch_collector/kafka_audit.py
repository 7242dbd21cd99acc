"""Audit of a span log in Kafka: read the whole topic again, outside the group, and compare it with the tables."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Engine, select

from groundwatch_collector import ledger, tables
from groundwatch_collector.kafka_partition import header_kind, log_record
from groundwatch_collector.kafka_settings import KafkaConfig, KafkaSecrets, client_options, require_client
from groundwatch_collector.limits import Limits
from groundwatch_collector.spanlog import LogError
from groundwatch_collector.storage import reader

_PATIENCE_SECONDS = 15.0  # without a single record


def report(engine: Engine, config: KafkaConfig, secrets: KafkaSecrets, limits: Limits) -> ledger.LedgerReport:
    """Where every trace is that the topic still holds, or the ledger knows. Safe while monitors run.

    The positions are read before the topic: what lies before them is decided for certain.
    """
    require_client()
    with reader(engine).connect() as connection:
        rows = connection.execute(select(tables.partition_positions).where(_of(config.topic)))
        decided_to = {row.partition: int(row.position) for row in rows}
    is_waiting: dict[str, bool] = {}
    for message in _messages(config, secrets):
        record = log_record(message, header_kind(message) or config.kind, time.time())
        waits = record.position >= decided_to.get(message.partition, -1) or message.partition not in decided_to
        for trace_id in ledger.trace_ids_of(record, limits):
            is_waiting[trace_id] = is_waiting.get(trace_id, False) or waits
    return ledger.compared(engine, is_waiting)


def _of(topic: str) -> Any:
    return tables.partition_positions.c.topic == topic


def _messages(config: KafkaConfig, secrets: KafkaSecrets) -> Iterator[Any]:
    """Every message that the topic holds now."""
    from kafka import KafkaConsumer, TopicPartition  # noqa: PLC0415

    consumer = KafkaConsumer(
        **client_options(config, secrets), group_id=None, enable_auto_commit=False, bootstrap_timeout_ms=10_000
    )
    try:
        partitions = consumer.partitions_for_topic(config.topic)
        if not partitions:
            raise LogError(f"[kafka] topic: {config.topic} does not exist")
        places = [TopicPartition(config.topic, number) for number in sorted(partitions)]
        consumer.assign(places)
        left = dict(consumer.end_offsets(places, timeout_ms=10_000))
        for place, oldest in consumer.beginning_offsets(places, timeout_ms=10_000).items():
            consumer.seek(place, oldest)
            if oldest >= left[place]:
                del left[place]
        yield from _until(consumer, left)
    finally:
        consumer.close(autocommit=False, timeout_ms=1000)


def _until(consumer: Any, left: dict[Any, int]) -> Iterator[Any]:
    """Messages up to the ends in *left*."""
    heard_at = time.monotonic()
    while left:
        for place, messages in consumer.poll(timeout_ms=200).items():
            heard_at = time.monotonic()
            yield from (message for message in messages if message.offset < left.get(place, 0))
        for place in [p for p, end in left.items() if (consumer.position(p, timeout_ms=0) or 0) >= end]:
            del left[place]
        if time.monotonic() - heard_at > _PATIENCE_SECONDS:
            raise LogError(f"the Kafka broker gave nothing more of partitions {sorted(p.partition for p in left)}")
