"""Plan the chance of every stratum for one epoch, from what is known two epochs before it. Pure arithmetic.

The rates of an epoch depend on no trace of that epoch. So each trace's chance is known before it is drawn, whatever
the plan does with the past, and weighting by it stays unbiased.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

DAY = 86_400
FEEDBACK = "feedback_neg"
NO_QUALITY = frozenset({"error_timeout", "cancelled"})
"""Strata that are in no quality rate: they get the floor, for people to look at, and no share by variance."""

STARVED = 0.1  # of the day's average rate: what is left when the budget is spent, so that no stratum falls silent
PACE = 4.0  # times the day's average rate: what is left over is not thrown at the last minutes of a day
FLOOR = 0.3  # of the average rate: every stratum's least
MINIMUM_JUDGED = 3.0  # expected judged traces of a stratum in a day, as far as CEILING allows
CEILING = 20.0  # times the average rate: what a stratum that suddenly swells may cost
HALF_LIFE_DAYS = 7.0  # of verdicts in the allocation
RECENT = 3600  # seconds of traffic that are compared with the same time yesterday
MIX = 6 * 3600  # seconds of traffic that tell the shares of the strata
_RATIO_TRACES, _MIX_TRACES = 20.0, 50.0  # pseudo-counts: small numbers must not swing the forecast
_RATIO_BOUND = 8.0


@dataclass(frozen=True, slots=True)
class StratumInputs:
    """What is known of a stratum before the epoch."""

    remaining: float  # traces expected from the epoch's start to the end of the day
    a_day: float  # traces expected in a day
    judged: float = 0.0  # verdicts, decayed
    failed: float = 0.0

    @property
    def spread(self) -> float:
        """Standard deviation of one verdict, smoothed: no verdict is not certainty."""
        p = (self.failed + 0.5) / (self.judged + 1)
        return math.sqrt(p * (1 - p))


@dataclass(frozen=True, slots=True)
class Allocation:
    rates: Mapping[str, float]  # stratum -> chance in (0, 1]
    expected: float  # judged traces that the rates promise for the rest of the day
    average: float  # the rate that every trace would have if all had the same
    floors_scaled: float = 1.0  # below 1: the budget did not cover the floors, all were lowered alike


def allocate(
    strata: Mapping[str, StratumInputs], remaining_budget: float, daily_budget: float, feedback_share: float = 1.0
) -> Allocation:
    """Share *remaining_budget* judged traces among the strata's traffic to the end of the day.

    Each rate is proportional to the spread of the verdicts, between a floor and a ceiling, so that the expected
    number is the budget. At most *feedback_share* of it is promised to ``feedback_neg``.
    """
    if not strata:
        raise ValueError("no strata to plan for")
    if not daily_budget > 0:
        raise ValueError(f"daily budget: found {daily_budget!r}, accepted: more than 0 judged traces")
    traffic = sum(s.remaining for s in strata.values())
    nominal = min(1.0, daily_budget / max(1.0, sum(s.a_day for s in strata.values())))
    wanted = remaining_budget / traffic if traffic > 0 else nominal
    average = min(1.0, max(STARVED * nominal, min(PACE * nominal, wanted)))
    budget = average * traffic
    high = {name: _ceiling(name, s, average, budget, feedback_share) for name, s in strata.items()}
    low = {name: min(_floor(name, s, average), high[name]) for name, s in strata.items()}
    promised = sum(low[name] * s.remaining for name, s in strata.items())
    scale = min(1.0, budget / promised) if promised > 0 else 1.0
    low = {name: rate * scale for name, rate in low.items()}
    spreads = {name: 0.0 if name in NO_QUALITY else s.spread for name, s in strata.items()}
    level = _level(strata, spreads, low, high, budget) if scale == 1.0 else 0.0
    rates = {name: _clip(level * spreads[name], low[name], high[name]) for name in strata}
    return Allocation(rates, sum(rates[name] * s.remaining for name, s in strata.items()), average, scale)


def _floor(name: str, s: StratumInputs, average: float) -> float:
    if name in NO_QUALITY:
        return FLOOR * average
    return max(FLOOR * average, min(MINIMUM_JUDGED / max(s.a_day, MINIMUM_JUDGED), CEILING * average))


def _ceiling(name: str, s: StratumInputs, average: float, budget: float, feedback_share: float) -> float:
    ceiling = min(1.0, CEILING * average)
    if name == FEEDBACK and s.remaining > 0:
        ceiling = min(ceiling, max(feedback_share * budget / s.remaining, STARVED * FLOOR * average))
    return ceiling


def _clip(value: float, low: float, high: float) -> float:
    return min(high, max(low, value))


def _level(
    strata: Mapping[str, StratumInputs],
    spreads: Mapping[str, float],
    low: Mapping[str, float],
    high: Mapping[str, float],
    budget: float,
) -> float:
    """The factor of the spreads at which the expected number is the budget, found exactly.

    The expected number is piecewise linear in the factor; its corners are where a rate leaves its floor or meets its
    ceiling.
    """
    moving = [name for name in strata if spreads[name] > 0 and strata[name].remaining > 0]
    corners = sorted({bound[name] / spreads[name] for name in moving for bound in (low, high)})

    def spent(level: float) -> float:
        return sum(_clip(level * spreads[n], low[n], high[n]) * strata[n].remaining for n in strata)

    before, spent_before = 0.0, spent(0.0)
    for corner in corners:
        spent_here = spent(corner)
        if spent_here >= budget:
            slope = spent_here - spent_before
            return before + (corner - before) * (budget - spent_before) / slope if slope > 0 else before
        before, spent_before = corner, spent_here
    return before


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Verdicts of one stratum on traces that started around one time."""

    at: float  # Unix seconds
    stratum: str
    judged: float
    failed: float


