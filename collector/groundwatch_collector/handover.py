"""Records that this process has just written, with their spans, for a reader that keeps up with the writer.

Only a short way: what is not here is read from the disk and decoded again, with the same result.
"""

from __future__ import annotations

import threading

from groundwatch_collector.log_segments import LogRecord


class Handover:
    """Durable records by position. Full: new ones are left out, because the oldest are wanted next."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._records: dict[int, LogRecord] = {}  # in the order of positions
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def size_bytes(self) -> int:
        """Bytes of the bodies that are held."""
        return self._bytes

    def put(self, record: LogRecord) -> None:
        with self._lock:
            if self._bytes + len(record.body) <= self._max_bytes:
                self._records[record.position] = record
                self._bytes += len(record.body)

    def take(self, position: int, limit_records: int) -> list[LogRecord]:
        """Records that follow each other from *position* on; they are then no longer held here."""
        found: list[LogRecord] = []
        with self._lock:
            while len(found) < limit_records and (record := self._records.pop(position, None)) is not None:
                self._bytes -= len(record.body)
                found.append(record)
                position = record.next_position
        return found

    def drop_before(self, position: int) -> None:
        """Let go of what was read from the disk instead."""
        with self._lock:
            while self._records and (first := next(iter(self._records))) < position:
                self._bytes -= len(self._records.pop(first).body)
