"""Sending: spans through OpenTelemetry's OTLP exporter, feedback as JSON over HTTP. Never retries by itself."""

from __future__ import annotations

import logging
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import Message
from typing import IO, Literal
from urllib.parse import urlsplit

from opentelemetry import context
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from groundwatch.settings import Settings

_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_GRPC_REFUSED = frozenset({"INVALID_ARGUMENT", "UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED", "NOT_FOUND"})
_MAX_RETRY_AFTER_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Delivery:
    state: Literal["sent", "again", "refused"]
    problem: str = ""  # what went wrong, without addresses or data
    retry_after_seconds: float = 0.0


SENT = Delivery("sent")


def _of_status(status: int, retry_after: str | None) -> Delivery:
    if status not in _TRY_AGAIN:
        return Delivery("refused", f"HTTP {status}")
    try:
        seconds = min(max(float(retry_after or 0), 0.0), _MAX_RETRY_AFTER_SECONDS)
    except ValueError:
        seconds = 0.0
    return Delivery("again", f"HTTP {status}", seconds)


def host_and_port(url: str) -> str:
    """All of an address that a log may hold: users, paths and queries of some receivers are keys."""
    return urlsplit(url if "://" in url else f"//{url}").netloc.rpartition("@")[2]


def suppress_instrumentation() -> None:
    """Keep our own HTTP out of the host's traces. For the worker thread, which does nothing else."""
    made = context.get_current()
    for key in (
        context._SUPPRESS_INSTRUMENTATION_KEY,
        context._SUPPRESS_HTTP_INSTRUMENTATION_KEY,
        "suppress_instrumentation",  # instrumentors from before the keys above
    ):
        made = context.set_value(key, True, made)
    context.attach(made)


class SpanDelivery:
    """One exporter, made when first needed and made anew in a forked child."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.place = host_and_port(settings.traces_url)
        self._exporter: SpanExporter | None = None
        self._answer: Delivery | None = None

    def send(self, spans: Sequence[ReadableSpan]) -> Delivery:
        if self._exporter is None:
            self._exporter = self._grpc() if self._settings.protocol == "grpc" else self._http()
        self._answer = None
        with _QuietExporter() as said:
            try:
                result = self._exporter.export(spans)
            except Exception as error:
                if self._answer is not None:  # older exporters let it through
                    return self._answer
                # Network errors are OSError, requests' own included. Anything else will not get better.
                return Delivery("again" if isinstance(error, OSError) else "refused", type(error).__name__)
        if result is SpanExportResult.SUCCESS:
            return SENT
        return self._answer or _from_log(said.last)

    def close(self) -> None:
        """Abort what runs and close connections."""
        exporter, self._exporter = self._exporter, None
        if exporter is not None:
            with _QuietExporter():
                exporter.shutdown()

    def load(self) -> None:
        """Import what sending needs."""
        if self._settings.protocol == "grpc":
            import grpc  # noqa: F401, PLC0415
            import opentelemetry.exporter.otlp.proto.grpc.trace_exporter  # noqa: PLC0415
        else:
            import opentelemetry.exporter.otlp.proto.http.trace_exporter  # noqa: F401, PLC0415

            import groundwatch.adapter  # noqa: F401, PLC0415

    def _http(self) -> SpanExporter:
        from opentelemetry.exporter.otlp.proto.http import Compression  # noqa: PLC0415
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

        from groundwatch.adapter import WatchedAdapter, session  # noqa: PLC0415

        gzip = self._settings.compression == "gzip"
        return OTLPSpanExporter(
            endpoint=self._settings.traces_url,
            headers=dict(self._settings.headers),
            timeout=self._settings.export_timeout_seconds,
            compression=Compression.Gzip if gzip else Compression.NoCompression,
            session=session(WatchedAdapter(self._settings.headers, self._answered, self._failed)),
        )

    def _answered(self, status: int, retry_after: str | None) -> None:
        self._answer = _of_status(status, retry_after)

    def _failed(self, problem: str) -> None:
        self._answer = Delivery("again", problem)

    def _grpc(self) -> SpanExporter:
        from grpc import Compression  # noqa: PLC0415
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

        url = self._settings.traces_url
        return OTLPSpanExporter(
            endpoint=url,
            insecure=not url.startswith("https://"),
            # Never empty: an empty value would make the exporter read the host's own OTEL_* headers.
            headers=tuple(self._settings.headers.items()) or (("x-groundwatch", "1"),),
            timeout=self._settings.export_timeout_seconds,
            compression=Compression.Gzip if self._settings.compression == "gzip" else Compression.NoCompression,
        )


class _QuietExporter(logging.Filter):
    """While this thread exports, take the exporter's log lines: we tell a problem once, it tells it every time."""

    _LOGGERS = (
        "opentelemetry.exporter.otlp.proto.http.trace_exporter",
        "opentelemetry.exporter.otlp.proto.grpc.exporter",
        "opentelemetry.exporter.otlp.common.http",
    )

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()
        self.last = ""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.thread != self._thread:
            return True
        self.last = record.getMessage()
        return False

    def __enter__(self) -> _QuietExporter:
        for name in self._LOGGERS:
            logging.getLogger(name).addFilter(self)
        return self

    def __exit__(self, *_raised: object) -> None:
        for name in self._LOGGERS:
            logging.getLogger(name).removeFilter(self)


def _from_log(line: str) -> Delivery:
    """What the exporter knows and returns to nobody. Only a class of problem is kept: the line holds addresses."""
    if grpc := re.search(r"StatusCode\.([A-Z_]+)", line):
        return Delivery("refused" if grpc[1] in _GRPC_REFUSED else "again", f"gRPC {grpc[1]}")
    lowered = line.lower()
    if "encode" in lowered or "exceeds" in lowered:
        return Delivery("refused", "spans that cannot be encoded or are too large")
    return Delivery("again", "no answer")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A POST that is redirected becomes a GET without its body: better to fail and say so."""

    def redirect_request(  # noqa: PLR0917 (the signature is the standard library's)
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


class FeedbackDelivery:
    """Posts one feedback at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.place = host_and_port(settings.feedback_url)
        self._opener = urllib.request.build_opener(_NoRedirect)

    def send(self, body: bytes) -> Delivery:
        headers = {**self._settings.headers, "content-type": "application/json"}
        request = urllib.request.Request(  # noqa: S310 (the scheme was checked in configure())
            self._settings.feedback_url, data=body, headers=headers, method="POST"
        )
        try:
            with self._opener.open(request, timeout=self._settings.export_timeout_seconds) as answer:
                answer.read(65_536)
                return SENT
        except urllib.error.HTTPError as error:
            with error:
                return _of_status(error.code, error.headers.get("retry-after"))
        except Exception as error:
            return Delivery("again", type(error).__name__)
