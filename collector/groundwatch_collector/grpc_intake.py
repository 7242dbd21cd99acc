"""The gRPC door of the collector: OTLP TraceService/Export, acknowledged only once it is durable.

Needs the extra ``groundwatch[grpc]``. gRPC would unpack a compressed message without a bound; it is told not to, so
that the bytes come as they travelled and are unpacked here, within the limits.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc import aio

from groundwatch_collector.intake_body import Held
from groundwatch_collector.intake_door import IntakeDoor
from groundwatch_collector.limits import Limits, Reason, Rejected
from groundwatch_collector.receiver import export_response

_SERVICE = "/opentelemetry.proto.collector."
_EXPORT = f"{_SERVICE}trace.v1.TraceService/Export"
_GZIP_MAGIC = b"\x1f\x8b"  # begins no protobuf message of this service
_MAX_CALLS = 1_000  # at once, over all connections; more are answered RESOURCE_EXHAUSTED
_IDENTITY_AND_GZIP = 0b101  # bits of gRPC's list of compressions

# For each HTTP status of a refusal. What would fail again is INVALID_ARGUMENT, also where a size is at fault:
# exporters take RESOURCE_EXHAUSTED for "send it again".
_CODES = {
    401: grpc.StatusCode.UNAUTHENTICATED,
    404: grpc.StatusCode.UNIMPLEMENTED,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
}


@dataclass(frozen=True, slots=True)
class ServerPems:
    """Contents of PEM files."""

    certificate: bytes
    key: bytes
    client_ca: bytes | None = None


class GrpcServer:
    """Serve *door* over gRPC from a thread of its own."""

    name = "grpc"

    def __init__(self, door: IntakeDoor, host: str, port: int, pems: ServerPems | None = None) -> None:
        self.url = f"{'https' if pems else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
        self._address = self.url.partition("//")[2]
        self._handler = _Handler(door)
        self._limits = door.limits
        self._pems = pems
        self._thread = threading.Thread(target=self._run, name="groundwatch-grpc", daemon=True)
        self._started = threading.Event()
        self._failure = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None

    def start(self, timeout_seconds: float = 30.0) -> None:
        """Return when calls are answered. Raises ``RuntimeError`` when the server does not come up."""
        self._thread.start()
        if not self._started.wait(timeout_seconds) or self._failure:
            raise RuntimeError(f"the grpc server did not start: {self._failure or 'no answer'}")

    def ask_to_stop(self) -> None:
        """Begin to stop: no new call is taken."""
        if self._loop is not None and self._stopping is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stopping.set)

    def stop(self, timeout_seconds: float = 10.0) -> None:
        """Finish the calls in hand, then stop listening."""
        self.ask_to_stop()
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        server = aio.server(options=_options(self._limits), maximum_concurrent_rpcs=_MAX_CALLS)
        server.add_generic_rpc_handlers((self._handler,))
        try:
            self._listen(server)
            await server.start()
        except RuntimeError as error:
            self._failure = str(error)
        self._started.set()
        if not self._failure:
            await self._stopping.wait()
        await server.stop(5)

    def _listen(self, server: Any) -> None:
        if self._pems is None:
            server.add_insecure_port(self._address)
            return
        pair = (self._pems.key, self._pems.certificate)
        asked = self._pems.client_ca is not None
        credentials = grpc.ssl_server_credentials([pair], self._pems.client_ca, require_client_auth=asked)
        server.add_secure_port(self._address, credentials)


def _options(limits: Limits) -> Sequence[tuple[str, int]]:
    return (
        ("grpc.per_message_decompression", 0),
        ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_AND_GZIP),
        ("grpc.max_receive_message_length", limits.max_compressed_bytes),
        ("grpc.so_reuseport", 0),  # a port in use is a mistake, not a second server
    )


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    def __init__(self, door: IntakeDoor) -> None:
        self._door = door
        # Messages are as large as max_compressed_bytes before they are counted: only so many are read at once.
        self._reading = asyncio.Semaphore(
            max(2, door.limits.max_concurrent_bytes // door.limits.max_compressed_bytes)
        )

    def service(self, handler_call_details: Any) -> Any:
        method: str = handler_call_details.method
        # Raw bytes, and read by us: on the wire a call with one message is a stream with one message.
        return grpc.stream_unary_rpc_method_handler(self._export if method == _EXPORT else self._other(method))

    async def _export(self, _messages: Any, context: Any) -> bytes:
        started = time.perf_counter()
        try:
            project = self._door.project_of(_authorization(context))
            with self._door.in_flight.hold() as held:
                raw = await self._read(context, held)
                gzip = raw.startswith(_GZIP_MAGIC)
                taken = await self._door.traces(raw, "protobuf", held, gzip=gzip, project=project, started=started)
            return export_response(taken)
        except Rejected as rejected:
            await self._refuse(context, rejected)

    async def _read(self, context: Any, held: Held) -> bytes:
        seconds = self._door.limits.body_timeout_seconds
        async with self._reading:
            try:
                async with asyncio.timeout(seconds):
                    message = await context.read()
            except TimeoutError:
                raise Rejected(Reason.BODY_TIMEOUT, f"message: not complete after {seconds:g} seconds", 408) from None
            if message is aio.EOF:  # gRPC has refused it already, with a sentence of its own
                most = self._door.limits.max_compressed_bytes
                raise Rejected(Reason.COMPRESSED_TOO_LARGE, f"message: none, or more than {most} bytes as sent", 413)
            held.add(len(message))
            return bytes(message)

    def _other(self, method: str) -> Callable[[Any, Any], Awaitable[bytes]]:
        if method.startswith(_SERVICE):
            reason, message = Reason.WRONG_SIGNAL, "only traces are taken here; turn this exporter off"
        else:
            reason, message = Reason.NOT_FOUND, f"no such method; accepted: {_EXPORT}"

        async def answer(_messages: Any, context: Any) -> bytes:
            await self._refuse(context, Rejected(reason, message, 404))

        return answer

    async def _refuse(self, context: Any, rejected: Rejected) -> NoReturn:
        self._door.note(rejected)
        code = _CODES.get(rejected.status, grpc.StatusCode.INVALID_ARGUMENT)
        await context.abort(code, rejected.message, _retry_info(code, rejected))
        raise AssertionError("abort raises")


def _authorization(context: Any) -> bytes:
    for name, value in context.invocation_metadata():
        if name == "authorization":
            return value if isinstance(value, bytes) else str(value).encode()
    return b""


def _retry_info(code: Any, rejected: Rejected) -> tuple[tuple[str, bytes], ...]:
    """How long to wait, both as gRPC's rich status and as the entry that exporters look for."""
    seconds = rejected.headers.get("retry-after")
    if seconds is None:
        return ()
    info = RetryInfo(retry_delay=Duration(seconds=int(seconds)))
    detail = AnyMessage()
    detail.Pack(info)
    status = Status(code=code.value[0], message=rejected.message, details=[detail])
    return (
        ("google.rpc.retryinfo-bin", info.SerializeToString()),
        ("grpc-status-details-bin", status.SerializeToString()),
    )
