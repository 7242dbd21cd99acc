"""Whether a text declines to answer: wholly, in part or not at all. Independent of what the application recorded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from .judgement import Refusal
from .refusal_patterns import COURTESY, DECLINES_EN, DECLINES_ZH, TURNS_EN, TURNS_ZH
from .text import Sentence, folded, is_chinese, sentences, tokens

_ENOUGH_SUBSTANCE = 4  # content tokens beside the declining part
_OPENING = 3  # declining further down is about a detail of an answer


@lru_cache(maxsize=4096)
def declines(sentence: str) -> bool:
    """Whether *sentence* says that something cannot be answered or is not in the documents."""
    text = folded(sentence).text
    return bool((DECLINES_ZH if is_chinese(sentence) else DECLINES_EN).search(text))


def is_courtesy(sentence: str) -> bool:
    """Whether *sentence* only greets, thanks, points elsewhere or asks back."""
    return bool(COURTESY.match(folded(sentence).text)) or sentence.rstrip(" \"'”’)）").endswith(("?", "？"))


def classify(answer: str) -> Refusal:
    """Read *answer*: FULL declines and gives nothing, PARTIAL declines and gives something, NONE answers."""
    spans = sentences(answer)
    declining = [i for i, span in enumerate(spans) if declines(answer[span.start : span.end])]
    if not declining:
        return Refusal.NONE
    substance = _substance(answer, spans, declining)
    if declining[0] >= _OPENING and len(substance) >= _OPENING:
        return Refusal.NONE
    if not substance:
        return Refusal.FULL
    before = sum(
        span.end <= spans[declining[0]].start for span in spans if answer[span.start : span.end] in substance
    )
    if before or _goes_on(answer, spans, declining, substance):
        return Refusal.PARTIAL
    return Refusal.FULL


def _substance(answer: str, spans: Sequence[Sentence], declining: Sequence[int]) -> list[str]:
    """The pieces that assert something: other sentences, and what follows a turn in a declining one."""
    found: list[str] = []
    for index, span in enumerate(spans):
        piece = answer[span.start : span.end]
        if index in declining:
            piece = after_turn(piece)
        if piece and not is_courtesy(piece) and not declines(piece) and len(tokens(piece)) >= _ENOUGH_SUBSTANCE:
            found.append(piece)
    return found


def after_turn(sentence: str) -> str:
    """What a declining sentence goes on to say after "but" or 但; empty when it says no more."""
    view = folded(sentence).text
    turn = (TURNS_ZH if is_chinese(sentence) else TURNS_EN).search(view)
    if turn is None or len(view) != len(sentence) or not declines(sentence[: turn.start()]):
        return ""
    return sentence[turn.end() :]


def _goes_on(answer: str, spans: Sequence[Sentence], declining: Sequence[int], substance: Sequence[str]) -> bool:
    """Whether an answer follows the declining: announced by a "however", or with a source of its own.

    Anything else that follows is taken for the reasons of the refusal.
    """
    if any(_CITED.search(piece) for piece in substance):
        return True
    for index, span in enumerate(spans):
        piece = answer[span.start : span.end]
        if index in declining and after_turn(piece) in substance:
            return True
        view = folded(piece).text
        turn = (TURNS_ZH if is_chinese(piece) else TURNS_EN).search(view)
        if piece in substance and turn is not None and turn.start() <= _TURN_AT_START:
            return True
    return False


_CITED = re.compile(r"\[\d{1,3}\]|【\d{1,3}】")
_TURN_AT_START = 3  # characters
