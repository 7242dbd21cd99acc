"""Read one HTTP body with bounds on its bytes, its time, what it unpacks to, and on all bodies together."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from types import TracebackType
from typing import Any, Self

from groundwatch_collector.limits import Limits, Reason, Rejected

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

_GZIP = 31  # zlib's window bits for "gzip header and trailer"
_MAX_MEMBERS = 16  # a gzip body may be several joined ones; each costs a copy of what follows


class InFlight:
    """Bytes that all requests hold together, against a bound. The threads of all doors share it."""

    def __init__(self, max_bytes: int, changed: Callable[[int], None]) -> None:
        self._max_bytes = max_bytes
        self._changed = changed
        self._held = 0
        self._lock = threading.Lock()

    def hold(self) -> Held:
        return Held(self)

    def move(self, size: int) -> None:
        """Add *size* (or give it back when negative). Raises :class:`Rejected` when the bound would be passed."""
        with self._lock:
            fits = size <= 0 or self._held + size <= self._max_bytes
            self._held += size if fits else 0
            self._changed(self._held)
        if not fits:
            raise Rejected(
                Reason.BUSY, "the receiver holds as many bytes as it may; send again later", 429, {"retry-after": "1"}
            )


class Held:
    """The share of one request, given back when it ends."""

    def __init__(self, all_requests: InFlight) -> None:
        self._all = all_requests
        self._size = 0

    def add(self, size: int) -> None:
        self._all.move(size)
        self._size += size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._all.move(-self._size)


class Incoming:
    """The messages of one request, and whether its body has ended."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._ended = False

    async def __call__(self) -> MutableMapping[str, Any]:
        message = await self._receive()
        self._ended = message["type"] == "http.disconnect" or not message.get("more_body", False)
        return message

    async def discard(self, max_bytes: int, seconds: float) -> None:
        """Read on to the end of the body, up to these bounds, and keep nothing.

        Closing a connection while its sender still writes makes the system throw the answer away: the sender sees
        a broken connection, takes it for an outage and sends the same again.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._ended and max_bytes > 0:
                    max_bytes -= len((await self()).get("body", b""))


async def read_body(receive: Receive, declared: str | None, max_bytes: int, limits: Limits, held: Held) -> bytes:
    """The whole body as it travelled. *declared* is the Content-Length header."""
    length = int(declared) if declared and declared.isascii() and declared.isdigit() else None
    if length is not None and length > max_bytes:
        raise _too_large(max_bytes, f"{length} bytes declared")
    try:
        async with asyncio.timeout(limits.body_timeout_seconds):
            body = await _collect(receive, max_bytes, held)
    except TimeoutError:
        raise Rejected(
            Reason.BODY_TIMEOUT, f"body: not complete after {limits.body_timeout_seconds:g} seconds", 408
        ) from None
    if length is not None and length != len(body):
        raise Rejected(Reason.BODY_INCOMPLETE, f"body: {len(body)} bytes found, Content-Length says {length}")
    return body


async def _collect(receive: Receive, max_bytes: int, held: Held) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Rejected(Reason.BODY_INCOMPLETE, "body: the sender went away before its end")
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > max_bytes:
            raise _too_large(max_bytes, "more found")
        held.add(len(chunk))
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large(max_bytes: int, found: str) -> Rejected:
    return Rejected(Reason.COMPRESSED_TOO_LARGE, f"body: {found}, accepted: up to {max_bytes} bytes as sent", 413)


def unpack(body: bytes, max_bytes: int) -> bytes:
    """Undo gzip, never holding more than *max_bytes* of the result. An empty body stays empty."""
    pieces: list[bytes] = []
    room = max_bytes
    for _ in range(_MAX_MEMBERS):
        if not body:
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        piece, body = _unpack_member(body, room + 1)
        room -= len(piece)
        if room < 0:
            raise Rejected(
                Reason.TOO_LARGE, f"body: more found after gzip, accepted: up to {max_bytes} bytes unpacked", 413
            )
        pieces.append(piece)
    if body:
        raise Rejected(Reason.BAD_GZIP, f"body: more gzip members found, accepted: up to {_MAX_MEMBERS}")
    return b"".join(pieces)


def _unpack_member(body: bytes, max_bytes: int) -> tuple[bytes, bytes]:
    """One gzip member unpacked (up to *max_bytes* of it) and what follows it."""
    unpacker = zlib.decompressobj(wbits=_GZIP)
    try:
        piece = unpacker.decompress(body, max_bytes)
    except zlib.error as error:
        raise Rejected(Reason.BAD_GZIP, f"body: not gzip ({error})") from None
    if not unpacker.eof and len(piece) < max_bytes:
        raise Rejected(Reason.BAD_GZIP, "body: the gzip data ends in the middle")
    return piece, unpacker.unused_data
