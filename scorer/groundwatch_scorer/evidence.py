"""Find, for a claim, the passage of the documents that covers it best."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from typing import Literal

from groundwatch_collector.ragtrace import Document

from .judgement import Evidence
from .text import CJK, Sentence, folded, is_cjk, kept_if_short, sentences, tokens
from .text_numbers import Quantity, quantities

LONGEST_WINDOW = 3  # sentences
_TIE = 1e-9  # of the total weight: sums that differ by less are the same
_WINDOW_PRICE = 0.02  # of recall per further sentence: the shorter passage wins unless the longer one adds something
_DISCOUNT = 0.3
_HALF_MATCH = 0.5  # of a Chinese bigram's weight when both characters occur, but apart
_CACHED_DOCUMENTS = 1024  # the passages of an application recur from trace to trace
_LONGEST_DOCUMENT = 60_000  # characters that are read of one document


@dataclass(frozen=True)
class Passages:
    """A document's text, taken apart once. What only some readings need is made when it is first asked for."""

    text: str
    read: str  # as much of the text as is read
    sentences: tuple[Sentence, ...]
    tokens: tuple[frozenset[str], ...]  # per sentence
    places: Mapping[str, tuple[int, ...]]  # token -> the sentences that have it

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """All its tokens: sharing is asked of every document for every claim, and sets answer that fastest."""
        return frozenset(self.places)

    @property
    def cut(self) -> bool:
        """Whether the text was longer than is read."""
        return len(self.read) < len(self.text)

    @cached_property
    def flat(self) -> str:
        """The text folded, with blanks made one space."""
        return flattened(self.read)

    @cached_property
    def template(self) -> str:
        """*flat* without its numbers, see :func:`number_template`."""
        return number_template(self.flat)

    @cached_property
    def quantities(self) -> tuple[tuple[Quantity, ...], ...]:
        """Per sentence, with offsets in the sentence."""
        return tuple(tuple(quantities(self.read[s.start : s.end])) for s in self.sentences)

    @cached_property
    def characters(self) -> frozenset[str]:
        """The Chinese characters of the text."""
        return frozenset(c for c in set(self.flat) if is_cjk(c))


NUMERAL = re.compile(r"\d+(?:[.,]\d+)*")
_PLURAL = re.compile(r"(?<=[a-z]{2})s\b")


def number_template(flat: str) -> str:
    """*flat* with every number as "#", and no plural that a number may have brought."""
    return _PLURAL.sub("", NUMERAL.sub("#", flat))


_BLANKS = re.compile(r"\s+")


@kept_if_short
def flattened(text: str) -> str:
    """*text* folded, with every run of blanks as one space; none stays between Chinese characters."""
    return _BETWEEN_CHINESE.sub("", _BLANKS.sub(" ", folded(text).text)).strip()


_BETWEEN_CHINESE = re.compile(f"(?<=[{CJK}，。；：、！？]) (?=[{CJK}])")


