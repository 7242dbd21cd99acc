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
from .text import CJK, Sentence, folded, is_cjk, kept_if_short, sentences, tokens, tokens_of_folded
from .text_numbers import Quantity, Stated, covered, quantities

LONGEST_WINDOW = 3  # sentences
_TIE = 1e-9  # of the total weight: sums that differ by less are the same
_WINDOW_PRICE = 0.02  # of recall per further sentence: the shorter passage wins unless the longer one adds something
_NUMBERS_ARE_WORTH = 0.02  # of recall: a sentence with the claim's numbers wins over one with other numbers
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
    places: Mapping[str, int]  # token -> the sentences that have it, a bit for each

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
    def stated(self) -> Stated:
        """The same numbers, arranged to be looked up."""
        return Stated(q for found in self.quantities for q in found)

    @cached_property
    def line_templates(self) -> tuple[str, ...]:
        """Per sentence, its text without its numbers."""
        return tuple(number_template(flattened(self.read[s.start : s.end])) for s in self.sentences)

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
    sets = tuple(_token_sets(read, spans))
    places: dict[str, int] = {}
    for index, found in enumerate(sets):
        bit = 1 << index
        for token in found:
            places[token] = places.get(token, 0) | bit
    return Passages(text, read, spans, sets, places)


def _token_sets(text: str, spans: Iterable[Sentence]) -> Iterable[frozenset[str]]:
    whole = folded(text)
    if whole.offsets is None:  # the sentences stand at the same places in the folded text
        return (frozenset(tokens_of_folded(whole.text[s.start : s.end])) for s in spans)
    return (frozenset(tokens(text[s.start : s.end])) for s in spans)


_FEW_PLACES = 64  # a word that is everywhere in a long text takes much room, and is asked for seldom


def _places_of(bits: int) -> tuple[int, ...]:
    """The indexes of the bits that are set, ascending."""
    return _kept_places(bits) if bits.bit_count() <= _FEW_PLACES else _counted_places(bits)


@lru_cache(maxsize=16384)
def _kept_places(bits: int) -> tuple[int, ...]:
    return _counted_places(bits)


def _counted_places(bits: int) -> tuple[int, ...]:
    found: list[int] = []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Window:
    """A run of sentences of one document and the share of the claim's weight that its words cover."""

    document: int  # index in the library
    first: int
    last: int  # inclusive, index of sentence
    recall: float  # in [0, 1]


@dataclass(frozen=True, slots=True)
class Weighed:
    """Tokens and how much each tells, in a fixed order.

    A set's order differs from run to run, and with it the last digit of a sum.
    """

    wanted: frozenset[str]
    order: Sequence[str]
    weight: Sequence[float]
    total: float
    position: Mapping[str, int]


