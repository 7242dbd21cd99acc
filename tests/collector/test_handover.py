"""What was just written reaches the pipeline with its spans; what is not there is read from the disk."""

from __future__ import annotations

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from groundwatch_collector import otlp
from groundwatch_collector.handover import Handover
from groundwatch_collector.log_segments import LogRecord
from groundwatch_collector.project_stamp import stamped
from groundwatch_collector.spanlog import SpanLog


def record(position: int, size: int = 10) -> LogRecord:
    return LogRecord(position, position + size, "otlp_protobuf", 1.0, bytes(size), ())


def held(*positions: int, most: int = 1000) -> Handover:
    handover = Handover(most)
    for position in positions:
        handover.put(record(position))
    return handover


def test_records_are_given_once_and_in_their_order():
    handover = held(0, 10, 20)
    assert [r.position for r in handover.take(0, 2)] == [0, 10]
    assert handover.take(0, 2) == []
    assert [r.position for r in handover.take(20, 2)] == [20]
    assert handover.size_bytes == 0


def test_nothing_is_skipped_over_a_gap():
    handover = held(0, 20)
    assert [r.position for r in handover.take(0, 9)] == [0]
    assert handover.take(10, 9) == []


def test_when_it_is_full_the_oldest_stay():
    handover = held(0, 10, 20, most=25)
    assert handover.size_bytes == 20
    assert [r.position for r in handover.take(0, 9)] == [0, 10]


def test_what_was_read_elsewhere_makes_room():
    handover = held(0, 10, 20, most=30)
    handover.drop_before(20)
    handover.put(record(30))
    assert [r.position for r in handover.take(20, 9)] == [20, 30]


@pytest.fixture
def log(tmp_path):
    with SpanLog(tmp_path / "log") as opened:
        yield opened


def body(make, encoding: str) -> bytes:
    if encoding == "json":
        return make.otlp_json(make.request())
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.scope_spans.add().spans.add(trace_id=b"t" * 16, span_id=b"s" * 8, name="request")
    return request.SerializeToString()


def test_the_second_reading_is_from_the_disk_and_says_the_same(log, make):
    sent = body(make, "json")
    spans = otlp.decode(sent, "json").spans
    log.append("otlp_json", sent, spans).result(5)
    first, second = log.read(0, 10), log.read(0, 10)
    assert first == second
    assert first[0].spans is spans
    assert second[0].spans is None


def test_a_record_without_spans_between_others_is_read_too(log):
    for spans in ((), None, ()):
        log.append("otlp_protobuf", b"x", spans).result(5)
    position, seen = 0, []
    while records := log.read(position, 1):
        seen.append(records[0].spans)
        position = records[0].next_position
    assert seen == [(), None, ()]


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
def test_spans_that_are_handed_over_are_those_that_decoding_again_gives(make, encoding):
    sent = body(make, encoding)
    handed = otlp.decode(sent, encoding, project="team-a").spans
    again = otlp.decode(stamped(sent, encoding, "team-a"), encoding).spans
    assert handed == again
    assert handed[0].resource != otlp.decode(sent, encoding).spans[0].resource
