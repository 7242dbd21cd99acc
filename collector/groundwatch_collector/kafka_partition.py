"""One partition as the pipeline reads it, and the row that says how far it is decided and who may say so.

A position is the offset with the number of the partition above it, so positions of one topic never meet: ledger rows,
feedback and dead letters need no further column, and late feedback finds a trace on any partition.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, insert, select, update

from groundwatch_collector import tables
from groundwatch_collector.decision_store import Place
from groundwatch_collector.kafka_producer import KIND_HEADER
from groundwatch_collector.kafka_settings import KafkaConfig, KafkaSecrets, client_options
from groundwatch_collector.log_segments import KINDS, LogRecord
from groundwatch_collector.spanlog import LogError

logger = logging.getLogger(__name__)

_OFFSET_BITS = 44  # 17 * 10**12 records in each of up to 500,000 partitions
_READ_AGAIN_SECONDS = 5.0


def position_of(partition: int, offset: int) -> int:
    return partition << _OFFSET_BITS | offset


def partition_of(position: int) -> int:
    return position >> _OFFSET_BITS


def offset_of(position: int) -> int:
    return position & (1 << _OFFSET_BITS) - 1


def header_kind(record: Any) -> str:
    """What our producer wrote on the message; "" on messages of others."""
    found = next((value for name, value in record.headers if name == KIND_HEADER), b"")
    kind = found.decode("latin-1")
    return kind if kind in KINDS else ""


def log_record(record: Any, kind: str, now: float, body: bytes | None = None) -> LogRecord:
    """A message as the pipeline knows records. A clock of the sender that runs ahead is not believed."""
    stamp = record.timestamp / 1000 if record.timestamp and record.timestamp > 0 else now
    position = position_of(record.partition, record.offset)
    value = body if body is not None else record.value or b""
    return LogRecord(position, position + 1, kind, min(stamp, now), value)


class Fenced(LogError):
    """Another process has taken this partition; nothing was written."""


class OwnedPlace(Place):
    """A partition's row. Who begins takes it; a reader that was taken over can no longer write anything."""

    def __init__(self, topic: str, partition: int, owner: str, oldest: int, end: int) -> None:
        self._topic, self._partition, self._owner = topic, partition, owner
        self._oldest, self._end = oldest, end  # offsets that the broker still has
        self.name = f"{topic[:50]}:{partition}"  # what else is kept for each reader is kept under it
        self.lost_records = 0

    def begin(self, engine: Engine) -> int:
        with engine.begin() as connection:
            row = self._row()
            found = connection.execute(select(tables.partition_positions.c.position).where(row)).scalar()
            offset = self._readable(None if found is None else offset_of(int(found)))
            values = {"position": position_of(self._partition, offset), "owner": self._owner}
            if found is None:
                key = {"topic": self._topic, "partition": self._partition}
                connection.execute(insert(tables.partition_positions).values(**key, **values))
            else:
                connection.execute(update(tables.partition_positions).where(row).values(**values))
        return values["position"] if isinstance(values["position"], int) else 0

    def set(self, connection: Connection, position: int) -> None:
        mine = tables.partition_positions.c.owner == self._owner
        statement = update(tables.partition_positions).where(self._row(), mine).values(position=position)
        if connection.execute(statement).rowcount == 0:
            raise Fenced(f"partition {self._partition} belongs to another reader now")

    def _row(self) -> Any:
        table = tables.partition_positions.c
        return (table.topic == self._topic) & (table.partition == self._partition)

    def _readable(self, found: int | None) -> int:
        if found is None:
            return self._oldest
        if found < self._oldest:
            self.lost_records = self._oldest - found
            logger.error(
                "partition %d: the broker deleted %d records that were not decided; raise the topic's retention",
                self._partition,
                self.lost_records,
            )
            return self._oldest
        if found > self._end:
            logger.error(
                "partition %d ends at %d, before position %d: was the topic made anew? Reading from its beginning",
                self._partition,
                self._end,
                found,
            )
            return self._oldest
        return found


