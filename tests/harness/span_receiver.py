"""A real OTLP receiver on the loopback that keeps what it was sent, for tests of senders."""

# mypy: disable-error-code="no-untyped-call,no-untyped-def"

from __future__ import annotations

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from groundwatch import names


class Seen:
    """One received span, with plain attributes."""

    def __init__(self, span: Any, resource: dict[str, Any]) -> None:
        self.name = span.name
        self.trace_id = span.trace_id.hex()
        self.span_id = span.span_id.hex()
        self.parent_id = span.parent_span_id.hex()
        self.start, self.end = span.start_time_unix_nano, span.end_time_unix_nano
        self.status = span.status.code
        self.attributes = {a.key: _value(a.value) for a in span.attributes}
        self.events = [(e.name, {a.key: _value(a.value) for a in e.attributes}) for e in span.events]
        self.links = [link.trace_id.hex() for link in span.links]
        self.resource = resource

    def __getitem__(self, name: str) -> Any:
        return self.attributes.get(name)

    def list(self, name: str) -> Any:
        return json.loads(self.attributes[name])


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))


class Receiver:
    """Answers with *statuses* in turn, then 200; keeps what it accepted."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[tuple[str, bytes]] = []
        self.asked = 0
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                self.send_response(receiver.take(self.path, dict(self.headers), body))
                self.send_header("content-length", "0")
                self.send_header("location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        with self._lock:
            self.asked += 1
            status = self.statuses.pop(0) if self.statuses else 200
            headers = {key.lower(): value for key, value in headers.items()}
            self.headers.append(headers)
            if status == 200:
                self.bodies.append((path, gzip.decompress(body) if headers.get("content-encoding") else body))
            return status

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def spans(self) -> list[Seen]:
        found = []
        for path, body in self.bodies:
            if path != "/v1/traces":
                continue
            for rs in ExportTraceServiceRequest.FromString(body).resource_spans:
                resource = {a.key: _value(a.value) for a in rs.resource.attributes}
                found += [Seen(span, resource) for ss in rs.scope_spans for span in ss.spans]
        return found

    def dropped(self) -> tuple[int, int]:
        """Attributes and events that the limits of the senders of all spans dropped."""
        spans = [
            span
            for path, body in self.bodies
            if path == "/v1/traces"
            for rs in ExportTraceServiceRequest.FromString(body).resource_spans
            for ss in rs.scope_spans
            for span in ss.spans
        ]
        return sum(s.dropped_attributes_count for s in spans), sum(s.dropped_events_count for s in spans)

    def roots(self) -> list[Seen]:
        return [span for span in self.spans() if span[names.STAGE] == "request"]

    def root(self) -> Seen:
        (root,) = self.roots()
        return root

    def stage(self, name: str) -> Seen:
        (span,) = (span for span in self.spans() if span[names.STAGE] == name)
        return span

    def stages(self, name: str) -> list[Seen]:
        return [span for span in self.spans() if span[names.STAGE] == name]

    def feedback(self) -> list[dict[str, Any]]:
        return [json.loads(body) for path, body in self.bodies if path == "/v1/feedback"]

    def everything(self) -> bytes:
        return b"".join(body for _path, body in self.bodies)
