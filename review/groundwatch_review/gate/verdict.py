"""The gate's decision and everything that its report says, as one record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from groundwatch_review.gate.anchors import BrokenAnchor
from groundwatch_review.gate.baseline import Run
from groundwatch_review.gate.comparison import (
    Change,
    ItemChange,
    SetChange,
    compare,
    item_changes,
    set_change,
)
from groundwatch_review.gate.makeup import Makeup
from groundwatch_review.gate.noise import NoisePoint
from groundwatch_review.gate.running import ItemResult
from groundwatch_review.gate.scores import GATING, LAYER_OF

Decision = Literal["passed", "blocked", "not_measured", "measured"]

_MOST_SAID = 3  # different remarks on questions without a reply


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """Mean over the items to which the score applies."""

    layer: str
    mean: float | None
    applicable: int


@dataclass(frozen=True, slots=True)
class Executions:
    """How often the application could be asked: a denominator of its own."""

    asked: int
    succeeded: int
    retried: int  # items that needed more than one try
    failed: Mapping[str, int]  # by the reason of the last try
    said: tuple[str, ...] = ()  # what was said of the last tries, the most frequent first; no text of the application


@dataclass(frozen=True, slots=True)
class Verdict:
    """``measured``: there was no baseline to compare with.

    ``not_measured``: too few questions could be asked, or a score that blocks is gone.
    """

    decision: Decision
    reason: str
    scores: Mapping[str, ScoreSummary]
    executions: Executions
    makeup: Makeup
    changes: tuple[Change, ...] = ()
    broken_anchors: tuple[BrokenAnchor, ...] = ()
    noise: tuple[NoisePoint, ...] = ()
    set_change: SetChange | None = None  # None: no baseline
    items: tuple[ItemChange, ...] = ()  # every score of an item that moved, the largest drops first


def decide(
    run: Run,
    makeup: Makeup,
    before: Run | None = None,
    *,
    alpha: float = 0.05,
    most_failed: float = 0.2,
    broken_anchors: Sequence[BrokenAnchor] = (),
    noise: Sequence[NoisePoint] = (),
) -> Verdict:
    """Judge *run*, beside *before* if there is one.

    *alpha*: chance that noise alone blocks, over all scores. *most_failed*: share of questions without a reply above
    which nothing is decided, since what is left is no fair sample of the set.
    """
    changes = tuple(compare(before.results, run.results, alpha)) if before else ()
    executions = _executions(run.results)
    gone = _gone(before.results, changes) if before else []
    decision, reason = _decision(changes, executions, most_failed, gone, compared=before is not None)
    return Verdict(
        decision,
        reason,
        _summaries(run.results),
        executions,
        makeup,
        changes,
        tuple(broken_anchors),
        tuple(noise),
        set_change(before.results, run.results) if before else None,
        tuple(item_changes(before.results, run.results)) if before else (),
    )


def _decision(
    changes: Sequence[Change], executions: Executions, most_failed: float, gone: Sequence[str], *, compared: bool
) -> tuple[Decision, str]:
    failed = executions.asked - executions.succeeded
    if failed > most_failed * executions.asked:
        return "not_measured", f"{failed} of {executions.asked} questions got no reply"
    worse = [change.name for change in changes if change.blocks]
    if worse:
        return "blocked", "significantly lower: " + ", ".join(worse)
    if gone:
        return "not_measured", "in the baseline and in no item of this run: " + ", ".join(gone)
    if not compared:
        return "measured", "there is no baseline to compare with"
    return "passed", "no score is significantly lower than in the baseline"


def _gone(before: Sequence[ItemResult], changes: Sequence[Change]) -> list[str]:
    """Scores that block, that the baseline has, and that not one pair is left of: nothing can be said of them."""
    had = {name for result in before for name, value in result.scores.items() if value is not None}
    return [change.name for change in changes if change.name in GATING and change.name in had and not change.pairs]


def _executions(results: Sequence[ItemResult]) -> Executions:
    failed = Counter(result.tries[-1].outcome for result in results if not result.executed)
    return Executions(
        asked=len(results),
        succeeded=sum(result.executed for result in results),
        retried=sum(len(result.tries) > 1 for result in results),
        failed=dict(sorted(failed.items())),
        said=_said(results),
    )


def _said(results: Sequence[ItemResult]) -> tuple[str, ...]:
    notes = Counter(result.tries[-1].note for result in results if not result.executed and result.tries[-1].note)
    return tuple(note for note, _count in notes.most_common(_MOST_SAID))


def _summaries(results: Sequence[ItemResult]) -> dict[str, ScoreSummary]:
    found: dict[str, ScoreSummary] = {}
    for name, layer in LAYER_OF.items():
        values = [value for result in results if (value := result.scores.get(name)) is not None]
        found[name] = ScoreSummary(layer, fmean(values) if values else None, len(values))
    return found
