"""OTLP protobuf into spans.

A small body is parsed whole. The outer messages of a large one are walked by their framing only, so a body of a
million empty spans is refused by counting, before an object exists for any of them; and at no time is more than one
span held as a message tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from sys import intern
from typing import Any, TypeAlias

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from groundwatch_collector.limits import Limits, Reason, Rejected
from groundwatch_collector.span_intake import Intake, Origin, SpanRefused, too_many_spans
from groundwatch_collector.spans import Attributes, AttributeValue, Span, SpanEvent, SpanLink

_STATUS = {1: "ok", 2: "error"}
_NO_PARENT = bytes(8)
_SPANS = 2  # field number in ScopeSpans
_OTHER = 0  # no field has this number: stands for those that are not length-delimited
_WHOLE_BYTES = 128 * 1024  # up to here the message tree of a body takes a few MB at the most, whatever is in it
_COUNT_FIRST_BYTES = 512 * 1024  # a smaller span cannot hold enough values to matter (2 bytes each at least)

# Which fields of which message are messages that can repeat: where values hide.
_CHILDREN: dict[str, dict[int, str]] = {
    "span": {9: "key_value", 11: "event", 13: "link"},
    "event": {3: "key_value"},
    "link": {4: "key_value"},
    "key_value": {2: "value"},
    "value": {5: "list", 6: "map"},
    "list": {1: "value"},
    "map": {1: "key_value"},
}


def decode_protobuf(body: bytes, limits: Limits, project: str = "") -> tuple[list[Span], Intake]:
    """Decode an ``ExportTraceServiceRequest``. Raises :class:`Rejected` when it is not one, or too much of one."""
    intake = Intake(limits, project=project)
    whole = _parsed(body)
    try:
        found = _whole_groups(whole, limits) if whole is not None else _walked_groups(memoryview(body), limits)
        return list(_spans(found, intake)), intake
    except DecodeError:
        raise _malformed("a span or resource inside is damaged") from None


_Group: TypeAlias = tuple[Resource, InstrumentationScope, Iterable[SpanMessage | memoryview]]


def _parsed(body: bytes) -> ExportTraceServiceRequest | None:
    """A small body as one message, which takes a tenth of the time; None: walk it, also to find what is wrong."""
    if len(body) > _WHOLE_BYTES:
        return None
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        return None
    return request if request.resource_spans else None  # what is no request at all may look like an empty one


def _whole_groups(request: ExportTraceServiceRequest, limits: Limits) -> Iterator[_Group]:
    groups = [(each.resource, scope) for each in request.resource_spans for scope in each.scope_spans]
    if sum(len(scope.spans) for _, scope in groups) > limits.max_spans_per_request:
        raise too_many_spans(limits)
    return ((resource, scope.scope, scope.spans) for resource, scope in groups)


def _walked_groups(body: memoryview, limits: Limits) -> Iterator[_Group]:
    for resource, scope, spans in _groups(body, limits):
        yield Resource.FromString(resource), InstrumentationScope.FromString(scope), spans


def _spans(groups: Iterable[_Group], intake: Intake) -> Iterator[Span]:
    for resource, scope, spans in groups:
        origin = _origin(resource, scope, intake)
        for span in spans:
            try:
                yield _span(span, origin, intake)
            except SpanRefused as refusal:
                intake.rejected[refusal.reason] += 1


def _groups(body: memoryview, limits: Limits) -> list[tuple[bytes, bytes, list[memoryview]]]:
    """Resource, scope and raw spans of each scope. Only framing is read, and counted, here."""
    groups = []
    budget = _Budget(limits)
    for resource_spans in budget.split(body).get(1, ()):
        parts = budget.split(resource_spans)
        resource = b"".join(parts.get(1, ()))  # joined bytes merge, as protobuf merges a repeated single message
        for scope_spans in parts.get(2, ()):
            inner = budget.split(scope_spans, of_spans=True)
            groups.append((resource, b"".join(inner.get(1, ())), inner.get(_SPANS, [])))
    return groups


class _Budget:
    """How many spans (and groups of spans) a request may still have."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._spans_left = limits.max_spans_per_request
        self._fields_left = 8 * limits.max_spans_per_request  # each span may have come in a group of its own

    def split(self, raw: memoryview, *, of_spans: bool = False) -> dict[int, list[memoryview]]:
        """The length-delimited fields of *raw* by field number; field 2 is spans when *of_spans*."""
        found: dict[int, list[memoryview]] = {}
        for number, start, end in wire_fields(raw):
            self._fields_left -= 1
            self._spans_left -= of_spans and number == _SPANS
            if self._fields_left < 0 or self._spans_left < 0:
                raise too_many_spans(self._limits)
            if number != _OTHER:
                found.setdefault(number, []).append(raw[start:end])
        return found


def _origin(resource: Resource, scope: InstrumentationScope, intake: Intake) -> Origin:
    intake.begin()
    try:
        attributes = _attributes(resource.attributes, intake)
    except SpanRefused as refusal:
        raise Rejected(refusal.reason, f"resource attributes: {refusal.reason}") from None
    name, version = intake.text(scope.name), intake.text(scope.version)
    return Origin(intake.resource(attributes), name, version, tuple(intake.flags))


def _message(raw: SpanMessage | memoryview, limits: Limits) -> SpanMessage:
    if not isinstance(raw, memoryview):
        return raw
    if len(raw) > _COUNT_FIRST_BYTES:
        _count_values(raw, limits)
    return SpanMessage.FromString(raw)  # type: ignore[arg-type]  # the stubs know bytes only


