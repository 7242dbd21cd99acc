"""What sets a claim apart from the passage that covers it best: numbers, names, negation, opposites."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from .evidence import Library, Weights, Window, flattened
from .text import folded, is_chinese, kept_if_short, tokens
from .text_numbers import Quantity, covered, quantities, same
from .text_tables import ENGLISH_STOP_WORDS, OPPOSITES_EN, OPPOSITES_ZH

_APPROXIMATE = re.compile(
    r"\b(?:about|around|nearly|almost|roughly|approximately|over|more than|up to)\b|约|近|大概|左右|超过|多达"
)
_SUMS = re.compile(
    r"\b(?:together|total|combined|altogether|both|sum|difference|twice|half)\b|总共|一共|合计|共计|总计|相差"
)
_APPROXIMATELY = 0.1  # relative difference that "about" covers

_NEGATION_EN = re.compile(
    r"\b(?:not|no|never|none|cannot|without|neither|nor|nothing|nobody|unable|fails?|failed)\b|n't\b"
)
_NEGATION_ZH = re.compile(
    "不(?!仅|同|断|过|少|管|论|但|如|久|得不|错|良|锈|妨|禁|料|可避免|知不觉)|没|无(?!论|数|比|限|线|疑|人机)"
    "|未(?!来|必)|禁止|勿|并非|非(?!常|洲)"
)


def _pairs(table: str) -> list[tuple[str, str]]:
    pairs = [tuple(pair.split("/")) for pair in table.split()]
    return [(a, b) for a, b in pairs] + [(b, a) for a, b in pairs]


_NO_LONGER = re.compile(r"\b(?:no longer|any more|anymore)\b|不再")
_ENDED = re.compile(r"\b(?:stop(?:s|ped)?|drop(?:s|ped)?|discontinu\w+|ended|ceased)\b|停止|终止|停用|取消")
_OPPOSITES = {"en": _pairs(OPPOSITES_EN), "zh": _pairs(OPPOSITES_ZH)}
_WORDS_EN = re.compile(r"[a-z]+(?:'t)?")
_NAME = re.compile(r"(?<![.!?:;\"'“(\[*\-•]\s)(?<!^)(?<![\w-])([A-Z][A-Za-z0-9]*(?:[-'’][A-Z]?[a-z]+)*)")
_QUOTED = re.compile(r"[“\"「『《]([^”\"」』》\n]{2,40})[”\"」』》]")
_CLAUSE = re.compile(r"[,;，；、。!?！？\n]|\. ")


@dataclass(frozen=True, slots=True)
class Signals:
    """Evidence against and for one claim. Shares are of the claim's token weight."""

    recall: float  # covered by the best window
    context_recall: float  # covered anywhere
    number_absent: bool  # a number that no document has
    number_elsewhere: bool  # a number that the best window lacks, though another passage has it
    number_swapped: bool  # numbers of two lines of a list that are alike but for their numbers
    number_conflict: bool  # the window says another number of the same thing, and no document has the claim's
    entity_absent: bool
    negation_differs: bool
    opposite: bool
    relation_flip: bool  # nearly the sentence of the document, with a negation or an opposite that it lacks
    token_count: int
    number_count: int


def claim_signals(
    claim: str, library: Library, weights: Weights, window: Window | None, wanted: frozenset[str]
) -> Signals:
    """Compare *claim* with the documents and with its best *window*."""
    numbers = quantities(claim)
    weighed = weights.weigh(wanted)
    absent, elsewhere = _number_gaps(claim, numbers, library, window)
    text = "" if window is None else library.window_text(window)
    recall = 0.0 if window is None else library.window_covers(window, weighed)
    return Signals(
        recall=recall,
        context_recall=library.covers(weighed),
        number_absent=bool(absent),
        number_elsewhere=bool(elsewhere),
        number_swapped=window is not None and bool(elsewhere) and _swapped(numbers, elsewhere, library, window),
        number_conflict=window is not None and _conflicts(claim, numbers, absent, library, window),
        entity_absent=_names_absent(claim, library),
        negation_differs=window is not None and _negation_differs(claim, text),
        opposite=window is not None and _opposite(claim, text),
        relation_flip=window is not None and _flips(claim, wanted, library, window),
        token_count=len(wanted),
        number_count=len(numbers),
    )


