"""One OTLP body into bodies of one trace each, so that a trace has one partition. Spans are copied, not decoded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from groundwatch_collector.limits import Limits, Reason, Rejected
from groundwatch_collector.otlp_json import parse_json
from groundwatch_collector.otlp_protobuf import wire_fields
from groundwatch_collector.project_stamp import stamped, unstamped
from groundwatch_collector.span_intake import TRACE_ID_DIGITS, too_many_spans

_PROTOBUF_ROOM = 12  # tags and lengths around a resource and a scope
_JSON_ROOM = 64
_STAMP_ROOM = 80
_HEX = "0123456789abcdef"


@dataclass(frozen=True, slots=True)
class Piece:
    """A body that holds spans of one trace only."""

    trace_id: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Split:
    pieces: Sequence[Piece]
    refused_spans: int = 0  # without a usable trace id: no partition could own them

    @property
    def trace_ids(self) -> frozenset[str]:
        return frozenset(piece.trace_id for piece in self.pieces)


@dataclass(slots=True)
class _Group:
    """Spans of one trace with the same resource and scope; *opening* is everything around them."""

    resource: bytes
    scope: bytes
    spans: list[bytes] = field(default_factory=list)


_Trace = list[_Group]


def split(kind: str, body: bytes, max_bytes: int, limits: Limits, *, trusted: bool = True) -> Split:
    """*body* by trace, each piece at most *max_bytes*. A body of one trace that fits is passed on as it is.

    *trusted*: the stamp at its end, which names a project, was written by our receiver. Raises :class:`Rejected`
    when the body is not OTLP, or one span alone is too large.
    """
    encoding = "json" if kind == "otlp_json" else "protobuf"
    bare, project = unstamped(body, encoding)
    project = project if trusted else ""
    traces, refused = _json_traces(bare, limits) if encoding == "json" else _protobuf_traces(bare, limits)
    if len(traces) == 1 and not refused and len(body) <= max_bytes:
        return Split([Piece(next(iter(traces)), body if trusted else bare)])
    pack = _pack_json if encoding == "json" else _pack_protobuf
    room = max_bytes - _STAMP_ROOM
    around = _JSON_ROOM if encoding == "json" else _PROTOBUF_ROOM
    pieces = [
        Piece(trace_id, stamped(pack(part), encoding, project))
        for trace_id, groups in traces.items()
        for part in _parts(groups, room, around)
    ]
    return Split(pieces, refused)


def _parts(groups: _Trace, room: int, around: int) -> Iterator[_Trace]:
    """The groups of one trace, cut where a part would pass *room* bytes."""
    part: _Trace = []
    size = 0
    for group in groups:
        head = len(group.resource) + len(group.scope) + 2 * around
        target: _Group | None = None
        for span in group.spans:
            cost = len(span) + around
            if head + cost > room:
                raise _span_too_large(head + cost, room)
            if size + cost + (head if target is None else 0) > room:
                yield part
                part, size, target = [], 0, None
            if target is None:
                target = _Group(group.resource, group.scope)
                part.append(target)
                size += head
            target.spans.append(span)
            size += cost
    if part:
        yield part


def _span_too_large(found: int, room: int) -> Rejected:
    return Rejected(
        Reason.TOO_LARGE,
        f"span: {found} bytes with its resource, accepted: up to {room} on this Kafka topic; send less text, or "
        "raise [kafka] max_message_bytes and the topic's max.message.bytes",
        413,
    )


# Protobuf: framing only. ResourceSpans and ScopeSpans keep everything that is not their field 2.


def _protobuf_traces(body: bytes, limits: Limits) -> tuple[dict[str, _Trace], int]:
    traces: dict[str, _Trace] = {}
    count = refused = 0
    for resource_spans in _children(memoryview(body), 1)[0]:
        scopes, resource = _children(resource_spans, 2)
        for scope_spans in scopes:
            spans, scope = _children(scope_spans, 2)
            count += len(spans)
            if count > limits.max_spans_per_request:
                raise too_many_spans(limits)
            places: dict[str, _Group] = {}
            for span in spans:
                trace_id = _protobuf_trace_id(span)
                if not trace_id:
                    refused += 1
                    continue
                if trace_id not in places:
                    places[trace_id] = _Group(resource, scope)
                    traces.setdefault(trace_id, []).append(places[trace_id])
                places[trace_id].spans.append(bytes(span))
    return traces, refused


def _children(raw: memoryview, wanted: int) -> tuple[list[memoryview], bytes]:
    """The messages in field *wanted*, and all other fields as they stand."""
    found: list[memoryview] = []
    others: list[memoryview] = []
    before = 0
    for number, start, end in wire_fields(raw):
        if number == wanted:
            found.append(raw[start:end])
        else:
            others.append(raw[before:end])
        before = end
    return found, b"".join(others)


def _protobuf_trace_id(span: memoryview) -> str:
    trace_id = ""
    for number, start, end in wire_fields(span):
        if number == 1:
            trace_id = bytes(span[start:end]).hex()
            break  # encoders write fields in order; a second trace id in one span is nobody's
    return _usable(trace_id)


def _usable(trace_id: str) -> str:
    good = len(trace_id) == TRACE_ID_DIGITS and not trace_id.strip(_HEX) and trace_id.strip("0")
    return trace_id if good else ""


def _pack_protobuf(groups: _Trace) -> bytes:
    parts: list[bytes] = []
    for group in groups:
        spans = b"".join(_framed(2, span) for span in group.spans)
        parts.append(_framed(1, group.resource + _framed(2, group.scope + spans)))
    return b"".join(parts)


def _framed(number: int, value: bytes) -> bytes:
    return bytes((number << 3 | 2,)) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# JSON: parsed once, each span written again. Lone surrogates stay escapes, as they came.


def _json_traces(body: bytes, limits: Limits) -> tuple[dict[str, _Trace], int]:
    root, _ = parse_json(body, limits)
    traces: dict[str, _Trace] = {}
    count = refused = 0
    for resource_spans in _objects(root, "resourceSpans"):
        resource = _without(resource_spans, "scopeSpans")
        for scope_spans in _objects(resource_spans, "scopeSpans"):
            scope = _without(scope_spans, "spans")
            places: dict[str, _Group] = {}
            for span in _objects(scope_spans, "spans"):
                count += 1
                if count > limits.max_spans_per_request:
                    raise too_many_spans(limits)
                found = span.get("traceId")
                trace_id = _usable(found.lower()) if isinstance(found, str) else ""
                if not trace_id:
                    refused += 1
                    continue
                if trace_id not in places:
                    places[trace_id] = _Group(resource, scope)
                    traces.setdefault(trace_id, []).append(places[trace_id])
                places[trace_id].spans.append(_json(span))
    return traces, refused


def _objects(owner: Any, key: str) -> list[dict[str, Any]]:
    found = owner.get(key) if isinstance(owner, dict) else owner
    if found is None and isinstance(owner, dict):
        return []
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise Rejected(Reason.MALFORMED, f"{key}: found {type(found).__name__}, accepted: a list of objects")
    return found


def _without(owner: dict[str, Any], key: str) -> bytes:
    """The members of *owner* but *key*, ready to have one more written behind them."""
    rest = {name: value for name, value in owner.items() if name != key}
    return _json(rest)[1:-1] + b"," if rest else b""


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(value, separators=(",", ":")).encode()


def _pack_json(groups: _Trace) -> bytes:
    packed = [
        b'{%s"scopeSpans":[{%s"spans":[%s]}]}' % (group.resource, group.scope, b",".join(group.spans))
        for group in groups
    ]
    return b'{"resourceSpans":[%s]}' % b",".join(packed)