def decayed(verdicts: Iterable[Verdicts], now: float) -> dict[str, tuple[float, float]]:
    """Judged and failed per stratum; a verdict counts half after a week."""
    sums: dict[str, tuple[float, float]] = {}
    for found in verdicts:
        weight = 0.5 ** (max(0.0, now - found.at) / (HALF_LIFE_DAYS * DAY))
        judged, failed = sums.get(found.stratum, (0.0, 0.0))
        sums[found.stratum] = (judged + weight * found.judged, failed + weight * found.failed)
    return sums


@dataclass(frozen=True)
class Traffic:
    """Received traces by epoch start and stratum, of every whole epoch up to *until*."""

    until: int  # Unix seconds, the end of the last epoch that is known
    epochs: Mapping[int, Mapping[str, float]] = field(default_factory=dict)

    @cached_property
    def totals(self) -> Mapping[int, float]:
        return {at: sum(counts.values()) for at, counts in self.epochs.items()}

    def between(self, start: float, end: float) -> float:
        return sum(count for at, count in self.totals.items() if start <= at < end)

    def by_stratum(self, start: float, end: float) -> dict[str, float]:
        found: dict[str, float] = {}
        for at, counts in self.epochs.items():
            if start <= at < end:
                for name, count in counts.items():
                    found[name] = found.get(name, 0.0) + count
        return found

    @property
    def oldest(self) -> int | None:
        return min(self.epochs, default=None)


def forecast(traffic: Traffic, start: float, end: float, expected_per_day: float) -> float:
    """Traces expected from *start* to *end*, at most a day apart: yesterday's, scaled by how today compares.

    Without a yesterday the recent rate goes on; without any traffic it is *expected_per_day*.
    """
    oldest = traffic.oldest
    if oldest is None:
        return expected_per_day * (end - start) / DAY
    if oldest <= traffic.until - DAY - RECENT:
        today = traffic.between(traffic.until - RECENT, traffic.until)
        before = traffic.between(traffic.until - RECENT - DAY, traffic.until - DAY)
        ratio = _clip((today + _RATIO_TRACES) / (before + _RATIO_TRACES), 1 / _RATIO_BOUND, _RATIO_BOUND)
        return traffic.between(start - DAY, end - DAY) * ratio
    since = max(oldest, traffic.until - RECENT)
    length = max(1.0, traffic.until - since)
    return traffic.between(since, traffic.until) * (end - start) / length


