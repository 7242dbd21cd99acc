"""The span as it was received: one flat record, whatever the encoding was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

AttributeValue: TypeAlias = (
    "str | bool | int | float | bytes | list[AttributeValue] | dict[str, AttributeValue] | None"
)
Attributes: TypeAlias = Mapping[str, AttributeValue]


@dataclass(frozen=True, slots=True)
class SpanEvent:
    name: str
    time_unix_nano: int
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class SpanLink:
    trace_id: str
    span_id: str
    attributes: Attributes


@dataclass(slots=True)  # nobody changes one; frozen, it would take twice as long to make
class Span:
    """One OTLP span with its resource and scope flattened in."""

    trace_id: str  # 32 lowercase hex digits
    span_id: str  # 16 lowercase hex digits
    parent_id: str  # "" at the root
    name: str
    kind: int  # OTLP SpanKind
    start_unix_nano: int
    end_unix_nano: int  # 0 when the sender did not end it
    status: Literal["unset", "ok", "error"]
    status_message: str
    attributes: Attributes
    events: tuple[SpanEvent, ...] = ()
    links: tuple[SpanLink, ...] = ()
    scope_name: str = ""
    scope_version: str = ""
    resource: Attributes = field(default_factory=dict)
    dropped_attributes: int = 0
    trace_state: str = ""
    flags: tuple[str, ...] = ()  # what decoding had to mend: "nul_stripped", "surrogate_replaced", "nan_dropped"
