"""How often each alert would have fired on what the database holds: read once, then evaluated in steps of time.

One clock holds for all: a verdict counts at the time of its trace, as if judges took no time, and the change detector
reads verdicts in that order. It begins where the app's history begins. Latency, cost and the monitor's own alerts are
not in the database and are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from sqlalchemy import Engine, func, select

from groundwatch_alerts import tallies
from groundwatch_alerts.alert_rules import MIN_JUDGED_SHARE, PAIRS, SLOW_PAIR
from groundwatch_alerts.change_detection import Detector, learn
from groundwatch_alerts.change_monitor import DAY, judged_rows
from groundwatch_alerts.estimator import StratumSums, estimate, wilson
from groundwatch_alerts.objectives import (
    EXECUTION,
    KEEP_BURNING_MINUTES,
    KEEP_FIRING_HOURS,
    AlertsConfig,
    Objective,
    covering,
)
from groundwatch_collector.storage import reader
from groundwatch_collector.tables import sampled_traces, traffic_tally
from groundwatch_scorer.judgement import Criterion
from groundwatch_scorer.tables import judgements

STEP_SECONDS = 900
_HOUR = 3_600 // STEP_SECONDS
_QUIET_STEPS = KEEP_FIRING_HOURS * _HOUR  # an alert goes on firing so long after its condition
_CALM_STEPS = KEEP_BURNING_MINUTES * 60 // STEP_SECONDS
_FIELDS = (
    "traffic",
    "weight",
    "fail_weight",
    "weight_sq",
    "judged",
    "failed",
    "not_applicable_weight",
    "missing_weight",
)


@dataclass(frozen=True, slots=True)
class Fired:
    """One alert of one app on the days that were looked at."""

    app: str
    alert: str
    criterion: str
    times: int
    hours: float  # how long it fired, all together
    first_at: float | None  # Unix seconds
    days: float  # of history that were looked at
    untold: str = ""  # why nothing can be said, where that is so

    @property
    def a_week(self) -> float | None:
        """How often a week; None where too little was looked at to say."""
        return self.times / self.days * 7 if self.days >= 1 and not self.untold else None


@dataclass(frozen=True, slots=True)
class _Past:
    """One app on the time looked at."""

    engine: Engine
    app: str
    judge: str
    start: int  # Unix seconds, a whole step
    until: float

    @property
    def steps(self) -> int:
        return max(0, int(self.until - self.start) // STEP_SECONDS)

    def fired(
        self, alert: str, criterion: str, holds: Sequence[bool], *, pending: int = 0, quiet: int = _QUIET_STEPS
    ) -> Fired:
        firing = _firing(holds, pending, quiet)
        begun = [step for step, now in enumerate(firing) if now and not (step and firing[step - 1])]
        first = self.start + (begun[0] + 1) * STEP_SECONDS if begun else None
        hours = sum(firing) * STEP_SECONDS / 3_600
        return Fired(self.app, alert, criterion, len(begun), hours, first, self.steps * STEP_SECONDS / DAY)


def preview(
    engine: Engine, objectives: Sequence[Objective], config: AlertsConfig, judge: str, *, since: float, until: float
) -> list[Fired]:
    """Each previewable alert of each app between *since* and *until*, those that never fired included."""
    found: list[Fired] = []
    for app, first in _first_traffic(engine, since, until).items():
        own = covering(objectives, app)
        past = _Past(engine, app, judge, first // STEP_SECONDS * STEP_SECONDS, until)
        for item in own:
            if item.is_quality:
                found += _quality(replace(past, judge=item.judge or judge), item, config)
            elif item.criterion in EXECUTION:
                found += _burns(past, item)
        found += [_change(past, criterion, allowed, config) for criterion, allowed in _watched(own).items()]
    return found


def _first_traffic(engine: Engine, since: float, until: float) -> dict[str, int]:
    """When each app of this time was first seen in it, by name."""
    table = traffic_tally.c
    query = (
        select(table.app, func.min(table.bucket_start))
        .where(table.bucket_start >= since, table.bucket_start < until)
        .group_by(table.app)
        .order_by(table.app)
    )
    with reader(engine).connect() as connection:
        return {app: int(first) for app, first in connection.execute(query)}


def _watched(own: Sequence[Objective]) -> dict[str, float]:
    return {str(Criterion.ANY_FAILURE): 1.0} | {
        one.criterion: one.false_alarms_per_week for one in own if one.is_quality
    }


def _quality(past: _Past, item: Objective, config: AlertsConfig) -> list[Fired]:
    rows = tallies.series(
        past.engine,
        app=past.app,
        criterion=item.criterion,
        judge=past.judge,
        since=past.start,
        until=past.until,
        step_seconds=STEP_SECONDS,
    )
    above, blind = [], []
    for strata in _windows(rows, past, item.hours * _HOUR):
        found = estimate(strata)
        traffic = sum(s.traffic for s in strata)
        seen = found is not None and found.judged >= config.min_judged and found.judged_share > MIN_JUDGED_SHARE
        above.append(seen and found is not None and found.score(item.objective) > item.z(found.judged))
        blind.append(not seen and traffic >= config.min_requests)
    name = "RagWrongRefusals" if item.criterion == "refusal" else "RagFailureRateAboveObjective"
    return [
        past.fired(name, item.criterion, above),
        past.fired("RagEstimateBlind", item.criterion, blind, pending=_HOUR),
    ]


def _windows(rows: Sequence[tuple[int, list[StratumSums]]], past: _Past, width: int) -> Iterator[list[StratumSums]]:
    """Sums of the last *width* steps, at each step of the time looked at."""
    names = sorted({s.stratum for _at, strata in rows for s in strata})
    totals = {name: _running(rows, name, past) for name in names}
    for end in range(1, past.steps + 1):
        first = max(0, end - width)
        yield [_difference(name, totals[name][first], totals[name][end]) for name in names]


def _running(rows: Sequence[tuple[int, list[StratumSums]]], name: str, past: _Past) -> list[tuple[float, ...]]:
    added = [(0.0,) * len(_FIELDS)] * past.steps
    for at, strata in rows:
        place = (at - past.start) // STEP_SECONDS
        for s in strata:
            if s.stratum == name and 0 <= place < past.steps:
                added[place] = tuple(float(getattr(s, field)) for field in _FIELDS)
    zero = (0.0,) * len(_FIELDS)
    return list(accumulate(added, lambda a, b: tuple(x + y for x, y in zip(a, b, strict=True)), initial=zero))


def _difference(name: str, first: tuple[float, ...], last: tuple[float, ...]) -> StratumSums:
    # Sums of another order leave a rounding where there is nothing.
    values = [0.0 if (d := b - a) < 1e-9 * max(b, 1.0) else d for a, b in zip(first, last, strict=True)]
    n, a, b, c, judged, failed, without, missing = values
    return StratumSums(name, n, a, b, c, round(judged), round(failed), without, missing)


def _change(past: _Past, criterion: str, allowed: float, config: AlertsConfig) -> Fired:
    """The first *learning_days* of the app's history are the baseline; the rest is held against it."""
    frozen = past.start + config.learning_days * DAY
    sums = tallies.sums(
        past.engine, app=past.app, criterion=criterion, judge=past.judge, since=past.start, until=frozen
    )
    baseline = learn(sums, config.learning_days)
    holds = [False] * past.steps
    if baseline is not None:
        detector, place = Detector(baseline, allowed), 0
        for at, stratum, failed in _verdicts(past, criterion, frozen):
            now = min(past.steps, int(at - past.start) // STEP_SECONDS)
            holds[place:now] = [detector.has_changed] * (now - place)
            place = now
            detector.judged(stratum, failed)
        holds[place:] = [detector.has_changed] * (past.steps - place)
    fired = past.fired("RagQualityChange", criterion, holds)
    if frozen >= past.until:
        return replace(fired, untold=f"{config.learning_days:g} days of history are the baseline, no more is there")
    return replace(fired, untold="" if baseline else "the baseline holds too few verdicts, or no failure")


def _verdicts(past: _Past, criterion: str, since: float) -> Iterator[tuple[float, str, bool]]:
    started = sampled_traces.c.started_at
    query = judged_rows(past.app, criterion, past.judge).add_columns(started)
    query = query.where(started >= since, started < past.until).order_by(None).order_by(started, judgements.c.id)
    with reader(past.engine).connect() as connection:
        for _id, stratum, label, at in connection.execute(query):
            yield at, stratum, label == "fail"


def _burns(past: _Past, item: Objective) -> list[Fired]:
    counts = _outcomes(past)
    failed = _totals(counts, past.steps, lambda outcome: outcome in EXECUTION[item.criterion])
    whole = _totals(counts, past.steps, lambda outcome: outcome != "cancelled")

    def burns(factor: float, long: str, short: str, end: int) -> bool:
        limit = factor * item.objective
        y, n = _last(failed, end, long), _last(whole, end, long)
        z, m = _last(failed, end, short), _last(whole, end, short)
        return n > 0 and m > 0 and wilson(y / n, n)[0] > limit and z / m > limit

    ends = range(1, past.steps + 1)
    fast = [any(burns(*pair, end) for pair in PAIRS) for end in ends]
    slow = [burns(*SLOW_PAIR, end) for end in ends]
    return [
        past.fired("RagExecutionBudgetBurn", item.criterion, fast, quiet=_CALM_STEPS),
        past.fired("RagExecutionBudgetBurnSlow", item.criterion, slow, quiet=_CALM_STEPS),
    ]


def _outcomes(past: _Past) -> Mapping[tuple[int, str], float]:
    table = traffic_tally.c
    place = ((table.bucket_start - past.start) / STEP_SECONDS).label("place")
    query = (
        select(place, table.outcome, func.sum(table.traces))
        .where(table.app == past.app, table.bucket_start >= past.start, table.bucket_start < past.until)
        .group_by(place, table.outcome)
    )
    found: dict[tuple[int, str], float] = {}
    with reader(past.engine).connect() as connection:
        for at, outcome, traces in connection.execute(query):
            key = (int(at), outcome)
            found[key] = found.get(key, 0.0) + float(traces)
    return found


def _totals(counts: Mapping[tuple[int, str], float], steps: int, wanted: Callable[[str], bool]) -> list[float]:
    added = [0.0] * steps
    for (place, outcome), traces in counts.items():
        if place < steps and wanted(outcome):
            added[place] += traces
    return list(accumulate(added, initial=0.0))


def _last(totals: Sequence[float], end: int, window: str) -> float:
    """Sum of the last *window*; shorter than a step is a step."""
    seconds = int(window[:-1]) * {"m": 60, "h": 3_600, "d": 86_400}[window[-1]]
    return totals[end] - totals[max(0, end - max(1, seconds // STEP_SECONDS))]


def _firing(holds: Sequence[bool], pending: int, quiet: int) -> list[bool]:
    """Whether an alert fires, of a condition that must hold for *pending* steps and be gone for *quiet*."""
    firing: list[bool] = []
    held = gone = 0
    for now in holds:
        held, gone = (held + 1, 0) if now else (0, gone + 1)
        firing.append(held > pending or (bool(firing) and firing[-1] and gone <= quiet))
    return firing