def shares(traffic: Traffic, names: Sequence[str]) -> dict[str, float]:
    """Share of each stratum in the traffic to come: the last hours, held by the day. Never 0, and 1 together."""
    day = traffic.by_stratum(traffic.until - DAY, traffic.until)
    recent = traffic.by_stratum(traffic.until - MIX, traffic.until)
    whole = sum(day.get(name, 0.0) for name in names) + len(names)
    held = {name: (day.get(name, 0.0) + 1) / whole for name in names}
    lately = sum(recent.get(name, 0.0) for name in names) + _MIX_TRACES
    return {name: (recent.get(name, 0.0) + _MIX_TRACES * held[name]) / lately for name in names}


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be judged in a day, in traces and in money. 0: no such bound."""

    judged_per_day: float = 0.0
    usd_per_day: float = 0.0

    @property
    def given(self) -> bool:
        return self.judged_per_day > 0 or self.usd_per_day > 0

    def judged(self, usd_per_trace: float | None) -> tuple[float, str]:
        """The budget in judged traces, and what set it: ``traces``, ``money`` or ``traces_price_unknown``.

        A price that is not known is not free: a money budget then cannot be kept by sampling, and only the budget in
        traces holds. Without one, ``ValueError``: nothing bounds what would be spent.
        """
        if self.usd_per_day > 0 and usd_per_trace is None:
            if self.judged_per_day <= 0:
                raise ValueError("budget in money: the price of a judged trace is not known, and no budget in traces")
            return self.judged_per_day, "traces_price_unknown"
        if self.usd_per_day > 0 and usd_per_trace is not None and usd_per_trace > 0:
            affordable = self.usd_per_day / usd_per_trace
            if self.judged_per_day <= 0 or affordable < self.judged_per_day:
                return affordable, "money"
        if self.judged_per_day <= 0:
            raise ValueError(
                "budget: nothing is bounded; accepted: judged traces per day above 0, or money and a price"
            )
        return self.judged_per_day, "traces"


@dataclass(frozen=True, slots=True)
class Known:
    """Everything that the plan of one epoch rests on. Nothing in it is younger than two epochs before it."""

    start: int  # of the epoch, Unix seconds
    traffic: Traffic
    verdicts: Mapping[str, tuple[float, float]]  # stratum -> judged, failed
    sampled_today: float  # traces that the hash chose, from midnight up to traffic.until
    in_flight: float  # expected from traffic.until to the epoch's start, under the tables that hold there
    budget: float  # judged traces per day
    budget_set_by: str = "traces"
    expected_per_day: float = 100_000.0
    feedback_share: float = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    rates: Mapping[str, float]
    why: Mapping[str, Any]  # inputs and targets, as JSON


def plan(known: Known, names: Sequence[str]) -> Plan:
    """The rates of one epoch and what they rest on. The same input gives the same plan, to the last bit."""
    midnight = known.start - known.start % DAY
    end = midnight + DAY
    remaining = forecast(known.traffic, known.start, end, known.expected_per_day)
    a_day = _a_day(known, midnight, remaining)
    share = shares(known.traffic, names)
    inputs = {
        name: StratumInputs(share[name] * remaining, share[name] * a_day, *known.verdicts.get(name, (0.0, 0.0)))
        for name in names
    }
    left = known.budget - known.sampled_today - known.in_flight
    found = allocate(inputs, left, known.budget, known.feedback_share)
    why = {
        "budget_per_day": known.budget,
        "budget_set_by": known.budget_set_by,
        "sampled_today": known.sampled_today,
        "in_flight": known.in_flight,
        "left": left,
        "traffic_remaining": remaining,
        "traffic_a_day": a_day,
        "average_rate": found.average,
        "floors_scaled": found.floors_scaled,
        "chosen_share": sum(found.rates[name] * share[name] for name in names),  # of all traffic
        "strata": {
            name: {"remaining": s.remaining, "judged": s.judged, "failed": s.failed} for name, s in inputs.items()
        },
    }
    return Plan(found.rates, why)


def _a_day(known: Known, midnight: int, remaining: float) -> float:
    """Traffic of a whole day: of today so far and to come, or of the known rate where the day began unseen."""
    oldest = known.traffic.oldest
    if oldest is None or oldest > midnight:
        # Whether a first day began late or the traffic did cannot be told: go by the rate.
        left = midnight + DAY - known.start
        return max(remaining * DAY / left, known.traffic.between(midnight, known.traffic.until))
    gap = forecast(known.traffic, known.traffic.until, known.start, known.expected_per_day)
    return known.traffic.between(midnight, known.traffic.until) + gap + remaining
