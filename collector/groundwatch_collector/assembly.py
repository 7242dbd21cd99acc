"""Gather the spans of each trace until it is whole, or until waiting costs too much.

Pure: the time is passed in, and it is the time at which the collector received a record, never the sender's clock.
Nothing undecided is ever dropped. Where memory runs short the oldest traces are decided early, as incomplete.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from groundwatch_collector.mapping.tree import has_local_root, is_root
from groundwatch_collector.spans import AttributeValue, Span

_SPAN_BYTES = 700  # a Span, its dictionaries and its small strings, measured with sys.getsizeof on CPython 3.11


@dataclass(frozen=True)
class AssemblyConfig:
    """When a trace counts as whole, and how much may be held until then."""

    grace_seconds: float = 3.0  # wait after the root for children that arrive late
    idle_seconds: float = 30.0  # without a root: decide after this long without a new span
    max_age_seconds: float = 600.0  # decide at the latest this long after the first span
    max_pending_bytes: int = 256 * 1024 * 1024  # of all undecided traces together
    max_pending_spans: int = 500_000  # of all undecided traces together
    max_spans_per_trace: int = 2_000  # further spans of a trace are counted, not kept
    max_bytes_per_trace: int = 8 * 1024 * 1024

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 0 or (value == 0 and name.startswith("max_")):
                raise ValueError(f"assembly.{name}: found {value}, accepted: more than 0")


@dataclass(slots=True)
class Pending:
    """One undecided trace."""

    trace_id: str
    first_position: int
    last_position: int
    first_received_at: float
    last_received_at: float
    root_received_at: float | None = None
    spans: dict[str, Span] = field(default_factory=dict)
    size_bytes: int = 0
    duplicates: int = 0
    excess_spans: int = 0
    flags: set[str] = field(default_factory=set)
    early: bool = False  # decided before its time, because memory ran short

    @property
    def incomplete(self) -> bool:
        """Whether parts of it are likely to be missing."""
        return self.early or (self.root_received_at is None and not has_local_root(list(self.spans.values())))


class Assembler:
    """Traces under way. Records must be added in the order of their positions."""

    def __init__(self, config: AssemblyConfig) -> None:
        self._config = config
        self._pending: OrderedDict[str, Pending] = OrderedDict()  # by first position: the oldest first
        self._deadlines: list[tuple[float, str]] = []  # a heap; entries may be out of date, then they are looked up
        self.pending_bytes = 0
        self.pending_spans = 0

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, trace_id: str) -> bool:
        return trace_id in self._pending

    @property
    def low_position(self) -> int | None:
        """Position of the first record of the oldest undecided trace; None when nothing is undecided."""
        return next(iter(self._pending.values())).first_position if self._pending else None

    @property
    def pressed(self) -> bool:
        """Whether more is held than allowed. ``due`` then gives the oldest traces before their time."""
        return (
            self.pending_bytes > self._config.max_pending_bytes or self.pending_spans > self._config.max_pending_spans
        )

    def get(self, trace_id: str) -> Pending | None:
        return self._pending.get(trace_id)

    def add(self, spans: Iterable[Span], position: int, now: float) -> int:
        """Take *spans* of the record at *position*, received at *now*; return how many were there already."""
        duplicates = 0
        for span in spans:
            pending = self._pending.get(span.trace_id)
            if pending is None:
                pending = Pending(span.trace_id, position, position, now, now)
                self._pending[span.trace_id] = pending
                self._remind(pending)
            duplicates += self._add(pending, span)
            pending.last_position = max(pending.last_position, position)
            pending.last_received_at = max(pending.last_received_at, now)
            if pending.root_received_at is None and is_root(span):
                pending.root_received_at = now
                self._remind(pending)
        return duplicates

    def _add(self, pending: Pending, span: Span) -> int:
        known = pending.spans.get(span.span_id)
        if known is not None:
            if known != span:
                pending.flags.add("conflicting_spans")
            pending.duplicates += 1
            return 1
        size = size_of(span)
        if self._too_large(pending, size) and not is_root(span):  # a root ends last and tells the most
            pending.excess_spans += 1
            pending.flags.add("spans_cut")
            return 0
        pending.spans[span.span_id] = span
        pending.size_bytes += size
        self.pending_bytes += size
        self.pending_spans += 1
        return 0

    def _too_large(self, pending: Pending, size: int) -> bool:
        if not pending.spans:
            return False  # a trace keeps at least one span: it has to be decided as something
        full = len(pending.spans) >= self._config.max_spans_per_trace
        return full or pending.size_bytes + size > self._config.max_bytes_per_trace

    def due(self, now: float) -> list[Pending]:
        """Hand over every trace whose time has come, oldest deadline first; they are then no longer held here."""
        found = []
        while self._deadlines and self._deadlines[0][0] <= now:
            _, trace_id = heapq.heappop(self._deadlines)
            pending = self._pending.get(trace_id)
            if pending is None:
                continue
            if self._deadline(pending) <= now:
                found.append(self._take(trace_id))
            else:
                self._remind(pending)
        while self.pressed and self._pending:
            pending = self._take(next(iter(self._pending)))
            pending.early = True
            found.append(pending)
        return found

    def drain(self) -> list[Pending]:
        """Hand over everything, as if its time had come."""
        found = list(self._pending.values())
        self._pending.clear()
        self._deadlines.clear()
        self.pending_bytes = self.pending_spans = 0
        return found

    def _take(self, trace_id: str) -> Pending:
        pending = self._pending.pop(trace_id)
        self.pending_bytes -= pending.size_bytes
        self.pending_spans -= len(pending.spans)
        return pending

    def _deadline(self, pending: Pending) -> float:
        if pending.root_received_at is not None:
            wait = pending.root_received_at + self._config.grace_seconds
        else:
            wait = pending.last_received_at + self._config.idle_seconds
        return min(wait, pending.first_received_at + self._config.max_age_seconds)

    def _remind(self, pending: Pending) -> None:
        heapq.heappush(self._deadlines, (self._deadline(pending), pending.trace_id))


def size_of(span: Span) -> int:
    """About how many bytes *span* holds in memory."""
    size = _SPAN_BYTES
    for key, value in span.attributes.items():  # of every span: no call for a text
        size += len(key) + (60 + len(value) if type(value) is str else _value_size(value))
    for event in span.events:
        size += 200 + sum(len(key) + _value_size(value) for key, value in event.attributes.items())
    return size + 200 * len(span.links)


def _value_size(value: AttributeValue) -> int:
    if isinstance(value, (str, bytes)):
        return 60 + len(value)
    if isinstance(value, list):
        return 60 + sum(_value_size(entry) for entry in value)
    if isinstance(value, dict):
        return 200 + sum(len(key) + _value_size(entry) for key, entry in value.items())
    return 32
