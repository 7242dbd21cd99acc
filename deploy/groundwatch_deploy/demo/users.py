"""What users do after an answer: a few complain, fewer praise, most say nothing."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from groundwatch_deploy.demo.truth import Truth

COMPLAINT_AFTER_FAILURE = 0.45
COMPLAINT_AFTER_GOOD_ANSWER = 0.02
PRAISE_AFTER_GOOD_ANSWER = 0.08
MAX_DELAY_SECONDS = 1.0

_COMPLAINTS_EN = ("not what I asked", "that is wrong", "", "useless", "")
_COMPLAINTS_ZH = ("答非所问", "不对", "", "没有帮助", "")


@dataclass(frozen=True, slots=True)
class Reaction:
    sentiment: Literal["positive", "negative"]
    comment: str
    delay_seconds: float


def react(truth: Truth, rng: random.Random) -> Reaction | None:
    """How the user of this request reacts, if at all. A user feels the failure, not the verdict of any judge."""
    if not truth.completed:
        return None
    chance, delay = rng.random(), rng.uniform(0.0, MAX_DELAY_SECONDS)
    complaint = rng.choice(_COMPLAINTS_ZH if truth.chinese else _COMPLAINTS_EN)
    if chance < (COMPLAINT_AFTER_FAILURE if truth.failed else COMPLAINT_AFTER_GOOD_ANSWER):
        return Reaction("negative", complaint, delay)
    if not truth.failed and chance > 1 - PRAISE_AFTER_GOOD_ANSWER:
        return Reaction("positive", "", delay)
    return None
