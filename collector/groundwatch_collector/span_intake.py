"""What both OTLP encodings share: bounds on one request, mending of values, and which spans are refused."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from groundwatch import names
from groundwatch_collector.limits import (
    NAN_DROPPED,
    NUL_STRIPPED,
    STRING_CUT,
    SURROGATE_REPLACED,
    Limits,
    Reason,
    Rejected,
)
from groundwatch_collector.spans import Attributes

TRACE_ID_DIGITS = 32
SPAN_ID_DIGITS = 16


class SpanRefused(Exception):
    """One span cannot be kept; the others of its request can."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a group of spans comes from, read once for all of them."""

    resource: Attributes
    scope_name: str
    scope_version: str
    flags: tuple[str, ...]


class Intake:
    """The state of decoding one request: what was counted, mended and refused so far."""

    def __init__(self, limits: Limits, *, project: str = "", surrogates: bool = False) -> None:
        self.limits = limits
        self._project = project  # of the key that the request came with
        self.rejected: Counter[str] = Counter()
        self.mended: Counter[str] = Counter()
        self.flags: set[str] = set()  # of the span (or resource) in hand
        self._max_chars = limits.max_string_chars
        self._surrogates = surrogates  # the parser let lone surrogates through
        self._span_values = 0
        self._request_values = 0
        self._trace_spans: Counter[str] = Counter()

    def begin(self, flags: Sequence[str] = ()) -> None:
        """Start a span or a resource."""
        self.flags = set(flags)
        self._span_values = 0

    def resource(self, attributes: Attributes) -> Attributes:
        """*attributes* of a resource, with the project that the receiver vouches for."""
        return {**attributes, names.PROJECT: self._project} if self._project else attributes

    def take_values(self, count: int) -> None:
        """Count *count* more values. Raises when the span or the whole request has too many."""
        self._span_values += count
        self._request_values += count
        if self._request_values > self.limits.max_values_per_request:
            raise Rejected(
                Reason.TOO_MANY_VALUES,
                f"attributes and list items in one request: found more than {self.limits.max_values_per_request}, "
                f"accepted: up to that many; send smaller batches",
            )
        if self._span_values > self.limits.max_attributes_per_span:
            raise SpanRefused(Reason.TOO_MANY_ATTRIBUTES)

    def check_depth(self, depth: int) -> None:
        if depth > self.limits.max_depth:
            raise SpanRefused(Reason.TOO_DEEP)

    def text(self, value: str) -> str:
        """*value* as it can be stored everywhere; what had to be changed is flagged."""
        if "\x00" in value or len(value) > self._max_chars or self._surrogates:
            return self._mend(value)
        return value

    def octets(self, value: bytes) -> bytes:
        if len(value) <= self._max_chars:
            return value
        self.flags.add(STRING_CUT)
        return value[: self._max_chars]

    def number(self, value: float) -> float | None:
        """*value*, or None where no database and no JSON can hold it."""
        if math.isfinite(value):
            return value
        self.flags.add(NAN_DROPPED)
        return None

    def check_ids(self, trace_id: str, span_id: str, parent_id: str) -> None:
        """Refuse a span that cannot be told from others. *parent_id* is empty for a root."""
        if len(trace_id) != TRACE_ID_DIGITS or not trace_id.strip("0"):
            raise SpanRefused(Reason.BAD_TRACE_ID)
        if len(span_id) != SPAN_ID_DIGITS or not span_id.strip("0"):
            raise SpanRefused(Reason.BAD_SPAN_ID)
        if parent_id and len(parent_id) != SPAN_ID_DIGITS:
            raise SpanRefused(Reason.BAD_PARENT_ID)
        spans = self._trace_spans.get(trace_id, 0) + 1
        self._trace_spans[trace_id] = spans
        if spans > self.limits.max_spans_per_trace:
            raise SpanRefused(Reason.TOO_MANY_SPANS_IN_TRACE)

    def kept(self) -> tuple[str, ...]:
        """Close the span in hand; return its flags."""
        if not self.flags:
            return ()
        self.mended.update(self.flags)
        return tuple(sorted(self.flags))

    def _mend(self, value: str) -> str:
        if "\x00" in value:
            self.flags.add(NUL_STRIPPED)
            value = value.replace("\x00", "")
        if self._surrogates and not _encodable(value):
            self.flags.add(SURROGATE_REPLACED)
            value = "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in value)
        if len(value) > self._max_chars:
            self.flags.add(STRING_CUT)
            value = value[: self._max_chars]
        return value


def _encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def too_many_spans(limits: Limits) -> Rejected:
    return Rejected(
        Reason.TOO_MANY_SPANS,
        f"spans in one request: found more than {limits.max_spans_per_request}, accepted: up to that many; "
        "send smaller batches",
    )
