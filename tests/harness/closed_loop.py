"""Weeks of made traffic through the product's own sampling: hash, rate plans, estimator. The truth is known.

Only the traffic and the verdicts are made: a daily wave of volume, a weekly wave of the failure rate, two incidents
of three hours at four times the odds, and a change of the mix half way. Trace ids are sequential, the hardest for a
hash. Every tenth trace is delivered twice. On request, traffic is ten times as much for two hours of every third day,
before a judge that can do twice the day's mean and a queue that holds an hour of that.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from groundwatch_alerts.estimator import StratumSums, estimate
from groundwatch_collector import rates, sampling
from groundwatch_collector.shedding import Waiting, keep_below

DAY = rates.DAY
START = 1_780_012_800  # a midnight (UTC)
AUROC = 0.85
NORMAL_FAILURES = 0.04
STRATA = ("incomplete", "feedback_neg", "refusal", "normal_b0", "normal_b1", "normal_b2", "normal_b3")
SHARES = np.array([0.005, 0.01, 0.02, *(0.965 * np.array([0.60, 0.25, 0.10, 0.05]))])
SHIFTED = np.array([0.005, 0.02, 0.04, *(0.935 * np.array([0.55, 0.27, 0.12, 0.06]))])


def bucket_failures(auroc: float = AUROC, failing: float = NORMAL_FAILURES) -> list[float]:
    """Failure rate in the four buckets of a score that is normal in good and in failed answers."""
    apart = math.sqrt(2) * NormalDist().inv_cdf(auroc)
    good, bad = NormalDist(), NormalDist(apart)

    def above(x: float) -> float:
        return failing * (1 - bad.cdf(x)) + (1 - failing) * (1 - good.cdf(x))

    cuts = [-math.inf, *(_solve(above, 1 - q) for q in (0.60, 0.85, 0.95)), math.inf]
    rows = list(itertools.pairwise(cuts))
    mass = [(failing * (bad.cdf(b) - bad.cdf(a)), (1 - failing) * (good.cdf(b) - good.cdf(a))) for a, b in rows]
    return [f / (f + g) for f, g in mass]


def _solve(falling: Callable[[float], float], target: float) -> float:
    low, high = -10.0, 10.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > target else (low, middle)
    return low


FAILURES = np.array([0.20, 0.70, 0.40, *bucket_failures()])


@dataclass
class Window:
    """One stretch of time: traffic, what the sample says of it, and the truth."""

    traffic: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STRATA, 0.0))
    sums: dict[str, list[float]] = field(default_factory=lambda: {name: [0.0] * 5 for name in STRATA})
    failed: int = 0

    @property
    def truth(self) -> float:
        return self.failed / sum(self.traffic.values())

    @property
    def judged(self) -> int:
        return int(sum(row[3] for row in self.sums.values()))

    def add(self, name: str, probability: float, failed: bool) -> None:
        weight, row = 1 / probability, self.sums[name]
        for index, value in enumerate((weight, weight * failed, weight * weight, 1, failed)):
            row[index] += value

    def strata(self) -> list[StratumSums]:
        return [_sums(name, self.traffic[name], *self.sums[name]) for name in STRATA if self.traffic[name]]


def _sums(name: str, traffic: float, a: float, b: float, c: float, judged: float, failed: float) -> StratumSums:
    return StratumSums(name, traffic, a, b, c, int(judged), int(failed))


class Queued(NamedTuple):
    trace: Waiting
    chance: float
    wrong: bool
    windows: tuple[Window, ...]


@dataclass
class Month:
    days: list[Window]
    weeks: list[Window]


class Loop:
    """One run. Everything that is judged is known two epochs later, as the product's planner sees it."""

    def __init__(
        self,
        *,
        traffic_a_day: float,
        judged_a_day: float,
        seed: int,
        days: int = 28,
        epoch: int = 300,
        overload: bool = False,
    ) -> None:
        self._rng = np.random.default_rng(seed)
        self._salt = f"salt {seed}".encode()
        self._traffic_a_day, self._judged_a_day = traffic_a_day, judged_a_day
        self._days, self._epoch_seconds = days, epoch
        self._ids = self._last = 0
        self._counts: dict[int, dict[str, float]] = {}
        self._sampled: dict[int, int] = {}
        self._verdicts: dict[tuple[int, str], list[int]] = {}  # by day and stratum
        self._young: dict[tuple[int, str], list[int]] = {}  # by epoch and stratum: not known to the planner yet
        self._chosen_share = 0.0
        self._overload = overload
        self._capacity = 2 * judged_a_day * epoch / DAY if overload else math.inf  # judged in an epoch
        self._limit = int(2 * judged_a_day / 24) if overload else 0
        self._done = 0.0  # judging that may be done by now
        self._queue: list[Queued] = []
        self.shed = 0

    def run(self) -> Month:
        days = [Window() for _ in range(self._days)]
        weeks = [Window() for _ in range(math.ceil(self._days / 7))]
        for start in range(START, START + self._days * DAY, self._epoch_seconds):
            table = self._plan(start)
            day = (start - START) // DAY
            self._epoch(start, table, (days[day], weeks[day // 7]))
            self._judge()
        self._capacity = math.inf
        self._judge()
        return Month(days, weeks)

    def _plan(self, start: int) -> Mapping[str, float]:
        until, midnight = start - self._epoch_seconds, start - start % DAY
        traffic = rates.Traffic(until, self._known_traffic(until))
        since = max(until, midnight)
        known = rates.Known(
            start=start,
            traffic=traffic,
            verdicts=rates.decayed(self._known_verdicts(until), until),
            sampled_today=float(sum(self._sampled.get(at, 0) for at in range(midnight, until, self._epoch_seconds))),
            in_flight=self._chosen_share * rates.forecast(traffic, since, start, 100_000) if since < start else 0.0,
            budget=self._judged_a_day,
            feedback_share=0.25,
        )
        made = rates.plan(known, STRATA)
        self._chosen_share = float(made.why["chosen_share"])
        return made.rates

    def _known_traffic(self, until: int) -> dict[int, dict[str, float]]:
        while (oldest := next(iter(self._counts), until)) < until - DAY - rates.RECENT:
            del self._counts[oldest]
        return {at: counts for at, counts in self._counts.items() if at < until}

    def _known_verdicts(self, until: int) -> list[rates.Verdicts]:
        """By day of the trace's start, as the scorer's sums are grouped. Called with a growing *until* only."""
        for at, name in [key for key in self._young if key[0] < until]:
            judged, failed = self._young.pop((at, name))
            row = self._verdicts.setdefault((at - at % DAY, name), [0, 0])
            row[0] += judged
            row[1] += failed
        return [rates.Verdicts(at + DAY / 2, name, *row) for (at, name), row in self._verdicts.items()]

    def _epoch(self, start: int, table: Mapping[str, float], windows: tuple[Window, ...]) -> None:
        wave = 1 + 0.6 * math.sin(2 * math.pi * (start % DAY) / DAY)
        if self._overload and (start - START) // DAY % 3 == 1 and 36_000 <= start % DAY < 43_200:
            wave *= 10
        count = int(self._rng.poisson(self._traffic_a_day * self._epoch_seconds / DAY * wave))
        mix = SHIFTED if start - START >= self._days * DAY / 2 else SHARES
        kinds = self._rng.choice(len(STRATA), size=count, p=mix / mix.sum())
        failed = self._rng.random(count) < self._failing(start)[kinds]
        counts = np.bincount(kinds, minlength=len(STRATA))
        self._counts[start] = {name: float(n) for name, n in zip(STRATA, counts, strict=True)}
        for window in windows:
            window.failed += int(failed.sum())
            for name, n in self._counts[start].items():
                window.traffic[name] += n
        self._draw(start, table, kinds, failed, windows)

    def _draw(
        self,
        start: int,
        table: Mapping[str, float],
        kinds: np.ndarray,
        failed: np.ndarray,
        windows: tuple[Window, ...],
    ) -> None:
        limits = [(name, table[name], sampling.threshold(table[name])) for name in STRATA]
        for kind, wrong in zip(kinds.tolist(), failed.tolist(), strict=True):
            self._ids += 1
            name, probability, limit = limits[kind]
            for _ in range(2 if self._ids % 10 == 0 else 1):
                number = sampling.u56(f"{self._ids:032x}", self._salt)
                if number < limit and self._last != self._ids:  # the ledger's key: a trace counts once
                    self._last = self._ids
                    self._sampled[start] = self._sampled.get(start, 0) + 1
                    trace = Waiting(str(self._ids), number, probability, name, start)
                    self._queue.append(Queued(trace, probability, wrong, windows))
                    self._shed()

    def _shed(self) -> None:
        if 0 < self._limit < len(self._queue):
            stay, found = keep_below([entry.trace for entry in self._queue], self._limit - self._limit // 8)
            kept = {trace.trace_id for trace in stay}
            self._queue = [
                entry._replace(chance=min(entry.chance, entry.trace.chance * found.threshold))
                for entry in self._queue
                if entry.trace.trace_id in kept
            ]
            self.shed += len(found.dropped)

    def _judge(self) -> None:
        """First come, first served, as much as the judge can do in an epoch."""
        self._done = min(self._done, 1.0) + self._capacity
        while self._queue and self._done >= 1:
            self._done -= 1
            trace, chance, wrong, windows = self._queue.pop(0)
            row = self._young.setdefault((int(trace.started_at), trace.stratum), [0, 0])
            row[0] += 1
            row[1] += wrong
            for window in windows:
                window.add(trace.stratum, chance, wrong)

    def _failing(self, start: int) -> np.ndarray:
        day = (start - START) / DAY
        odds = FAILURES / (1 - FAILURES) * (1 + 0.3 * math.sin(2 * math.pi * day / 7))
        if any(at <= day < at + 0.125 for at in (self._days * 0.3 + 0.4, self._days * 0.7 + 0.6)):
            odds = odds * 4
        return np.asarray(odds / (1 + odds))


@dataclass(frozen=True)
class Summary:
    windows: int
    budget_mean: float  # judged a window
    budget_sd: float
    budget_max: int
    bias_pp: float
    bias_se_pp: float
    raw_bias_pp: float
    half_width_pp: float
    covered: float
    covered_se: float


def summary(windows: list[Window]) -> Summary:
    found = [(w, e) for w in windows if (e := estimate(w.strata())) is not None]
    errors = np.array([e.rate - w.truth for w, e in found]) * 100
    covered = np.array([e.low <= w.truth <= e.high for w, e in found])
    judged = np.array([w.judged for w, _ in found])
    share = float(covered.mean())
    return Summary(
        windows=len(found),
        budget_mean=float(judged.mean()),
        budget_sd=float(judged.std()),
        budget_max=int(judged.max()),
        bias_pp=float(errors.mean()),
        bias_se_pp=float(errors.std(ddof=1) / math.sqrt(len(found))),
        raw_bias_pp=float(np.mean([e.raw_mean - w.truth for w, e in found]) * 100),
        half_width_pp=float(np.mean([(e.high - e.low) / 2 for _, e in found]) * 100),
        covered=share,
        covered_se=math.sqrt(max(share * (1 - share), 1 / len(found)) / len(found)),
    )
