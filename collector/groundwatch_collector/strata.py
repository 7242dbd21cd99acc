"""Sort traces into a closed, ordered set of groups; the first that matches counts.

A label may depend on anything except the trace's random number. A wrong label costs precision, never correctness.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from groundwatch_collector import signals as hints
from groundwatch_collector.ragtrace import FAILED_EXECUTION, Outcome, RagTrace
from groundwatch_collector.signals import Signals

STRATA: Final = (
    "incomplete",  # decided before it was whole: its root never came, or memory ran short
    "error_timeout",  # execution failed
    "cancelled",  # the user went away
    "feedback_neg",  # a user complained before the decision
    "refusal",  # the program recorded a refusal or an empty result, or the text declines
    "normal_b0",  # everything else, by the score of signals.py, from good-looking ...
    "normal_b1",
    "normal_b2",
    "normal_b3",  # ... to bad-looking
)

_REFUSED = frozenset({Outcome.REFUSED, Outcome.NO_RESULT})
_OPENING_CHARS = 240  # a refusal declines where it starts
# Cheap on purpose: this only chooses where to look. The judge of refusals reads the text by other means.
_DECLINES = re.compile(
    r"\bI(?:'m| am) sorry\b|\bI (?:can(?:no|')t|could(?: not|n't)|am (?:unable|not able))\b"
    r"|\bI do(?: not|n't) (?:know|have)\b"
    r"|\b(?:not able|unable) to (?:answer|help|find|provide)\b|\bno (?:relevant )?(?:information|documents?|answer)\b"
    r"|(?:not|isn't|aren't|n't) (?:contain|mention|provided|covered|specified|include|enough information)"
    r"|抱歉|对不起|很遗憾|不好意思|无法(?:回答|提供|找到|确定|帮助)|不能(?:回答|提供|协助)|没有(?:找到|相关|提及|提到|查到)|未(?:找到|提及|提到|提供|能找到)"
    r"|不知道|不清楚|暂无",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Cuts:
    """Where the score parts the normal strata. The version travels in the id of the epoch."""

    version: str
    b1: float  # score from here on is normal_b1
    b2: float
    b3: float

    def __post_init__(self) -> None:
        if not 0.0 < self.b1 < self.b2 < self.b3 < 1.0:
            raise ValueError(
                f"score cuts: found {self.b1}, {self.b2}, {self.b3}, accepted: rising numbers between 0 and 1"
            )


def classify(trace: RagTrace, signals: Signals, cuts: Cuts) -> str:
    """Name the stratum of *trace*."""
    if trace.incomplete:
        return "incomplete"
    if trace.outcome in FAILED_EXECUTION:
        return "error_timeout"
    if trace.outcome is Outcome.CANCELLED:
        return "cancelled"
    if any(given.sentiment == "negative" for given in trace.feedback):
        return "feedback_neg"
    if trace.outcome in _REFUSED or declines(trace.answer):
        return "refusal"
    return _normal(hints.score(signals), cuts)


def declines(answer: str | None) -> bool:
    """Whether *answer* opens like a refusal, in English or Chinese."""
    return answer is not None and _DECLINES.search(answer[:_OPENING_CHARS]) is not None


def _normal(score: float, cuts: Cuts) -> str:
    if score < cuts.b1:
        return "normal_b0"
    if score < cuts.b2:
        return "normal_b1"
    return "normal_b2" if score < cuts.b3 else "normal_b3"