def _span(raw: SpanMessage | memoryview, origin: Origin, intake: Intake) -> Span:
    intake.begin(origin.flags)
    message = _message(raw, intake.limits)
    parent, status, state = message.parent_span_id, message.status, message.trace_state
    trace_id, span_id = intern(message.trace_id.hex()), message.span_id.hex()  # one text for all spans of a trace
    parent_id = "" if parent in (b"", _NO_PARENT) else parent.hex()
    intake.check_ids(trace_id, span_id, parent_id)
    events, links, said = message.events, message.links, status.message
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        name=intern(intake.text(message.name)),
        kind=message.kind,
        start_unix_nano=message.start_time_unix_nano,
        end_unix_nano=message.end_time_unix_nano,
        status=_STATUS.get(status.code, "unset"),  # type: ignore[arg-type]
        status_message=intake.text(said) if said else "",
        attributes=_attributes(message.attributes, intake),
        events=tuple(_events(events, intake)) if events else (),
        links=tuple(_links(links, intake)) if links else (),
        scope_name=origin.scope_name,
        scope_version=origin.scope_version,
        resource=origin.resource,
        dropped_attributes=message.dropped_attributes_count,
        trace_state=intake.text(state) if state else "",
        flags=intake.kept(),
    )


def _events(events: Any, intake: Intake) -> Iterator[SpanEvent]:
    intake.take_values(len(events))
    for event in events:
        yield SpanEvent(intake.text(event.name), event.time_unix_nano, _attributes(event.attributes, intake))


def _links(links: Any, intake: Intake) -> Iterator[SpanLink]:
    intake.take_values(len(links))
    for link in links:
        yield SpanLink(link.trace_id.hex(), link.span_id.hex(), _attributes(link.attributes, intake))


def _attributes(pairs: Sequence[KeyValue], intake: Intake, depth: int = 0) -> Attributes:
    if not pairs:
        return {}
    intake.take_values(len(pairs))
    most = intake.limits.max_string_chars
    attributes: dict[str, AttributeValue] = {}
    for pair in pairs:  # the hot loop of the collector: no calls for a usual key and a usual text
        key, value = intern(pair.key), pair.value  # a few keys, in every span
        if "\x00" in key or len(key) > most:
            key = intake.text(key)
        string = value.string_value  # asked first: nine of ten values are text, and WhichOneof is dear
        if not string:
            attributes[key] = _value(value, intake, depth)
        elif "\x00" in string or len(string) > most:
            attributes[key] = intake.text(string)
        else:
            attributes[key] = string
    return attributes


def _value(value: AnyValue, intake: Intake, depth: int) -> AttributeValue:
    which = value.WhichOneof("value")
    if which in ("bool_value", "int_value"):
        plain: bool | int = getattr(value, which)
        return plain
    if which == "double_value":
        return intake.number(value.double_value)
    if which == "bytes_value":
        return intake.octets(value.bytes_value)
    if which in ("array_value", "kvlist_value"):
        return _nested(value, intake, depth + 1)
    return "" if which == "string_value" else None  # None: empty, or a kind of value that is newer than this version


def _nested(value: AnyValue, intake: Intake, depth: int) -> AttributeValue:
    intake.check_depth(depth)
    if value.HasField("kvlist_value"):
        return dict(_attributes(value.kvlist_value.values, intake, depth))
    items = value.array_value.values
    intake.take_values(len(items))
    return [intake.text(item.string_value) if item.string_value else _value(item, intake, depth) for item in items]


def _count_values(raw: memoryview, limits: Limits) -> None:
    """Refuse a large span that has too many values, before it becomes objects."""
    waiting: list[tuple[str, memoryview, int]] = [("span", raw, 0)]
    count = 0
    while waiting:
        kind, message, depth = waiting.pop()
        if depth > 4 * limits.max_depth:  # a level of nesting is up to three messages
            raise SpanRefused(Reason.TOO_DEEP)
        children = _CHILDREN[kind]
        for number, start, end in wire_fields(message):
            count += 1
            if count > 5 * limits.max_attributes_per_span:  # a value is four fields, and a span has some of its own
                raise SpanRefused(Reason.TOO_MANY_ATTRIBUTES)
            if number in children:
                waiting.append((children[number], message[start:end], depth + 1))


def wire_fields(raw: memoryview) -> Iterator[tuple[int, int, int]]:
    """Field number, start and end of each length-delimited field; ``_OTHER`` for each other field."""
    at, size = 0, len(raw)
    while at < size:
        tag, at = _varint(raw, at)
        wire_type = tag & 7
        if wire_type == 2:
            length, at = _varint(raw, at)
            if at + length > size:
                raise _malformed("it ends in the middle of a field")
            yield tag >> 3, at, at + length
            at += length
        elif wire_type == 0:
            _, at = _varint(raw, at)
            yield _OTHER, at, at
        elif wire_type in (1, 5):
            at += 8 if wire_type == 1 else 4
            yield _OTHER, at, at
        else:
            raise _malformed(f"wire type {wire_type} is not used by OTLP")
    if at != size:
        raise _malformed("it ends in the middle of a field")


def _varint(raw: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(raw) and shift < 64:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise _malformed("a number in it does not end")


def _malformed(detail: str) -> Rejected:
    return Rejected(
        Reason.MALFORMED,
        f"body: not a protobuf ExportTraceServiceRequest ({detail}); "
        "for JSON bodies send Content-Type: application/json",
    )
