"""Streams: pass the chunks on, note the first, keep the text, end the request.

Nothing stays attached to the context while a chunk is with the consumer: the context is attached around each
step of the source only, so a stream may be closed from anywhere.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from groundwatch.nesting import Attachment, OpenSpan, context_for
from groundwatch.quiet import quiet, tell_once
from groundwatch.records import StageRecord

if TYPE_CHECKING:
    from groundwatch.handle import Request

T = TypeVar("T")


class _Collected:
    """What a stream has shown so far, and its end."""

    __slots__ = (
        "_attachment",
        "_chunks",
        "_cut",
        "_kept",
        "_model",
        "_parts",
        "_request",
        "_stage",
        "_text_of",
        "_usage",
        "ended",
        "within",
    )

    def __init__(
        self, request: Request, text_of: Callable[[Any], str | None], model: str | None, whole: bool
    ) -> None:
        self._request = request
        self._text_of = text_of
        self._model = model
        self._parts: list[str] = []
        self._chunks = 0
        self._kept = 0  # characters
        self._cut = 0  # characters
        self._usage: Any = None
        self.ended = False
        record = request._record
        # A whole function also retrieves: its answer stage is what follows the last stage it recorded.
        self._stage = None if whole else StageRecord("answer", record.span_id, time.monotonic_ns())
        if self._stage is not None:
            request._add_stage(self._stage)
        span_id = record.span_id if self._stage is None else self._stage.open_span_id()
        self.within = context_for(request, OpenSpan(record, span_id))
        request._hold()

    def __enter__(self) -> None:
        """One step of the source begins: it runs inside the answer's span."""
        self._attachment = Attachment(self.within)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is not None:
                self.end(None if isinstance(error, (StopIteration, StopAsyncIteration)) else error)
        finally:
            self._attachment.restore()

    @quiet
    def saw(self, chunk: Any) -> None:
        self._chunks += 1
        if not isinstance(chunk, (str, bytes, dict)):
            self._usage = getattr(chunk, "usage", None) or self._usage
        text = self._text_of(chunk)
        if isinstance(text, str):
            self._keep(text)
        elif text is not None:
            tell_once("stream_text", "groundwatch: stream(text=) must return str or None; the chunk was left out")

    def _keep(self, text: str) -> None:
        if text and self._request._record.first_token is None:
            self._request.first_token()
        room = max(self._request._recorder.keep_chars - self._kept, 0)
        kept = text[:room]
        self._cut += len(text) - len(kept)
        self._kept += len(kept)
        if kept:
            self._parts.append(kept)

    @quiet
    def end(self, error: BaseException | None) -> None:
        """The stream is over: *error* is None when it ran to its end."""
        if self.ended:
            return
        self.ended = True
        try:
            self._record_answer(error)
        finally:
            self._request._release(error)

    def drop(self) -> None:
        """The stream was dropped. In a forked child it is a copy, and says nothing."""
        if not self.ended and self._request._recorder.is_here():
            self.end(GeneratorExit())

    def _record_answer(self, error: BaseException | None) -> None:
        request, record = self._request, self._request._record
        now = time.monotonic_ns()
        if self._stage is None:
            if record.answer is not None or not self._chunks:
                return  # the function recorded it itself, or gave nothing
            self._stage = StageRecord("answer", record.span_id, record.mark)
            request._add_stage(self._stage)
        self._stage.end = record.mark = now
        if error is not None:
            self._stage.error = request._error_record(error)
        if self._chunks:
            request._set_answer(self._stage, "".join(self._parts), self._usage, self._model)
            record.answer_cut = self._cut


class _Stream:
    """A stream of an answer, sync or async, that may be dropped before its end."""

    _collected: _Collected

    def __del__(self) -> None:
        collected = getattr(self, "_collected", None)
        if collected is not None:
            collected.drop()


class SyncStream(_Stream, Generic[T], Iterator[T]):
    """A pass-through iterator that behaves like the generator it wraps."""

    def __init__(
        self,
        request: Request,
        source: Iterable[T],
        text_of: Callable[[T], str | None],
        model: str | None,
        whole: bool = False,
    ) -> None:
        self._source: Any = iter(source)
        self._collected = _Collected(request, text_of, model, whole)

    def __iter__(self) -> SyncStream[T]:
        return self

    def __next__(self) -> T:
        return self._step(next, self._source)

    def send(self, value: Any) -> T:
        if value is None:
            return next(self)
        return self._step(self._source.send, value)

    def throw(self, error: BaseException) -> T:
        if hasattr(self._source, "throw"):
            return self._step(self._source.throw, error)
        self._collected.end(error)
        raise error

    def _step(self, advance: Callable[..., T], *args: Any) -> T:
        with self._collected:
            chunk = advance(*args)
        self._collected.saw(chunk)
        return chunk

    def close(self) -> None:
        """Stop early. The request ends as cancelled, with the text so far."""
        try:
            if hasattr(self._source, "close"):
                self._source.close()
        finally:
            self._collected.end(GeneratorExit())

    def __enter__(self) -> SyncStream[T]:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class AsyncStream(_Stream, Generic[T], AsyncIterator[T]):
    """The same for ``async for``."""

    def __init__(
        self,
        request: Request,
        source: AsyncIterable[T],
        text_of: Callable[[T], str | None],
        model: str | None,
        whole: bool = False,
    ) -> None:
        self._source: Any = aiter(source)
        self._collected = _Collected(request, text_of, model, whole)

    def __aiter__(self) -> AsyncStream[T]:
        return self

    async def __anext__(self) -> T:
        return await self._step(anext(self._source))

    async def asend(self, value: Any) -> T:
        if value is None:
            return await anext(self)
        return await self._step(self._source.asend(value))

    async def athrow(self, error: BaseException) -> T:
        if hasattr(self._source, "athrow"):
            return await self._step(self._source.athrow(error))
        self._collected.end(error)
        raise error

    async def _step(self, advance: Any) -> T:
        with self._collected:
            chunk: T = await advance
        self._collected.saw(chunk)
        return chunk

    async def aclose(self) -> None:
        """Stop early. The request ends as cancelled, with the text so far."""
        try:
            if hasattr(self._source, "aclose"):
                await self._source.aclose()
            elif hasattr(self._source, "close"):
                await self._source.close()
        finally:
            self._collected.end(GeneratorExit())

    async def __aenter__(self) -> AsyncStream[T]:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()
