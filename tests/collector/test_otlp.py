"""Decoding OTLP: the two encodings agree, bad spans are left out with a reason, hostile bodies are refused."""

from __future__ import annotations

import base64
import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import orjson
import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from groundwatch_collector.limits import REASON_OF_LIMIT, Limits, Reason, Rejected
from groundwatch_collector.otlp import Encoding, decode

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


def json_span(**changes: object) -> dict[str, object]:
    return {
        "traceId": TRACE,
        "spanId": SPAN,
        "name": "ask",
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
    } | changes


def json_body(*spans: object, resource: object = None) -> bytes:
    group = {"resource": resource or {}, "scopeSpans": [{"scope": {"name": "s"}, "spans": list(spans)}]}
    return json.dumps({"resourceSpans": [group]}).encode()


def attribute(key: str, **value: object) -> dict[str, object]:
    return {"key": key, "value": value}


def protobuf_span(**changes: Any) -> SpanMessage:
    return SpanMessage(
        **({"trace_id": bytes.fromhex(TRACE), "span_id": bytes.fromhex(SPAN), "name": "ask"} | changes)
    )


def protobuf_body(*spans: SpanMessage) -> bytes:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.extend(spans)
    return request.SerializeToString()


def refusal(body: bytes, encoding: Encoding, limits: Limits | None = None) -> Rejected:
    with pytest.raises(Rejected) as caught:
        decode(body, encoding, limits)
    return caught.value


def as_otlp_json(body: bytes) -> bytes:
    """The JSON twin of a protobuf body: protobuf's own JSON, with ids in hex as OTLP wants them."""
    document = MessageToDict(ExportTraceServiceRequest.FromString(body))
    for group in document.get("resourceSpans", []):
        for scope in group.get("scopeSpans", []):
            for span in scope.get("spans", []):
                for holder in (span, *span.get("links", [])):
                    for key in ("traceId", "spanId", "parentSpanId"):
                        if key in holder:
                            holder[key] = base64.b64decode(holder[key]).hex()
    return json.dumps(document, ensure_ascii=False).encode()


