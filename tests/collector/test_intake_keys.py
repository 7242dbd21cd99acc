"""Ingest keys: write-only, hashed at rest, one project each, and what is recorded of them."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import statistics
import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client import CollectorRegistry

from groundwatch_collector.intake_keys import IngestKeys, new_ingest_key, parse_ingest_keys
from groundwatch_collector.intake_metrics import IntakeMetrics
from groundwatch_collector.limits import Limits, Rejected
from groundwatch_collector.mapping import to_ragtrace
from groundwatch_collector.otlp import decode
from groundwatch_collector.project_stamp import stamped, unstamped
from groundwatch_collector.receiver import asgi_app
from groundwatch_collector.spanlog import SpanLog

TRACE = "0af7651916cd43dd8448eb211c80319c"
PROJECT = "groundwatch.project"


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


KEYS = (f"shop:{digest('key-of-shop')}", f"shop:{digest('second-key-of-shop')}", digest("old-key"))


def json_body(claimed: str = "", **root: object) -> bytes:
    attributes = [
        {"key": "service.name", "value": {"stringValue": "bot"}},
        *([{"key": PROJECT, "value": {"stringValue": claimed}}] if claimed else []),
    ]
    span = {
        "traceId": TRACE,
        "spanId": "1234567812345678",
        "name": "ask",
        "attributes": [
            {"key": "groundwatch.stage", "value": {"stringValue": "request"}},
            {"key": "input.value", "value": {"stringValue": "why?"}},
        ],
    }
    groups = [{"resource": {"attributes": attributes}, "scopeSpans": [{"spans": [span]}]}]
    return orjson.dumps({"resourceSpans": groups} | root)


def protobuf_body(claimed: str = "") -> bytes:
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    if claimed:
        group.resource.attributes.add(key=PROJECT).value.string_value = claimed
    group.scope_spans.add().spans.add(trace_id=bytes.fromhex(TRACE), span_id=b"12345678", name="ask")
    return request.SerializeToString()


# Who may write.


@pytest.mark.parametrize(
    ("sent", "project"),
    [
        (b"Bearer key-of-shop", "shop"),
        (b"bearer  second-key-of-shop ", "shop"),
        (b"Bearer old-key", "default"),
    ],
)
def test_a_key_stands_for_its_project(sent, project):
    assert IngestKeys(KEYS).project_of(sent) == project


@pytest.mark.parametrize(
    "sent", [b"", b"Bearer", b"Bearer ", b"Bearer key-of-sho", b"Basic key-of-shop", b"\xff\xfe"]
)
def test_anything_else_is_refused_without_being_repeated(sent):
    with pytest.raises(Rejected, match="an ingest key is needed") as caught:
        IngestKeys(KEYS).project_of(sent)
    assert caught.value.status == 401


def test_without_keys_none_is_asked_for_and_no_project_is_vouched_for():
    assert IngestKeys().project_of(b"") == ""


def test_a_new_key_is_random_and_only_its_hash_is_for_the_configuration():
    key, line = new_ingest_key("shop")
    assert key != new_ingest_key("shop")[0]
    assert key not in line
    assert IngestKeys([line]).project_of(b"Bearer " + key.encode()) == "shop"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["shop:hunter2"], "not a SHA-256 digest"),
        ([f"sh op:{digest('a')}"], "not a project name"),
        ([f":{digest('a')}"], "not a project name"),
        ([f"{'x' * 65}:{digest('a')}"], "not a project name"),
        ([f"a:{digest('a')}", f"b:{digest('a')}"], "one key stands for 'a' and for 'b'"),
    ],
)
def test_a_line_that_cannot_be_used_is_refused_without_repeating_it(lines, message):
    with pytest.raises(ValueError, match=message) as caught:
        parse_ingest_keys(lines)
    assert "hunter2" not in str(caught.value)


def test_the_time_of_a_refusal_tells_nothing_about_how_near_a_key_was():
    """All digests are compared whichever matches: first, last or none take the same work."""
    keys = IngestKeys([f"p{n}:{digest(f'key-{n}')}" for n in range(400)])

    def seconds(sent: bytes) -> float:
        times = []
        for _ in range(60):
            started = time.perf_counter()
            with contextlib.suppress(Rejected):
                keys.project_of(sent)
            times.append(time.perf_counter() - started)
        return statistics.median(times)

    first, last, none = (seconds(b"Bearer key-" + which) for which in (b"0", b"399", b"x"))
    # Comparing until the first match would make the first one some hundred times faster than the last.
    assert first > last / 4
    assert none > last / 4


# What is recorded.


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
@pytest.mark.parametrize("claimed", ["", "somebody-else"])
def test_the_project_of_the_key_overrides_what_a_sender_says(encoding, claimed):
    body = protobuf_body(claimed) if encoding == "protobuf" else json_body(claimed)
    kept = stamped(stamped(body, encoding, "forged"), encoding, "shop")
    (span,) = decode(kept, encoding).spans
    assert span.resource[PROJECT] == "shop"


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
def test_without_a_key_the_body_is_kept_as_it_was_sent(encoding):
    body = protobuf_body() if encoding == "protobuf" else json_body()
    assert stamped(body, encoding, "") is body
    assert PROJECT not in decode(body, encoding).spans[0].resource


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
@given(project=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True))
def test_a_stamp_comes_off_without_a_trace(encoding, project):
    body = protobuf_body() if encoding == "protobuf" else json_body()
    assert unstamped(stamped(body, encoding, project), encoding) == (body, project)


@given(st.binary(max_size=300))
def test_bytes_that_nobody_stamped_stay_as_they_are_or_stay_refused(noise):
    for encoding in ("protobuf", "json"):
        body, project = unstamped(noise, encoding)
        assert (body == noise) == (project == "")


def test_a_standard_reader_does_not_see_the_stamp():
    body = stamped(protobuf_body(), "protobuf", "shop")
    request = ExportTraceServiceRequest.FromString(body)
    assert request.resource_spans[0].scope_spans[0].spans[0].name == "ask"
    assert len(orjson.loads(stamped(json_body() + b" \n", "json", "shop"))["resourceSpans"]) == 1


def test_a_body_at_the_bound_is_still_read_after_it_was_stamped():
    body = protobuf_body()
    limits = Limits(max_decompressed_bytes=len(body), max_values_per_request=1)
    assert len(decode(stamped(body, "protobuf", "shop"), "protobuf", limits).spans) == 1


def test_a_trace_knows_its_project_and_says_when_several_wrote_it():
    mine = decode(stamped(json_body(), "json", "shop"), "json").spans
    trace = to_ragtrace(mine)
    assert trace is not None
    assert (trace.project, "mixed_projects" in trace.flags) == ("shop", False)
    other = json_body().replace(b"1234567812345678", b"8765432187654321").replace(b'"request"', b'"answer"')
    mixed = to_ragtrace([*mine, *decode(stamped(other, "json", "intruder"), "json").spans])
    assert mixed is not None
    assert "mixed_projects" in mixed.flags


# At the door.


async def talk(app, method: str, path: str, body: bytes, **headers: str) -> tuple[int, bytes]:
    sent: list[dict[str, Any]] = []
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    await app({"type": "http", "method": method, "path": path, "headers": raw}, receive, send)
    return sent[0]["status"], sent[1]["body"]


@pytest.fixture
def keyed(tmp_path):
    import asyncio

    registry = CollectorRegistry()
    with SpanLog(tmp_path / "log", group_seconds=0) as log:
        app = asgi_app(log, Limits(), IntakeMetrics(registry), ingest_keys=KEYS)

        def call(method: str, path: str, body: bytes = b"", key: str = "key-of-shop", **headers: str):
            named = {"authorization": f"Bearer {key}", "content_type": "application/json"} | headers
            return asyncio.run(talk(app, method, path, body, **named))

        yield call, log, registry


def test_requests_are_counted_and_kept_under_the_project_of_their_key(keyed):
    call, log, registry = keyed
    assert registry.get_sample_value("groundwatch_project_requests_total", {"project": "shop"}) == 0
    assert call("POST", "/v1/traces", json_body("liar"))[0] == 200
    packed = gzip.compress(protobuf_body("liar"))
    assert (
        call("POST", "/v1/traces", packed, content_type="application/x-protobuf", content_encoding="gzip")[0] == 200
    )
    assert call("POST", "/v1/feedback", orjson.dumps({"trace_id": TRACE, "name": "thumbs"}))[0] == 202
    assert call("POST", "/v1/traces", json_body(), key="old-key")[0] == 200
    assert registry.get_sample_value("groundwatch_project_requests_total", {"project": "shop"}) == 3
    assert registry.get_sample_value("groundwatch_project_requests_total", {"project": "default"}) == 1
    kept = [
        orjson.loads(r.body)["project"] if r.kind == "feedback"
        else decode(r.body, "json" if r.kind == "otlp_json" else "protobuf").spans[0].resource[PROJECT]
        for r in log.records()
    ]  # fmt: skip
    assert kept == ["shop", "shop", "shop", "default"]


def test_feedback_cannot_name_a_project_itself(keyed):
    call, log, _registry = keyed
    status, body = call("POST", "/v1/feedback", orjson.dumps({"trace_id": TRACE, "name": "thumbs", "project": "x"}))
    assert (status, b"unknown key 'project'" in body, list(log.records())) == (400, True, [])


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v1/traces", 405), ("/v1/feedback", 405), ("/api/overview", 404), ("/traces", 404), ("/metrics", 404)],
)
def test_a_key_reads_nothing(keyed, path, status):
    call, _log, _registry = keyed
    assert call("POST", "/v1/traces", json_body())[0] == 200
    found, body = call("GET", path)
    assert found == status
    assert TRACE.encode() not in body


def test_projects_beyond_the_cap_share_one_series(tmp_path):
    registry = CollectorRegistry()
    metrics = IntakeMetrics(registry)
    metrics.name_projects([f"p{n}" for n in range(500)])
    for n in range(500):
        metrics.project(f"p{n}")
    (family,) = (f for f in registry.collect() if f.name == "groundwatch_project_requests")
    totals = {s.labels["project"]: s.value for s in family.samples if s.name.endswith("_total")}
    assert len(totals) == 201
    assert totals["__other__"] == 300
