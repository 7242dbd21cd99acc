"""The application itself: a question goes in, an answer with its sources comes out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from groundwatch_deploy.demo import answering, corpus, words
from groundwatch_deploy.demo.answering import Quote
from groundwatch_deploy.demo.behaviour import Behaviour, invent_number
from groundwatch_deploy.demo.corpus import Passage
from groundwatch_deploy.demo.retrieval import Hit, Index
from groundwatch_deploy.demo.rewrite import Rewritten, rewrite

CANDIDATES = 12
RERANKED = 4
CONTEXT_MAX_CHARS = 3_000

Outcome = Literal["answered", "partial", "refused", "error", "cancelled"]


class SearchUnavailable(Exception):
    """One call of the search backend did not come back."""


class Cancelled(Exception):
    """The user went away before the answer was there."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the answerer wrote, and what it knows about how it came to that."""

    text: str
    cited: tuple[tuple[str, str], ...] = ()  # (passage id, marker)
    refused: bool = False
    partial: bool = False  # answers one half of the question and says that the other was not found
    confidence: float = 0.0
    invented: bool = False  # a number was made up: known to the program that did it, and to nobody else
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(slots=True)
class Reply:
    """Everything that happened in one request."""

    query: str
    outcome: Outcome = "error"
    rewritten: Rewritten | None = None
    candidates: list[Hit] = field(default_factory=list)
    reranked: list[Hit] = field(default_factory=list)
    context: list[Passage] = field(default_factory=list)
    answer: Answer | None = None
    retries: int = 0


class Generator(Protocol):
    """Writes the answer from the context."""

    model: str

    def write(self, query: str, rewritten: Rewritten, context: Sequence[Passage], rng: random.Random) -> Answer: ...


class RagApp:
    """One deployed version of the application. Safe to use from several threads."""

    def __init__(self, behaviour: Behaviour, index: Index | None = None, generator: Generator | None = None) -> None:
        self.behaviour = behaviour
        self.index = index or Index(corpus.load())
        self.generator = generator or Extractive(self.index, behaviour)

    def rewrite(self, query: str) -> Rewritten:
        return rewrite(query, self.index.document_counts)

    def search(self, query: Rewritten, rng: random.Random) -> list[Hit]:
        """BM25 candidates. Raises :class:`SearchUnavailable` now and then, as backends do: call it again."""
        if rng.random() < self.behaviour.search_failure_rate:
            raise SearchUnavailable("the search backend did not answer within 800 ms")
        return self.index.candidates(query, CANDIDATES)

    def rerank(self, query: Rewritten, candidates: Sequence[Hit]) -> list[Hit]:
        return self.index.rerank(query, candidates, RERANKED, self.behaviour.rerank_input_limit_bytes)

    def select_context(self, reranked: Sequence[Hit]) -> list[Passage]:
        """The best passages that fit the model's window; the first always goes in."""
        chosen: list[Passage] = []
        for hit in reranked:
            if chosen and sum(len(p.text) for p in chosen) + len(hit.passage.text) > CONTEXT_MAX_CHARS:
                break
            chosen.append(hit.passage)
        return chosen

    def write(self, query: str, rewritten: Rewritten, context: Sequence[Passage], rng: random.Random) -> Answer:
        """The answer. Raises :class:`Cancelled` when the user did not wait for it."""
        if rng.random() < self.behaviour.cancelled_rate:
            raise Cancelled
        return self.generator.write(query, rewritten, context, rng)


class Extractive:
    """Quotes the best sentence or two word for word; no model, no network."""

    model = "extractive-1"

    def __init__(self, index: Index, behaviour: Behaviour) -> None:
        self._index = index
        self._behaviour = behaviour

    def write(self, query: str, rewritten: Rewritten, context: Sequence[Passage], rng: random.Random) -> Answer:
        # Drawn in a fixed order whatever happens, so that a seed means the same request in every version.
        invents, declines = rng.random(), rng.random()
        quotes = answering.best_quotes(self._index, query, rewritten, context)
        confidence = _confidence(quotes)
        if declines < self._behaviour.spurious_refusal_rate:
            return Answer(answering.refusal(query), refused=True, confidence=confidence)
        invents_number = invents < self._behaviour.invented_number_rate
        if confidence >= self._behaviour.refuse_below:
            return self._quote(quotes, invents_number, rng)
        halves = [self._half(half, context) for half in answering.halves(query)]
        best = max(halves, key=_confidence, default=[])
        if _confidence(best) < self._behaviour.refuse_below:
            return Answer(answering.refusal(query), refused=True, confidence=confidence)
        answer = self._quote(best, invents_number, rng)
        return replace(answer, text=f"{answer.text} {answering.rest_not_found(query)}", partial=True)

    def _half(self, query: str, context: Sequence[Passage]) -> list[Quote]:
        rewritten = rewrite(query, self._index.document_counts)
        # "and to whom" alone says too little to look for.
        return answering.best_quotes(self._index, query, rewritten, context) if len(rewritten.terms) > 1 else []

    def _quote(self, quotes: Sequence[Quote], invents: bool, rng: random.Random) -> Answer:
        said = [quote.sentence for quote in quotes]
        invented = invent_number(said[0], rng) if invents else None
        if invented is not None:
            said[0] = invented
        glue = "" if words.is_chinese(said[0]) else " "
        text = glue.join(f"{sentence} [{quote.number}]" for sentence, quote in zip(said, quotes, strict=True))
        cited = tuple(dict.fromkeys((quote.source.id, f"[{quote.number}]") for quote in quotes))
        return Answer(text, cited, confidence=_confidence(quotes), invented=invented is not None)


def _confidence(quotes: Sequence[Quote]) -> float:
    return round(quotes[0].confidence, 3) if quotes else 0.0
