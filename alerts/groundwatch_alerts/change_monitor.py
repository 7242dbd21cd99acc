"""Feed the detectors of change from committed judgements, and export what they and the objectives say.

A detector's sums are kept with the id of the last judgement that they hold. After a crash it goes on from there: rows
are read in the order of their ids, so that every replay comes to the same sums.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge
from sqlalchemy import ColumnElement, Connection, Engine, Row, Select, delete, func, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from groundwatch_alerts import tallies
from groundwatch_alerts.alert_tables import change_detectors
from groundwatch_alerts.change_detection import RISES, Baseline, Detector, learn
from groundwatch_alerts.objectives import EXECUTION, AlertsConfig, Objective, covering
from groundwatch_collector.ragtrace import COMPLETED
from groundwatch_collector.storage import reader
from groundwatch_collector.tables import ledger, sampled_traces, traffic_tally
from groundwatch_scorer.judgement import Criterion
from groundwatch_scorer.tables import judgements

log = logging.getLogger(__name__)

DAY = 86_400.0
MOST_APPS = 50
"""As many keep a name in the metrics; those that came later have no detector."""
STEP_SECONDS = 15.0
_SETTLE_SECONDS = 5.0  # a transaction that began earlier may commit a smaller id until then
_ROWS = 5_000  # judgements of one transaction


class ChangeMetrics:
    """What rules compare: evidence and threshold of each detector, and the objectives as they are configured."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, registry=registry)

        key = ("app", "criterion")
        self.log_e = gauge("rag_change_log_e", "Logarithm of the evidence that more answers fail than usual", *key)
        self.threshold = gauge(
            "rag_change_log_e_threshold", "Value of rag_change_log_e above which an alert fires", *key
        )
        self.frozen = gauge(
            "rag_baseline_frozen", "1 once the baseline is learnt and frozen, 0 while it is learnt", *key
        )
        self.objective = gauge(
            "rag_objective_fail_ratio", "Share of requests that may fail, as it is configured", *key
        )
        self.headline = gauge(
            "groundwatch_headline_judge", "1 for the judge whose verdicts make the headline", "judge"
        )
        self.without = gauge("groundwatch_change_untracked_apps", "Applications beyond those that have a detector")
        self.failures = Counter(
            "groundwatch_change_failures",
            "Steps of change detection that the database refused; tried again later",
            registry=registry,
        )


@dataclass(frozen=True, slots=True)
class _Watched:
    app: str
    criterion: str
    false_alarms_per_week: float


