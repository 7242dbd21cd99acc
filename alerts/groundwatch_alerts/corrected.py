"""The failure rate as a better judge would have it, from few of its verdicts on traces chosen with known chances.

Two phases: a cheap judge reads the sample, a model or people read a part of that again. Pure: rows in, estimate out.
``docs/llm-judge.md`` says in words what it is worth.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from groundwatch_alerts.estimator import Z95, wilson

MIN_LABELS = 50
"""Fewer second verdicts than this say little about a judge's errors."""

MIN_POWER = 0.2
"""Sensitivity minus false positive rate: below this the first judge hardly tells failures from the rest."""

MAX_UNSEEN_SHARE = 0.02
"""Of traffic in a cell without any second verdict, of which the rate would be a guess."""

MIN_ANSWERED = 0.8
"""Share of the chosen traces that need a second verdict: those that a person picks are not like those left."""

REASONS = ("no_verdicts", "too_few_labels", "many_unanswered", "unseen_part", "judge_too_weak")
"""Why there is no corrected rate (closed set)."""


@dataclass(frozen=True, slots=True)
class Twice:
    """One sampled trace to which the criterion applies, and what became of its second look."""

    stratum: str
    weight: float  # 1 / inclusion probability, times what the trace stands for upstream
    first_failed: bool | None  # None: the first judge abstained
    unsure: bool
    chance: float  # of the second look, in (0, 1]
    chosen: bool
    failed: bool | None  # by the second verdict; None: not chosen, or not given (yet)


@dataclass(frozen=True, slots=True)
class Corrected:
    rate: float
    low: float
    high: float
    labels: int  # second verdicts that it rests on
    sensitivity: float  # of the first judge, as the second sees it, over all traffic
    false_positive_rate: float
    answered_share: float  # of the traces chosen for a second look, how many have got a verdict


@dataclass(frozen=True, slots=True)
class Refused:
    """No corrected rate, and why; what was found and what would be enough."""

    reason: str  # one of REASONS
    found: float
    needed: float
    labels: int

    @property
    def said(self) -> str:
        """The reason for a person, with what was found and what would be enough."""
        found, needed = self.found, self.needed
        return {
            "no_verdicts": "nothing was put to a second look",
            "too_few_labels": f"{found:.0f} second verdicts, {needed:.0f} are needed",
            "many_unanswered": f"{found:.0%} of what was chosen has a second verdict, {needed:.0%} must",
            "unseen_part": f"{found:.0%} of the traffic had no chance of a second look, at most {needed:.0%} may",
            "judge_too_weak": f"the first judge hardly tells failures from the rest ({found:.2f} of {needed:.2f})",
        }[self.reason]


def corrected(traffic: Mapping[str, float], rows: Sequence[Twice], z: float = Z95) -> Corrected | Refused:
    """Estimate the rate of all *traffic* (requests by stratum to which the criterion applies) by the second judge.

    Unbiased whatever the errors of the first judge, as long as verdicts come in for a random part of what was chosen
    within each cell of (first verdict, unsure or not). The first judge's quality only decides the width.
    """
    labels = sum(row.failed is not None for row in rows)
    total = sum(traffic.values())
    if not rows or total <= 0:
        return Refused("no_verdicts", len(rows), 1, labels)
    if labels < MIN_LABELS:
        return Refused("too_few_labels", labels, MIN_LABELS, labels)
    answered = labels / sum(row.chosen for row in rows)
    if answered < MIN_ANSWERED:
        return Refused("many_unanswered", answered, MIN_ANSWERED, labels)
    strata = _strata(traffic, rows)
    cells = _cells(strata)
    unseen = sum(cell.share for cell in cells.values() if not cell.labels)
    if unseen > MAX_UNSEEN_SHARE:
        return Refused("unseen_part", unseen, MAX_UNSEEN_SHARE, labels)
    return _combine(strata, cells, labels, answered, z)


@dataclass(frozen=True, slots=True)
class _Stratum:
    share: float  # of the traffic
    rows: Sequence[Twice]
    scale: float  # a row stands for scale * weight of the traffic; the rows of all strata add up to 1
    m: float  # effective count of rows
    unseen: float  # share of the stratum that is not in the sample


@dataclass(slots=True)
class _Cell:
    share: float = 0.0
    chosen: int = 0
    labels: int = 0
    total: float = 0.0  # of labelled rows: what they stand for
    fails: float = 0.0
    squares: float = 0.0
    unread: float = 0.0  # the same, times the share of rows like it that nobody read again
    unread_fails: float = 0.0  # of those that failed

    @property
    def rate(self) -> float:
        return self.fails / self.total if self.total else 0.5

    @property
    def smooth(self) -> float:
        """One failure and one pass more: used in variances only, so that zero failures are not certainty."""
        m = self.total**2 / self.squares if self.squares else 0.0
        return (self.rate * m + 1) / (m + 2)

    @property
    def variance(self) -> float:
        """What the second phase leaves open, from the labels as they are weighted, and one of each kind more."""
        if not self.labels:
            return self.share**2 / 4
        one = self.unread / self.labels
        fails, passes = self.unread_fails + one, self.unread - self.unread_fails + one
        return (self.share / self.total) ** 2 * (fails * (1 - self.rate) ** 2 + passes * self.rate**2)


