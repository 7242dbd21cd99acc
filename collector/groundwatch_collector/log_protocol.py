"""What the receiver asks of a span log, and what the pipeline does: kept on this disk, or in Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from groundwatch_collector.log_segments import LogRecord
from groundwatch_collector.spans import Span


class AppendLog(Protocol):
    """The receiver's end. :class:`~groundwatch_collector.spanlog.LogFailed` says that nothing is known to be kept."""

    @property
    def trouble(self) -> str:
        """Why appends fail at the moment, in words; empty when they work."""

    def append(self, kind: str, body: bytes, spans: Sequence[Span] | None = None) -> Future[int]:
        """Hand *body* over; the future gives a position once it is durable.

        *spans*: what decoding *body* gives. A log whose reader is in this process may pass them on.
        """


class DecisionLog(Protocol):
    """The pipeline's end: records in the order of their positions."""

    @property
    def end_position(self) -> int:
        """Where the next record will be; everything before it can be read."""

    def read(self, position: int, limit_records: int) -> list[LogRecord]:
        """Up to *limit_records* records from *position* on, oldest first."""

    def wait(self, position: int, timeout: float) -> bool:
        """Wait until a record at or after *position* can be read; False when *timeout* seconds passed first."""

    def skip_to(self, position: int) -> None:
        """Make sure that new records get positions from *position* on."""

    def trim(self, low_position: int, now: float) -> int:
        """Let go of what lies before *low_position* and is past its use; return how many files that were."""
