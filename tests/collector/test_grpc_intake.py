"""The gRPC door: the same promises as over HTTP, kept with the real exporter and with hostile callers."""

from __future__ import annotations

import gzip
import hashlib
import socket
import threading
import time
import zlib
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from prometheus_client import CollectorRegistry

from groundwatch_collector.grpc_intake import GrpcServer
from groundwatch_collector.intake_door import IntakeDoor
from groundwatch_collector.intake_keys import IngestKeys
from groundwatch_collector.intake_metrics import IntakeMetrics
from groundwatch_collector.limits import Limits
from groundwatch_collector.otlp import decode
from groundwatch_collector.spanlog import SpanLog

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
MIB = 1024 * 1024
KEY = "gwk_test"
KEY_LINE = f"shop:{hashlib.sha256(KEY.encode()).hexdigest()}"


def body(*span_ids: bytes, name: str = "ask") -> bytes:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for span_id in span_ids or (b"12345678",):
        spans.add(trace_id=bytes(range(16)), span_id=span_id, name=name)
    return request.SerializeToString()


class Door:
    def __init__(self, url: str, log: SpanLog, registry: CollectorRegistry) -> None:
        self.url, self.log, self.registry = url, log, registry

    def call(self, message: bytes, method: str = EXPORT, compression=None, metadata=(), timeout: float = 20):
        with grpc.insecure_channel(self.url.partition("//")[2]) as channel:
            return channel.unary_unary(method)(message, timeout=timeout, compression=compression, metadata=metadata)

    def refused(self, message: bytes, **options) -> grpc.RpcError:
        with pytest.raises(grpc.RpcError) as caught:
            self.call(message, **options)
        return caught.value

    def count(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


@contextmanager
def opened(directory, limits: Limits | None = None, keys=(), **options):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    registry = CollectorRegistry()
    with SpanLog(directory, group_seconds=0, **options) as log:
        door = IntakeDoor(log, limits or Limits(), IntakeMetrics(registry), IngestKeys(keys))
        server = GrpcServer(door, "127.0.0.1", port)
        server.start()
        try:
            yield Door(server.url, log, registry)
        finally:
            server.stop()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("grpc") / "log", keys=(KEY_LINE,)) as door:
        yield door


AUTHORIZED = (("authorization", f"Bearer {KEY}"),)


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_the_real_exporter_is_heard_and_acknowledged_once_durable(tmp_path, compression):
    with opened(tmp_path / "log", keys=(KEY_LINE,)) as door:
        exporter = OTLPSpanExporter(
            endpoint=door.url, insecure=True, headers={"authorization": f"Bearer {KEY}"}, compression=compression
        )
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        with provider.get_tracer("app").start_as_current_span("ask") as span:
            span.set_attribute("input.value", "为什么? " * 500)
        provider.shutdown()
        (record,) = door.log.records()
        (kept,) = decode(record.body, "protobuf").spans
        assert record.kind == "otlp_protobuf"
        assert kept.attributes["input.value"] == "为什么? " * 500
        assert kept.resource["groundwatch.project"] == "shop"
        assert door.count("groundwatch_received_requests_total", signal="traces", encoding="protobuf") == 1
        assert door.count("groundwatch_project_requests_total", project="shop") == 1


def test_a_bad_span_is_reported_as_partial_success(shared):
    answer = ExportTraceServiceResponse.FromString(shared.call(body(b"12345678", b"short"), metadata=AUTHORIZED))
    assert answer.partial_success.rejected_spans == 1
    assert "1 of 2 spans refused: span id missing" in answer.partial_success.error_message


def test_an_empty_request_is_good(shared):
    assert shared.call(b"", metadata=AUTHORIZED) == b""


@pytest.mark.parametrize("metadata", [(), (("authorization", "Bearer no"),), (("authorization", f"Basic {KEY}"),)])
def test_without_the_key_nothing_is_read(shared, metadata):
    before = shared.count("groundwatch_rejected_requests_total", reason="unauthorized")
    error = shared.refused(body(), metadata=metadata)
    assert error.code() == grpc.StatusCode.UNAUTHENTICATED
    assert error.details() == "an ingest key is needed: Authorization: Bearer KEY"
    assert shared.count("groundwatch_rejected_requests_total", reason="unauthorized") == before + 1


@pytest.mark.parametrize(
    ("message", "code", "reason", "says"),
    [
        (body()[:-3], grpc.StatusCode.INVALID_ARGUMENT, "malformed", "not a protobuf"),
        (body(b"short"), grpc.StatusCode.INVALID_ARGUMENT, "bad_span_id", "1 of 1 spans refused"),
        (gzip.compress(gzip.compress(body())), grpc.StatusCode.INVALID_ARGUMENT, "malformed", "still gzip"),
        (gzip.compress(body())[:-9], grpc.StatusCode.INVALID_ARGUMENT, "bad_gzip", "ends in the middle"),
        (body(*[b"12345678"] * 17_000), grpc.StatusCode.INVALID_ARGUMENT, "too_many_spans", "smaller batches"),
    ],
    ids=["cut", "bad span", "gzip twice", "cut gzip", "too many spans"],
)
def test_what_would_fail_again_is_refused_for_good_and_counted(shared, message, code, reason, says):
    before = shared.count("groundwatch_rejected_requests_total", reason=reason)
    error = shared.refused(message, metadata=AUTHORIZED)
    assert error.code() == code
    assert says in error.details()
    assert "google.rpc.retryinfo-bin" not in dict(error.trailing_metadata())
    assert shared.count("groundwatch_rejected_requests_total", reason=reason) == before + 1


