"""LangChain: ``chain = watch(chain)`` makes each call one request, with what went into the prompt and how it ended.

LangChain's instrumentors show neither a reranked list, nor the final context, nor an outcome. Their spans nest inside
the request, so one trace tells both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables.config import merge_configs

from groundwatch.handle import Request
from groundwatch.quiet import quiet
from groundwatch.values import text_of, tokens_of
from groundwatch.watching import Query, Watched, answer_in, names_of, shown_in


class _Steps(BaseCallbackHandler):  # type: ignore[misc]  # it is typed where LangChain is installed
    """Records the retrievals and model calls of one request. LangChain logs what it raises; it raises nothing."""

    run_inline = True  # in the caller's task, in order

    def __init__(self, opened: Request, question: str | None) -> None:
        self._request = opened
        self._question = question
        self._parents: dict[UUID, UUID | None] = {}  # of retrievers that run or ran
        self._found: dict[UUID, list[Any]] = {}  # what the retrievers inside of each found
        self._known: list[Any] = []  # every document that any retriever gave
        self._tokens = [0, 0]
        self.usage: dict[str, int] | None = None
        self.model: str | None = None

    @quiet
    def on_retriever_start(
        self, _serialized: Any, query: str, *, run_id: UUID, parent_run_id: UUID | None = None, **_more: Any
    ) -> None:
        self._parents[run_id] = parent_run_id
        if query != self._question:
            self._request.rewrite(query)

    @quiet
    def on_retriever_end(
        self, documents: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **_more: Any
    ) -> None:
        found = list(documents)
        if run_id in self._found:  # it holds other retrievers: a reranker, when its list is another one
            if names_of(found) != names_of(self._found[run_id]):
                self._request.rerank(found)
        else:
            self._request.candidates(found)
        if parent_run_id in self._parents:
            self._found.setdefault(parent_run_id, []).extend(found)
        self._known += found

    @quiet
    def on_chat_model_start(self, _serialized: Any, messages: Any, **_more: Any) -> None:
        prompt = "\n".join(text_of(message) or "" for batch in messages for message in batch)
        self._saw_prompt(prompt)

    @quiet
    def on_llm_start(self, _serialized: Any, prompts: Any, **_more: Any) -> None:
        self._saw_prompt("\n".join(prompts))

    def _saw_prompt(self, prompt: str) -> None:
        if shown := shown_in(prompt, self._known):
            self._request.context(shown)

    @quiet
    def on_llm_end(self, response: Any, **_more: Any) -> None:
        message = getattr(response.generations[0][0], "message", None)
        told = getattr(message, "usage_metadata", None) or (response.llm_output or {}).get("token_usage")
        self.model = (getattr(message, "response_metadata", None) or {}).get("model_name") or self.model
        found = tokens_of(told)
        if None not in found:
            self._tokens = [known + (more or 0) for known, more in zip(self._tokens, found, strict=True)]
            self.usage = {"input_tokens": self._tokens[0], "output_tokens": self._tokens[1]}

    @quiet
    def answered(self, output: Any) -> None:
        self._request.answer(answer_in(output), usage=self.usage, model=self.model)

    @quiet
    def streamed(self) -> None:
        """The text of a stream is collected on its way; tokens and model come from the call."""
        record = self._request._record
        record.input_tokens, record.output_tokens = tokens_of(self.usage)
        record.model = self.model or record.model


class _Watched(Watched):
    """A runnable of which each call is a request."""

    def _begin(self, given: Any) -> tuple[Request, _Steps]:
        opened, question = self._open(given)
        return opened, _Steps(opened, question)

    def invoke(self, given: Any, config: Any = None, **more: Any) -> Any:
        opened, steps = self._begin(given)
        with opened:
            output = self._watched.invoke(given, merge_configs(config, {"callbacks": [steps]}), **more)
            steps.answered(output)
        return output

    async def ainvoke(self, given: Any, config: Any = None, **more: Any) -> Any:
        opened, steps = self._begin(given)
        async with opened:
            output = await self._watched.ainvoke(given, merge_configs(config, {"callbacks": [steps]}), **more)
            steps.answered(output)
        return output

    def stream(self, given: Any, config: Any = None, **more: Any) -> Iterator[Any]:
        opened, steps = self._begin(given)

        def chunks() -> Iterator[Any]:
            yield from self._watched.stream(given, merge_configs(config, {"callbacks": [steps]}), **more)
            steps.streamed()

        with opened:
            return opened.stream(chunks(), text=_chunk_text)

    def astream(self, given: Any, config: Any = None, **more: Any) -> AsyncIterator[Any]:
        opened, steps = self._begin(given)

        async def chunks() -> AsyncIterator[Any]:
            async for chunk in self._watched.astream(given, merge_configs(config, {"callbacks": [steps]}), **more):
                yield chunk
            steps.streamed()

        with opened:
            return opened.stream(chunks(), text=_chunk_text)


def _chunk_text(chunk: Any) -> str | None:
    return answer_in(chunk) or ""


def watch(runnable: Any, *, query: Query = None, name: str | None = None, session: str | None = None) -> Any:
    """Record each ``invoke``, ``ainvoke``, ``stream`` and ``astream`` of *runnable* as one request.

    *query*: the key of the question in the input, or a function of the input; without it the usual keys are tried.
    """
    return _Watched(runnable, query, name, session)
