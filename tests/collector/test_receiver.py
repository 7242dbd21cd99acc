"""The receiver's answers: what is acknowledged is durable, what is refused says why and is counted."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import json
import logging
import resource
import socket
import threading
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from google.rpc.status_pb2 import Status
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from prometheus_client import CollectorRegistry

from groundwatch_collector.intake_metrics import IntakeMetrics
from groundwatch_collector.limits import Limits, Reason
from groundwatch_collector.otlp import decode
from groundwatch_collector.receiver import Receiver, asgi_app
from groundwatch_collector.spanlog import FAILURE_CAUSES, SpanLog

TRACE = "0af7651916cd43dd8448eb211c80319c"
PROTOBUF = "application/x-protobuf"
JSON = "application/json"
MIB = 1024 * 1024


def packed(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)  # without the time, so that every test process sees the same cases


def span(**changes: Any) -> SpanMessage:
    fields: dict[str, Any] = {"trace_id": bytes.fromhex(TRACE), "span_id": b"12345678", "name": "ask"}
    return SpanMessage(**(fields | changes))


def traces(*spans: SpanMessage) -> bytes:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.extend(spans)
    return request.SerializeToString()


def traces_json(**changes: object) -> bytes:
    one = {"traceId": TRACE, "spanId": "1234567812345678", "name": "ask"} | changes
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [one]}]}]}).encode()


GOOD = traces(span())
PACKED = packed(GOOD)


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> str:
        if self.headers["content-type"] == PROTOBUF:
            return str(Status.FromString(self.body).message)
        return str(json.loads(self.body)["message"])


@dataclass
class Door:
    """A receiver, spoken to as a server would."""

    app: Receiver
    log: SpanLog
    registry: CollectorRegistry

    def post(self, path: str, body: bytes | list[bytes], kind: str | None = PROTOBUF, **headers: str) -> Answer:
        return self.call("POST", path, body, kind, **headers)

    def call(
        self, method: str, path: str, body: bytes | list[bytes] = b"", kind: str | None = None, **headers: str
    ) -> Answer:
        return asyncio.run(self.talk(method, path, body, kind, **headers))

    async def talk(
        self, method: str, path: str, body: bytes | list[bytes] = b"", kind: str | None = None, **headers: str
    ) -> Answer:
        chunks = [body] if isinstance(body, bytes) else body
        arriving = [
            {"type": "http.request", "body": chunk, "more_body": n < len(chunks) - 1}
            for n, chunk in enumerate(chunks)
        ]
        sent: list[Any] = []

        async def receive() -> Any:
            return arriving.pop(0) if arriving else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        named = {"content-type": kind} | headers if kind is not None else headers
        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in named.items()]
        await self.app({"type": "http", "method": method, "path": path, "headers": raw}, receive, send)
        start, end = sent
        return Answer(start["status"], {k.decode(): v.decode() for k, v in start["headers"]}, end["body"])

    def count(self, name: str, **labels: str) -> float:
        value = self.registry.get_sample_value(name, labels)
        assert value is not None, (name, labels)
        return value

    def refused(self, reason: Reason) -> float:
        return self.count("groundwatch_rejected_requests_total", reason=reason.value)

    def kept(self) -> list[tuple[str, bytes]]:
        return [(record.kind, record.body) for record in self.log.records()]


@contextlib.contextmanager
def opened(directory: Path, limits: Limits | None = None, **options: Any) -> Iterator[Door]:
    registry = CollectorRegistry()
    keys = options.pop("ingest_keys", ())
    now = options.pop("now", time.time)
    with SpanLog(directory, group_seconds=0, **options) as log:
        app = asgi_app(log, limits or Limits(), IntakeMetrics(registry), ingest_keys=keys, now=now)
        yield Door(app, log, registry)


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    with opened(tmp_path / "log") as opened_door:
        yield opened_door


# What is taken.


@pytest.mark.parametrize(
    ("body", "kind", "stored", "answer"),
    [(GOOD, PROTOBUF, "otlp_protobuf", b""), (traces_json(), JSON, "otlp_json", b"{}")],
)
@pytest.mark.parametrize("coding", [None, "identity", "gzip"])
def test_traces_are_acknowledged_once_durable(door, body, kind, stored, answer, coding):
    sent = packed(body) if coding == "gzip" else body
    got = door.post("/v1/traces", sent, kind, **({"content_encoding": coding} if coding else {}))
    assert (got.status, got.headers["content-type"], got.body) == (200, kind, answer)
    assert door.kept() == [(stored, body)]
    encoding = stored.removeprefix("otlp_")
    assert door.count("groundwatch_received_requests_total", signal="traces", encoding=encoding) == 1
    assert door.count("groundwatch_received_spans_total") == 1
    assert door.count("groundwatch_received_bytes_total") == len(body)
    assert door.count("groundwatch_intake_seconds_count", signal="traces") == 1


def test_content_type_parameters_and_case_do_not_matter(door):
    assert door.post("/v1/traces", traces_json(), "Application/JSON; charset=utf-8").status == 200


@pytest.mark.parametrize(("kind", "empty"), [(PROTOBUF, b""), (JSON, b"{}")])
def test_an_empty_request_is_good_and_leaves_nothing_in_the_log(door, kind, empty):
    assert door.post("/v1/traces", empty, kind).status == 200
    assert door.post("/v1/traces", packed(empty), kind, content_encoding="gzip").status == 200
    assert door.kept() == []


def test_no_bytes_are_no_json(door):
    assert door.post("/v1/traces", b"", JSON).status == 400


def test_a_body_may_come_in_pieces_and_in_several_gzip_members(door):
    members = packed(GOOD[:9]) + packed(GOOD[9:])
    assert door.post("/v1/traces", [members[:7], b"", members[7:]], content_encoding="gzip").status == 200
    assert door.kept() == [("otlp_protobuf", GOOD)]


def test_a_large_body_is_taken_as_well(door):
    body = traces(*[span(span_id=b"%08d" % n, name="x" * 900) for n in range(1000)])
    assert door.post("/v1/traces", packed(body), content_encoding="gzip").status == 200
    assert door.post("/v1/traces", body).status == 200
    assert door.count("groundwatch_received_spans_total") == 2000


def test_a_bad_span_is_reported_as_partial_success(door):
    got = door.post("/v1/traces", traces(span(), span(trace_id=b"")))
    partial = ExportTraceServiceResponse.FromString(got.body).partial_success
    assert (got.status, partial.rejected_spans) == (200, 1)
    assert "1 of 2 spans refused: trace id missing" in partial.error_message
    assert door.count("groundwatch_rejected_spans_total", reason="bad_trace_id") == 1
    assert door.count("groundwatch_received_spans_total") == 1
    assert len(door.kept()) == 1


def test_partial_success_in_json_writes_numbers_as_strings(door):
    document = json.loads(traces_json())
    document["resourceSpans"][0]["scopeSpans"][0]["spans"].append({"traceId": TRACE})
    got = door.post("/v1/traces", json.dumps(document).encode(), JSON)
    assert json.loads(got.body)["partialSuccess"]["rejectedSpans"] == "1"


def test_a_request_whose_every_span_is_bad_is_refused(door):
    got = door.post("/v1/traces", traces(span(trace_id=b""), span(trace_id=b"")))
    assert (got.status, door.kept()) == (400, [])
    assert "2 of 2 spans refused" in got.message
    assert door.refused(Reason.BAD_TRACE_ID) == 1
    assert door.count("groundwatch_rejected_spans_total", reason="bad_trace_id") == 2


def test_a_mended_span_is_kept_with_a_warning_for_the_sender(door):
    got = door.post("/v1/traces", traces_json(name="a\x00b"), JSON)
    assert json.loads(got.body)["partialSuccess"] == {
        "rejectedSpans": "0",
        "errorMessage": "1 spans were kept with nul_stripped",
    }
    assert door.count("groundwatch_mended_spans_total", reason="nul_stripped") == 1


# What is refused.


@pytest.mark.parametrize(
    ("method", "path", "kind", "body", "headers", "status", "reason", "said"),
    [
        ("GET", "/v1/traces", None, b"", {}, 405, "method_not_allowed", "found GET, accepted: POST"),
        ("POST", "/", PROTOBUF, GOOD, {}, 405, "method_not_allowed", "traces go to /v1/traces"),
        ("DELETE", "/healthz", None, b"", {}, 405, "method_not_allowed", "accepted: GET, HEAD"),
        ("POST", "/v1/trace", PROTOBUF, GOOD, {}, 404, "not_found", "accepted: /v1/traces"),
        ("POST", "/v1/logs", PROTOBUF, b"", {}, 404, "wrong_signal", "only traces are taken"),
        ("POST", "/v1/metrics", JSON, b"{}", {}, 404, "wrong_signal", "only traces are taken"),
        ("POST", "/v1/traces", "text/plain", GOOD, {}, 415, "content_type", f"text/plain, accepted: {PROTOBUF}"),
        ("POST", "/v1/traces", None, GOOD, {}, 415, "content_type", "found none"),
        ("POST", "/v1/traces", PROTOBUF, GOOD, {"content_encoding": "br"}, 415, "content_encoding", "found br"),
        ("POST", "/v1/traces", PROTOBUF, GOOD, {"content_encoding": "gzip, gzip"}, 415, "content_encoding", "gzip"),
        ("POST", "/v1/traces", PROTOBUF, GOOD, {"content_encoding": "gzip"}, 400, "bad_gzip", "not gzip"),
        ("POST", "/v1/traces", PROTOBUF, PACKED[:-9], {"content_encoding": "gzip"}, 400, "bad_gzip", "middle"),
        ("POST", "/v1/traces", PROTOBUF, PACKED + b"?", {"content_encoding": "gzip"}, 400, "bad_gzip", ""),
        ("POST", "/v1/traces", PROTOBUF, packed(GOOD), {}, 400, "malformed", "Content-Encoding: gzip"),
        (
            "POST", "/v1/traces", PROTOBUF, packed(packed(GOOD)), {"content_encoding": "gzip"},
            400, "malformed", "still gzip",
        ),
        (
            "POST", "/v1/traces", PROTOBUF, packed(b"") * 17, {"content_encoding": "gzip"},
            400, "bad_gzip", "up to 16",
        ),
        ("POST", "/v1/traces", PROTOBUF, GOOD[:-3], {}, 400, "malformed", "not a protobuf ExportTraceServiceRequest"),
        ("POST", "/v1/traces", JSON, GOOD, {}, 400, "malformed", "not JSON"),
        ("POST", "/v1/traces", PROTOBUF, traces_json(), {}, 400, "malformed", "Content-Type: application/json"),
        ("POST", "/v1/traces", PROTOBUF, GOOD, {"content_length": "9999999"}, 413, "compressed_too_large", ""),
        ("POST", "/v1/traces", PROTOBUF, GOOD, {"content_length": "3"}, 400, "body_incomplete", "says 3"),
    ],
)  # fmt: skip
def test_a_refusal_names_what_was_found_and_what_is_accepted(
    door, method, path, kind, body, headers, status, reason, said
):
    got = door.call(method, path, body, kind, **headers)
    assert got.status == status
    assert said in got.message
    assert got.headers["content-type"] == (PROTOBUF if kind == PROTOBUF else JSON)
    assert door.refused(Reason(reason)) == 1
    assert door.kept() == []
    assert door.count("groundwatch_intake_in_flight_bytes") == 0


def test_a_wrong_method_says_which_are_allowed(door):
    assert door.call("PUT", "/v1/traces").headers["allow"] == "POST"


def test_a_gzip_bomb_is_refused_without_unpacking_it(door):
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packer.compress(bytes(MIB)) for _ in range(1024)) + packer.flush()
    tracemalloc.start()
    got = door.post("/v1/traces", bomb, content_encoding="gzip")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (got.status, door.refused(Reason.TOO_LARGE)) == (413, 1)
    assert "accepted: up to 20971520 bytes unpacked" in got.message
    assert peak < 45 * MIB


def test_the_bound_counts_over_all_gzip_members(tmp_path):
    with opened(tmp_path, Limits(max_decompressed_bytes=1000)) as door:
        got = door.post("/v1/traces", packed(bytes(600)) * 2, content_encoding="gzip")
        assert (got.status, door.refused(Reason.TOO_LARGE)) == (413, 1)


def test_a_body_without_a_declared_length_is_bounded_while_it_arrives(tmp_path):
    with opened(tmp_path, Limits(max_compressed_bytes=100)) as door:
        got = door.post("/v1/traces", [b"x" * 60, b"x" * 60, b"never read"])
        assert (got.status, door.refused(Reason.COMPRESSED_TOO_LARGE)) == (413, 1)


def test_a_body_that_does_not_come_is_given_up(tmp_path):
    with opened(tmp_path, Limits(body_timeout_seconds=0.01)) as door:

        async def never_sends() -> list[Any]:
            sent: list[Any] = []

            async def receive() -> Any:
                await asyncio.Event().wait()

            async def send(message: Any) -> None:
                sent.append(message)

            headers = [(b"content-type", PROTOBUF.encode())]
            scope = {"type": "http", "method": "POST", "path": "/v1/traces", "headers": headers}
            await door.app(scope, receive, send)
            return sent

        assert asyncio.run(never_sends())[0]["status"] == 408
        assert door.refused(Reason.BODY_TIMEOUT) == 1


def test_a_sender_that_goes_away_leaves_nothing(door):
    assert door.post("/v1/traces", []).status == 400
    assert (door.refused(Reason.BODY_INCOMPLETE), door.kept()) == (1, [])


def test_beyond_the_bytes_in_flight_senders_are_asked_to_come_again(tmp_path):
    with opened(tmp_path, Limits(max_concurrent_bytes=len(GOOD) + 10)) as door:

        async def together() -> list[Answer]:
            halves = [GOOD[:20], GOOD[20:]]
            return await asyncio.gather(*[door.talk("POST", "/v1/traces", halves, PROTOBUF) for _ in range(3)])

        answers = asyncio.run(together())
        assert sorted(answer.status for answer in answers) == [200, 429, 429]
        busy = next(answer for answer in answers if answer.status == 429)
        assert (busy.headers["retry-after"], door.refused(Reason.BUSY)) == ("1", 2)
        assert len(door.kept()) == 1
        assert door.count("groundwatch_intake_in_flight_bytes") == 0
        assert door.count("groundwatch_intake_in_flight_bytes_max") == len(GOOD) + 10
        assert door.post("/v1/traces", GOOD).status == 200


def test_a_full_log_asks_to_come_again_and_is_not_ready(tmp_path):
    with opened(tmp_path, max_bytes=120) as door:
        assert door.post("/v1/traces", GOOD).status == 200
        got = door.post("/v1/traces", GOOD)
        assert (got.status, got.headers["retry-after"]) == (503, "5")
        assert "of 120 bytes" in got.message
        ready = door.call("GET", "/readyz")
        assert (ready.status, ready.body[:9]) == (503, b"not ready")
        assert door.call("GET", "/healthz").status == 200
        assert door.refused(Reason.LOG_FULL) == 1
        assert door.count("groundwatch_log_append_failures_total", reason="bound") == 1
        assert door.count("groundwatch_log_in_trouble") == 1
        assert len(door.kept()) == 1


def test_a_full_disk_is_503_and_heals_without_a_restart(door):
    assert door.post("/v1/traces", GOOD).status == 200
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (120, hard))
    try:
        got = door.post("/v1/traces", GOOD)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (got.status, door.refused(Reason.LOG_FULL)) == (503, 1)
    assert door.post("/v1/traces", GOOD).status == 200
    assert (len(door.kept()), door.call("GET", "/readyz").status) == (2, 200)


def test_a_failing_disk_is_503(door, monkeypatch):
    def broken(_fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("groundwatch_collector.spanlog.sync_file", broken)
    assert (door.post("/v1/traces", GOOD).status, door.refused(Reason.LOG_FAILED)) == (503, 1)


def test_every_reason_is_exported_from_the_start(door):
    for reason in Reason:
        assert door.refused(reason) == 0
    for cause in FAILURE_CAUSES:
        assert door.count("groundwatch_log_append_failures_total", reason=cause) == 0
    for encoding in ("protobuf", "json"):
        assert door.count("groundwatch_received_requests_total", signal="traces", encoding=encoding) == 0


def test_the_log_is_exported_beside_its_bound(door):
    door.post("/v1/traces", GOOD)
    assert door.count("groundwatch_log_end_position") == door.log.end_position > 0
    assert door.count("groundwatch_log_bytes") < door.count("groundwatch_log_bytes_max")
    assert door.count("groundwatch_log_segments") == 1
    assert door.count("groundwatch_log_appends_total") == 1
    assert door.count("groundwatch_log_fsync_seconds_count") == 1


def test_refusals_are_logged_once_a_minute_and_without_what_was_sent(tmp_path, caplog):
    clock = [1000.0]
    with opened(tmp_path, now=lambda: clock[0]) as door, caplog.at_level(logging.WARNING):
        for _ in range(5):
            door.post("/v1/traces", b'{"SECRET"', JSON)
            door.post("/v1/feedback", json.dumps({"SECRET": 1}).encode(), JSON)
        assert len(caplog.records) == 2
        clock[0] += 61
        door.post("/v1/traces", b'{"SECRET"', JSON)
        assert len(caplog.records) == 3
    assert "SECRET" not in caplog.text


# Keys.


def test_with_ingest_keys_only_their_bearers_may_write(tmp_path):
    digests = [hashlib.sha256(key).hexdigest() for key in (b"alpha", b"beta")]
    with opened(tmp_path, ingest_keys=digests) as door:
        for wrong in (
            {},
            {"authorization": "Bearer gamma"},
            {"authorization": "Basic beta"},
            {"authorization": "beta"},
        ):
            got = door.post("/v1/traces", GOOD, **wrong)
            assert (got.status, got.headers["www-authenticate"]) == (401, "Bearer")
            assert door.post("/v1/feedback", b"{}", JSON, **wrong).status == 401
        assert door.kept() == []
        for key in ("alpha", "beta"):
            assert door.post("/v1/traces", GOOD, authorization=f"Bearer {key}").status == 200
        assert door.call("GET", "/healthz").status == 200
        assert door.refused(Reason.UNAUTHORIZED) == 8


# Feedback.


def feedback(**changes: Any) -> bytes:
    return json.dumps({"trace_id": TRACE, "name": "thumbs"} | changes).encode()


def test_feedback_is_kept_in_one_form(door):
    sent = feedback(trace_id=TRACE.upper(), score=0, label="down", comment="答非所问", by="u1", id="f-1")
    got = door.post("/v1/feedback", sent, JSON)
    assert (got.status, json.loads(got.body)) == (202, {"id": "f-1", "accepted": True})
    [(kind, body)] = door.kept()
    assert kind == "feedback"
    assert json.loads(body) == {
        "trace_id": TRACE, "name": "thumbs", "score": 0.0, "label": "down", "comment": "答非所问",
        "by": "u1", "id": "f-1",
    }  # fmt: skip
    assert door.count("groundwatch_received_requests_total", signal="feedback", encoding="json") == 1


def test_what_is_missing_may_be_null_or_left_out(door):
    bare = door.post("/v1/feedback", feedback(), JSON)
    spelled = door.post("/v1/feedback", feedback(score=None, label="", comment=None, by="", id=""), JSON)
    assert bare.body == spelled.body
    assert door.kept()[0] == door.kept()[1]


def test_without_an_id_the_same_vote_is_the_same_feedback(door):
    def identifier(**changes: Any) -> str:
        return str(json.loads(door.post("/v1/feedback", feedback(**changes), JSON).body)["id"])

    assert identifier(by="u1", score=1) == identifier(by="u1", score=0)
    others = {identifier(by="u2"), identifier(by="u1", name="rating"), identifier(by="u1", trace_id="a" * 32)}
    assert len(others | {identifier(by="u1")}) == 4


def test_a_stated_sentiment_is_kept(door):
    assert door.post("/v1/feedback", feedback(sentiment="negative"), JSON).status == 202
    assert json.loads(door.kept()[0][1])["sentiment"] == "negative"


@pytest.mark.parametrize(
    ("body", "status", "reason", "said"),
    [
        (b"", 400, "malformed", "not JSON"),
        (b"[1]", 400, "bad_feedback", "found list, accepted: a JSON object"),
        (b'{"score": NaN}', 400, "malformed", "not JSON"),
        (b'{"name": "\\ud800", "score": ' + b"9" * 400 + b', "trace_id": "' + TRACE.encode() + b'"}', 400,
         "bad_feedback", "score: found int, accepted: a finite number"),
        (feedback(traceid="x"), 400, "bad_feedback", "unknown key 'traceid'; did you mean 'trace_id'?"),
        (feedback(Comments="x"), 400, "bad_feedback", "did you mean 'comment'?"),
        (feedback(zzz=1), 400, "bad_feedback", "accepted: trace_id, name"),
        (feedback(trace_id=None), 400, "bad_feedback", "trace_id: found nothing"),
        (feedback(trace_id="12"), 400, "bad_feedback", "trace_id: found a string of 2 characters"),
        (feedback(trace_id="0" * 32), 400, "bad_feedback", "not all zero"),
        (feedback(trace_id="g" * 32), 400, "bad_feedback", "32 hex digits"),
        (feedback(name=""), 400, "bad_feedback", "name: missing"),
        (feedback(name=3), 400, "bad_feedback", "name: found int"),
        (feedback(score="5"), 400, "bad_feedback", "score: found a string"),
        (feedback(score=True), 400, "bad_feedback", "score: found bool"),
        (feedback(label="x" * 65), 400, "bad_feedback", "label: found a string of 65 characters, accepted"),
        (feedback(sentiment="postive"), 400, "bad_feedback", "did you mean 'positive'?"),
        (feedback(sentiment=["negative"]), 400, "bad_feedback", "sentiment: found list"),
        (feedback(comment="x" * 70_000), 413, "feedback_too_large", "accepted: up to 65536"),
    ],
)  # fmt: skip
def test_feedback_that_is_wrong_is_refused_by_key(door, body, status, reason, said):
    got = door.post("/v1/feedback", body, JSON)
    assert (got.status, door.refused(Reason(reason))) == (status, 1)
    assert said in got.message
    assert door.kept() == []


def test_feedback_is_json_only_so_that_a_foreign_page_cannot_post_it(door):
    for kind in ("text/plain", "application/x-www-form-urlencoded", PROTOBUF):
        assert door.post("/v1/feedback", feedback(), kind).status == 415
    assert door.call("OPTIONS", "/v1/feedback").status == 405


def test_packed_feedback_is_bounded_too(door):
    assert door.post("/v1/feedback", packed(feedback()), JSON, content_encoding="gzip").status == 202
    bomb = packed(feedback(comment="x" * MIB))
    assert door.post("/v1/feedback", bomb, JSON, content_encoding="gzip").status == 413


# Pages for people and probes.


def test_a_browser_sees_what_this_is_and_probes_are_answered(door):
    page = door.call("GET", "/")
    assert (page.status, page.headers["x-content-type-options"]) == (200, "nosniff")
    assert b"POST /v1/traces" in page.body
    assert door.call("GET", "/healthz").body == b"alive\n"
    assert door.call("GET", "/readyz").body == b"ready\n"
    assert door.call("HEAD", "/healthz").body == b""


def test_a_closed_log_is_not_ready(door):
    door.log.close()
    assert door.call("GET", "/readyz").status == 503
    assert door.post("/v1/traces", GOOD).status == 503


def test_lifespan_is_answered(door):
    async def run() -> list[str]:
        messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
        sent: list[str] = []

        async def receive() -> Any:
            return messages.pop(0)

        async def send(message: Any) -> None:
            sent.append(message["type"])

        await door.app({"type": "lifespan"}, receive, send)
        return sent

    assert asyncio.run(run()) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


# Hostile input.


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["/v1/traces", "/v1/feedback"]),
    st.binary(max_size=300) | st.just(GOOD) | st.just(feedback()) | st.just(traces_json()),
    st.sampled_from([PROTOBUF, JSON, "", "\xff"]),
    st.sampled_from(["", "gzip", "identity", "\xff"]),
    st.booleans(),
)
def test_any_request_is_answered_below_500(door, path, body, kind, coding, pack):
    got = door.post(path, packed(body) if pack else body, kind, content_encoding=coding)
    assert got.status in (200, 202, 400, 413, 415)
    for kept_kind, kept_body in door.kept():
        if kept_kind != "feedback":
            decode(kept_body, kept_kind.removeprefix("otlp_"))  # the reader will not stumble over it


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.sampled_from(["trace_id", "name", "score", "label", "comment", "by", "id", "sentiment", "other"]),
        st.none() | st.text(max_size=80) | st.floats() | st.integers() | st.lists(st.text(), max_size=2),
    )
)
def test_any_feedback_is_answered_below_500(door, fields):
    body = json.dumps({"trace_id": TRACE, "name": "n"} | fields).encode()
    assert door.post("/v1/feedback", body, JSON).status in (202, 400)


# A real server and the real exporter.


@contextlib.contextmanager
def serving(app: Receiver) -> Iterator[str]:
    bound = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(app, http="httptools", lifespan="off", access_log=False, log_level="error")
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        bound.close()


def test_the_opentelemetry_exporter_is_served(door):
    with serving(door.app) as url:
        exporter = OTLPSpanExporter(endpoint=f"{url}/v1/traces", compression=None)
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        with provider.get_tracer("app").start_as_current_span("ask") as root:
            root.set_attribute("input.value", "上传限制是多少?")
        provider.shutdown()
    [(kind, body)] = door.kept()
    [kept] = decode(body, kind.removeprefix("otlp_")).spans
    assert (kept.name, kept.attributes["input.value"]) == ("ask", "上传限制是多少?")


def test_many_senders_at_once_are_all_acknowledged_and_kept(door):
    with serving(door.app) as url, httpx.Client(base_url=url) as client:

        def send(n: int) -> None:
            for m in range(10):
                body = traces(span(span_id=b"%04d%04d" % (n, m)))
                got = client.post("/v1/traces", content=body, headers={"content-type": PROTOBUF})
                statuses.append(got.status_code)

        statuses: list[int] = []
        threads = [threading.Thread(target=send, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert statuses == [200] * 80
    assert len(set(door.kept())) == 80


def test_a_connection_goes_on_after_a_refusal(door):
    with serving(door.app) as url, httpx.Client(base_url=url) as client:
        large = client.post("/v1/traces", content=bytes(9 * MIB), headers={"content-type": PROTOBUF})
        assert large.status_code == 413
        assert client.post("/v1/traces", content=GOOD, headers={"content-type": PROTOBUF}).status_code == 200


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs"])
def test_a_sender_that_will_close_hears_why_its_large_body_is_refused(door, path):
    """Closing while it still writes would reset the connection, and it would take the refusal for an outage."""
    with serving(door.app) as url:
        headers = {"content-type": PROTOBUF, "connection": "close"}
        answer = httpx.post(f"{url}{path}", content=bytes(20 * MIB), headers=headers, timeout=10)
    assert answer.status_code in (413, 404)
    assert "accepted" in answer.text or "only traces are taken here" in answer.text


def test_a_body_without_an_end_is_not_read_for_ever(tmp_path):
    with opened(tmp_path, Limits(max_compressed_bytes=10)) as door:
        answer = door.post("/v1/traces", [b"x" * 8] * 1000)
        assert answer.status == 413