def bomb(mebibytes: int) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return b"".join([*(packer.compress(bytes(MIB)) for _ in range(mebibytes)), packer.flush()])


def peak_kib() -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells and resets the peak")
def test_a_gzip_bomb_is_refused_without_being_unpacked(shared):
    packed = bomb(300)
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = peak_kib()
    error = shared.refused(packed, metadata=AUTHORIZED)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "accepted: up to 20971520 bytes unpacked" in error.details()
    assert (peak_kib() - before) / 1024 < 60  # of 300


def test_a_bomb_that_grpc_itself_packed_is_not_unpacked_by_grpc(shared):
    error = shared.refused(bytes(30 * MIB), metadata=AUTHORIZED, compression=grpc.Compression.Gzip)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT  # ours: gRPC says RESOURCE_EXHAUSTED
    assert "accepted: up to 20971520 bytes unpacked" in error.details()


def test_a_message_beyond_the_bound_is_not_taken_and_counted(shared):
    before = shared.count("groundwatch_rejected_requests_total", reason="compressed_too_large")
    error = shared.refused(bytes(9 * MIB), metadata=AUTHORIZED)
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    deadline = time.monotonic() + 10
    while shared.count("groundwatch_rejected_requests_total", reason="compressed_too_large") == before:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_another_compression_is_named_as_unknown(shared):
    assert shared.refused(body(), metadata=AUTHORIZED, compression=grpc.Compression.Deflate).code() == (
        grpc.StatusCode.UNIMPLEMENTED
    )


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("/opentelemetry.proto.collector.logs.v1.LogsService/Export", "wrong_signal"),
        ("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", "wrong_signal"),
        ("/groundwatch.Console/Read", "not_found"),
    ],
)
def test_a_key_opens_no_other_method(shared, method, reason):
    before = shared.count("groundwatch_rejected_requests_total", reason=reason)
    assert shared.refused(b"", method=method, metadata=AUTHORIZED).code() == grpc.StatusCode.UNIMPLEMENTED
    assert shared.count("groundwatch_rejected_requests_total", reason=reason) == before + 1


def retry_seconds(error: grpc.RpcError) -> int:
    metadata = dict(error.trailing_metadata())
    info = RetryInfo()
    assert Status.FromString(metadata["grpc-status-details-bin"]).details[0].Unpack(info)
    assert RetryInfo.FromString(metadata["google.rpc.retryinfo-bin"]) == info
    return int(info.retry_delay.seconds)


def test_a_full_log_asks_to_send_again_later(tmp_path):
    with opened(tmp_path / "log", max_bytes=4096) as door:
        error = door.refused(body(name="x" * 8000))
        assert (error.code(), retry_seconds(error)) == (grpc.StatusCode.UNAVAILABLE, 5)
        assert list(door.log.records()) == []


def test_too_many_bytes_in_hand_ask_to_send_again_soon(tmp_path):
    with opened(tmp_path / "log", Limits(max_concurrent_bytes=1000)) as door:
        error = door.refused(body(name="x" * 8000))
        assert (error.code(), retry_seconds(error)) == (grpc.StatusCode.RESOURCE_EXHAUSTED, 1)
        assert door.call(body()) == b""
        assert door.count("groundwatch_intake_in_flight_bytes") == 0


def test_a_sender_that_never_finishes_is_sent_away(tmp_path):
    with opened(tmp_path / "log", Limits(body_timeout_seconds=0.2)) as door:
        hold = threading.Event()

        def never():
            hold.wait(20)
            yield b""

        with grpc.insecure_channel(door.url.partition("//")[2]) as channel:
            with pytest.raises(grpc.RpcError) as caught:
                channel.stream_unary(EXPORT)(never(), timeout=20)
            hold.set()
        assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        assert "not complete after 0.2 seconds" in caught.value.details()
        assert door.count("groundwatch_rejected_requests_total", reason="body_timeout") == 1


def test_many_calls_at_once_are_each_kept(tmp_path):
    with opened(tmp_path / "log") as door, grpc.insecure_channel(door.url.partition("//")[2]) as channel:
        call = channel.unary_unary(EXPORT)
        futures = [call.future(body(b"%08d" % n), timeout=30) for n in range(1, 301)]
        assert [future.result() for future in futures] == [b""] * 300
        ids = {span.span_id for r in door.log.records() for span in decode(r.body, "protobuf").spans}
        assert len(ids) == 300


def test_a_port_in_use_is_reported(tmp_path):
    with opened(tmp_path / "log") as door:
        door_in_use = int(door.url.rpartition(":")[2])
        with SpanLog(tmp_path / "other") as log:
            other = IntakeDoor(log, Limits(), IntakeMetrics(CollectorRegistry()), IngestKeys())
            with pytest.raises(RuntimeError, match="did not start"):
                GrpcServer(other, "127.0.0.1", door_in_use).start()
