"""Retrieval in two steps: BM25 finds candidates among all passages, a reranker puts the few best in order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import bm25s

from groundwatch_deploy.demo import words
from groundwatch_deploy.demo.corpus import Passage
from groundwatch_deploy.demo.rewrite import Rewritten

_UNKNOWN_WORD = 1.2  # a word that no document holds is a better sign than a rare one
_UNKNOWN_PAIR = 0.35  # many pairs of Chinese characters only straddle two words


@dataclass(frozen=True, slots=True)
class Sentence:
    text: str
    tokens: frozenset[str]


@dataclass(frozen=True, slots=True)
class Wanted:
    """One token of a query, or a word that would do as well."""

    weight: float
    tokens: frozenset[str]


@dataclass(frozen=True, slots=True)
class Hit:
    passage: Passage
    score: float


@dataclass(frozen=True, slots=True)
class _Entry:
    passage: Passage
    title_tokens: frozenset[str]
    tokens: frozenset[str]
    sentences: tuple[Sentence, ...] = field(repr=False)


class Index:
    """All passages, searchable. Built once at start, read by every thread."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.entries = {passage.id: _entry(passage) for passage in passages}
        token_lists = [words.tokens(passage.text) for passage in passages]
        self.document_counts: Mapping[str, int] = Counter(token for ts in token_lists for token in set(ts))
        self._passages = tuple(passages)
        self._bm25 = bm25s.BM25(k1=1.2, b=0.75)
        self._bm25.index(token_lists, show_progress=False)

    def idf(self, token: str) -> float:
        count = self.document_counts.get(token, 0)
        return math.log(1 + (len(self._passages) - count + 0.5) / (count + 0.5))

    def candidates(self, query: Rewritten, limit: int) -> list[Hit]:
        """The *limit* best passages by BM25, best first; passages that share no word with *query* are left out."""
        known = [token for token in words.tokens(query.text) if token in self.document_counts]
        if not known:
            return []
        found, scores = self._bm25.retrieve([known], k=limit, show_progress=False)
        pairs = zip(found[0].tolist(), scores[0].tolist(), strict=True)
        return [Hit(self._passages[number], round(score, 4)) for number, score in pairs if score > 0]

    def rerank(
        self, query: Rewritten, hits: Sequence[Hit], limit: int, input_limit_bytes: int | None = None
    ) -> list[Hit]:
        """Order *hits* by how much of *query* they cover, in the passage, its title and its best sentence.

        *input_limit_bytes* is what a reranking model accepts: longer passages are passed over.
        """
        wanted = self.weigh(query)
        fitting = [h for h in hits if input_limit_bytes is None or len(h.passage.text.encode()) <= input_limit_bytes]
        top = max((hit.score for hit in hits), default=1.0)
        scored = [Hit(hit.passage, round(self._relevance(wanted, hit, top), 4)) for hit in fitting]
        return sorted(scored, key=lambda hit: (-hit.score, hit.passage.id))[:limit]

    def weigh(self, query: Rewritten) -> tuple[Wanted, ...]:
        """What each token of *query* counts. Words no document knows count most: evidence is missing."""
        terms = [(token, added) for said, added in query.terms for token in words.tokens(said)]
        return tuple(self._wanted(token, words.tokens(added)) for token, added in dict(terms).items())

    def _wanted(self, token: str, added: Sequence[str]) -> Wanted:
        known = [t for t in (token, *added) if t in self.document_counts]
        unknown = _UNKNOWN_PAIR if words.is_chinese(token) else _UNKNOWN_WORD
        weight = min(map(self.idf, known)) if known else unknown * self.idf(token)
        return Wanted(weight, frozenset((token, *added)))

    def _relevance(self, wanted: Sequence[Wanted], hit: Hit, top: float) -> float:
        entry = self.entries[hit.passage.id]
        closest = max((coverage(wanted, sentence.tokens) for sentence in entry.sentences), default=0.0)
        return (
            0.35 * coverage(wanted, entry.tokens)
            + 0.3 * closest
            + 0.15 * coverage(wanted, entry.title_tokens)
            + 0.2 * hit.score / top
        )


def coverage(wanted: Sequence[Wanted], found: frozenset[str]) -> float:
    """Share of the weight of *wanted* that is in *found*, in [0, 1]."""
    total = sum(want.weight for want in wanted)
    return sum(want.weight for want in wanted if not want.tokens.isdisjoint(found)) / total if total else 0.0


def _entry(passage: Passage) -> _Entry:
    body = passage.text.removeprefix(passage.title)
    parts = tuple(Sentence(text, frozenset(words.tokens(text))) for text in words.sentences(body))
    return _Entry(passage, frozenset(words.tokens(passage.title)), frozenset(words.tokens(passage.text)), parts)
