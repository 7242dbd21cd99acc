"""LlamaIndex: ``engine = watch(engine)`` makes each query one request, with reranked list, final context and outcome.

Its instrumentors show a reranker only where it sends events of its own, no context that was chosen, and no outcome.
Their spans nest inside the request, so one trace tells both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers.base import BaseEventHandler
from llama_index.core.instrumentation.events.llm import LLMChatEndEvent, LLMCompletionEndEvent
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent
from llama_index.core.instrumentation.events.retrieval import RetrievalEndEvent

from groundwatch.handle import Request
from groundwatch.quiet import quiet
from groundwatch.values import tokens_of
from groundwatch.watching import Query, Watched, names_of


class _Steps:
    """What one request has shown so far."""

    def __init__(self, opened: Request) -> None:
        self.request = opened
        self.latest: list[Any] | None = None  # the list that a later step takes its documents from
        self._calls: dict[int, Any] = {}  # what each model call answered, by identity: two layers tell of one call

    @quiet
    def found(self, nodes: Any) -> None:
        if self.latest is None or names_of(nodes) != names_of(self.latest):  # two layers tell of one retrieval
            self.request.candidates(list(nodes))
        self.latest = list(nodes)

    @quiet
    def ranked(self, nodes: Any) -> None:
        self.request.rerank(list(nodes))
        self.latest = list(nodes)

    @quiet
    def called(self, reply: Any) -> None:
        raw = getattr(reply, "raw", None)
        usage = raw.get("usage") if isinstance(raw, Mapping) else getattr(raw, "usage", None)
        if id(raw) in self._calls or None in tokens_of(usage):
            return
        self._calls[id(raw)] = raw
        record, (sent, received) = self.request._record, tokens_of(usage)
        record.input_tokens = (record.input_tokens or 0) + (sent or 0)
        record.output_tokens = (record.output_tokens or 0) + (received or 0)
        model = raw.get("model") if isinstance(raw, Mapping) else getattr(raw, "model", None)
        record.model = model if isinstance(model, str) else record.model

    @quiet
    def used(self, response: Any) -> None:
        """Whatever reranked or cut the list, the sources of the response are what went into the prompt."""
        nodes = list(getattr(response, "source_nodes", None) or ())
        if self.latest is not None and names_of(nodes) != names_of(self.latest):
            self.request.rerank(nodes)
        self.request.context(nodes)


_steps: ContextVar[_Steps | None] = ContextVar("groundwatch-llamaindex", default=None)


class _Events(BaseEventHandler):  # type: ignore[misc]  # it is typed where LlamaIndex is installed
    """One for the process; what it hears outside a watched engine is not ours."""

    def handle(self, event: Any, **_more: Any) -> None:
        steps = _steps.get()
        if steps is not None and isinstance(event, RetrievalEndEvent):
            steps.found(event.nodes)
        elif steps is not None and isinstance(event, ReRankEndEvent):
            steps.ranked(event.nodes)
        elif steps is not None and isinstance(event, (LLMChatEndEvent, LLMCompletionEndEvent)):
            steps.called(event.response)


class _Watched(Watched):
    """A query or chat engine of which each question is a request."""

    def query(self, given: Any, *more: Any, **named: Any) -> Any:
        return self._ask(self._watched.query, given, more, named)

    def chat(self, given: Any, *more: Any, **named: Any) -> Any:
        return self._ask(self._watched.chat, given, more, named)

    async def aquery(self, given: Any, *more: Any, **named: Any) -> Any:
        return await self._ask_async(self._watched.aquery, given, more, named)

    async def achat(self, given: Any, *more: Any, **named: Any) -> Any:
        return await self._ask_async(self._watched.achat, given, more, named)

    def _begin(self, given: Any) -> _Steps:
        opened, _ = self._open(given)
        return _Steps(opened)

    def _question(self, given: Any) -> str | None:
        return super()._question(getattr(given, "query_str", given))

    def _ask(self, call: Any, given: Any, more: Any, named: Any) -> Any:
        steps = self._begin(given)
        with steps.request:
            token = _steps.set(steps)
            try:
                response = call(given, *more, **named)
            finally:
                _steps.reset(token)
            return _finished(steps, response, is_async=False)

    async def _ask_async(self, call: Any, given: Any, more: Any, named: Any) -> Any:
        steps = self._begin(given)
        async with steps.request:
            token = _steps.set(steps)
            try:
                response = await call(given, *more, **named)
            finally:
                _steps.reset(token)
            return _finished(steps, response, is_async=True)


def _finished(steps: _Steps, response: Any, *, is_async: bool) -> Any:
    steps.used(response)
    if "response_gen" not in getattr(response, "__dict__", {}):
        _answered(steps.request, response)
        return response
    tokens = response.response_gen  # LlamaIndex's iterators offer both ways, whichever of them works
    response.response_gen = steps.request.stream(_each_async(tokens) if is_async else _each(tokens))
    return response


def _each(tokens: Any) -> Iterator[Any]:
    yield from tokens


async def _each_async(tokens: Any) -> AsyncIterator[Any]:
    async for token in tokens:
        yield token


@quiet
def _answered(opened: Request, response: Any) -> None:
    opened.answer(getattr(response, "response", None))


_listening = False


def watch(engine: Any, *, query: Query = None, name: str | None = None, session: str | None = None) -> Any:
    """Record each ``query``, ``aquery``, ``chat`` and ``achat`` of *engine* as one request."""
    global _listening  # noqa: PLW0603
    if not _listening:
        _listening = True
        get_dispatcher().add_event_handler(_Events())
    return _Watched(engine, query, name, session)