@lru_cache(maxsize=_CACHED_DOCUMENTS)
def passages(text: str) -> Passages:
    """Take *text* apart into sentences with their tokens and numbers."""
    read = text[:_LONGEST_DOCUMENT]
    spans = tuple(sentences(read))
    sets = tuple(frozenset(tokens(read[s.start : s.end])) for s in spans)
    places: dict[str, list[int]] = {}
    for index, found in enumerate(sets):
        for token in found:
            places.setdefault(token, []).append(index)
    return Passages(text, read, spans, sets, {token: tuple(where) for token, where in places.items()})


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
        self._documents = tuple(documents)
        self._sentences = sum(len(document.tokens) for document in self._documents)
        self._discounted = discounted  # words of the question: repeating them in an answer proves little
        self._known: dict[str, float] = {}

    def of(self, token: str) -> float:
        weight = self._known.get(token)
        if weight is None:
            weight = self._known[token] = self._count(token)
        return weight

    def of_all(self, order: Sequence[str]) -> list[float]:
        known = self._known
        return [known[token] if token in known else self.of(token) for token in order]

    def _count(self, token: str) -> float:
        background = _background("zh" if is_cjk(token) else "en")
        seen = background.counts.get(token, 0)
        for document in self._documents:
            seen += len(document.places.get(token, ()))
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
        self._quantities: list[Quantity] | None = None

    def best_window(
        self, wanted: frozenset[str], weights: Weights, only: int | None = None, least: float = 0.0
    ) -> Window | None:
        """The shortest run of up to three sentences that covers most of *wanted*; ties go to the earlier one.

        *only* restricts the search to one document; documents that cannot reach the recall *least* are passed over.
        """
        order = sorted(wanted)  # a set's order differs from run to run, and with it the last digit of a sum
        weight = weights.of_all(order)
        total = sum(weight)
        position = {token: index for index, token in enumerate(order)}
        searched: list[tuple[int, _Hits]] = []
        for d in range(len(self.passages)) if only is None else (only,):
            shared = self.passages[d].vocabulary & wanted
            if shared and sum(weight[position[token]] for token in shared) >= least * total:
                places = self.passages[d].places
                found = sorted((position[token], places[token]) for token in shared)
                searched.append((d, _hits(found, weight, len(self.passages[d].tokens))))
        # Longer runs are only looked at where they can beat the best single sentence.
        at_least = max((max(h.alone) for _d, h in searched), default=0.0) - _TIE * total
        best: Window | None = None
        for d, hits in searched:
            better = _best_run(hits, weight, at_least, _WINDOW_PRICE * total)
            if better is not None:
                first, last, covered = better
                best = Window(d, first, last, covered / total)
                at_least = covered - _WINDOW_PRICE * total * (last - first) + _TIE * total
        return best

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        return frozenset().union(*(passage.vocabulary for passage in self.passages))

    def has(self, token: str) -> bool:
        return token in self._vocabulary

    def covers(self, token: str) -> float:
        """How well the whole of the documents has *token*, in [0, 1]."""
        if self.has(token):
            return 1.0
        if not is_cjk(token):
            return 0.0
        return _HALF_MATCH * self._most_characters(token[0], token[-1]) / 2

    def _most_characters(self, first: str, last: str) -> int:
        """How many of two characters some one document has."""
        most = 0
        for passage in self.passages:
            found = (first in passage.characters) + (last in passage.characters)
            if found == 2:
                return 2
            most = max(most, found)
        return most

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
        if self._quantities is None:
            self._quantities = [q for document in self.passages for sentence in document.quantities for q in sentence]
        return self._quantities

    def window_text(self, window: Window) -> str:
        document = self.passages[window.document]
        return document.text[document.sentences[window.first].start : document.sentences[window.last].end]

    def evidence(self, window: Window) -> Evidence:
        """The window as a true substring of its document."""
        document = self.passages[window.document]
        start, end = document.sentences[window.first].start, document.sentences[window.last].end
        return Evidence(self.documents[window.document].id, start, end, document.text[start:end], self.where)


@dataclass(frozen=True, slots=True)
class _Hits:
    """Per sentence of one document, and empty ones after the last."""

    masks: Sequence[int]  # bits of the tokens that it has
    alone: Sequence[float]  # their weight


def _hits(found: Sequence[tuple[int, Sequence[int]]], weight: Sequence[float], sentence_count: int) -> _Hits:
    """Of *found*, the tokens by their index, each with the sentences that have it."""
    masks = [0] * (sentence_count + LONGEST_WINDOW - 1)
    alone = [0.0] * len(masks)
    for token, where in found:
        bit, own = 1 << token, weight[token]
        for sentence in where:
            masks[sentence] |= bit
            alone[sentence] += own
    return _Hits(masks, alone)


def _weight_of(mask: int, weight: Sequence[float]) -> float:
    total = 0.0
    while mask:
        lowest = mask & -mask
        total += weight[lowest.bit_length() - 1]
        mask ^= lowest
    return total


def _best_run(hits: _Hits, weight: Sequence[float], at_least: float, price: float) -> tuple[int, int, float] | None:
    """The best run of sentences above *at_least* by weight less *price* per further one: (first, last, weight)."""
    masks, alone = hits.masks, hits.alone
    best: tuple[int, int, float] | None = None
    for first in range(len(masks) - LONGEST_WINDOW + 1):
        if not masks[first] or alone[first] + alone[first + 1] + alone[first + 2] <= at_least:
            continue
        seen, covered = 0, 0.0
        for last in range(first, first + LONGEST_WINDOW):
            new = masks[last] & ~seen
            if not new:
                continue
            covered += alone[last] if new == masks[last] else _weight_of(new, weight)
            seen |= new
            score = covered - price * (last - first)
            if score > at_least:
                best, at_least = (first, last, covered), score + _TIE * price
    return best


def _half_match(token: str, characters: frozenset[str]) -> float:
    """Of a token of one or two Chinese characters; others match whole or not at all."""
    if not is_cjk(token):
        return 0.0
    return _HALF_MATCH * ((token[0] in characters) + (token[-1] in characters)) / 2