_Key = tuple[bool | None, bool]


def _key(row: Twice) -> _Key:
    return row.first_failed, row.unsure


def _strata(traffic: Mapping[str, float], rows: Sequence[Twice]) -> list[_Stratum]:
    """Strata that were sampled from carry the traffic of those that were not (yet)."""
    by_name: dict[str, list[Twice]] = defaultdict(list)
    for row in rows:
        by_name[row.stratum].append(row)
    weights = {name: sum(r.weight for r in found) for name, found in by_name.items()}
    sizes = {name: max(traffic.get(name, 0.0), 0.0) or weights[name] for name in by_name}
    total = sum(sizes.values())
    return [_stratum(found, sizes[name], sizes[name] / total) for name, found in by_name.items()]


def _stratum(rows: Sequence[Twice], size: float, share: float) -> _Stratum:
    weight, squares = sum(r.weight for r in rows), sum(r.weight**2 for r in rows)
    seen = weight / squares * min(1.0, weight / size)
    return _Stratum(share, rows, share / weight, weight**2 / squares, max(0.0, 1 - seen))


def _cells(strata: Iterable[_Stratum]) -> dict[_Key, _Cell]:
    cells: dict[_Key, _Cell] = defaultdict(_Cell)
    placed = [(row, stratum.scale * row.weight) for stratum in strata for row in stratum.rows]
    for row, stands_for in placed:
        cell = cells[_key(row)]
        cell.share += stands_for
        cell.chosen += row.chosen
        cell.labels += row.failed is not None
    for row, stands_for in placed:
        if row.failed is not None:
            _add(cells[_key(row)], row, stands_for)
    return cells


def _add(cell: _Cell, row: Twice, stands_for: float) -> None:
    value = stands_for / row.chance
    cell.total += value
    cell.fails += value * bool(row.failed)
    cell.squares += value**2
    # Verdicts that have not come in make the chance of being read smaller, alike for all that were chosen.
    unread = value**2 * max(0.0, 1 - row.chance * cell.labels / max(cell.chosen, cell.labels))
    cell.unread += unread
    cell.unread_fails += unread * bool(row.failed)


def _combine(
    strata: Sequence[_Stratum], cells: Mapping[_Key, _Cell], labels: int, answered: float, z: float
) -> Corrected | Refused:
    rate = sum(cell.share * cell.rate for cell in cells.values())
    smooth = sum(cell.share * cell.smooth for cell in cells.values())
    variance = sum(_first_phase(s, cells) for s in strata) + sum(cell.variance for cell in cells.values())
    low, high = wilson(rate, smooth * (1 - smooth) / variance if variance > 0 else math.inf, z)
    quality = _quality(cells, rate)
    if quality.power + quality.power_error < MIN_POWER:
        return Refused("judge_too_weak", quality.power, MIN_POWER, labels)
    return Corrected(
        rate,
        min(low, rate),
        max(high, rate),
        labels,
        quality.sensitivity,
        quality.false_positive_rate,
        answered,
    )


@dataclass(frozen=True, slots=True)
class _Quality:
    """How the first judge does in the eyes of the second, over all traffic."""

    sensitivity: float
    false_positive_rate: float
    power_error: float  # standard error of the difference

    @property
    def power(self) -> float:
        return self.sensitivity - self.false_positive_rate


def _quality(cells: Mapping[_Key, _Cell], rate: float) -> _Quality:
    flagged = [cell for (failed, _unsure), cell in cells.items() if failed]
    true_flags = sum(cell.share * cell.rate for cell in flagged)
    false_flags = sum(cell.share * (1 - cell.rate) for cell in flagged)
    sensitivity = true_flags / rate if rate > 0 else 1.0
    false_positives = false_flags / (1 - rate) if rate < 1 else 0.0
    # A share of flags errs as much as the rate among what was not flagged does, on the scale of its own denominator.
    missed = sum(cell.variance for (failed, _unsure), cell in cells.items() if not failed)
    confirmed = sum(cell.variance for cell in flagged)
    error = (sensitivity**2 * missed + (1 - sensitivity) ** 2 * confirmed) / max(rate, 1e-9) ** 2
    return _Quality(sensitivity, false_positives, math.sqrt(error))


def _first_phase(stratum: _Stratum, cells: Mapping[_Key, _Cell]) -> float:
    """What the sample itself would leave open if the second judge had read all of it."""
    weight = sum(row.weight for row in stratum.rows)
    rate = sum(row.weight * cells[_key(row)].rate for row in stratum.rows) / weight
    t = (rate * stratum.m + 1) / (stratum.m + 2)
    return stratum.share**2 * stratum.unseen * t * (1 - t) / stratum.m