def _number_gaps(
    claim: str, numbers: Sequence[Quantity], library: Library, window: Window | None
) -> tuple[list[Quantity], list[Quantity]]:
    if not numbers:
        return [], []
    here = [] if window is None else library.window_quantities(window)
    absent = [q for q in numbers if not library.states(q) and not _explained(claim, q, library.all_quantities())]
    elsewhere = [q for q in numbers if q not in absent and not covered(q, here) and not _explained(claim, q, here)]
    return absent, elsewhere


def _explained(claim: str, quantity: Quantity, stated: Iterable[Quantity]) -> bool:
    """Rounding and simple sums are not inventions, where the claim says that it rounds or adds."""
    if quantity.kind != "number":
        return False
    text = folded(claim).text
    rounds, adds = _APPROXIMATE.search(text), _SUMS.search(text)
    if not rounds and not adds:
        return False
    value = float(quantity.amount)
    others = [float(q.amount) for q in stated if q.kind == "number" and q.dimension == quantity.dimension]
    if rounds and any(abs(value - o) <= _APPROXIMATELY * max(abs(o), 1e-9) for o in others):
        return True
    return bool(adds) and any(
        abs(abs(a + sign * b) - value) < 1e-9
        for i, a in enumerate(others)
        for b in others[i + 1 :]
        for sign in (1, -1)
    )


def _conflicts(
    claim: str, claimed: Sequence[Quantity], absent: Sequence[Quantity], library: Library, window: Window
) -> bool:
    """Whether the window has another number of the same unit, said of the same words."""
    return any(_counterpart(claim, q, claimed, library, window) is not None for q in absent)


def _swapped(claimed: Sequence[Quantity], elsewhere: Sequence[Quantity], library: Library, window: Window) -> bool:
    """Whether the claim takes a number from one line of a list and the others from another.

    Outside of lists a number that stands in another passage says little: of four such claims of the development data
    three were right.
    """
    if window.first != window.last or len(claimed) < 2:
        return False
    passage = library.passages[window.document]
    if passage.line_templates.count(passage.line_templates[window.first]) < 2:
        return False
    others = [other for other in passage.quantities[window.first] if not any(same(mine, other) for mine in claimed)]
    return any(o.kind == q.kind and o.dimension == q.dimension for q in elsewhere for o in others)


def _counterpart(
    claim: str, quantity: Quantity, claimed: Sequence[Quantity], library: Library, window: Window
) -> Quantity | None:
    clause = _clause_tokens(claim, quantity.start, quantity.end)
    if not clause:
        return None
    document = library.passages[window.document]
    for index in range(window.first, window.last + 1):
        span = document.sentences[index]
        sentence = document.text[span.start : span.end]
        for other in document.quantities[index]:
            comparable = other.kind == quantity.kind and other.dimension == quantity.dimension
            if not comparable or any(same(mine, other) for mine in claimed):
                continue  # a number that the claim repeats is not in conflict with it
            theirs = _clause_tokens(sentence, other.start, other.end)
            if len(clause & theirs) >= _SHARED_CLAUSE * len(clause):
                return other
    return None


_SHARED_CLAUSE = 0.75


@lru_cache(maxsize=4096)
def _clause_tokens(text: str, start: int, end: int) -> frozenset[str]:
    left = max((m.end() for m in _CLAUSE.finditer(text, 0, start)), default=0)
    after = _CLAUSE.search(text, end)
    return frozenset(tokens(text[left:start] + " " + text[end : after.start() if after else len(text)]))


def _names_absent(claim: str, library: Library) -> bool:
    if is_chinese(claim):
        return any(not _mostly_known(quoted, library) for quoted in _QUOTED.findall(claim))
    for name in _NAME.findall(claim):
        known = [library.has(t) for t in tokens(name)]
        if name.lower() not in ENGLISH_STOP_WORDS and known and not any(known):
            return True
    return False


