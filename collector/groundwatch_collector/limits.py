"""What the collector accepts at most, and the closed set of words that say why something was refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum

MIB = 1024 * 1024


class Reason(StrEnum):
    """Why a request or a span was refused. A metric label: closed, and each word is API."""

    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    UNAUTHORIZED = "unauthorized"
    WRONG_SIGNAL = "wrong_signal"  # logs or metrics where only traces are taken
    CONTENT_TYPE = "content_type"
    CONTENT_ENCODING = "content_encoding"
    BAD_GZIP = "bad_gzip"
    BODY_INCOMPLETE = "body_incomplete"  # the sender went away, or Content-Length was not what came
    BODY_TIMEOUT = "body_timeout"
    COMPRESSED_TOO_LARGE = "compressed_too_large"
    TOO_LARGE = "too_large"
    MALFORMED = "malformed"  # not the encoding that the content type promised
    TOO_MANY_SPANS = "too_many_spans"
    TOO_MANY_VALUES = "too_many_values"
    BAD_FEEDBACK = "bad_feedback"
    FEEDBACK_TOO_LARGE = "feedback_too_large"
    FEEDBACK_TOKEN = "feedback_token"  # noqa: S105 (a reason) - missing, or not made for this trace and person
    BUSY = "busy"  # too many bytes in flight; send again later
    LOG_FULL = "log_full"  # the span log is at its bound or the disk has no room; send again later
    LOG_FAILED = "log_failed"  # the disk refused the write; send again later
    # Of one span; the rest of its request is kept.
    BAD_TRACE_ID = "bad_trace_id"
    BAD_SPAN_ID = "bad_span_id"
    BAD_PARENT_ID = "bad_parent_id"
    TOO_DEEP = "too_deep"
    TOO_MANY_ATTRIBUTES = "too_many_attributes"
    TOO_MANY_SPANS_IN_TRACE = "too_many_spans_in_trace"


SPAN_REASONS = (
    Reason.BAD_TRACE_ID,
    Reason.BAD_SPAN_ID,
    Reason.BAD_PARENT_ID,
    Reason.TOO_DEEP,
    Reason.TOO_MANY_ATTRIBUTES,
    Reason.TOO_MANY_SPANS_IN_TRACE,
)
"""Reasons that can refuse one span. A request whose every span was refused carries one of them too."""

NUL_STRIPPED = "nul_stripped"
SURROGATE_REPLACED = "surrogate_replaced"
NAN_DROPPED = "nan_dropped"
STRING_CUT = "string_cut"
MENDS = (NUL_STRIPPED, SURROGATE_REPLACED, NAN_DROPPED, STRING_CUT)
"""Flags of a span that was kept although something in it had to be mended."""


class Rejected(Exception):
    """A request is refused. ``status`` is the HTTP status: below 500 it is permanent, except 408 and 429."""

    def __init__(
        self, reason: Reason | str, message: str, status: int = 400, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.reason = Reason(reason)
        self.message = message
        self.status = status
        self.headers: Mapping[str, str] = headers or {}


@dataclass(frozen=True)
class Limits:
    """What one request may ask of the collector. Everything above a limit is refused or marked, and counted."""

    max_compressed_bytes: int = 8 * MIB  # a body as it travels
    max_decompressed_bytes: int = 20 * MIB  # a body after gzip: what the OpenTelemetry Collector allows too
    max_concurrent_bytes: int = 128 * MIB  # bodies held by all requests together; above: 429 with Retry-After
    max_spans_per_request: int = 16_384  # twice the OpenTelemetry Collector's default batch
    max_values_per_request: int = 250_000  # attributes and list items: a decoded value costs ~10x its bytes
    max_spans_per_trace: int = 2_000  # within one request; further spans of the trace are refused
    max_attributes_per_span: int = 4_096  # list items, events and links included; documents flattened need hundreds
    max_depth: int = 16  # lists and maps inside an attribute value
    max_string_chars: int = 1024 * 1024  # a whole document list is one string; longer ones are cut and flagged
    max_feedback_bytes: int = 64 * 1024  # a comment is read by people
    body_timeout_seconds: float = 30.0  # a sender may take this long for its body

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) <= 0:
                raise ValueError(f"{field.name}: found {getattr(self, field.name)}, accepted: more than 0")


REASON_OF_LIMIT: Mapping[str, str] = {
    "max_compressed_bytes": Reason.COMPRESSED_TOO_LARGE,
    "max_decompressed_bytes": Reason.TOO_LARGE,
    "max_concurrent_bytes": Reason.BUSY,
    "max_spans_per_request": Reason.TOO_MANY_SPANS,
    "max_values_per_request": Reason.TOO_MANY_VALUES,
    "max_spans_per_trace": Reason.TOO_MANY_SPANS_IN_TRACE,
    "max_attributes_per_span": Reason.TOO_MANY_ATTRIBUTES,
    "max_depth": Reason.TOO_DEEP,
    "max_string_chars": STRING_CUT,
    "max_feedback_bytes": Reason.FEEDBACK_TOO_LARGE,
    "body_timeout_seconds": Reason.BODY_TIMEOUT,
}
"""The counter's word for each limit."""