class ChangeMonitor:
    """Runs one detector for the headline of every app, and for each judged criterion with an objective."""

    def __init__(
        self,
        engine: Engine,
        judge: str,
        objectives: Sequence[Objective],
        config: AlertsConfig,
        metrics: ChangeMetrics,
        *,
        now: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._judge = judge
        self._objectives = objectives
        self._config = config
        self._metrics = metrics
        self._now = now
        metrics.headline.labels(judge).set(1)

    def run(self, stop: threading.Event) -> None:
        """Step until *stop*; a database that is away is asked again later."""
        while not stop.is_set():
            try:
                self.step()
            except SQLAlchemyError as error:
                self._metrics.failures.inc()
                log.warning("change detection failed (%s) and tries again", type(error).__name__)
            stop.wait(STEP_SECONDS)

    def step(self) -> None:
        """Learn baselines whose time has come, read new judgements, and set the metrics."""
        apps = first_apps(self._engine)
        self._metrics.without.set(max(0, len(apps) - MOST_APPS))
        for app in apps[:MOST_APPS]:
            for item in covering(self._objectives, app):
                if item.is_quality or item.criterion in EXECUTION:
                    self._metrics.objective.labels(app, item.criterion).set(item.objective)
            for watched in self._watched(app):
                self._follow(watched)

    def _watched(self, app: str) -> list[_Watched]:
        allowed = {str(Criterion.ANY_FAILURE): 1.0}
        for item in covering(self._objectives, app):
            if item.is_quality:
                allowed[item.criterion] = item.false_alarms_per_week
        return [_Watched(app, criterion, times) for criterion, times in allowed.items()]

    def _follow(self, watched: _Watched) -> None:
        key = (watched.app, watched.criterion)
        detector = self._advance(watched)
        self._metrics.frozen.labels(*key).set(detector is not None)
        if detector is not None:
            self._metrics.log_e.labels(*key).set(detector.log_e)
            self._metrics.threshold.labels(*key).set(detector.log_threshold)

    def _advance(self, watched: _Watched) -> Detector | None:
        row = stored(self._engine, watched.app, watched.criterion, self._judge)
        if row is None:
            row = self._learn(watched)
        if row is None:
            return None
        detector = detector_of(row, watched.false_alarms_per_week)
        position = int(row.position)
        while rows := self._new_rows(watched, position):
            for verdict in rows:
                detector.judged(verdict.stratum, verdict.label == "fail")
            if not self._keep(watched, detector, position, int(rows[-1].id)):
                break  # another process of this database was first; its sums are read at the next step
            position = int(rows[-1].id)
        return detector

    def _learn(self, watched: _Watched) -> Row[tuple[object, ...]] | None:
        since = first_verdict(self._engine, watched.app, watched.criterion, self._judge)
        days, now = self._config.learning_days, self._now()
        if since is None or now - since < days * DAY:
            return None
        if not freeze(self._engine, watched.app, watched.criterion, self._judge, days=days, now=now):
            return None
        return stored(self._engine, watched.app, watched.criterion, self._judge)

    def _new_rows(self, watched: _Watched, position: int) -> Sequence[Row[tuple[int, str, str]]]:
        query = judged_rows(watched.app, watched.criterion, self._judge).where(
            judgements.c.id > position, judgements.c.judged_at <= self._now() - _SETTLE_SECONDS
        )
        with reader(self._engine).connect() as connection:
            return connection.execute(query.limit(_ROWS)).all()

    def _keep(self, watched: _Watched, detector: Detector, was: int, position: int) -> bool:
        where = _key(watched.app, watched.criterion, self._judge)
        values = {"position": position, "sums": orjson.dumps(detector.sums).decode()}
        with self._engine.begin() as connection:
            query = update(change_detectors).where(*where, change_detectors.c.position == was).values(values)
            return connection.execute(query).rowcount == 1


def judged_rows(app: str, criterion: str, judge: str) -> Select[tuple[int, str, str]]:
    """Query of (id, stratum, label) in the order of commits; what came late because of feedback is not in it."""
    return (
        select(judgements.c.id, sampled_traces.c.stratum, judgements.c.label)
        .join(sampled_traces, sampled_traces.c.trace_id == judgements.c.trace_id)
        .join(ledger, ledger.c.trace_id == judgements.c.trace_id)
        .where(
            judgements.c.criterion == criterion,
            judgements.c.identifier == judge,
            judgements.c.label.in_(("pass", "fail")),
            sampled_traces.c.family == "fast",
            sampled_traces.c.app == app,
            ledger.c.outcome.in_(sorted(COMPLETED)),
        )
        .order_by(judgements.c.id)
    )


def first_apps(engine: Engine) -> list[str]:
    """Every app, in the order in which they first sent traffic."""
    first = func.min(traffic_tally.c.bucket_start)
    query = select(traffic_tally.c.app).group_by(traffic_tally.c.app).order_by(first, traffic_tally.c.app)
    with reader(engine).connect() as connection:
        return list(connection.scalars(query))


def first_verdict(engine: Engine, app: str, criterion: str, judge: str) -> float | None:
    """When the oldest trace that was judged had started, in Unix seconds; to the step of the sums."""
    table = tallies.TABLES["fast"].verdicts
    query = select(func.min(table.c.bucket_start)).where(
        table.c.app == app, table.c.criterion == criterion, table.c.judge == judge, table.c.judged > 0
    )
    with reader(engine).connect() as connection:
        found = connection.scalar(query)
        return None if found is None else float(found)


def stored(engine: Engine, app: str, criterion: str, judge: str) -> Row[tuple[object, ...]] | None:
    """The frozen baseline and its evidence, where there is one."""
    with reader(engine).connect() as connection:
        return connection.execute(select(change_detectors).where(*_key(app, criterion, judge))).one_or_none()


def detector_of(row: Row[tuple[object, ...]], false_alarms_per_week: float) -> Detector:
    """The detector as it was kept."""
    baseline, sums = Baseline(orjson.loads(row.rates), row.judged_per_week), orjson.loads(row.sums)
    if len(sums) != len(RISES):  # kept by a version that looked for other rises: its evidence is not of these
        return Detector(baseline, false_alarms_per_week)
    return Detector(baseline, false_alarms_per_week, sums)


def freeze(engine: Engine, app: str, criterion: str, judge: str, *, days: float, now: float) -> bool:
    """Make the last *days* the baseline, without evidence against it; False where they hold too little."""
    since = now - days * DAY
    found = tallies.sums(engine, app=app, criterion=criterion, judge=judge, since=since, until=now)
    baseline = learn(found, days)
    if baseline is None:
        return False
    values = {
        "since": since,
        "frozen_at": now,
        "rates": orjson.dumps(dict(baseline.rates)).decode(),
        "judged_per_week": baseline.judged_per_week,
        "sums": orjson.dumps(Detector(baseline, 1.0).sums).decode(),
    }
    with engine.begin() as connection:
        connection.execute(delete(change_detectors).where(*_key(app, criterion, judge)))
        key = {"app": app, "criterion": criterion, "judge": judge, "position": _newest(connection)}
        connection.execute(insert(change_detectors).values(key | values))
    return True


def _newest(connection: Connection) -> int:
    return connection.scalar(select(func.max(judgements.c.id))) or 0


def _key(app: str, criterion: str, judge: str) -> tuple[ColumnElement[bool], ...]:
    table = change_detectors.c
    return table.app == app, table.criterion == criterion, table.judge == judge