def _mostly_known(text: str, library: Library) -> bool:
    found = [library.has(t) for t in tokens(text)]
    return not found or sum(found) * 2 > len(found)


@kept_if_short
def _negations(text: str) -> int:
    view = folded(text).text
    return len(_NEGATION_ZH.findall(view)) if is_chinese(text) else len(_NEGATION_EN.findall(view))


def _negation_differs(claim: str, passage: str) -> bool:
    if (_negations(claim) > 0) == (_negations(passage) > 0):
        return False
    mine, theirs = folded(claim).text, folded(passage).text
    return not (_no_longer(mine, theirs) or _no_longer(theirs, mine))


def _no_longer(one: str, other: str) -> bool:
    """Whether *one* says "no longer" and *other* the same as "stopped"."""
    return bool(_NO_LONGER.search(one) and _ENDED.search(other))


def _opposite(claim: str, passage: str) -> bool:
    """Whether the claim has a word whose opposite stands in the passage, and each lacks the other's word."""
    if is_chinese(claim):
        theirs = folded(passage).text
        return any(a not in theirs and b in theirs for a, b in _opposites_of(claim))
    mine_words, their_words = (set(_WORDS_EN.findall(t.lower())) for t in (claim, passage))
    return any(
        a in mine_words and a not in their_words and b in their_words and b not in mine_words
        for a, b in _OPPOSITES["en"]
    )


@kept_if_short
def _opposites_of(claim: str) -> tuple[tuple[str, str], ...]:
    """The pairs of opposites of which a Chinese claim has the first and not the second."""
    text = folded(claim).text
    return tuple((a, b) for a, b in _OPPOSITES["zh"] if a in text and b not in text)


def _flips(claim: str, wanted: frozenset[str], library: Library, window: Window) -> bool:
    """Whether a sentence of the window is nearly the claim's twin and yet says the opposite."""
    document = library.passages[window.document]
    bare = _without_negation(claim)
    for index in range(window.first, window.last + 1):
        theirs = document.tokens[index]
        span = document.sentences[index]
        sentence = document.text[span.start : span.end]
        if len(bare) >= _SHORTEST_TWIN and bare in _without_negation(sentence):
            return _run_together(claim) not in _run_together(sentence)
        if _undone(claim, sentence):
            return True
        if len(wanted & theirs) >= _TWIN * len(wanted | theirs):
            return _negation_differs(claim, sentence) or _opposite(claim, sentence)
    return False


def _undone(claim: str, sentence: str) -> bool:
    """Whether the sentence says 未 ("not yet") where the claim says 已 ("already"), or the other way round."""
    if ("已" in claim) == ("已" in sentence) and ("未" in claim) == ("未" in sentence):
        return False
    mine, theirs = _YES.sub("", _run_together(claim)), _run_together(sentence)
    if len(mine) < _SHORTEST_TWIN or mine in theirs:
        return False
    return any(a in mine and mine.replace(a, b) in theirs for a, b in (("已", "未"), ("未", "已")))


_YES = re.compile("^(?:可以|能|是的|对|好的|不可以|不能|不是)[,，。]")


@kept_if_short
def _without_negation(text: str) -> str:
    """*text* without the words that negate: what is left of a sentence and of its denial is the same."""
    return _run_together(_NEGATION_WORD.sub("", flattened(text)))


@kept_if_short
def _run_together(text: str) -> str:
    return _BLANKS.sub("", flattened(text)).strip(_STOPS)


_NEGATION_WORD = re.compile(r"\b(?:not|never)\b|n't\b|(?<=can)not\b|\b(?:do|does|did)\b|[不没未]")
_BLANKS = re.compile(r"\s+")
_STOPS = " .。!！;；"
_SHORTEST_TWIN = 8  # characters without blanks
_TWIN = 0.8  # share of all tokens of both that they have in common