class Weights:
    """How much a token tells: rare ones tell more. Counted in the documents at hand over a shipped background."""

    def __init__(self, documents: Iterable[Passages] = (), discounted: frozenset[str] = frozenset()) -> None:
        self._documents = tuple(documents)
        self._sentences = sum(len(document.tokens) for document in self._documents)
        self._discounted = discounted  # words of the question: repeating them in an answer proves little
        self._known: dict[str, float] = {}
        self._weighed: dict[frozenset[str], Weighed] = {}

    def weigh(self, wanted: frozenset[str]) -> Weighed:
        """The weights of *wanted*; the same claim is weighed once."""
        found = self._weighed.get(wanted)
        if found is None:
            found = self._weighed[wanted] = self._weigh(wanted)
        return found

    def _weigh(self, wanted: frozenset[str]) -> Weighed:
        self._learn(frozenset(token for token in wanted if token not in self._known))
        order = sorted(wanted)
        weight = [self._known[token] for token in order]
        return Weighed(wanted, order, weight, sum(weight), {token: index for index, token in enumerate(order)})

    def _learn(self, tokens: frozenset[str]) -> None:
        counts = dict.fromkeys(tokens, 0)
        for document in self._documents:
            for token in document.vocabulary & tokens:
                counts[token] += document.places[token].bit_count()
        english, chinese = _background("en"), _background("zh")
        for token, count in counts.items():
            background = chinese if is_cjk(token) else english
            seen = background.counts.get(token, 0) + count
            self._known[token] = math.log((background.sentences + self._sentences + 1) / (seen + 0.5))
        for token in tokens & self._discounted:
            self._known[token] *= _DISCOUNT


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

    def best_window(
        self, wanted: frozenset[str], weights: Weights, only: int | None = None, least: float = 0.0
    ) -> Window | None:
        """The shortest run of up to three sentences that covers most of *wanted*; ties go to the earlier one.

        *only* restricts the search to one document; documents that cannot reach the recall *least* are passed over.
        """
        weighed = weights.weigh(wanted)
        weight, total = weighed.weight, weighed.total
        searched: list[tuple[int, float, _Hits]] = []
        for d in range(len(self.passages)) if only is None else (only,):
            passage = self.passages[d]
            shared = sorted(map(weighed.position.__getitem__, passage.vocabulary & wanted))
            reach = sum([weight[index] for index in shared])
            if shared and reach >= least * total:
                found = [(index, _places_of(passage.places[weighed.order[index]])) for index in shared]
                searched.append((d, reach, _hits(found, weight, len(passage.tokens))))
        # Longer runs are only looked at where they can beat the best single sentence.
        at_least = max((max(h.alone) for _d, _reach, h in searched), default=0.0) - _TIE * total
        best: Window | None = None
        for d, reach, hits in searched:
            if reach <= at_least - _TIE * total:
                continue
            better = _best_run(hits, weight, at_least, _WINDOW_PRICE * total)
            if better is not None:
                first, last, covered = better
                best = Window(d, first, last, covered / total)
                at_least = covered - _WINDOW_PRICE * total * (last - first) + _TIE * total
        return best

    def with_numbers(self, window: Window, weighed: Weighed, numbers: Sequence[Quantity]) -> Window:
        """*window*, or a sentence with more of *numbers* in it whose words fit hardly less.

        Lists, tables and logs say the same words again and again; only the numbers tell which line is meant.
        """
        here = self.window_quantities(window)
        best, most = window, sum(covered(q, here) for q in numbers)
        missing = [q for q in numbers if not covered(q, here) and self.states(q)]
        if not missing:
            return window
        least = window.recall - _NUMBERS_ARE_WORTH
        for d, passage in enumerate(self.passages):
            if not any(passage.stated.covers(q) for q in missing):
                continue
            for s, stated in enumerate(passage.quantities):
                if not any(covered(q, stated) for q in missing):
                    continue
                found = sum(covered(q, stated) for q in numbers)
                if found <= most:
                    continue
                shared = sorted(weighed.position[t] for t in passage.tokens[s] & weighed.wanted)
                recall = sum([weighed.weight[i] for i in shared]) / weighed.total if weighed.total else 0.0
                if recall >= least:
                    best, most = Window(d, s, s, recall), found
        return best

    def has(self, token: str) -> bool:
        return any(token in passage.vocabulary for passage in self.passages)

    def covers(self, weighed: Weighed) -> float:
        """Share of the weight that the whole of the documents has, with half matches of Chinese."""
        have = frozenset().union(*[passage.vocabulary & weighed.wanted for passage in self.passages])
        holders = self._holders
        found = 0.0
        for token, weight in zip(weighed.order, weighed.weight, strict=True):
            if token in have:
                found += weight
            elif is_cjk(token):  # how many of two characters some one document has
                first, last = holders.get(token[0], 0), holders.get(token[-1], 0)
                found += weight * (_HALF_MATCH if first & last else _HALF_MATCH / 2 if first or last else 0.0)
        return found / weighed.total if weighed.total else 0.0

    @cached_property
    def _holders(self) -> dict[str, int]:
        """Chinese character -> the documents that have it, a bit for each."""
        holders: dict[str, int] = {}
        for index, passage in enumerate(self.passages):
            bit = 1 << index
            for character in passage.characters:
                holders[character] = holders.get(character, 0) | bit
        return holders

    def window_covers(self, window: Window, weighed: Weighed) -> float:
        """Share of the weight in *window*, with half matches of Chinese."""
        have, characters = self.window_tokens(window), frozenset(folded(self.window_text(window)).text)
        found = 0.0
        for token, weight in zip(weighed.order, weighed.weight, strict=True):
            if token in have:
                found += weight
            elif is_cjk(token):
                found += weight * (_HALF_MATCH * ((token[0] in characters) + (token[-1] in characters)) / 2)
        return found / weighed.total if weighed.total else 0.0

    def window_tokens(self, window: Window) -> frozenset[str]:
        return frozenset().union(*self.passages[window.document].tokens[window.first : window.last + 1])

    def window_quantities(self, window: Window) -> list[Quantity]:
        return [q for s in self.passages[window.document].quantities[window.first : window.last + 1] for q in s]

    def states(self, quantity: Quantity) -> bool:
        """Whether some document says that number."""
        return any(passage.stated.covers(quantity) for passage in self.passages)

    def all_quantities(self) -> Iterable[Quantity]:
        return (q for passage in self.passages for sentence in passage.quantities for q in sentence)

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
