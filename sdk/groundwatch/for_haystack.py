"""Haystack: ``pipeline = watch(pipeline)`` makes each run one request, with final context and outcome.

Its instrumentors show what each component took and gave, and neither a context that was chosen nor an outcome. Their
spans nest inside the request, so one trace tells both.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from groundwatch.handle import Request
from groundwatch.quiet import quiet
from groundwatch.values import text_of
from groundwatch.watching import Query, Watched, shown_in

Results = Mapping[str, Mapping[str, Any]]  # of each component


class _Watched(Watched):
    """A pipeline of which each run is a request."""

    def run(self, data: Any, include_outputs_from: set[str] | None = None, **more: Any) -> Any:
        opened, _ = self._open(data)
        with opened:
            found = self._watched.run(data, include_outputs_from=self._every(), **more)
            _record(opened, data, found, self._kinds())
        return self._wanted(found, include_outputs_from or set())

    async def run_async(self, data: Any, include_outputs_from: set[str] | None = None, **more: Any) -> Any:
        opened, _ = self._open(data)
        async with opened:
            found = await self._watched.run_async(data, include_outputs_from=self._every(), **more)
            _record(opened, data, found, self._kinds())
        return self._wanted(found, include_outputs_from or set())

    def _every(self) -> set[str]:
        return set(self._watched.graph.nodes)

    def _kinds(self) -> dict[str, str]:
        """The class of each component, which is the best hint to what it does."""
        nodes = self._watched.graph.nodes
        return {name: type(nodes[name]["instance"]).__name__ for name in nodes}

    def _wanted(self, found: Results, asked: set[str]) -> dict[str, Any]:
        """As the pipeline would have answered: what no other component took, and all of those that were asked for."""
        taken = {(name, edge["from_socket"].name) for name, _to, edge in self._watched.graph.edges(data=True) if edge}
        kept = {
            name: outputs
            if name in asked
            else {key: value for key, value in outputs.items() if (name, key) not in taken}
            for name, outputs in found.items()
        }
        return {name: outputs for name, outputs in kept.items() if outputs or name in asked}


@quiet
def _record(opened: Request, data: Any, found: Results, kinds: Mapping[str, str]) -> None:
    """What each component gave, in the order of a request. The times of the steps are the instrumentor's to tell."""
    opened._record.mark = time.monotonic_ns()  # no stage takes the time of the whole run for its own
    documents = {
        name: given["documents"] for name, given in found.items() if isinstance(given.get("documents"), list)
    }
    for name in (name for name in documents if "Retriever" in kinds[name]):
        if (searched := data.get(name, {}).get("query")) and searched != opened._record.query:
            opened.rewrite(searched)
        opened.candidates(documents[name], source=name)
    for name in (name for name in documents if "Ranker" in kinds[name]):
        opened.rerank(documents[name], model=kinds[name])
    known = [document for given in documents.values() for document in given]
    for given in found.values():
        if "prompt" in given:
            opened.context(shown_in(_text(given["prompt"]), known))
    for given in found.values():
        if "replies" in given:
            _answered(opened, given["replies"])


def _answered(opened: Request, replies: Any) -> None:
    last = replies[-1] if isinstance(replies, list) and replies else replies
    meta = getattr(last, "meta", None) or {}
    opened.answer(text_of(last), usage=meta.get("usage"), model=meta.get("model"))


def _text(prompt: Any) -> str:
    messages = prompt if isinstance(prompt, list) else [prompt]
    return "\n".join(text_of(message) or "" for message in messages)


def watch(pipeline: Any, *, query: Query = None, name: str | None = None, session: str | None = None) -> Any:
    """Record each ``run`` and ``run_async`` of *pipeline* as one request; its result is what it would have been.

    *query*: a function of the run's data that gives the question; without it the usual keys are tried.
    """
    return _Watched(pipeline, query, name, session)
