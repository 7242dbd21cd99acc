"""Who reads a trace again after the local judge, with a known chance that is kept beside the trace.

A model is dear and people are dearer, so they read only part of what was judged: more of it where the first reading
was unsure. Because every chance is above 0 and is stored, their verdicts still stand for all traffic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from sqlalchemy import Connection, select

from groundwatch_collector.sampling import included, u56
from groundwatch_collector.storage import insert_ignore
from groundwatch_scorer.judgement import Criterion, Judgement
from groundwatch_scorer.tables import second_looks

PEOPLE = "people"
"""The name under which second looks by people are kept; a model's are kept under its judge's identifier."""


@dataclass(frozen=True, slots=True)
class SecondLook:
    asked: str
    chance: float
    chosen: bool
    unsure: bool


@dataclass(frozen=True, slots=True)
class Chances:
    """Of a second look where the first verdict is unsure, and where it is not. Both in (0, 1]."""

    unsure: float
    sure: float

    def __post_init__(self) -> None:
        for name, chance in (("unsure", self.unsure), ("sure", self.sure)):
            if not 0.0 < chance <= 1.0:
                raise ValueError(f"chance where {name}: found {chance!r}, accepted: above 0 and up to 1")


class Choice:
    """Decides on second looks by *asked*, from a hash of its own: independent of why the trace was sampled."""

    def __init__(self, asked: str, chances: Chances, salt: bytes) -> None:
        self.asked = asked
        self._chances = chances
        self._key = blake2b(f"second look: {asked}".encode(), digest_size=32, key=salt).digest()

    def look(self, trace_id: str, unsure: bool) -> SecondLook:
        chance = self._chances.unsure if unsure else self._chances.sure
        return SecondLook(self.asked, chance, included(u56(trace_id, self._key), chance), unsure)


@dataclass(frozen=True, slots=True)
class Cascade:
    """The choice for the model that reads second, and for the people who read after both."""

    model: Choice | None
    people: Choice


def is_unsure(judgements: Sequence[Judgement]) -> bool:
    """Whether a judge abstained on the headline, or found a failure: many that a weak judge finds are none."""
    headline = _headline(judgements)
    return headline is None or headline.label in ("unscored", "fail")


def is_open(first: Sequence[Judgement], second: Sequence[Judgement]) -> bool:
    """Whether two readings leave the headline open: they differ, or the second adds nothing to an unsure first."""
    one, two = _headline(first), _headline(second)
    if two is None or two.failed is None:
        return is_unsure(first)
    return one is not None and one.failed is not None and one.failed is not two.failed


def keep(connection: Connection, trace_id: str, looks: Sequence[SecondLook]) -> None:
    """Add *looks* inside the caller's transaction; one that is there already stays as it was."""
    for look in looks:
        values = {"asked": look.asked, "chance": look.chance, "chosen": look.chosen, "unsure": look.unsure}
        insert_ignore(connection, second_looks, [{"trace_id": trace_id, **values}])


def chances(connection: Connection, trace_ids: Sequence[str]) -> dict[str, dict[str, float]]:
    """By trace id and judge, the chance with which it was asked; a judge that is always asked is not there."""
    columns = second_looks.c
    query = select(columns.trace_id, columns.asked, columns.chance).where(columns.trace_id.in_(trace_ids))
    found: dict[str, dict[str, float]] = {}
    for trace_id, asked, chance in connection.execute(query):
        found.setdefault(trace_id, {})[asked] = chance
    return found


def weight_of(judgement: Judgement, weight: float, asked: Mapping[str, float]) -> float:
    """What a verdict stands for: the trace's own weight, over the chance that its judge was asked."""
    return weight / asked.get(judgement.identifier, 1.0)


def _headline(judgements: Sequence[Judgement]) -> Judgement | None:
    return next((j for j in judgements if j.criterion is Criterion.ANY_FAILURE), None)
