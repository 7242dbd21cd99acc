"""OTLP/JSON into spans: ids in hex, 64 bit numbers as strings, enums as number or name, unknown fields ignored."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import orjson

from groundwatch_collector.limits import Limits, Reason, Rejected
from groundwatch_collector.span_intake import (
    SPAN_ID_DIGITS,
    TRACE_ID_DIGITS,
    Intake,
    Origin,
    SpanRefused,
    too_many_spans,
)
from groundwatch_collector.spans import Attributes, AttributeValue, Span, SpanEvent, SpanLink

_KINDS = {
    f"SPAN_KIND_{name}": number
    for number, name in enumerate(("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"))
}
_STATUS = {1: "ok", 2: "error", "STATUS_CODE_OK": "ok", "STATUS_CODE_ERROR": "error"}
_OTHER_SIGNALS = {"resourceLogs": "logs", "resourceMetrics": "metrics", "resourceProfiles": "profiles"}
_LONE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_MARKS_PER_VALUE = 8  # braces, brackets and commas of one attribute: 4, and its text may have some
_INT64 = range(-(2**63), 2**63)
_UINT64 = range(2**64)

_Object = dict[str, Any]


def decode_json(body: bytes, limits: Limits, project: str = "") -> tuple[list[Span], Intake]:
    """Decode an ``ExportTraceServiceRequest`` in JSON. Raises :class:`Rejected` when it is not one."""
    root, has_surrogates = parse_json(body, limits)
    if not isinstance(root, dict):
        raise _wrong("body", root, "an object with resourceSpans")
    _check_signal(root)
    intake = Intake(limits, project=project, surrogates=has_surrogates)
    groups = list(_groups(root))
    if sum(len(spans) for _, _, spans, _ in groups) > limits.max_spans_per_request:
        raise too_many_spans(limits)
    return list(_spans(groups, intake)), intake


def parse_json(body: bytes, limits: Limits) -> tuple[Any, bool]:
    """The JSON value in *body*, and whether lone surrogates were let through (senders cut text inside an emoji)."""
    most_marks = _MARKS_PER_VALUE * limits.max_values_per_request
    if len(body) > most_marks and sum(map(body.count, (b"{", b"[", b","))) > most_marks:
        raise Rejected(
            Reason.TOO_MANY_VALUES,
            f"body: found more than {most_marks} JSON braces, brackets and commas, accepted: up to that many; "
            "send smaller batches",
        )
    try:
        return orjson.loads(body), False
    except orjson.JSONDecodeError as error:
        if not _LONE_SURROGATE.search(body):
            raise _not_json(error) from None
    try:
        return json.loads(body.decode(), parse_constant=_refuse_constant), True
    except (ValueError, RecursionError) as error:
        raise _not_json(error) from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _not_json(error: Exception) -> Rejected:
    detail = (
        f"{error.msg} at character {error.pos}" if isinstance(error, json.JSONDecodeError) else type(error).__name__
    )
    return Rejected(Reason.MALFORMED, f"body: not JSON ({detail})")


def _wrong(where: str, found: object, accepted: str) -> Rejected:
    return Rejected(Reason.MALFORMED, f"{where}: found {type(found).__name__}, accepted: {accepted}")


def _check_signal(root: _Object) -> None:
    """Unknown fields are ignored, but a body of another signal would then be lost without a word."""
    if "resourceSpans" in root:
        return
    for name, signal in _OTHER_SIGNALS.items():
        if name in root:
            raise Rejected(Reason.WRONG_SIGNAL, f"body: found {name} ({signal}), accepted: resourceSpans")
    if "resource_spans" in root:
        raise Rejected(
            Reason.MALFORMED, "body: found resource_spans, accepted: resourceSpans (OTLP/JSON is camelCase)"
        )


_Group = tuple[_Object, _Object, list[Any], str]


def _groups(root: _Object) -> Iterator[_Group]:
    """Resource, scope, raw spans and where they stand."""
    for i, resource_spans in enumerate(_objects(root, "resourceSpans", "body")):
        where = f"resourceSpans[{i}]"
        for j, scope_spans in enumerate(_objects(resource_spans, "scopeSpans", where)):
            inner = f"{where}.scopeSpans[{j}]"
            resource = _object(resource_spans, "resource", where)
            yield resource, _object(scope_spans, "scope", inner), _objects(scope_spans, "spans", inner), inner


def _spans(groups: list[_Group], intake: Intake) -> Iterator[Span]:
    for resource, scope, spans, where in groups:
        origin = _origin(resource, scope, intake, where)
        for i, raw in enumerate(spans):
            try:
                yield _span(raw, origin, intake, f"{where}.spans[{i}]")
            except SpanRefused as refusal:
                intake.rejected[refusal.reason] += 1


def _origin(resource: _Object, scope: _Object, intake: Intake, where: str) -> Origin:
    intake.begin()
    try:
        attributes = _attributes(resource, intake, f"{where} resource")
    except SpanRefused as refusal:
        raise Rejected(refusal.reason, f"resource attributes: {refusal.reason}") from None
    name, version = (_text(scope, key, intake, f"{where} scope") for key in ("name", "version"))
    return Origin(intake.resource(attributes), name, version, tuple(intake.flags))


def _span(raw: _Object, origin: Origin, intake: Intake, where: str) -> Span:
    intake.begin(origin.flags)
    trace_id = _id(raw, "traceId", TRACE_ID_DIGITS, where)
    span_id = _id(raw, "spanId", SPAN_ID_DIGITS, where)
    parent_id = _id(raw, "parentSpanId", SPAN_ID_DIGITS, where)
    parent_id = parent_id if parent_id.strip("0") else ""
    intake.check_ids(trace_id, span_id, parent_id)
    status = _object(raw, "status", where)
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        name=_text(raw, "name", intake, where),
        kind=_kind(raw.get("kind"), where),
        start_unix_nano=_unsigned(raw, "startTimeUnixNano", where),
        end_unix_nano=_unsigned(raw, "endTimeUnixNano", where),
        status=_status(status.get("code")),  # type: ignore[arg-type]
        status_message=_text(status, "message", intake, where),
        attributes=_attributes(raw, intake, where),
        events=tuple(_events(_objects(raw, "events", where), intake, where)),
        links=tuple(_links(_objects(raw, "links", where), intake, where)),
        scope_name=origin.scope_name,
        scope_version=origin.scope_version,
        resource=origin.resource,
        dropped_attributes=_unsigned(raw, "droppedAttributesCount", where),
        trace_state=_text(raw, "traceState", intake, where),
        flags=intake.kept(),
    )


def _events(events: list[_Object], intake: Intake, where: str) -> Iterator[SpanEvent]:
    intake.take_values(len(events))
    for event in events:
        name, at = _text(event, "name", intake, where), _unsigned(event, "timeUnixNano", where)
        yield SpanEvent(name, at, _attributes(event, intake, where))


def _links(links: list[_Object], intake: Intake, where: str) -> Iterator[SpanLink]:
    intake.take_values(len(links))
    for link in links:
        trace_id = _id(link, "traceId", TRACE_ID_DIGITS, where)
        span_id = _id(link, "spanId", SPAN_ID_DIGITS, where)
        yield SpanLink(trace_id, span_id, _attributes(link, intake, where))


def _attributes(owner: _Object, intake: Intake, where: str, key: str = "attributes", depth: int = 0) -> Attributes:
    pairs = _objects(owner, key, where)
    intake.take_values(len(pairs))
    attributes: dict[str, AttributeValue] = {}
    for pair in pairs:
        name = _text(pair, "key", intake, where)
        attributes[name] = _value(pair.get("value"), intake, where, depth)
    return attributes


def _value(value: Any, intake: Intake, where: str, depth: int) -> AttributeValue:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise _wrong(f"{where} attribute value", value, 'an object such as {"stringValue": "..."}')
    text = value.get("stringValue")
    if isinstance(text, str):
        return intake.text(text)
    for kind, read in _READERS.items():
        if value.get(kind) is not None:
            return read(value[kind], intake, where, depth)
    if text is not None:
        raise _wrong(f"{where} stringValue", text, "a string")
    return None  # empty, or a kind of value that is newer than this version


def _read_bool(value: Any, _intake: Intake, where: str, _depth: int) -> bool:
    if not isinstance(value, bool):
        raise _wrong(f"{where} boolValue", value, "true or false")
    return value


def _read_int(value: Any, _intake: Intake, where: str, _depth: int) -> int:
    return _integer(value, _INT64, f"{where} intValue")


def _read_double(value: Any, intake: Intake, where: str, _depth: int) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _wrong(f"{where} doubleValue", value, "a number")
    try:
        return intake.number(float(value))
    except (ValueError, OverflowError):
        raise _wrong(f"{where} doubleValue", value, 'a number, "NaN", "Infinity" or "-Infinity"') from None


def _read_bytes(value: Any, intake: Intake, where: str, _depth: int) -> bytes:
    try:
        padded = value.rstrip("=") + "=" * (-len(value.rstrip("=")) % 4)
        return intake.octets(base64.b64decode(padded.replace("-", "+").replace("_", "/"), validate=True))
    except (AttributeError, ValueError, binascii.Error):
        raise _wrong(f"{where} bytesValue", value, "base64 text") from None


def _read_list(value: Any, intake: Intake, where: str, depth: int) -> list[AttributeValue]:
    intake.check_depth(depth + 1)
    if not isinstance(value, dict):
        raise _wrong(f"{where} arrayValue", value, "an object with values")
    items = value.get("values")
    if not isinstance(items, list | None):
        raise _wrong(f"{where} arrayValue.values", items, "a list")
    intake.take_values(len(items or ()))
    return [_value(item, intake, where, depth + 1) for item in items or ()]


def _read_map(value: Any, intake: Intake, where: str, depth: int) -> dict[str, AttributeValue]:
    intake.check_depth(depth + 1)
    if not isinstance(value, dict):
        raise _wrong(f"{where} kvlistValue", value, "an object with values")
    return dict(_attributes(value, intake, where, "values", depth + 1))


_READERS = {
    "boolValue": _read_bool,
    "intValue": _read_int,
    "doubleValue": _read_double,
    "arrayValue": _read_list,
    "kvlistValue": _read_map,
    "bytesValue": _read_bytes,
}


def _objects(owner: _Object, key: str, where: str) -> list[Any]:
    found = owner.get(key)
    if found is None:
        return []
    if not isinstance(found, list):
        raise _wrong(f"{where}.{key}", found, "a list")
    for item in found:
        if not isinstance(item, dict):
            raise _wrong(f"{where}.{key}", item, "objects")
    return found


def _object(owner: _Object, key: str, where: str) -> _Object:
    found = owner.get(key)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise _wrong(f"{where}.{key}", found, "an object")
    return found


def _text(owner: _Object, key: str, intake: Intake, where: str) -> str:
    found = owner.get(key)
    if isinstance(found, str):
        return intake.text(found)
    if found is None:
        return ""
    raise _wrong(f"{where}.{key}", found, "a string")


def _id(owner: _Object, key: str, digits: int, where: str) -> str:
    """The id in lowercase hex; "" when it is missing, and as it is when it cannot be an id (refused later)."""
    found = owner.get(key)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise _wrong(f"{where}.{key}", found, f"{digits} hex digits")
    lowered = found.lower()
    return lowered if not lowered.strip("0123456789abcdef") else "not hex"


def _unsigned(owner: _Object, key: str, where: str) -> int:
    found = owner.get(key)
    return 0 if found is None else _integer(found, _UINT64, f"{where}.{key}")


def _integer(value: Any, accepted: range, where: str) -> int:
    number: int | None = None
    if isinstance(value, float) and value.is_integer():
        number = int(value)  # JavaScript writes 1.7e18
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,20}", value):
        number = int(value)
    if number is None or number not in accepted:
        raise _wrong(where, value, f"a whole number from {accepted.start} to {accepted.stop - 1}")
    return number


def _kind(value: Any, where: str) -> int:
    if isinstance(value, str) and not value.isdigit():
        return _KINDS.get(value, 0)
    return 0 if value is None else _integer(value, range(2**31), f"{where}.kind")


def _status(code: Any) -> str:
    return _STATUS.get(code, "unset") if isinstance(code, int | str) else "unset"
