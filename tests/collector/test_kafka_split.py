"""One request into messages of one trace each: no span lost, none changed, none too large."""

from __future__ import annotations

import re
from collections import Counter

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from groundwatch_collector import otlp
from groundwatch_collector.kafka_split import split
from groundwatch_collector.limits import Limits, Reason, Rejected
from groundwatch_collector.project_stamp import stamped, unstamped

LIMITS = Limits()
MANY = 1_000_000


def request(groups: list[list[tuple[int, int]]], text: str = "Wie groß? 多大?") -> ExportTraceServiceRequest:
    """Each group is a resource with a scope; each entry of it a span of (trace, span)."""
    message = ExportTraceServiceRequest()
    for number, spans in enumerate(groups):
        resource = message.resource_spans.add(schema_url=f"schema-{number}")
        resource.resource.attributes.add(key="service.name").value.string_value = f"service {number}"
        scope = resource.scope_spans.add(schema_url="scope-schema")
        scope.scope.name = f"scope {number}"
        for trace, span in spans:
            made = scope.spans.add(
                trace_id=trace.to_bytes(16, "big"), span_id=span.to_bytes(8, "big"), name=f"{trace}-{span}"
            )
            made.attributes.add(key="text").value.string_value = text
    return message


def as_json(message: ExportTraceServiceRequest) -> bytes:
    """OTLP's JSON of *message*: ids in hex."""
    return orjson.dumps(
        {
            "resourceSpans": [
                {
                    "schemaUrl": resource.schema_url,
                    "resource": {"attributes": [_pair(pair) for pair in resource.resource.attributes]},
                    "scopeSpans": [
                        {
                            "scope": {"name": scope.scope.name},
                            "spans": [
                                {
                                    "traceId": span.trace_id.hex(),
                                    "spanId": span.span_id.hex(),
                                    "name": span.name,
                                    "attributes": [_pair(pair) for pair in span.attributes],
                                }
                                for span in scope.spans
                            ],
                        }
                        for scope in resource.scope_spans
                    ],
                }
                for resource in message.resource_spans
            ]
        }
    )


def _pair(pair):
    return {"key": pair.key, "value": {"stringValue": pair.value.string_value}}


def spans_of(body: bytes, encoding: otlp.Encoding) -> Counter[str]:
    return Counter(repr(span) for span in otlp.decode(body, encoding).spans)


GROUPS = st.lists(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 2**64 - 1)), max_size=8), max_size=4)


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
@settings(max_examples=60, deadline=None)
@given(groups=GROUPS, most=st.sampled_from([MANY, 700]))
def test_the_pieces_together_are_the_request(encoding, groups, most):
    message = request(groups)
    body = message.SerializeToString() if encoding == "protobuf" else as_json(message)
    found = split(f"otlp_{encoding}", body, most, LIMITS)
    together: Counter[str] = Counter()
    for piece in found.pieces:
        decoded = otlp.decode(piece.body, encoding).spans
        assert {span.trace_id for span in decoded} == {piece.trace_id}
        assert len(piece.body) <= most
        together += Counter(repr(span) for span in decoded)
    assert together == spans_of(body, encoding)


def test_one_trace_that_fits_is_passed_on_as_it_came():
    body = request([[(1, 1), (1, 2)]]).SerializeToString()
    assert split("otlp_protobuf", body, MANY, LIMITS).pieces[0].body is body


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
def test_each_piece_carries_the_project_of_the_request(encoding):
    message = request([[(1, 1), (2, 2)]])
    body = message.SerializeToString() if encoding == "protobuf" else as_json(message)
    pieces = split(f"otlp_{encoding}", stamped(body, encoding, "shop"), MANY, LIMITS).pieces
    assert [unstamped(piece.body, encoding)[1] for piece in pieces] == ["shop", "shop"]


@pytest.mark.parametrize("groups", [[[(1, 1), (2, 2)]], [[(1, 1)]]])
def test_a_project_that_others_wrote_on_the_topic_is_not_believed(groups):
    body = stamped(request(groups).SerializeToString(), "protobuf", "shop")
    for piece in split("otlp_protobuf", body, MANY, LIMITS, trusted=False).pieces:
        assert unstamped(piece.body, "protobuf")[1] == ""


def test_a_span_that_no_message_can_hold_is_refused_by_name():
    body = request([[(1, 1), (2, 2)]], text="x" * 2000).SerializeToString()
    with pytest.raises(Rejected, match=re.escape("max_message_bytes")) as refusal:
        split("otlp_protobuf", body, 1500, LIMITS)
    assert (refusal.value.reason, refusal.value.status) == (Reason.TOO_LARGE, 413)


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
def test_spans_without_a_trace_are_counted(encoding):
    message = request([[(0, 1), (2, 2)]])
    body = message.SerializeToString() if encoding == "protobuf" else as_json(message)
    found = split(f"otlp_{encoding}", body, MANY, LIMITS)
    assert (len(found.pieces), found.refused_spans) == (1, 1)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("otlp_protobuf", b"\xff\xff"),
        ("otlp_protobuf", b"\x0a\xff"),
        ("otlp_json", b"{"),
        ("otlp_json", b"7"),
        ("otlp_json", b'{"resourceSpans": 7}'),
        ("otlp_json", b'{"resourceSpans": [7]}'),
    ],
)
def test_what_is_not_otlp_is_refused(kind, body):
    with pytest.raises(Rejected):
        split(kind, body, MANY, LIMITS)


@settings(max_examples=200, deadline=None)
@given(body=st.binary(max_size=200), kind=st.sampled_from(["otlp_protobuf", "otlp_json"]))
def test_no_bytes_at_all_do_more_than_be_refused(body, kind):
    try:
        split(kind, body, MANY, LIMITS)
    except Rejected:
        return


def test_half_an_emoji_stays_what_it_was():
    body = as_json(request([[(1, 1), (2, 2)]])).replace(b"\xe5\xa4\x9a", b"\\ud83d")
    for piece in split("otlp_json", body, MANY, LIMITS).pieces:
        (span,) = otlp.decode(piece.body, "json").spans
        assert span.flags == ("surrogate_replaced",)
