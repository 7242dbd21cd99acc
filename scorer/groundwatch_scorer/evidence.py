"""Find, for a claim, the passage of the documents that covers it best."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Literal

from groundwatch_collector.ragtrace import Document

from .judgement import Evidence
from .text import CJK, Sentence, folded, is_cjk, sentences, tokens
from .text_numbers import Quantity, quantities

LONGEST_WINDOW = 3  # sentences
_WINDOW_PRICE = 0.02  # of recall per further sentence: the shorter passage wins unless the longer one adds something
_DISCOUNT = 0.3
_HALF_MATCH = 0.5  # of a Chinese bigram's weight when both characters occur, but apart
_CACHED_DOCUMENTS = 1024  # the passages of an application recur from trace to trace
_LONGEST_DOCUMENT = 60_000  # characters that are read of one document


@dataclass(frozen=True, slots=True)
class Passages:
    """A document's text, taken apart once."""

    text: str
    flat: str  # folded, blanks made one space
    template: str  # flat without its numbers, see number_template
    sentences: tuple[Sentence, ...]
    tokens: tuple[frozenset[str], ...]  # per sentence
    quantities: tuple[tuple[Quantity, ...], ...]  # per sentence, offsets in the sentence
    cut: bool  # whether the text was longer than is read


NUMERAL = re.compile(r"\d+(?:[.,]\d+)*")
_PLURAL = re.compile(r"(?<=[a-z]{2})s\b")


def number_template(flat: str) -> str:
    """*flat* with every number as "#", and no plural that a number may have brought."""
    return _PLURAL.sub("", NUMERAL.sub("#", flat))


_BLANKS = re.compile(r"\s+")


def flattened(text: str) -> str:
    """*text* folded, with every run of blanks as one space; none stays between Chinese characters."""
    return _BETWEEN_CHINESE.sub("", _BLANKS.sub(" ", folded(text).text)).strip()


_BETWEEN_CHINESE = re.compile(f"(?<=[{CJK}，。；：、！？]) (?=[{CJK}])")


@lru_cache(maxsize=_CACHED_DOCUMENTS)
def passages(text: str) -> Passages:
    """Take *text* apart into sentences with their tokens and numbers."""
    read = text[:_LONGEST_DOCUMENT]
    spans = tuple(sentences(read))
    pieces = [read[s.start : s.end] for s in spans]
    return Passages(
        text,
        flat := flattened(read),
        number_template(flat),
        spans,
        tuple(frozenset(tokens(piece)) for piece in pieces),
        tuple(tuple(quantities(piece)) for piece in pieces),
        len(read) < len(text),
    )


@dataclass(frozen=True, slots=True)
class Window:
    """A run of sentences of one document and the share of the claim's weight that its words cover."""

    document: int  # index in the library
    first: int
    last: int  # inclusive, index of sentence
    recall: float  # in [0, 1]


class Weights:
    """How much a token tells: rare ones tell more. Counted in the documents at hand over a shipped background."""

    def __init__(self, documents: Iterable[Passages] = (), discounted: frozenset[str] = frozenset()) -> None:
        self._local: Counter[str] = Counter()
        self._sentences = 0
        self._discounted = discounted  # words of the question: repeating them in an answer proves little
        self._known: dict[str, float] = {}
        for document in documents:
            self._sentences += len(document.tokens)
            for sentence in document.tokens:
                self._local.update(sentence)

    def of(self, token: str) -> float:
        weight = self._known.get(token)
        if weight is None:
            weight = self._known[token] = self._count(token)
        return weight

    def _count(self, token: str) -> float:
        background = _background("zh" if is_cjk(token) else "en")
        seen = background.counts.get(token, 0) + self._local[token]
        weight = math.log((background.sentences + self._sentences + 1) / (seen + 0.5))
        return weight * _DISCOUNT if token in self._discounted else weight


@dataclass(frozen=True, slots=True)
class _Background:
    sentences: int
    counts: dict[str, int]


