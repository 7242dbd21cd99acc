"""The HTTP door of the collector: OTLP traces and feedback in, acknowledged only once they are durable.

A plain ASGI application: a framework costs as much per request as the rest of this file.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from groundwatch_collector.feedback_access import FeedbackAccess
from groundwatch_collector.intake_body import Held, Incoming, Receive, read_body, unpack
from groundwatch_collector.intake_door import IntakeDoor, TracesTaken
from groundwatch_collector.intake_keys import IngestKeys
from groundwatch_collector.intake_metrics import IntakeMetrics
from groundwatch_collector.limits import Limits, Reason, Rejected
from groundwatch_collector.log_protocol import AppendLog
from groundwatch_collector.otlp import Encoding

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = dict[bytes, bytes]

_PROTOBUF = "application/x-protobuf"
_JSON = "application/json"
_ENCODINGS: dict[str, Encoding] = {_PROTOBUF: "protobuf", _JSON: "json"}
_DISCARD_SECONDS = 2.0  # how long the rest of a refused body is read, so that its sender hears the answer
_WELCOME = (
    b"Groundwatch collector.\n\n"
    b"POST /v1/traces    OTLP/HTTP, protobuf or JSON\n"
    b"POST /v1/feedback  JSON\n"
    b"GET  /healthz      is the process alive\n"
    b"GET  /readyz       can it keep what it is sent\n"
)
# google.rpc.Code for each HTTP status that is used here.
_RPC_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 405: 12, 408: 4, 413: 8, 415: 3, 429: 8, 503: 14}


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes = b""
    content_type: str = _JSON
    headers: dict[str, str] = field(default_factory=dict)


def asgi_app(
    log: AppendLog,
    limits: Limits,
    metrics: IntakeMetrics,
    *,
    ingest_keys: Sequence[str] = (),
    feedback: FeedbackAccess | None = None,
    now: Callable[[], float] = time.time,
) -> Receiver:
    """The ASGI application. *ingest_keys*: ``PROJECT:SHA256`` of accepted bearer keys; empty: none is asked for."""
    return Receiver(IntakeDoor(log, limits, metrics, IngestKeys(ingest_keys), now, feedback=feedback))


class Receiver:
    """The HTTP way to *door*."""

    def __init__(self, door: IntakeDoor) -> None:
        self.door = door
        self._limits = door.limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await _respond(send, await self._answer(scope, Incoming(receive)), scope["method"])
        elif scope["type"] == "lifespan":
            await _live(receive, send)
        else:
            await send({"type": "websocket.close"})

    async def _answer(self, scope: Scope, receive: Incoming) -> Answer:
        headers: Headers = dict(scope["headers"])
        answer = await self._answer_to(scope["method"], scope["path"], headers, receive)
        if scope["path"] == _FEEDBACK:
            answer.headers.update(self.door.access.headers_for(_origin(headers)))
        return answer

    async def _answer_to(self, method: str, path: str, headers: Headers, receive: Incoming) -> Answer:
        try:
            return await self._route(method, path, headers, receive)
        except Rejected as rejected:
            self.door.note(rejected)
            # Who asks before sending (Expect) need not send; who was too slow has had its time.
            if b"expect" not in headers and rejected.reason != Reason.BODY_TIMEOUT:
                await receive.discard(4 * self._limits.max_compressed_bytes, _DISCARD_SECONDS)
            return _refusal(rejected, headers)

    async def _route(self, method: str, path: str, headers: Headers, receive: Receive) -> Answer:
        if method == "OPTIONS" and path == _FEEDBACK:
            allowed = self.door.access.preflight(_origin(headers))
            if allowed is not None:
                return Answer(204, headers=allowed)
        if path in ("/v1/traces", _FEEDBACK):
            _check_method(method, path, ("POST",))
            project = self._project(path, headers)
            with self.door.in_flight.hold() as held:
                take = self._traces if path == "/v1/traces" else self._feedback
                return await take(headers, receive, held, project)
        if path in ("/healthz", "/readyz", "/"):
            _check_method(method, path, ("GET", "HEAD"))
            return self._ready() if path == "/readyz" else _text(_WELCOME if path == "/" else b"alive\n")
        if path in ("/v1/logs", "/v1/metrics"):
            raise Rejected(
                Reason.WRONG_SIGNAL, f"{path}: only traces are taken here, at /v1/traces; turn this exporter off", 404
            )
        raise Rejected(Reason.NOT_FOUND, f"no such path; accepted: {', '.join(_PATHS)}", 404)

    def _project(self, path: str, headers: Headers) -> str:
        """Whose key the request bears. Feedback with a token needs no key: a browser has none."""
        given = headers.get(b"authorization", b"")
        return "" if path == _FEEDBACK and self.door.access.by_token and not given else self.door.project_of(given)

    def _ready(self) -> Answer:
        trouble = self.door.trouble
        return _text(f"not ready: {trouble}\n".encode(), 503) if trouble else _text(b"ready\n")

    async def _traces(self, headers: Headers, receive: Receive, held: Held, project: str) -> Answer:
        started = time.perf_counter()
        encoding = _encoding(headers, _ENCODINGS)
        raw = await self._read(headers, receive, self._limits.max_compressed_bytes, held)
        taken = await self.door.traces(raw, encoding, held, gzip=_is_gzip(headers), project=project, started=started)
        return _accepted(taken, encoding)

    async def _feedback(self, headers: Headers, receive: Receive, held: Held, project: str) -> Answer:
        started = time.perf_counter()
        _encoding(headers, {_JSON: "json"})
        most = self._limits.max_feedback_bytes
        try:
            raw = await self._read(headers, receive, most, held)
            body = unpack(raw, most) if _is_gzip(headers) else raw
        except Rejected as rejected:
            if rejected.status == 413:
                raise Rejected(Reason.FEEDBACK_TOO_LARGE, rejected.message, 413) from None
            raise
        feedback_id = await self.door.feedback(body, project=project, started=started)
        return Answer(202, orjson.dumps({"id": feedback_id, "accepted": True}))

    async def _read(self, headers: Headers, receive: Receive, most: int, held: Held) -> bytes:
        _is_gzip(headers)  # refuse a coding before its body is read
        declared = headers.get(b"content-length")
        return await read_body(receive, declared.decode("latin-1") if declared else None, most, self._limits, held)


_FEEDBACK = "/v1/feedback"
_PATHS = ("/v1/traces", _FEEDBACK, "/healthz", "/readyz")


def _check_method(method: str, path: str, accepted: tuple[str, ...]) -> None:
    if method not in accepted:
        hint = "; traces go to /v1/traces" if path == "/" else ""
        names = ", ".join(accepted)
        raise Rejected(
            Reason.METHOD_NOT_ALLOWED, f"{path}: found {method}, accepted: {names}{hint}", 405, {"allow": names}
        )


def _origin(headers: Headers) -> str:
    return headers.get(b"origin", b"").decode("latin-1")


def _content_type(headers: Headers) -> str:
    return headers.get(b"content-type", b"").split(b";", 1)[0].strip().lower().decode("latin-1")


def _encoding(headers: Headers, accepted: dict[str, Encoding]) -> Encoding:
    found = _content_type(headers)
    if found not in accepted:
        names = " or ".join(accepted)
        raise Rejected(Reason.CONTENT_TYPE, f"Content-Type: found {found[:80] or 'none'}, accepted: {names}", 415)
    return accepted[found]


def _is_gzip(headers: Headers) -> bool:
    found = headers.get(b"content-encoding", b"").strip().lower().decode("latin-1")
    if found not in ("", "identity", "gzip"):
        message = f"Content-Encoding: found {found[:80]}, accepted: gzip, or identity"
        raise Rejected(Reason.CONTENT_ENCODING, message, 415, {"accept-encoding": "gzip, identity"})
    return found == "gzip"


def _accepted(taken: TracesTaken, encoding: Encoding) -> Answer:
    """An ExportTraceServiceResponse. Mended spans are a warning: nothing rejected, but something to say."""
    if encoding == "json":
        partial = {"rejectedSpans": str(taken.rejected_spans), "errorMessage": taken.message}
        return Answer(200, orjson.dumps({"partialSuccess": partial} if taken.message else {}))
    return Answer(200, export_response(taken), _PROTOBUF)


def export_response(taken: TracesTaken) -> bytes:
    """The serialised ``ExportTraceServiceResponse``."""
    response = ExportTraceServiceResponse()
    if taken.message:
        response.partial_success.rejected_spans = taken.rejected_spans
        response.partial_success.error_message = taken.message
    return response.SerializeToString()


def _refusal(rejected: Rejected, headers: Headers) -> Answer:
    """A google.rpc.Status in the encoding of the request, as OTLP wants it."""
    code = _RPC_CODES.get(rejected.status, 2)
    extra = dict(rejected.headers)
    if _content_type(headers) == _PROTOBUF:
        body = Status(code=code, message=rejected.message).SerializeToString()
        return Answer(rejected.status, body, _PROTOBUF, extra)
    return Answer(rejected.status, orjson.dumps({"code": code, "message": rejected.message}), _JSON, extra)


def _text(body: bytes, status: int = 200) -> Answer:
    return Answer(status, body, "text/plain; charset=utf-8")


async def _respond(send: Send, answer: Answer, method: str) -> None:
    headers = [
        (b"content-type", answer.content_type.encode()),
        (b"content-length", b"%d" % len(answer.body)),
        (b"x-content-type-options", b"nosniff"),
        *((name.encode(), value.encode()) for name, value in answer.headers.items()),
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else answer.body})


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
