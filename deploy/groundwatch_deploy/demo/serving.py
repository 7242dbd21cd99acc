"""One request of the application under the Groundwatch SDK: what a customer would write in their own service."""

from __future__ import annotations

import random
from collections.abc import Sequence

import groundwatch
from groundwatch_deploy.demo.app import Cancelled, RagApp, Reply, SearchUnavailable
from groundwatch_deploy.demo.corpus import Passage
from groundwatch_deploy.demo.retrieval import Hit

SEARCH_ATTEMPTS = 2
_REASONS = {"refused": "low_confidence", "partial": "half_not_found"}


def serve(app: RagApp, query: str, *, rng: random.Random, trace_id: str | None = None, session: str = "") -> Reply:
    """Answer *query*. What goes wrong on the way is the reply's outcome, not an exception."""
    reply = Reply(query)
    try:
        with groundwatch.request(query, trace_id=trace_id, session=session or None) as request:
            _answer(app, reply, request, rng)
    except SearchUnavailable:
        reply.outcome = "error"
    return reply


def _answer(app: RagApp, reply: Reply, request: groundwatch.Request, rng: random.Random) -> None:
    with request.stage("rewrite") as stage:
        reply.rewritten = app.rewrite(reply.query)
        stage.text(reply.rewritten.text)
    with request.stage("candidates", source="tideline-docs") as stage:
        reply.candidates = _search(app, request, reply, rng)
        stage.documents(_scored(reply.candidates))
    with request.stage("rerank", model="idf-cover-2") as stage:
        reply.reranked = app.rerank(reply.rewritten, reply.candidates)
        stage.documents(_scored(reply.reranked))
    with request.stage("context") as stage:
        reply.context = app.select_context(reply.reranked)
        stage.documents(_plain(reply.context))
    _write(app, reply, request, rng)


def _search(app: RagApp, request: groundwatch.Request, reply: Reply, rng: random.Random) -> list[Hit]:
    assert reply.rewritten is not None  # the stage before
    for _attempt in range(SEARCH_ATTEMPTS - 1):
        try:
            return app.search(reply.rewritten, rng)
        except SearchUnavailable as error:
            request.retry("candidates", error)
            reply.retries += 1
    return app.search(reply.rewritten, rng)


def _write(app: RagApp, reply: Reply, request: groundwatch.Request, rng: random.Random) -> None:
    assert reply.rewritten is not None  # the first stage
    try:
        with request.stage("answer", model=app.generator.model):
            answer = app.write(reply.query, reply.rewritten, reply.context, rng)
            request.first_token()  # the extract is ready whole: its first word is there when its last one is
            usage = {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens}
            request.answer(answer.text, citations=answer.cited, usage=usage, model=app.generator.model)
    except Cancelled:
        reply.outcome = "cancelled"
        request.outcome("cancelled", "client_closed")
        return
    reply.answer = answer
    reply.outcome = "refused" if answer.refused else "partial" if answer.partial else "answered"
    request.outcome(reply.outcome, _REASONS.get(reply.outcome))


def _scored(hits: Sequence[Hit]) -> list[dict[str, object]]:
    return [
        {"id": hit.passage.id, "content": hit.passage.text, "score": hit.score, "title": hit.passage.title}
        for hit in hits
    ]


def _plain(passages: Sequence[Passage]) -> list[dict[str, object]]:
    return [{"id": passage.id, "content": passage.text, "title": passage.title} for passage in passages]
