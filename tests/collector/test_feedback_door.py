"""With a feedback key, the token opens the door for feedback, and nothing else does."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from groundwatch import feedback_signing
from groundwatch_collector.feedback_access import FeedbackAccess
from groundwatch_collector.intake_metrics import IntakeMetrics
from groundwatch_collector.limits import Limits
from groundwatch_collector.receiver import asgi_app
from groundwatch_collector.spanlog import SpanLog

KEY = b"a feedback key, long enough"
TRACE = "ab" * 16
PAGE = "https://shop.example"
INGEST_KEY = "an ingest key"


class Door:
    def __init__(self, log: SpanLog, access: FeedbackAccess | None) -> None:
        self.log, self.registry = log, CollectorRegistry()
        keys = [hashlib.sha256(INGEST_KEY.encode()).hexdigest()]
        self.app = asgi_app(log, Limits(), IntakeMetrics(self.registry), ingest_keys=keys, feedback=access)

    def call(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, str], bytes]:
        return asyncio.run(self._call(method, path, body, headers))

    async def _call(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        arriving, sent = [{"type": "http.request", "body": body, "more_body": False}], []

        async def receive() -> Any:
            return arriving.pop(0) if arriving else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        await self.app({"type": "http", "method": method, "path": path, "headers": raw}, receive, send)
        start, end = sent
        return start["status"], {k.decode(): v.decode() for k, v in start["headers"]}, end["body"]

    def vote(self, fields: dict[str, Any], **headers: str) -> tuple[int, dict[str, str], bytes]:
        body = json.dumps({"trace_id": TRACE, "name": "thumbs", "label": "down"} | fields).encode()
        return self.call("POST", "/v1/feedback", body, content_type="application/json", **headers)

    def refused(self, reason: str) -> float:
        return self.registry.get_sample_value("groundwatch_rejected_requests_total", {"reason": reason}) or 0.0

    def kept(self) -> list[dict[str, Any]]:
        return [json.loads(record.body) for record in self.log.records()]


@pytest.fixture
def log(tmp_path) -> Iterator[SpanLog]:
    with SpanLog(tmp_path / "log", group_seconds=0.0, max_bytes=2**24) as opened:
        yield opened


@pytest.fixture
def door(log) -> Door:
    return Door(log, FeedbackAccess([KEY], [PAGE]))


def test_the_token_is_the_only_credential_and_is_not_kept(door):
    status, _, _ = door.vote({"token": feedback_signing.make(KEY, TRACE, "bob")})
    (record,) = door.kept()
    assert (status, record["by"], "token" in record) == (202, "bob", False)


@pytest.mark.parametrize("headers", [{}, {"authorization": f"Bearer {INGEST_KEY}"}])
def test_without_a_token_an_ingest_key_does_not_help(door, headers):
    status, _, body = door.vote({}, **headers)
    assert (status, door.refused("feedback_token"), door.kept()) == (403, 1, [])
    assert json.loads(body)["message"].startswith("token: missing, accepted: what groundwatch.feedback_token made")


def test_a_token_of_another_trace_is_refused_without_being_repeated(door):
    token = feedback_signing.make(KEY, "ba" * 16)
    status, _, body = door.vote({"token": token})
    assert status == 403 and token.encode() not in body


def test_a_token_opens_no_other_path(door):
    assert door.call("POST", "/v1/traces", b"", content_type="application/x-protobuf")[0] == 401


def test_without_a_feedback_key_the_ingest_key_is_asked_for_and_a_token_is_no_matter(log):
    door = Door(log, None)
    assert door.vote({"token": "whatever"})[0] == 401
    assert door.vote({"token": "whatever", "by": "bob"}, authorization=f"Bearer {INGEST_KEY}")[0] == 202
    assert [(record["by"], "token" in record) for record in door.kept()] == [("bob", False)]


def test_one_person_has_one_id_whoever_they_say_they_are(door):
    """Without an id of its own the vote's id comes from the signed subject."""
    bodies = {door.vote({"token": feedback_signing.make(KEY, TRACE, who)})[2] for who in ("bob", "bob", "eve")}
    assert len(bodies) == 2


def test_a_known_page_may_post_from_a_browser_and_read_the_answer(door):
    status, headers, _ = door.call("OPTIONS", "/v1/feedback", origin=PAGE, access_control_request_method="POST")
    assert (status, headers["access-control-allow-origin"], headers["access-control-allow-headers"]) == (
        204,
        PAGE,
        "content-type",
    )
    for fields, expected in (({"token": feedback_signing.make(KEY, TRACE)}, 202), ({}, 403)):
        status, headers, _ = door.vote(fields, origin=PAGE)
        assert (status, headers["access-control-allow-origin"], headers["vary"]) == (expected, PAGE, "origin")


def test_another_page_is_told_nothing(door):
    assert door.call("OPTIONS", "/v1/feedback", origin="https://evil.example")[0] == 405
    _, headers, _ = door.vote({"token": feedback_signing.make(KEY, TRACE)}, origin="https://evil.example")
    assert "access-control-allow-origin" not in headers
    assert door.call("OPTIONS", "/v1/traces", origin=PAGE)[0] == 405
