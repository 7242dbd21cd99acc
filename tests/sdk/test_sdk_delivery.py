"""Sending, and what happens when that fails."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import itertools
import logging
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

import groundwatch
from groundwatch import client, names, worker
from groundwatch.delivery import host_and_port
from groundwatch.lane import FULL_BATCH, Lane
from groundwatch.records import RequestRecord


def ask(n=1, **settings):
    for i in range(n):
        with groundwatch.request(f"q{i}") as r:
            r.answer("a")


def lane_of_client():
    assert client._client is not None
    return client._client.lane


@pytest.fixture
def closed_port():
    """An address at which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def silent_port():
    """An address that accepts and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_before_configure_nothing_happens(caplog):
    for _ in range(3):
        with groundwatch.request("q") as r:
            assert r.trace_id == ""
            assert groundwatch.current() is r
            r.candidates([{"id": "a"}])
            with r.stage("answer") as s:
                s.text("a")
                s.documents([])
            r.outcome("nonsense")
            r.retry("x", ValueError())
            r.first_token()
        groundwatch.feedback("0" * 31 + "1", score=1)
    assert groundwatch.flush() == groundwatch.FlushResult(0, 0, 0)
    assert groundwatch.stats() == groundwatch.Stats(internal_errors=groundwatch.stats().internal_errors)
    assert [record.message for record in caplog.records] == [
        "groundwatch: configure() was not called; nothing is recorded"
    ]
    assert r._record.stages == []


def test_configure_without_an_endpoint_says_so_once(caplog):
    groundwatch.configure(service="s")
    ask(3)
    assert [record.message for record in caplog.records] == [
        "groundwatch: nothing is recorded: no endpoint is configured; pass endpoint= or set GROUNDWATCH_ENDPOINT"
    ]


def test_flush_tells_what_was_sent(configured):
    ask(3)
    assert groundwatch.flush(10) == groundwatch.FlushResult(sent=3, dropped=0, pending=0)
    assert groundwatch.flush(10) == groundwatch.FlushResult(sent=0, dropped=0, pending=0)
    assert groundwatch.stats().sent == 3


def test_requests_leave_without_a_flush(configured):
    ask()
    lane = lane_of_client()
    with lane.changed:
        assert lane.changed.wait_for(lambda: lane.sent == 1, timeout=10)


def test_many_requests_go_out_in_batches(configured):
    ask(500)
    assert groundwatch.flush(20).sent == 500
    assert len({root.trace_id for root in configured.roots()}) == 500
    assert configured.asked <= 20


def test_batches_are_split_by_bytes(receiver):
    groundwatch.configure(service="s", endpoint=receiver.url, capture_content="text", max_batch_bytes=20_000)
    for _ in range(10):
        with groundwatch.request("q" * 15_000):
            pass
    groundwatch.flush(10)
    assert max(len(body) for _path, body in receiver.bodies) < 40_000
    assert len(receiver.roots()) == 10


def test_gzip(receiver):
    groundwatch.configure(service="s", endpoint=receiver.url, compression="gzip")
    ask()
    groundwatch.flush(10)
    assert receiver.headers[0]["content-encoding"] == "gzip"
    assert len(receiver.roots()) == 1


def test_an_absent_receiver_costs_nothing_but_one_line(closed_port, caplog):
    groundwatch.configure(service="s", endpoint=closed_port, export_timeout_seconds=0.2, queue_size=50)
    caplog.set_level(logging.DEBUG, logger="opentelemetry")
    ask(200)
    began = time.monotonic()
    results = [groundwatch.flush(5) for _ in range(3)]
    assert time.monotonic() - began < 5
    assert results[-1].pending == 50
    stats = groundwatch.stats()
    assert (stats.sent, stats.pending, stats.dropped) == (0, 50, {"queue_full": 150})
    assert stats.failed_exports >= 3
    assert [r.message for r in caplog.records if r.name.startswith(("groundwatch", "opentelemetry"))] == [
        f"groundwatch: requests cannot be sent to {closed_port.removeprefix('http://')} (connection refused); "
        "waiting and trying again"
    ]


def test_the_log_names_the_receiver_without_what_may_be_a_key_of_it():
    assert host_and_port("https://user:secret@otlp.example:443/token/v1/traces?key=1") == "otlp.example:443"
    assert host_and_port("user:secret@otlp.example:4317") == "otlp.example:4317"


def test_flush_keeps_its_time_with_a_silent_receiver(silent_port):
    groundwatch.configure(service="s", endpoint=silent_port, export_timeout_seconds=30)
    ask()
    began = time.monotonic()
    result = groundwatch.flush(0.3)
    assert time.monotonic() - began < 2
    assert (result.sent, result.pending) == (0, 1)


def test_a_queue_is_bounded_in_bytes(silent_port):
    groundwatch.configure(service="s", endpoint=silent_port, capture_content="text", queue_bytes=1_000_000)
    for _ in range(100):
        with groundwatch.request("q") as r:
            r.candidates([{"id": "a", "content": "x" * 100_000}])
    stats = groundwatch.stats()
    assert stats.pending_bytes <= 1_000_000
    assert stats.pending + stats.dropped["queue_bytes"] == 100


def test_losses_ride_on_the_next_root(receiver):
    groundwatch.configure(service="s", endpoint=receiver.url, queue_size=10)
    receiver.statuses = [503]
    ask(30)
    groundwatch.flush(5)
    assert groundwatch.flush(5).pending == 0
    ask()
    assert groundwatch.flush(5).sent == 1
    stats = groundwatch.stats()
    assert stats.sent + stats.dropped["queue_full"] == 31
    assert receiver.roots()[-1][names.DROPPED_BY_SDK] == stats.dropped["queue_full"] > 0


def test_a_busy_receiver_is_tried_again_and_nothing_is_lost(configured, caplog):
    configured.statuses = [503, 429, 500]
    ask(5)
    for _ in range(4):
        groundwatch.flush(5)
    assert groundwatch.stats().sent == 5
    assert len(configured.roots()) == 5
    assert [r.message for r in caplog.records if r.name == "groundwatch"] == [
        f"groundwatch: requests cannot be sent to {configured.url.removeprefix('http://')} (HTTP 503); "
        "waiting and trying again",
        "groundwatch: requests are sent again (lost in this process: 0)",
    ]


class ClosingReceiver(BaseHTTPRequestHandler):
    """Keeps each connection for one request and closes it under the second, as a server does with an idle one."""

    protocol_version = "HTTP/1.1"
    answered = False
    closed_under: list[str] = []  # noqa: RUF012 (one for all connections)

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        if self.answered:
            self.close_connection = True
            self.closed_under.append(self.path)
            return
        self.answered = True
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_args):
        pass


def test_a_connection_closed_between_batches_costs_nothing(caplog):
    """Sent again at once on a new one: not a failure, no pause."""
    with ThreadingHTTPServer(("127.0.0.1", 0), ClosingReceiver) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        groundwatch.configure(service="s", endpoint=f"http://127.0.0.1:{server.server_port}")
        for _ in range(3):
            ask()
            assert groundwatch.flush(10).pending == 0
        assert groundwatch.stats().sent == 3
        assert ClosingReceiver.closed_under == ["/v1/traces"] * 2
        assert groundwatch.stats().failed_exports == 0
        assert not caplog.records
        groundwatch.shutdown()
        server.shutdown()


def test_the_worker_tries_again_by_itself(configured, monkeypatch):
    monkeypatch.setattr(worker, "FIRST_PAUSE_SECONDS", 0.001)
    configured.statuses = [503, 503]
    ask()
    lane = lane_of_client()
    with lane.changed:
        assert lane.changed.wait_for(lambda: lane.sent == 1, timeout=10)


@pytest.mark.parametrize("status", [302, 400, 401, 404, 413])
def test_a_refusal_is_a_counted_loss(configured, caplog, status):
    """A redirect too: the exporter takes one for success."""
    configured.statuses = [status] * 10
    ask()
    result = groundwatch.flush(5)
    assert (result.sent, result.dropped, result.pending) == (0, 1, 0)
    assert groundwatch.stats().dropped == {"refused": 1}
    assert f"HTTP {status}" in caplog.text


def test_one_bad_request_does_not_take_its_batch_along(configured):
    configured.statuses = [400, 200, 400]  # the batch, then one by one
    ask(3)
    result = groundwatch.flush(5)
    assert (result.sent, result.dropped) == (2, 1)
    assert [root[names.QUERY] for root in configured.roots()] == ["q0", "q2"]


def test_only_our_headers_are_sent(receiver, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-vendor-key=secret,x-own=theirs")
    groundwatch.configure(service="s", endpoint=receiver.url, headers={"X-Own": "ours"})
    ask()
    groundwatch.feedback("1" * 32, score=1)
    groundwatch.flush(5)
    assert len(receiver.headers) == 2
    for headers in receiver.headers:
        assert headers["x-own"] == "ours"
        assert "x-vendor-key" not in headers


def test_exporting_is_hidden_from_the_hosts_instrumentation(configured, monkeypatch):
    import requests
    from opentelemetry import context

    seen = []
    real = requests.Session.send

    def send(self, *args, **kwargs):
        seen.append(context.get_value(context._SUPPRESS_INSTRUMENTATION_KEY))
        return real(self, *args, **kwargs)

    monkeypatch.setattr(requests.Session, "send", send)
    ask()
    groundwatch.flush(5)
    assert seen == [True]
    assert context.get_value(context._SUPPRESS_INSTRUMENTATION_KEY) is None


def test_a_defect_of_ours_costs_one_request_and_is_counted(configured, monkeypatch, caplog):
    from groundwatch import quiet, spans

    quiet._told.add("expected_internal_error")
    real = spans.SpanBuilder.build

    def build(self, record, dropped):
        if record.query == "q1":
            raise ZeroDivisionError("personal data")
        return real(self, record, dropped)

    monkeypatch.setattr(spans.SpanBuilder, "build", build)
    ask(3)
    assert groundwatch.flush(5).pending == 0
    assert groundwatch.stats().dropped == {"internal_error": 1}
    assert len(configured.roots()) == 2
    assert "personal data" not in caplog.text


def test_a_redact_function_that_exits_does_not_end_the_worker(receiver):
    from groundwatch import quiet

    quiet._told.add("expected_internal_error")

    def redact(text):
        if text == "q1":
            raise SystemExit
        return text

    groundwatch.configure(service="s", endpoint=receiver.url, capture_content="text", redact=redact)
    ask(3)
    assert groundwatch.flush(5).pending == 0
    ask(1)
    assert groundwatch.flush(5).sent == 1


def test_configuring_again_sends_what_waits_to_where_it_was_meant(receiver, configured):
    with groundwatch.request("open across") as r:
        former = lane_of_client()
        groundwatch.configure(service="second", endpoint=receiver.url)
    ask()
    groundwatch.flush(5)
    with former.changed:
        assert former.changed.wait_for(lambda: former.sent == 1, timeout=10)
    assert {root.resource[names.SERVICE_NAME]: root.trace_id for root in receiver.roots()}["shop"] == r.trace_id


def test_shutdown_sends_and_then_nothing_more(configured):
    ask()
    assert groundwatch.shutdown(5).sent == 1
    ask()
    assert groundwatch.shutdown(5) == groundwatch.FlushResult(0, 0, 0)
    assert len(configured.roots()) == 1


def test_shutdown_counts_what_it_leaves(closed_port, caplog):
    groundwatch.configure(service="s", endpoint=closed_port, export_timeout_seconds=0.2)
    ask(4)
    lane = lane_of_client()
    assert groundwatch.shutdown(5).pending == 4
    assert lane.dropped["shutdown"] == 4
    assert "4 requests or feedback could not be sent" in caplog.text


def test_no_thread_is_started_before_there_is_something_to_send(receiver):
    before = threading.active_count()
    groundwatch.configure(service="s", endpoint=receiver.url)
    assert threading.active_count() == before


def test_handles_that_the_garbage_collector_ends_do_not_block(configured):
    """A finalizer may run inside our own locked sections, in the same thread."""
    import gc

    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(300):
            cycle: list[object] = [groundwatch.request("dropped")]
            cycle.append(cycle)
            del cycle
            ask()
    finally:
        gc.set_threshold(*before)
    deadline = time.monotonic() + 20
    # Python collects nothing while another thread is at it, so once may be too few.
    while gc.collect() >= 0 and groundwatch.flush(10).pending + groundwatch.stats().sent < 600:
        assert time.monotonic() < deadline, groundwatch.stats()
    assert groundwatch.stats().sent == 600


def test_a_signal_handler_may_flush(configured):
    import signal

    results: list[groundwatch.FlushResult] = []

    def handler(*_):
        results.append(groundwatch.flush(5))
        if len(results) < 20:
            signal.setitimer(signal.ITIMER_REAL, 0.001)

    former = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    try:
        while len(results) < 20:
            ask()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
    assert groundwatch.flush(5).pending == 0
    assert len(configured.roots()) == groundwatch.stats().sent


# --- feedback


def test_feedback_reaches_the_receiver(configured):
    ident = groundwatch.feedback("AB" * 16, name="stars", score=0.5, label="meh", comment="so so", user="bob")
    groundwatch.flush(5)
    (found,) = configured.feedback()
    assert found.pop("by") not in ("", "bob")
    assert found == {
        "trace_id": "ab" * 16,
        "name": "stars",
        "score": 0.5,
        "label": "meh",
        "comment": "so so",
        "id": ident,
    }


def test_feedback_does_not_hold_up_requests_that_wait(configured):
    """On a busy machine each feedback costs as much time as a batch: requests must not queue behind all of it."""
    with configured._lock:  # no answer until all of it waits
        ask(4 * FULL_BATCH)
        for _ in range(50):
            groundwatch.feedback("1" * 32, score=1)
    assert groundwatch.flush(30).pending == 0
    paths = [path for path, _body in configured.bodies]
    assert paths.count("/v1/feedback") == 50
    batches = [at for at, path in enumerate(paths) if path == "/v1/traces"]
    between = [later - at - 1 for at, later in itertools.pairwise(batches[:4])]
    assert between == [worker.FEEDBACK_PER_BATCH] * 3


def test_feedback_keeps_its_id_through_retries(configured):
    configured.statuses = [503, 502]
    ident = groundwatch.feedback("1" * 32, score=1, id="click-9")
    for _ in range(3):
        groundwatch.flush(5)
    assert ident == "click-9"
    assert [f["id"] for f in configured.feedback()] == ["click-9"]
    assert groundwatch.stats().feedback_sent == 1


@pytest.mark.parametrize("trace_id", ["", "nonsense", "0" * 32, None, 5, "g" * 32])
def test_feedback_without_a_trace_is_counted_and_never_raises(configured, trace_id, caplog):
    groundwatch.feedback(trace_id, score=1)
    assert groundwatch.stats().feedback_dropped == {"bad_trace_id": 1}
    assert "a new one is used" not in caplog.text  # that is what becomes of a request, not of feedback


def test_refused_feedback_is_counted(configured):
    configured.statuses = [422]
    groundwatch.feedback("1" * 32, score=1)
    groundwatch.flush(5)
    assert groundwatch.stats().feedback_dropped == {"refused": 1}


def test_feedback_is_bounded(silent_port):
    groundwatch.configure(service="s", endpoint=silent_port, queue_size=10)
    for _ in range(30):
        groundwatch.feedback("1" * 32, score=1)
    stats = groundwatch.stats()
    assert (stats.feedback_pending, stats.feedback_dropped) == (10, {"queue_full": 20})


def test_a_thumb_may_be_a_bool(configured):
    groundwatch.feedback("1" * 32, score=False)
    groundwatch.flush(5)
    assert configured.feedback()[0]["score"] == 0.0


@pytest.mark.parametrize("score", [float("nan"), float("inf"), "five", object()])
def test_odd_scores_are_left_out(configured, score):
    groundwatch.feedback("1" * 32, score=score, comment="\ud800")
    groundwatch.flush(5)
    assert configured.feedback()[0]["score"] is None
    assert configured.feedback()[0]["comment"] == "\ufffd"


# --- gRPC


@pytest.fixture
def grpc_receiver():
    from concurrent.futures import ThreadPoolExecutor

    import grpc
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
        TraceServiceServicer,
        add_TraceServiceServicer_to_server,
    )

    class Servicer(TraceServiceServicer):
        def __init__(self):
            self.got = []
            self.metadata = []
            self.port = 0

        def Export(self, request, context):
            self.got.append(request)
            self.metadata.append(dict(context.invocation_metadata()))
            return ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(2))
    servicer = Servicer()
    add_TraceServiceServicer_to_server(servicer, server)
    servicer.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield servicer
    server.stop(None).wait()


def test_grpc(grpc_receiver, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-vendor-key=secret")
    groundwatch.configure(service="s", endpoint=f"127.0.0.1:{grpc_receiver.port}", protocol="grpc")
    ask(2)
    assert groundwatch.flush(10).sent == 2
    spans = grpc_receiver.got[0].resource_spans[0].scope_spans[0].spans
    assert [span.name for span in spans].count("invoke_workflow s") == 2
    assert "x-vendor-key" not in grpc_receiver.metadata[0]
    groundwatch.feedback("1" * 32, score=1)
    assert groundwatch.stats().feedback_dropped == {"no_endpoint": 1}
    groundwatch.shutdown(5)


def test_the_worker_lets_go_of_the_interpreter_between_requests(configured, monkeypatch):
    breaths: list[float] = []
    monkeypatch.setattr(worker, "time", SimpleNamespace(sleep=breaths.append))
    monkeypatch.setattr(worker, "LINGER_SECONDS", 0.0)
    with groundwatch.request("q") as r:
        for stage in ("rewrite", "answer", "first", "second", "third"):
            with r.stage(stage):
                pass
    deadline = time.monotonic() + 10
    while not groundwatch.stats().sent and time.monotonic() < deadline:  # a flush would not let it tarry
        time.sleep(0.01)
    assert len(breaths) == 2  # when the spans are built, and when they are encoded


def test_the_worker_does_not_tarry_while_somebody_waits():
    lane = Lane(queue_size=200, queue_bytes=2**30)
    assert not lane.in_haste()
    for _ in range(FULL_BATCH):
        lane.put(RequestRecord(0))
    assert lane.in_haste()
    ending = Lane(queue_size=1, queue_bytes=1)
    ending.end(accept_more=True)
    assert ending.in_haste()