class PartitionLog:
    """Records that were fetched and are not decided on yet. Filled and read by one thread.

    Its clock is what keeps decisions right: it goes on only when everything that was on the partition at that moment
    has been read. While the broker is away, or reading is behind, it stands still, and nothing becomes due.
    """

    def __init__(self, partition: int, again: RangeReader, now: Callable[[], float]) -> None:
        self.partition = partition
        self.buffered_bytes = 0
        self.fetched_to = 0  # offset of the next record that will be fetched
        self._read_to = 0  # offset of the next record that the pipeline wants
        self._end = 0
        self._records: deque[LogRecord] = deque()
        self._again = again
        self._clock = now()
        self._target: tuple[int, float] | None = None  # an end, and when it was the end

    def start(self, offset: int) -> None:
        self.fetched_to = self._read_to = self._end = offset

    def add(self, records: Sequence[LogRecord]) -> None:
        for record in records:
            self._records.append(record)
            self.buffered_bytes += len(record.body)
            self.fetched_to = offset_of(record.next_position)
        self._end = max(self._end, self.fetched_to)

    def saw_end(self, end: int, moment: float) -> None:
        """The partition ended at *end* at *moment*."""
        self._end = max(self._end, end)
        if self._target is None:
            self._target = (end, moment)
        self.reached(self.fetched_to)

    def reached(self, offset: int) -> None:
        """Everything before *offset* has been fetched (or cannot be: a gap in the offsets)."""
        if self._target is not None and not self._records and offset >= self._target[0]:
            self._clock = max(self._clock, self._target[1])
            self._target = None

    def clock(self) -> float:
        return self._clock

    @property
    def lag_records(self) -> int:
        return max(0, self._end - self._read_to)

    @property
    def end_position(self) -> int:
        return position_of(self.partition, self._end)

    def read(self, position: int, limit_records: int) -> list[LogRecord]:
        if partition_of(position) != self.partition or offset_of(position) < self._read_to:
            return self._again.read(position, limit_records)
        self._read_to = offset_of(position)
        while self._records and self._records[0].position < position:
            self.buffered_bytes -= len(self._records.popleft().body)
        self.reached(self.fetched_to)
        return [record for record, _ in zip(self._records, range(limit_records), strict=False)]

    def wait(self, position: int, timeout: float) -> bool:
        return bool(self._records) and self._records[-1].position >= position

    def skip_to(self, position: int) -> None:
        """Offsets are the broker's."""

    def trim(self, low_position: int, now: float) -> int:
        """Retention is the topic's."""
        return 0


class RangeReader:
    """Read records again that were read before, on any partition: what late feedback needs."""

    def __init__(self, config: KafkaConfig, secrets: KafkaSecrets, now: Callable[[], float]) -> None:
        self._config = config
        self._secrets = secrets
        self._now = now
        self._consumer: Any = None

    def read(self, position: int, limit_records: int) -> list[LogRecord]:
        """Up to *limit_records* from *position* on; none when the broker no longer has it."""
        from kafka import TopicPartition  # noqa: PLC0415
        from kafka.errors import KafkaError  # noqa: PLC0415

        place = TopicPartition(self._config.topic, partition_of(position))
        try:
            return self._read(place, offset_of(position), limit_records)
        except KafkaError as error:
            self.close()
            raise LogError(f"the Kafka broker did not give a record again: {type(error).__name__}") from error

    def _read(self, place: Any, offset: int, limit_records: int) -> list[LogRecord]:
        consumer = self._opened()
        consumer.assign([place])
        patience = int(_READ_AGAIN_SECONDS * 1000)
        if offset < consumer.beginning_offsets([place], timeout_ms=patience)[place]:
            return []
        consumer.seek(place, offset)
        deadline = time.monotonic() + _READ_AGAIN_SECONDS
        while time.monotonic() < deadline:
            found = consumer.poll(timeout_ms=200, max_records=limit_records).get(place)
            if found:
                return [log_record(r, header_kind(r) or self._config.kind, self._now()) for r in found]
            if offset >= consumer.end_offsets([place], timeout_ms=patience)[place]:
                return []
        raise LogError("the Kafka broker did not give a record again in time")

    def _opened(self) -> Any:
        if self._consumer is None:
            from kafka import KafkaConsumer  # noqa: PLC0415

            self._consumer = KafkaConsumer(
                **client_options(self._config, self._secrets),
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="none",
                max_partition_fetch_bytes=4 * 1024 * 1024,
                bootstrap_timeout_ms=int(_READ_AGAIN_SECONDS * 1000),
            )
        return self._consumer

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close(autocommit=False, timeout_ms=1000)