def recorded_by_the_sdk() -> bytes:
    """What the OpenTelemetry SDK itself sends for a small trace with everything in it."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.create({"service.name": "手册", "replicas": 3}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("scope", "1.2")
    with tracer.start_as_current_span("root", kind=SpanKind.SERVER) as root:
        root.set_attributes(
            {"text": "上传 limit?", "score": 0.5, "n": -7, "ok": True, "tags": ["a", "b"], "empty": ""}
        )
        with tracer.start_as_current_span("child", links=[Link(root.get_span_context(), {"why": "retry"})]) as child:
            child.add_event("chunk", {"index": 1})
            child.set_status(Status(StatusCode.ERROR, "no answer"))
    provider.shutdown()
    return encode_spans(exporter.get_finished_spans()).SerializeToString()


def test_the_two_encodings_of_what_the_sdk_sends_are_equal():
    body = recorded_by_the_sdk()
    binary, text = decode(body, "protobuf"), decode(as_otlp_json(body), "json")
    assert binary == text
    child, root = binary.spans
    assert root.attributes == {
        "text": "上传 limit?", "score": 0.5, "n": -7, "ok": True, "tags": ["a", "b"], "empty": "",
    }  # fmt: skip
    assert (root.parent_id, root.kind, root.scope_name, root.scope_version) == ("", 2, "scope", "1.2")
    assert root.resource["service.name"] == "手册"
    assert (child.status, child.status_message, child.parent_id) == ("error", "no answer", root.span_id)
    assert child.events[0].attributes == {"index": 1}
    assert (child.links[0].span_id, child.links[0].attributes) == (root.span_id, {"why": "retry"})


@pytest.mark.shared_data
def test_every_real_capture_decodes_whole_and_equal_in_both_encodings(shared_data: Path):
    captures = [
        p for p in (shared_data / "otlp").glob("*.pb") if p.name.count(".") == 1 or p.suffixes[0] in (".1", ".2")
    ]
    assert len(captures) > 100
    for capture in captures:
        body = capture.read_bytes()
        decoded = decode(body, "protobuf")
        expected = ExportTraceServiceRequest.FromString(body)
        spans = sum(len(s.spans) for r in expected.resource_spans for s in r.scope_spans)
        assert (len(decoded.spans), decoded.rejected) == (spans, {}), capture.name
        assert spans > 0, capture.name
        assert decode(as_otlp_json(body), "json") == decoded, capture.name


@pytest.mark.parametrize(("body", "encoding"), [(b"", "protobuf"), (b"{}", "json")])
def test_an_empty_message_is_an_empty_request(body, encoding):
    assert decode(body, encoding).spans == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"traceId": ""}, Reason.BAD_TRACE_ID),
        ({"traceId": "0" * 32}, Reason.BAD_TRACE_ID),
        ({"traceId": TRACE[:30]}, Reason.BAD_TRACE_ID),
        ({"traceId": "CvdlGRbNQ92ESOshHIAxnA=="}, Reason.BAD_TRACE_ID),  # base64, as plain protobuf JSON has it
        ({"traceId": "zz" * 16}, Reason.BAD_TRACE_ID),
        ({"traceId": None}, Reason.BAD_TRACE_ID),
        ({"spanId": "0" * 16}, Reason.BAD_SPAN_ID),
        ({"spanId": "12"}, Reason.BAD_SPAN_ID),
        ({"parentSpanId": "12"}, Reason.BAD_PARENT_ID),
        ({"attributes": [attribute("k", stringValue="v")] * 5}, Reason.TOO_MANY_ATTRIBUTES),
        (
            {"attributes": [attribute("k", arrayValue={"values": [{"arrayValue": {"values": []}}]})]},
            Reason.TOO_DEEP,
        ),
    ],
)
def test_one_bad_span_is_left_out_and_the_others_stay(changes, reason):
    limits = Limits(max_attributes_per_span=4, max_depth=1)
    decoded = decode(json_body(json_span(**changes), json_span()), "json", limits)
    assert [span.name for span in decoded.spans] == ["ask"]
    assert (decoded.rejected, decoded.rejected_spans, decoded.first_reason) == ({reason: 1}, 1, reason)
    assert decoded.rejection_message.startswith("1 of 2 spans refused: ")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"trace_id": b""}, Reason.BAD_TRACE_ID),
        ({"trace_id": bytes(16)}, Reason.BAD_TRACE_ID),
        ({"trace_id": b"x" * 17}, Reason.BAD_TRACE_ID),
        ({"span_id": bytes(8)}, Reason.BAD_SPAN_ID),
        ({"parent_span_id": b"abc"}, Reason.BAD_PARENT_ID),
        ({"attributes": [KeyValue(key="k")] * 5}, Reason.TOO_MANY_ATTRIBUTES),
        ({"events": [SpanMessage.Event()] * 5}, Reason.TOO_MANY_ATTRIBUTES),
        ({"links": [SpanMessage.Link()] * 5}, Reason.TOO_MANY_ATTRIBUTES),
    ],
)
def test_one_bad_protobuf_span_is_left_out_and_the_others_stay(changes, reason):
    limits = Limits(max_attributes_per_span=4)
    decoded = decode(protobuf_body(protobuf_span(**changes), protobuf_span()), "protobuf", limits)
    assert [span.name for span in decoded.spans] == ["ask"]
    assert decoded.rejected == {reason: 1}


def test_a_parent_id_of_zeros_is_a_root():
    assert decode(protobuf_body(protobuf_span(parent_span_id=bytes(8))), "protobuf").spans[0].parent_id == ""
    assert decode(json_body(json_span(parentSpanId="0" * 16)), "json").spans[0].parent_id == ""


def test_ids_in_upper_case_are_the_same_ids():
    assert decode(json_body(json_span(traceId=TRACE.upper())), "json").spans[0].trace_id == TRACE


def test_spans_of_one_trace_beyond_the_bound_are_refused():
    spans = [json_span(spanId=f"{n + 1:016x}") for n in range(5)]
    decoded = decode(json_body(*spans), "json", Limits(max_spans_per_trace=3))
    assert (len(decoded.spans), decoded.rejected) == (3, {Reason.TOO_MANY_SPANS_IN_TRACE: 2})


@pytest.mark.parametrize(
    ("value", "kept", "flags"),
    [
        ({"stringValue": "a\x00b"}, "ab", ("nul_stripped",)),
        ({"stringValue": "cut \ud83d here"}, "cut \ufffd here", ("surrogate_replaced",)),
        ({"stringValue": "😀 whole"}, "😀 whole", ()),
        ({"stringValue": "x" * 50}, "x" * 40, ("string_cut",)),
        ({"doubleValue": "NaN"}, None, ("nan_dropped",)),
        ({"doubleValue": "-Infinity"}, None, ("nan_dropped",)),
        ({"doubleValue": 1}, 1.0, ()),
        ({"intValue": "-9223372036854775808"}, -(2**63), ()),
        ({"intValue": 5}, 5, ()),
        ({"boolValue": False}, False, ()),
        ({"bytesValue": "AQI="}, b"\x01\x02", ()),
        ({"bytesValue": "_-8"}, b"\xff\xef", ()),
        ({"arrayValue": {}}, [], ()),
        ({"kvlistValue": {"values": [attribute("k", intValue="1"), {"key": "none"}]}}, {"k": 1, "none": None}, ()),
        ({}, None, ()),
        ({"aNewKind": 1}, None, ()),
    ],
)
def test_a_json_value_is_kept_or_mended_and_flagged(value, kept, flags):
    decoded = decode(json_body(json_span(attributes=[attribute("a", **value)])), "json", Limits(max_string_chars=40))
    assert decoded.spans[0].attributes == {"a": kept}
    assert decoded.spans[0].flags == flags
    assert decoded.mended == dict.fromkeys(flags, 1)


@pytest.mark.parametrize(
    ("value", "kept", "flags"),
    [
        (AnyValue(string_value="a\x00b"), "ab", ("nul_stripped",)),
        (AnyValue(string_value="x" * 50), "x" * 40, ("string_cut",)),
        (AnyValue(bytes_value=b"x" * 50), b"x" * 40, ("string_cut",)),
        (AnyValue(double_value=float("nan")), None, ("nan_dropped",)),
        (AnyValue(double_value=float("inf")), None, ("nan_dropped",)),
        (AnyValue(), None, ()),
        (AnyValue(string_value=""), "", ()),
        (AnyValue(int_value=0), 0, ()),
        (AnyValue(array_value=ArrayValue(values=[AnyValue(), AnyValue(string_value="")])), [None, ""], ()),
        (AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key="k")])), {"k": None}, ()),
    ],
)
def test_a_protobuf_value_is_kept_or_mended_and_flagged(value, kept, flags):
    body = protobuf_body(protobuf_span(attributes=[KeyValue(key="a", value=value)]))
    decoded = decode(body, "protobuf", Limits(max_string_chars=40))
    assert decoded.spans[0].attributes == {"a": kept}
    assert decoded.spans[0].flags == flags


def test_what_was_mended_in_the_resource_flags_each_of_its_spans():
    body = json_body(json_span(), json_span(), resource={"attributes": [attribute("a", stringValue="\x00")]})
    assert [span.flags for span in decode(body, "json").spans] == [("nul_stripped",)] * 2


@pytest.mark.parametrize(
    ("kind", "status", "expected"),
    [
        (2, 2, (2, "error")),
        ("SPAN_KIND_SERVER", "STATUS_CODE_ERROR", (2, "error")),
        ("SPAN_KIND_NEW", 77, (0, "unset")),
    ],
)
def test_enums_are_numbers_or_names(kind, status, expected):
    span = decode(json_body(json_span(kind=kind, status={"code": status})), "json").spans[0]
    assert (span.kind, span.status) == expected


def test_unknown_fields_are_ignored():
    body = orjson.loads(json_body(json_span(newField={"a": [1]})))
    assert len(decode(orjson.dumps(body | {"other": 1}), "json").spans) == 1


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"[]", "body: found list"),
        (b"null", "body: found NoneType"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"resourceSpans": NaN}', "not JSON"),
        (b'{"resourceSpans": NaN, "x": "\\ud800"}', "not JSON"),
        (b'{"resourceSpans": {}}', "body.resourceSpans: found dict, accepted: a list"),
        (b'{"resourceSpans": [1]}', "body.resourceSpans: found int, accepted: objects"),
        (b'{"resource_spans": []}', "accepted: resourceSpans"),
        (json_body(json_span(name=3)), "resourceSpans[0].scopeSpans[0].spans[0].name: found int"),
        (json_body(json_span(traceId=7)), "spans[0].traceId: found int"),
        (json_body(json_span(startTimeUnixNano="soon")), "startTimeUnixNano: found str, accepted: a whole number"),
        (json_body(json_span(startTimeUnixNano=-1)), "accepted: a whole number from 0"),
        (json_body(json_span(attributes=[attribute("a", intValue="9" * 20)])), "intValue"),
        (json_body(json_span(attributes=[attribute("a", intValue=True)])), "intValue"),
        (json_body(json_span(attributes=[attribute("a", doubleValue="many")])), "doubleValue"),
        (json_body(json_span(attributes=[attribute("a", bytesValue="?")])), "bytesValue"),
        (json_body(json_span(attributes=[attribute("a", stringValue=1)])), "stringValue"),
        (json_body(json_span(attributes=[attribute("a", arrayValue=[1])])), "arrayValue"),
        (json_body(json_span(attributes=[{"key": "a", "value": "bare"}])), "attribute value: found str"),
        (json_body(json_span(status="ok")), "spans[0].status: found str"),
    ],
)
def test_json_that_is_not_otlp_is_refused_and_the_place_is_named(body, named):
    error = refusal(body, "json")
    assert (error.reason, error.status) == (Reason.MALFORMED, 400)
    assert named in error.message


@pytest.mark.parametrize("name", ["resourceLogs", "resourceMetrics"])
def test_another_signal_is_not_taken_for_an_empty_request(name):
    assert refusal(json.dumps({name: []}).encode(), "json").reason == Reason.WRONG_SIGNAL


def test_a_message_never_repeats_what_was_sent():
    for body in (json_body(json_span(startTimeUnixNano="SECRET")), b'{"SECRET'):
        assert "SECRET" not in refusal(body, "json").message


@pytest.mark.parametrize("body", [b"\x0a", b"\x0a\x05abc", b"\xff" * 20, b"\x08", b"\x0b\x0c", b"\x09\x01", b"{}"])
def test_bytes_that_are_not_protobuf_are_refused(body):
    error = refusal(body, "protobuf")
    assert (error.reason, error.status) == (Reason.MALFORMED, 400)


def test_a_protobuf_body_cut_anywhere_is_refused_or_loses_nothing_silently():
    body = protobuf_body(protobuf_span(attributes=[KeyValue(key="k", value=AnyValue(string_value="v"))]))
    for cut in range(1, len(body)):
        assert refusal(body[:cut], "protobuf").reason == Reason.MALFORMED


def test_invalid_utf8_in_protobuf_text_is_refused():
    body = protobuf_body(protobuf_span(name="needle")).replace(b"needle", b"n\xff\xfedle")
    assert refusal(body, "protobuf").reason == Reason.MALFORMED


def nested(depth: int) -> AnyValue:
    value = AnyValue(string_value="leaf")
    for _ in range(depth):
        value = AnyValue(array_value=ArrayValue(values=[value]))
    return value


def nested_bytes(depth: int) -> bytes:
    """A span whose attribute nests *depth* lists, written by hand: protobuf itself refuses to."""
    raw = b""
    for _ in range(depth):
        inner = b"\x0a" + varint(len(raw)) + raw
        raw = b"\x2a" + varint(len(inner)) + inner
    pair = b"\x12" + varint(len(raw)) + raw
    return protobuf_span().SerializeToString() + b"\x4a" + varint(len(pair)) + pair


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def wrap(*spans: bytes) -> bytes:
    scope = b"".join(b"\x12" + varint(len(span)) + span for span in spans)
    group = b"\x12" + varint(len(scope)) + scope
    return b"\x0a" + varint(len(group)) + group


def test_nesting_up_to_the_bound_is_kept_and_one_more_is_refused():
    at_bound = protobuf_body(protobuf_span(attributes=[KeyValue(key="k", value=nested(16))]))
    beyond = protobuf_body(protobuf_span(attributes=[KeyValue(key="k", value=nested(17))]))
    assert decode(at_bound, "protobuf").rejected == {}
    assert decode(beyond, "protobuf").rejected == {Reason.TOO_DEEP: 1}


@pytest.mark.parametrize("depth", [60, 20_000])
def test_absurd_protobuf_nesting_is_refused(depth):
    body = wrap(nested_bytes(depth), protobuf_span().SerializeToString())
    try:
        assert decode(body, "protobuf").rejected == {Reason.TOO_DEEP: 1}
    except Rejected as refused:
        assert refused.reason == Reason.MALFORMED  # protobuf's own bound came first


@pytest.mark.parametrize("depth", [20, 900])
def test_deep_json_values_refuse_their_span(depth):
    value = '{"arrayValue":{"values":[' * (depth // 3) + "{}" + "]}}" * (depth // 3)
    body = json_body(json_span(attributes=[{"key": "k", "value": "@"}])).replace(b'"@"', value.encode())
    assert decode(body, "json", Limits(max_depth=4)).rejected == {Reason.TOO_DEEP: 1}


@pytest.mark.parametrize("prefix", [b"", b'{"x": "\\ud800", "resourceSpans": '])
def test_absurd_json_nesting_is_refused(prefix):
    error = refusal(prefix + b"[" * 100_000, "json")
    assert (error.reason, error.status) == (Reason.MALFORMED, 400)


@pytest.mark.parametrize(
    "body",
    [
        wrap(*[b""] * 300_000),
        b"\x0a\x00" * 300_000,  # groups without spans
        b"\x08\x00" * 300_000,  # fields that nobody knows
    ],
    ids=["empty spans", "empty groups", "unknown fields"],
)
def test_a_flood_of_spans_is_refused_before_objects_are_kept(body):
    decode(protobuf_body(protobuf_span()), "protobuf")
    tracemalloc.start()
    error = refusal(body, "protobuf")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (error.reason, error.status) == (Reason.TOO_MANY_SPANS, 400)
    assert peak < 40 * 1024 * 1024


def test_a_flood_of_json_spans_is_refused():
    assert refusal(json_body(*[{}] * 20_000), "json").reason == Reason.TOO_MANY_SPANS


@pytest.mark.parametrize(
    "raw",
    [
        protobuf_span().SerializeToString() + b"\x4a\x00" * 1_000_000,
        protobuf_span().SerializeToString() + b"\x5a\x00" * 1_000_000,
        protobuf_span(
            attributes=[KeyValue(key="k", value=AnyValue(array_value=ArrayValue(values=[AnyValue()] * 1_000_000)))]
        ).SerializeToString(),
    ],
    ids=["attributes", "events", "list items"],
)
def test_a_million_values_in_a_span_refuse_it_quickly(raw):
    body = wrap(raw, protobuf_span().SerializeToString())
    started = time.process_time()
    decoded = decode(body, "protobuf")
    assert (len(decoded.spans), decoded.rejected) == (1, {Reason.TOO_MANY_ATTRIBUTES: 1})
    assert time.process_time() - started < 2


def test_a_million_json_values_are_refused():
    body = json_body(json_span(attributes=[{"key": "k"}] * 1_000_000))
    assert refusal(body, "json").reason == Reason.TOO_MANY_VALUES


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
def test_values_of_all_spans_together_have_a_bound(encoding):
    limits = Limits(max_values_per_request=10)
    spans = [protobuf_span(attributes=[KeyValue(key="k")] * 6)] * 2
    body = protobuf_body(*spans)
    assert (
        refusal(body if encoding == "protobuf" else as_otlp_json(body), encoding, limits).reason == "too_many_values"
    )


def test_a_span_of_real_text_may_be_large():
    """The count that comes before parsing must not refuse what is only long."""
    pairs = [KeyValue(key=f"k{n}", value=AnyValue(string_value="文" * 200)) for n in range(4096)]
    decoded = decode(protobuf_body(protobuf_span(attributes=pairs)), "protobuf")
    assert len(decoded.spans[0].attributes) == 4096


def test_too_many_resource_attributes_refuse_the_request():
    body = json_body(json_span(), resource={"attributes": [attribute("k")] * 5})
    assert refusal(body, "json", Limits(max_attributes_per_span=4)).reason == Reason.TOO_MANY_ATTRIBUTES


def test_a_body_beyond_the_bound_is_refused_before_it_is_read():
    error = refusal(b"x" * 11, "json", Limits(max_decompressed_bytes=10))
    assert (error.reason, error.status) == (Reason.TOO_LARGE, 413)


def test_every_limit_has_a_word_for_the_counter():
    assert set(REASON_OF_LIMIT) == set(Limits.__dataclass_fields__)


@pytest.mark.parametrize("name", sorted(Limits.__dataclass_fields__))
def test_a_limit_of_nothing_is_refused(name):
    with pytest.raises(ValueError, match=name):
        Limits(**{name: 0})


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400), st.sampled_from(["protobuf", "json"]))
def test_any_bytes_are_decoded_or_refused(body, encoding):
    try:
        decode(body, encoding)
    except Rejected as refused:
        assert 400 <= refused.status < 500


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
SPAN_FIELDS = ("traceId", "spanId", "parentSpanId", "name", "kind", "status", "events", "links", "startTimeUnixNano")
VALUE_FIELDS = ("stringValue", "intValue", "doubleValue", "boolValue", "arrayValue", "kvlistValue", "bytesValue")
FIELDS = (*SPAN_FIELDS, *VALUE_FIELDS, "attributes", "traceState", "key", "value", "values")
OTLP_LIKE = st.recursive(
    ANY_JSON, lambda inner: st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4) | st.lists(inner, max_size=3)
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(FIELDS), OTLP_LIKE, max_size=6))
def test_any_json_where_a_span_is_expected_is_decoded_or_refused(span):
    try:
        decoded = decode(json_body(json_span() | span), "json")
        assert len(decoded.spans) + decoded.rejected_spans == 1
    except Rejected as refused:
        assert refused.status == 400


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_real_body_with_bytes_changed_is_decoded_or_refused(data):
    body = bytearray(REAL)
    for _ in range(data.draw(st.integers(1, 8))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(body), "protobuf")
    except Rejected as refused:
        assert refused.status == 400


REAL = recorded_by_the_sdk()
