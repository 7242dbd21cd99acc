"""The newest version of each application against the one that served before it: read from the tallies, as metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Connection, Engine, case, func, select
from sqlalchemy.exc import SQLAlchemyError

from groundwatch_alerts.estimator import Estimate, estimate
from groundwatch_alerts.tallies import version_sums
from groundwatch_alerts.version_comparison import Comparison, compare
from groundwatch_collector.storage import reader
from groundwatch_collector.tables import traffic_tally
from groundwatch_scorer.judgement import Criterion

BEFORE_SECONDS = 7 * 86_400
"""How much of the older version counts from before the newer one came; the start is fixed, never a sliding window."""
SERVING_SECONDS = 3_600
READ_EVERY_SECONDS = 60.0
CRITERIA = tuple(str(criterion) for criterion in Criterion)


@dataclass(frozen=True, slots=True)
class Pair:
    """Which two versions are compared, and since when each counts (Unix seconds)."""

    app: str
    a: str  # the older one
    b: str
    since_a: float
    since_b: float


@dataclass(frozen=True, slots=True)
class CriterionCompared:
    criterion: str
    a: Estimate | None
    b: Estimate | None
    result: Comparison | None  # None: too few verdicts


def first_seen(connection: Connection, app: str) -> dict[str, float]:
    """Every version of *app* with the start of its first bucket, in the order in which they came."""
    first = func.min(traffic_tally.c.bucket_start)
    query = (
        select(traffic_tally.c.version, first)
        .where(traffic_tally.c.app == app)
        .group_by(traffic_tally.c.version)
        .order_by(first, traffic_tally.c.version)
    )
    return {version: float(start) for version, start in connection.execute(query)}


def pair_of(connection: Connection, app: str, a: str = "", b: str = "") -> Pair | None:
    """Versions *a* and *b* of *app*; without *b* the newest, without *a* the one that served before *b* came.

    None where there are no two. Raises ``ValueError`` for a version that sent no traffic, and for the same one twice.
    """
    seen = first_seen(connection, app)
    for version in (a, b):
        if version and version not in seen:
            raise ValueError(f"{app} has no version {version!r}; it has: {', '.join(seen) or 'none'}")
    if a and a == b:
        raise ValueError(f"{a} cannot be compared with itself; {app} has: {', '.join(seen)}")
    if len(seen) < 2:
        return None
    b = b or [version for version in seen if version != a][-1]
    a = a or _before(connection, app, b, seen)
    start = max(seen[a], seen[b]) - BEFORE_SECONDS
    return Pair(app, a, b, max(seen[a], start), max(seen[b], start))


def _before(connection: Connection, app: str, b: str, seen: Mapping[str, float]) -> str:
    """What served most in the hour before *b* came: the stable version of a canary, and not one that was rolled back.

    Where there was no traffic in that hour, the version that came last before *b*; where none did, the next one.
    """
    table, order = traffic_tally.c, list(seen)
    query = (
        select(table.version, func.sum(table.traces))
        .where(table.app == app, table.version != b)
        .where(table.bucket_start >= seen[b] - SERVING_SECONDS, table.bucket_start < seen[b])
        .group_by(table.version)
    )
    served: dict[str, float] = {version: float(traces) for version, traces in connection.execute(query)}
    if served:
        return max(served, key=lambda version: (served[version], order.index(version)))
    return order[1] if b == order[0] else order[order.index(b) - 1]


def is_served(connection: Connection, app: str, version: str) -> bool:
    """Whether *version* had requests in the last two hours in which *app* had any: not so once it was rolled back."""
    table = traffic_tally.c
    last, newest = func.max(case((table.version == version, table.bucket_start))), func.max(table.bucket_start)
    row = connection.execute(select(last, newest).where(table.app == app)).one()
    return row[0] is not None and row[0] >= row[1] - 2 * SERVING_SECONDS


def compared(connection: Connection, pair: Pair, judge: str) -> list[CriterionCompared]:
    """Every criterion of *pair* that *judge* judged, in the order of :class:`Criterion`."""
    of_a = version_sums(connection, app=pair.app, judge=judge, version=pair.a, since=pair.since_a)
    of_b = version_sums(connection, app=pair.app, judge=judge, version=pair.b, since=pair.since_b)
    found = []
    for criterion in CRITERIA:
        if criterion in of_a or criterion in of_b:
            a, b = estimate(of_a.get(criterion, [])), estimate(of_b.get(criterion, []))
            found.append(CriterionCompared(criterion, a, b, compare(a, b)))
    return found


class VersionCollector(Collector):
    """Exports the comparison of the newest version with the one before it, by the *judge* of the headline.

    Read at most once a minute. At most *max_apps* applications, those with the newest versions first.
    """

    def __init__(
        self, engine: Engine, judge: str, *, max_apps: int = 50, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine = reader(engine)
        self._judge = judge
        self._max_apps = max_apps
        self._clock = clock
        self._read_at = float("-inf")
        self._rows: list[tuple[Pair, CriterionCompared]] = []
        self._served: dict[Pair, bool] = {}
        self._left_out = 0
        self._errors = 0

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not read the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        if self._clock() >= self._read_at + READ_EVERY_SECONDS:
            try:
                self._read()
            except SQLAlchemyError:  # the other metrics of this process must still be seen
                self._errors += 1
        yield from _families(self._rows)
        yield _served(self._served)
        yield GaugeMetricFamily(
            "groundwatch_version_apps_left_out", "Applications whose versions are not compared", value=self._left_out
        )
        yield CounterMetricFamily(
            "groundwatch_version_read_errors", "Scrapes that show an older comparison of versions", value=self._errors
        )

    def _read(self) -> None:
        with self._engine.connect() as connection, connection.begin():
            apps = _apps_by_newest_version(connection)
            pairs = [pair_of(connection, app) for app in apps[: self._max_apps]]
            self._served = {pair: is_served(connection, pair.app, pair.b) for pair in pairs if pair}
            self._rows = [(pair, row) for pair in pairs if pair for row in compared(connection, pair, self._judge)]
        self._left_out = max(0, len(apps) - self._max_apps)
        self._read_at = self._clock()


def _apps_by_newest_version(connection: Connection) -> list[str]:
    first = func.min(traffic_tally.c.bucket_start).label("first")
    versions = select(traffic_tally.c.app, first).group_by(traffic_tally.c.app, traffic_tally.c.version).subquery()
    query = (
        select(versions.c.app).group_by(versions.c.app).order_by(func.max(versions.c.first).desc(), versions.c.app)
    )
    return list(connection.scalars(query))


def _families(rows: list[tuple[Pair, CriterionCompared]]) -> Iterator[Metric]:
    def gauge(name: str, text: str, value: Callable[[Comparison], float]) -> Metric:
        family = GaugeMetricFamily(name, text, labels=["app", "criterion", "version", "against"])
        for pair, row in rows:
            if row.result is not None:
                family.add_metric([pair.app, row.criterion, pair.b, pair.a], value(row.result))
        return family

    yield gauge(
        "rag_version_difference", "Failure rate of the newest version less that of the one that served before", _d
    )
    yield gauge(
        "rag_version_difference_low", "Lower end of it, 95 %, right however often it is read", lambda c: c.low
    )
    yield gauge("rag_version_difference_high", "Upper end of it, 95 %", lambda c: c.high)
    yield gauge("rag_version_log_e", "Evidence that the two versions differ (log of an e-value)", lambda c: c.log_e)
    judged = GaugeMetricFamily(
        "rag_version_judged",
        "Verdicts that the comparison rests on",
        labels=["app", "criterion", "version", "against"],
    )
    for pair, row in rows:
        smaller = min(0 if e is None else e.judged for e in (row.a, row.b))
        judged.add_metric([pair.app, row.criterion, pair.b, pair.a], smaller)
    yield judged


def _served(pairs: Mapping[Pair, bool]) -> Metric:
    family = GaugeMetricFamily(
        "rag_version_served",
        "1 while the newest version is among those that answer, 0 two hours after it was rolled back",
        labels=["app", "version", "against"],
    )
    for pair, served in pairs.items():
        family.add_metric([pair.app, pair.b, pair.a], float(served))
    return family


def _d(comparison: Comparison) -> float:
    return comparison.difference
