"""Sort traces into a closed, ordered set of groups; the first that matches counts.

A label may depend on anything except the trace's random number. A wrong label costs precision, never correctness.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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
    "novel",  # a kind of question that this application has not been asked before
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
# Every English form above has one of these in it. Looking for them first clears most answers in a fiftieth of the
# expression's time. Asked of ASCII only, where lower case is all that "regardless of case" means.
_NOT_WHAT = ("contain", "mention", "provided", "covered", "specified", "include", "enough information")
_HINTS = (
    *("sorry", "i can", "i could", "i am ", "i do", "able to"),
    *(f"no {word}" for word in ("relevant", "information", "document", "answer")),
    *(f"t {word}" for word in _NOT_WHAT),
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


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a label may depend on. The random number of the trace is not among it."""

    trace: RagTrace
    score: float  # of signals.py
    novel: bool
    cuts: Cuts


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ordered list."""

    name: str
    matches: Callable[[Facts], bool]


def _complained(facts: Facts) -> bool:
    return any(given.sentiment == "negative" for given in facts.trace.feedback)


def _refused(facts: Facts) -> bool:
    return facts.trace.outcome in _REFUSED or declines(facts.trace.answer)


BUILT_IN: Final = (
    Entry("incomplete", lambda facts: facts.trace.incomplete),
    Entry("error_timeout", lambda facts: facts.trace.outcome in FAILED_EXECUTION),
    Entry("cancelled", lambda facts: facts.trace.outcome is Outcome.CANCELLED),
    Entry("feedback_neg", _complained),
    Entry("refusal", _refused),
    Entry("novel", lambda facts: facts.novel),
    Entry("normal_b0", lambda facts: facts.score < facts.cuts.b1),
    Entry("normal_b1", lambda facts: facts.score < facts.cuts.b2),
    Entry("normal_b2", lambda facts: facts.score < facts.cuts.b3),
    Entry("normal_b3", lambda facts: True),
)
"""What every deployment has, in this order; `rules` puts its own entries between them."""


def classify(
    trace: RagTrace, signals: Signals, cuts: Cuts, *, novel: bool = False, order: Sequence[Entry] = BUILT_IN
) -> str:
    """Name the stratum of *trace*: the first of *order* that matches. The last one always does."""
    facts = Facts(trace, hints.score(signals), novel, cuts)
    return next(entry.name for entry in order if entry.matches(facts))


def declines(answer: str | None) -> bool:
    """Whether *answer* opens like a refusal, in English or Chinese."""
    if answer is None:
        return False
    opening = answer[:_OPENING_CHARS]
    if opening.isascii():
        lowered = opening.lower()
        if not any(hint in lowered for hint in _HINTS):
            return False
    return _DECLINES.search(opening) is not None