@lru_cache(maxsize=2)
def _background(language: Literal["en", "zh"]) -> _Background:
    text = resources.files(__package__).joinpath("background_counts.json").read_text(encoding="utf-8")
    table = json.loads(text)[language]
    return _Background(table["sentences"], {t: int(n) for n, ts in table["tokens"].items() for t in ts.split(" ")})


class Library:
    """The documents that a claim is looked up in."""

    def __init__(self, documents: Sequence[Document], where: Literal["context", "candidates"] = "context") -> None:
        self.documents = documents
        self.where = where
        self.passages = [passages(d.text or "") for d in documents]
        self._characters = frozenset(c for p in self.passages for c in p.flat if is_cjk(c))
        self._places: dict[str, list[tuple[int, int]]] = {}  # token -> (document, sentence)
        for d, document in enumerate(self.passages):
            for s, sentence in enumerate(document.tokens):
                for token in sentence:
                    self._places.setdefault(token, []).append((d, s))

    def best_window(self, wanted: frozenset[str], weights: Weights, only: int | None = None) -> Window | None:
        """The shortest run of up to three sentences that covers most of *wanted*; ties go to the earlier one.

        *only* restricts the search to one document.
        """
        order = sorted(wanted)  # a set's order differs from run to run, and with it the last digit of a sum
        weight = [weights.of(token) for token in order]
        total = sum(weight)
        if not total:
            return None
        hits = self._hits(order, only)
        best: Window | None = None
        best_score = 0.0
        sums: dict[int, float] = {}
        for d, s in sorted(hits):
            mask = 0
            for length in range(LONGEST_WINDOW):
                if s + length >= len(self.passages[d].sentences):
                    break
                mask |= hits.get((d, s + length), 0)
                covered = sums.get(mask)
                if covered is None:
                    covered = sums[mask] = sum(w for i, w in enumerate(weight) if mask >> i & 1) / total
                score = covered - _WINDOW_PRICE * length
                if score > best_score + 1e-9:
                    best, best_score = Window(d, s, s + length, covered), score
        return best

    def _hits(self, order: Sequence[str], only: int | None) -> dict[tuple[int, int], int]:
        hits: dict[tuple[int, int], int] = {}
        for i, token in enumerate(order):
            for place in self._places.get(token, ()):
                if only is None or place[0] == only:
                    hits[place] = hits.get(place, 0) | 1 << i
        return hits

    def has(self, token: str) -> bool:
        return token in self._places

    def covers(self, token: str) -> float:
        """How well the whole of the documents has *token*, in [0, 1]."""
        return 1.0 if token in self._places else _half_match(token, self._characters)

    def window_covers(self, window: Window, wanted: Iterable[str], weights: Weights) -> float:
        """Share of the weight of *wanted* in *window*, with half matches of Chinese."""
        have, characters = self.window_tokens(window), frozenset(folded(self.window_text(window)).text)
        order = sorted(wanted)
        total = sum(weights.of(t) for t in order)
        found = sum(weights.of(t) * (1.0 if t in have else _half_match(t, characters)) for t in order)
        return found / total if total else 0.0

    def window_tokens(self, window: Window) -> frozenset[str]:
        return frozenset().union(*self.passages[window.document].tokens[window.first : window.last + 1])

    def window_quantities(self, window: Window) -> list[Quantity]:
        return [q for s in self.passages[window.document].quantities[window.first : window.last + 1] for q in s]

    def all_quantities(self) -> list[Quantity]:
        return [q for document in self.passages for sentence in document.quantities for q in sentence]

    def window_text(self, window: Window) -> str:
        document = self.passages[window.document]
        return document.text[document.sentences[window.first].start : document.sentences[window.last].end]

    def evidence(self, window: Window) -> Evidence:
        """The window as a true substring of its document."""
        document = self.passages[window.document]
        start, end = document.sentences[window.first].start, document.sentences[window.last].end
        return Evidence(self.documents[window.document].id, start, end, document.text[start:end], self.where)


def _half_match(token: str, characters: frozenset[str]) -> float:
    if not is_cjk(token):
        return 0.0
    return _HALF_MATCH * sum(c in characters for c in token) / len(token)
