"""The numbers of the overview page, put together once: the page and its JSON twin show the same object."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from groundwatch_alerts.estimator import Estimate, StratumSums, estimate
from groundwatch_collector.ragtrace import Outcome
from groundwatch_scorer.judgement import Criterion

from .. import queries, review_queue
from ..queries import Cell, Scope
from ..review_queue import ANYBODY, Reader
from . import secondsight
from .config import WINDOWS, ConsoleConfig
from .secondsight import SecondSight
from .sentences import summary

STEPS_SECONDS = (5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 7 * 86_400)
STEP_SECONDS = 60
BUCKETS_LOOKED_AT = 500  # enough to tell how wide a bucket is
MAX_STEPS = 48
JUDGED_PER_STEP = 25  # fewer and the band of each step is as wide as the chart


@dataclass(frozen=True, slots=True)
class Figure:
    """A rate as it is shown: the estimate over all traffic, and the plain mean beside it for contrast."""

    rate: float
    low: float
    high: float
    judged: int
    failed: int
    traffic: float
    raw_mean: float
    judged_share: float
    missing_share: float
    effective_n: float | None  # None: everything was judged


@dataclass(frozen=True, slots=True)
class Step:
    start: float
    end: float
    traffic: float
    judged: int
    figure: Figure | None


@dataclass(frozen=True, slots=True)
class Difference:
    """Change of the rate against the version before, with its 95 % interval."""

    against: str
    value: float
    low: float
    high: float
    judged: int  # of the one of the two that has fewer

    @property
    def clear(self) -> bool:
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class VersionLine:
    version: str
    first_seen: float
    traffic: float
    judged: int
    figure: Figure | None
    difference: Difference | None
    layers: tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class Layer:
    layer: str
    share: float  # of the weight of failures whose layer is known
    judged: int


@dataclass(frozen=True, slots=True)
class StratumLine:
    stratum: str
    traffic: float
    traffic_share: float
    judged: int
    failed: int
    weight: float
    probability_low: float | None
    probability_high: float | None
    rate: float | None  # None where nothing was judged
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Proportion:
    """One kind of outcome with the denominator that belongs to it."""

    name: str
    count: float
    of: float
    denominator: str

    @property
    def share(self) -> float | None:
        return self.count / self.of if self.of else None


@dataclass(frozen=True, slots=True)
class Latency:
    name: str
    p50: float | None
    p95: float | None
    n: int
    note: str


@dataclass(frozen=True, slots=True)
class Overview:
    app: str
    version: str  # "" for all
    criterion: str
    judge: str
    window: str
    since: float | None
    until: float
    sentence: str
    tone: str  # bad | good | calm | unknown
    enough_judged: int  # below this many verdicts a rate is shown faintly
    figure: Figure | None
    seen: float  # every request, whatever became of it
    completed: float
    judged: int
    waiting: int
    text_is_missing: bool  # told only while nothing could be judged
    step_seconds: int
    steps: tuple[Step, ...]
    versions: tuple[VersionLine, ...]
    layers: tuple[Layer, ...]
    outcomes: tuple[Proportion, ...]
    latency: tuple[Latency, ...]
    strata: tuple[StratumLine, ...]
    needs_review: int
    seconds: tuple[SecondSight, ...]  # the rate as others who read again would have it


@dataclass(frozen=True, slots=True)
class Asked:
    """What the URL asks for; "" leaves the choice to the console."""

    app: str = ""
    version: str = ""
    criterion: str = ""
    judge: str = ""
    window: str = ""


@dataclass(frozen=True, slots=True)
class Choices:
    """What can be asked for: the options of the selects on the page."""

    apps: tuple[str, ...]
    versions: tuple[str, ...]
    criteria: tuple[str, ...]
    judges: tuple[str, ...]
    windows: tuple[str, ...]


def choose(connection: Connection, asked: Asked, config: ConsoleConfig) -> tuple[Asked, Choices] | None:
    """Fill in what was not asked for, or not known; None while no app has sent anything."""
    apps = [seen.app for seen in queries.apps(connection)]
    if not apps:
        return None
    app = asked.app if asked.app in apps else apps[0]
    known = [version for version, _first in queries.versions(connection, app)]
    criterion = asked.criterion if asked.criterion in tuple(Criterion) else Criterion.ANY_FAILURE.value
    judges = queries.judges(connection, app, criterion)
    chosen = Asked(
        app=app,
        version=asked.version if asked.version in known else "",
        criterion=criterion,
        judge=asked.judge if asked.judge in judges else next(iter(judges), ""),
        window=asked.window if asked.window in WINDOWS else config.default_window,
    )
    return chosen, Choices(tuple(apps), tuple(known), tuple(Criterion), tuple(judges), tuple(WINDOWS))


def read(
    connection: Connection, asked: Asked, config: ConsoleConfig, now: float, reader: Reader = ANYBODY
) -> Overview:
    """Everything on the page, from one snapshot of the database. *asked* is what :func:`choose` gave back."""
    length = WINDOWS[asked.window]
    scope = Scope(
        app=asked.app,
        criterion=asked.criterion,
        judge=asked.judge,
        since=None if length is None else now - length,
        version=asked.version or None,
    )
    starts = queries.bucket_starts(connection, scope, BUCKETS_LOOKED_AT)
    origin, width = steps_for(queries.extent(connection, scope), bucket_seconds(starts))
    cells = queries.cells(connection, scope, origin=origin, width=width)
    outcomes = queries.outcomes(connection, scope)
    faults = queries.faults(connection, scope)
    total = estimate(sums(cells))
    lines = _versions(cells, faults, dict(queries.versions(connection, asked.app)))
    sentence, tone = summary(lines, figure(total), asked.criterion, config.enough_judged)
    return Overview(
        app=asked.app,
        version=asked.version,
        criterion=asked.criterion,
        judge=asked.judge,
        window=asked.window,
        since=scope.since,
        until=now,
        sentence=sentence,
        tone=tone,
        enough_judged=config.enough_judged,
        figure=figure(total),
        seen=sum(outcomes.values()),
        completed=sum(cell.traffic for cell in cells),
        judged=sum(cell.judged for cell in cells),
        waiting=queries.waiting(connection, asked.app),
        text_is_missing=_text_is_missing(connection, scope, cells),
        step_seconds=width,
        steps=_steps(cells, origin, width),
        versions=lines,
        layers=_layers([(layer, weight, judged) for _version, layer, weight, judged in faults]),
        outcomes=proportions(outcomes),
        latency=_latency(connection, scope, config),
        strata=_strata(cells, total, queries.inclusion(connection, scope)),
        needs_review=review_queue.size(connection, asked.app, reader),
        seconds=() if asked.version else _seconds(connection, asked, scope.since, now),
    )


def _text_is_missing(connection: Connection, scope: Scope, cells: Sequence[Cell]) -> bool:
    """Asked only where nothing could be judged although something was read: elsewhere there is a rate to look at."""
    nothing_judged = not any(cell.judged for cell in cells)
    return (
        nothing_judged
        and any(cell.not_applicable_weight for cell in cells)
        and queries.text_is_missing(connection, scope)
    )


def _seconds(connection: Connection, asked: Asked, since: float | None, now: float) -> tuple[SecondSight, ...]:
    """Read beside the snapshot: what is corrected is of days, and the verdicts of one minute do not move it."""
    place = {"app": asked.app, "criterion": asked.criterion, "judge": asked.judge}
    return secondsight.read(connection.engine, **place, since=since, now=now)


def bucket_seconds(starts: Sequence[int]) -> int:
    """Width of the stored buckets, or a multiple of it, from where they start. One minute when that does not tell."""
    return math.gcd(*(start - starts[0] for start in starts[1:])) or STEP_SECONDS if len(starts) > 1 else STEP_SECONDS


def steps_for(extent: tuple[int, int, int] | None, bucket: int) -> tuple[int, int]:
    """Origin and width of the chart's steps: whole buckets, and wide enough that most steps hold some verdicts."""
    if extent is None:
        return 0, bucket
    first, last, judged = extent
    wanted = max(6, min(MAX_STEPS, judged // JUDGED_PER_STEP))
    least = max(bucket, (last - first + bucket) / wanted)
    round_steps = (step for step in STEPS_SECONDS if step >= least and step % bucket == 0)
    width = next(round_steps, math.ceil(least / bucket) * bucket)
    return first - first % width, width


def sums(cells: Sequence[Cell]) -> list[StratumSums]:
    """Add cells up by stratum, as the estimator takes them."""
    by_stratum: dict[str, list[Cell]] = {}
    for cell in cells:
        by_stratum.setdefault(cell.stratum, []).append(cell)
    return [_stratum_sums(stratum, group) for stratum, group in sorted(by_stratum.items())]


def _stratum_sums(stratum: str, cells: Sequence[Cell]) -> StratumSums:
    return StratumSums(
        stratum=stratum,
        traffic=sum(c.traffic for c in cells),
        weight=sum(c.weight for c in cells),
        fail_weight=sum(c.fail_weight for c in cells),
        weight_sq=sum(c.weight_sq for c in cells),
        judged=sum(c.judged for c in cells),
        failed=sum(c.failed for c in cells),
        not_applicable_weight=sum(c.not_applicable_weight for c in cells),
        missing_weight=sum(c.missing_weight for c in cells),
    )


def figure(found: Estimate | None) -> Figure | None:
    if found is None:
        return None
    return Figure(
        rate=found.rate,
        low=found.low,
        high=found.high_shown,
        judged=found.judged,
        failed=found.failed,
        traffic=found.traffic,
        raw_mean=found.raw_mean,
        judged_share=found.judged_share,
        missing_share=found.missing_share,
        effective_n=None if math.isinf(found.effective_n) else found.effective_n,
    )


def _steps(cells: Sequence[Cell], origin: int, width: int) -> tuple[Step, ...]:
    by_chunk: dict[int, list[Cell]] = {}
    for cell in cells:
        by_chunk.setdefault(cell.chunk, []).append(cell)
    steps = []
    for chunk, group in sorted(by_chunk.items()):
        start = origin + chunk * width
        traffic, judged = sum(c.traffic for c in group), sum(c.judged for c in group)
        steps.append(Step(start, start + width, traffic, judged, figure(estimate(sums(group)))))
    return tuple(steps)


def _versions(
    cells: Sequence[Cell], faults: Sequence[tuple[str, str, float, int]], first_seen: Mapping[str, int]
) -> tuple[VersionLine, ...]:
    by_version: dict[str, list[Cell]] = {}
    for cell in cells:
        by_version.setdefault(cell.version, []).append(cell)
    lines: list[VersionLine] = []
    for version in sorted(by_version, key=lambda v: (first_seen.get(v, 0), v)):
        group = by_version[version]
        found = figure(estimate(sums(group)))
        lines.append(
            VersionLine(
                version=version,
                first_seen=first_seen.get(version, 0),
                traffic=sum(c.traffic for c in group),
                judged=sum(c.judged for c in group),
                figure=found,
                difference=_difference(found, lines),
                layers=_layers([(layer, w, n) for v, layer, w, n in faults if v == version]),
            )
        )
    return tuple(lines)


def _difference(now: Figure | None, earlier: Sequence[VersionLine]) -> Difference | None:
    """Newcombe's interval from the two intervals: it needs no new assumption about either rate."""
    before = next((line for line in reversed(earlier) if line.figure is not None), None)
    if now is None or before is None or before.figure is None:
        return None
    old = before.figure
    value = now.rate - old.rate
    down = math.hypot(now.rate - now.low, old.high - old.rate)
    up = math.hypot(now.high - now.rate, old.rate - old.low)
    fewer = min(now.judged, old.judged)
    return Difference(before.version, value, max(-1.0, value - down), min(1.0, value + up), fewer)


def _layers(found: Sequence[tuple[str, float, int]]) -> tuple[Layer, ...]:
    weights: dict[str, tuple[float, int]] = {}
    for layer, weight, judged in found:
        held = weights.get(layer, (0.0, 0))
        weights[layer] = (held[0] + weight, held[1] + judged)
    total = sum(weight for weight, _judged in weights.values())
    ordered = sorted(weights.items(), key=lambda item: (-item[1][0], item[0]))
    return tuple(Layer(layer, weight / total, judged) for layer, (weight, judged) in ordered if total > 0)


def proportions(outcomes: Mapping[str, float]) -> tuple[Proportion, ...]:
    """Outcome, failed execution, cancellation and refusal: four questions, each over its own denominator."""
    seen = sum(outcomes.values())
    cancelled = outcomes.get(Outcome.CANCELLED, 0.0)
    errors, timeouts = outcomes.get(Outcome.ERROR, 0.0), outcomes.get(Outcome.TIMEOUT, 0.0)
    ended = seen - cancelled
    completed = ended - errors - timeouts
    of_completed = "completed requests"
    return (
        Proportion("answered", outcomes.get(Outcome.ANSWERED, 0.0), completed, of_completed),
        Proportion("answered in part", outcomes.get(Outcome.PARTIAL, 0.0), completed, of_completed),
        Proportion("no result", outcomes.get(Outcome.NO_RESULT, 0.0), completed, of_completed),
        Proportion("not recorded", outcomes.get(Outcome.UNKNOWN, 0.0), completed, of_completed),
        Proportion("refused", outcomes.get(Outcome.REFUSED, 0.0), completed, of_completed),
        Proportion("failed to run", errors + timeouts, ended, "requests that were not cancelled"),
        Proportion("cancelled", cancelled, seen, "all requests"),
    )


def quantile(values: Sequence[tuple[float, float]], share: float) -> float | None:
    """Smallest value at or below which *share* of the weight lies; *values* are (value, weight)."""
    ordered = sorted(values)
    wanted = share * sum(weight for _value, weight in ordered)
    reached = 0.0
    for value, weight in ordered:
        reached += weight
        if reached >= wanted:
            return value
    return None


def _latency(connection: Connection, scope: Scope, config: ConsoleConfig) -> tuple[Latency, ...]:
    whole = [(value, 1.0) for value in queries.durations(connection, scope, config.latency_limit)]
    first = queries.first_token_times(connection, scope, config.latency_limit)
    limited = len(whole) == config.latency_limit
    note = f"newest {len(whole):,} completed requests" if limited else f"all {len(whole):,} completed requests"
    return (
        Latency("whole request", quantile(whole, 0.5), quantile(whole, 0.95), len(whole), note),
        Latency(
            "time to first token",
            quantile(first, 0.5),
            quantile(first, 0.95),
            len(first),
            f"{len(first):,} sampled requests, weighted" if first else "no sampled request recorded it",
        ),
    )


def _strata(
    cells: Sequence[Cell], total: Estimate | None, probabilities: Mapping[str, tuple[float, float]]
) -> tuple[StratumLine, ...]:
    rates = {} if total is None else {s.stratum: s for s in total.strata}
    traffic = sum(c.traffic for c in cells)
    lines = []
    for s in sums(cells):
        rate = rates.get(s.stratum) if s.judged else None
        chance = probabilities.get(s.stratum)
        lines.append(
            StratumLine(
                stratum=s.stratum,
                traffic=s.traffic,
                traffic_share=s.traffic / traffic if traffic else 0.0,
                judged=s.judged,
                failed=s.failed,
                weight=s.weight,
                probability_low=None if chance is None else chance[0],
                probability_high=None if chance is None else chance[1],
                rate=None if rate is None else rate.rate,
                low=None if rate is None else rate.low,
                high=None if rate is None else rate.high,
            )
        )
    return tuple(sorted(lines, key=lambda line: (-line.traffic, line.stratum)))
