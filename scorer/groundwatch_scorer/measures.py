"""Measures of one reading and of many, with the definitions that evaluation tools share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from groundwatch_collector.ragtrace import COMPLETED, Outcome

from .judgement import Answerability, Assessment, Refusal

RELEVANT_FROM = 0.4  # relevance of a passage or an answer that still is about the question


def average_precision(relevant: Sequence[bool]) -> float:
    """Mean of precision at each relevant rank, over the relevant passages that are there: 1,0,1,0 gives 0.833."""
    hits = 0
    total = 0.0
    for rank, is_relevant in enumerate(relevant, start=1):
        hits += is_relevant
        total += hits / rank if is_relevant else 0.0
    return total / hits if hits else 0.0


def context_precision(assessment: Assessment) -> float | None:
    """Average precision of the context in its order. None: of some passage it is not known whether it is relevant."""
    known = [relevance for relevance in assessment.context_relevance if relevance is not None]
    if not known or len(known) < len(assessment.context_relevance):
        return None
    return average_precision([relevance >= RELEVANT_FROM for relevance in known])


class RefusalCase(StrEnum):
    """What became of a question, by what the text does and what the context allowed (closed set)."""

    ANSWERED = "answered"  # and the context answers
    UNJUSTIFIED_REFUSAL = "unjustified_refusal"
    JUSTIFIED_REFUSAL = "justified_refusal"
    UNGROUNDED_ANSWER = "ungrounded_answer"  # the context does not answer, and the text does
    PARTLY = "partly"  # the context answers in part: either may be right
    UNKNOWN = "unknown"


def refusal_case(refusal: Refusal, answerability: Answerability | None) -> RefusalCase:
    """A partial refusal answers: it declines a part and gives the rest."""
    if answerability is None:
        return RefusalCase.UNKNOWN
    if answerability is Answerability.PARTIAL:
        return RefusalCase.PARTLY
    declined, can = refusal is Refusal.FULL, answerability is Answerability.FULL
    if declined:
        return RefusalCase.UNJUSTIFIED_REFUSAL if can else RefusalCase.JUSTIFIED_REFUSAL
    return RefusalCase.ANSWERED if can else RefusalCase.UNGROUNDED_ANSWER


def refusal_confusion(cases: Iterable[tuple[Outcome, Refusal, Answerability | None]]) -> dict[str, Any]:
    """Counts of every (outcome, semantic refusal, answerability), and rates, each with its own denominator.

    Failed and cancelled requests are in no rate. Every rate is (count, of how many); a denominator may be 0.
    """
    cells = Counter(cases)
    done = [(o, r, a, n) for (o, r, a), n in cells.items() if o in COMPLETED]
    by_case: Counter[RefusalCase] = Counter()
    for _outcome, refusal, answerability, n in done:
        by_case[refusal_case(refusal, answerability)] += n
    full = by_case[RefusalCase.ANSWERED] + by_case[RefusalCase.UNJUSTIFIED_REFUSAL]
    none = by_case[RefusalCase.JUSTIFIED_REFUSAL] + by_case[RefusalCase.UNGROUNDED_ANSWER]
    recorded = [(o, n) for o, refusal, _a, n in done if refusal is Refusal.FULL and o is not Outcome.UNKNOWN]
    unseen = sum(n for outcome, n in recorded if outcome is not Outcome.REFUSED)
    return {
        "cells": {
            f"{o.value} / {r.value} / {a.value if a else 'unknown'}": n
            for (o, r, a), n in sorted(cells.items(), key=str)
        },
        "unjustified_refusals": (by_case[RefusalCase.UNJUSTIFIED_REFUSAL], full),
        "justified_refusals": (by_case[RefusalCase.JUSTIFIED_REFUSAL], none),
        "ungrounded_answers": (by_case[RefusalCase.UNGROUNDED_ANSWER], none),
        "refusals_not_recorded_as_such": (unseen, sum(n for _outcome, n in recorded)),
    }
