"""One HTTP server in one thread, on a socket that was bound before anything else was started."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import uvicorn
from prometheus_client import CollectorRegistry, make_asgi_app
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from groundwatch_deploy.config import ConfigError
from groundwatch_deploy.tls import Tls


def is_loopback(host: str) -> bool:
    """Whether *host* can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int, what: str) -> socket.socket:
    """Bind at once, so that a port in use is reported before any work starts."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise ConfigError(
            f"{what}: cannot listen on {host}:{port} ({error.strerror}); stop what is there, or choose another port"
        ) from error
    return bound


def url_of(bound: socket.socket, tls: Tls | None = None) -> str:
    """The address of a bound socket as a URL."""
    host, port = bound.getsockname()[:2]
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def metrics_app(registry: CollectorRegistry) -> ASGIApp:
    """Answer with metrics to who reads. Traces that are sent here by mistake are refused, not taken and forgotten."""
    metrics: ASGIApp = make_asgi_app(registry)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in {"GET", "HEAD", "OPTIONS"}:
            await metrics(scope, receive, send)
            return
        said = f"found {scope['method']}, accepted: GET. These are metrics; traces go to the ingest port\n"
        refusal = PlainTextResponse(said, status_code=405, headers={"allow": "GET, HEAD, OPTIONS"})
        await refusal(scope, receive, send)

    return answer


class ImpatientProtocol(HttpToolsProtocol):
    """Closes a connection whose request line and headers do not come. The server bounds only what follows them."""

    head_seconds = 20.0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        self._head_came()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_seconds, self.transport.close)

    def _head_came(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class Bound(NamedTuple):
    """How many connections a server holds at once, idle ones too, and whom it tells of each beyond."""

    connections: int
    refused: Callable[[], None]

    def protocol(self) -> type[ImpatientProtocol]:
        most, refused = self

        class Bounded(ImpatientProtocol):
            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
                super().connection_made(transport)
                if len(self.connections) > most:
                    refused()
                    transport.write(_FULL)
                    transport.close()

        return Bounded


_FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

# Longer than proxies and pools commonly keep an idle connection (60 s): a request on one that the server is closing
# gets no answer, and a POST is not repeated by most clients.
KEEP_IDLE_SECONDS = 75


class HttpServer:
    """Serve one ASGI app from its own thread."""

    def __init__(
        self, app: Any, bound: socket.socket, name: str, tls: Tls | None = None, most: Bound | None = None
    ) -> None:
        config = uvicorn.Config(
            app,
            http=most.protocol() if most else ImpatientProtocol,
            ws="none",
            lifespan="off",
            access_log=False,
            log_level="warning",
            server_header=False,
            timeout_keep_alive=KEEP_IDLE_SECONDS,
            timeout_graceful_shutdown=5,
            **(tls.for_uvicorn() if tls else {}),
        )
        self._server = uvicorn.Server(config)
        self._socket = bound
        self._thread = threading.Thread(target=self._run, name=f"groundwatch-{name}", daemon=True)
        self.url = url_of(bound, tls)
        self.name = name

    def start(self, timeout_seconds: float = 30.0) -> None:
        """Return when requests are answered. Raises ``RuntimeError`` when the server does not come up."""
        self._thread.start()
        deadline = time.monotonic() + timeout_seconds
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise RuntimeError(f"the {self.name} server did not start")
            time.sleep(0.005)

    def ask_to_stop(self) -> None:
        """Begin to stop: no new connection is taken."""
        self._server.should_exit = True

    def stop(self, timeout_seconds: float = 10.0) -> None:
        """Finish the requests in hand, then stop listening."""
        self.ask_to_stop()
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)
        self._socket.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])
