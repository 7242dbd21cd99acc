"""The sums behind every estimate as Prometheus counters, read from the database at each scrape.

What is exported is what is committed: after a restart the counters go on exactly where they stood, and a scrape
never sees a verdict without its weight. ``rag_*`` speaks of the watched application.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import ColumnElement, Connection, Engine, Table, func, select
from sqlalchemy.exc import SQLAlchemyError

from groundwatch_alerts.tallies import ELIGIBLE, TABLES, Family, FamilyTables
from groundwatch_collector.storage import reader
from groundwatch_collector.strata import STRATA
from groundwatch_scorer.judgement import Criterion, FaultLayer

OTHER = "__other__"
RECENT_SECONDS = 3600
"""How far back a scrape always reads; where the history is long, older buckets are read less often."""
CRITERIA = tuple(str(criterion) for criterion in Criterion)
LAYERS = tuple(str(layer) for layer in FaultLayer)
Key = tuple[str, ...]

_VERDICT_FAMILIES = {
    "weight": ("rag_judged_weight", "Sum of weights of judged traces (A)"),
    "fail_weight": ("rag_judged_fail_weight", "Sum of weights of judged traces that failed (B)"),
    "weight_sq": ("rag_judged_weight_sq", "Sum of squared weights of judged traces (C)"),
    "not_applicable_weight": (
        "rag_judge_not_applicable_weight",
        "Sum of weights of judged traces to which the criterion does not apply",
    ),
    "missing_weight": ("rag_judge_missing_weight", "Sum of weights of sampled traces without a verdict"),
}
_VERDICT_COLUMNS = (*_VERDICT_FAMILIES, "judged", "failed")


class Labels:
    """Bounds how many values a label takes: the first *limit* keep their name, later ones share ``__other__``.

    First come stays: a counter that moved from one name to another would read as a burst.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._named: set[Key] = set()
        self.folded: set[Key] = set()

    def admit(self, value: Key) -> bool:
        if value in self._named:
            return True
        if len(self._named) < self._limit:
            self._named.add(value)
            return True
        self.folded.add(value)
        return False


@dataclass(slots=True)
class _Sums:
    """Totals by label values, after the label caps."""

    traces: dict[Key, float] = field(default_factory=dict)  # app, version, stratum
    eligible: dict[Key, float] = field(default_factory=dict)  # app, version, stratum
    verdicts: dict[Key, list[float]] = field(default_factory=dict)  # app, version, stratum, criterion, judge
    faults: dict[Key, float] = field(default_factory=dict)  # app, version, stratum, judge, layer


@dataclass(frozen=True, slots=True)
class _Rows:
    """Group-bys of the three tallies over some of their buckets."""

    traffic: Sequence[Sequence[Any]]
    verdicts: Sequence[Sequence[Any]]
    faults: Sequence[Sequence[Any]]

    @classmethod
    def read(
        cls, connection: Connection, tables: FamilyTables, where: Callable[[Table], ColumnElement[bool]]
    ) -> _Rows:
        return cls(
            _totals(connection, tables.traffic, where, ("outcome",), ("traces",)),
            _totals(connection, tables.verdicts, where, ("criterion", "judge"), _VERDICT_COLUMNS),
            _totals(connection, tables.faults, where, ("judge", "layer"), ("weight",)),
        )


@dataclass(frozen=True, slots=True)
class _History:
    until: int  # bucket starts before this one are in rows
    rows: _Rows
    read_again_at: float  # of the clock


class TallyCollector(Collector):
    """Exports the committed sums. Every (stratum, criterion) of a known app and judge exists from its first scrape.

    *rates* is the rate table in force, or a function that returns it; *judges* are identifiers that are configured
    and may not have judged yet. At most *max_apps* apps and *max_versions* pairs of app and version keep their name.

    Reading the whole history takes at most a twentieth of the time: after a read of t seconds, for 20 t only the
    buckets of its last hour are read again, and a verdict on an older trace shows that much later.

    *family* ``settled`` exports the same series of the settled family as ``rag_settled_*``, and nothing else.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        rates: Mapping[str, float] | Callable[[], Mapping[str, float]] | None = None,
        judges: Iterable[str] = (),
        max_apps: int = 50,
        max_versions: int = 100,
        clock: Callable[[], float] = time.monotonic,
        family: Family = "fast",
    ) -> None:
        self._engine = reader(engine)
        self._family: Family = family
        self._tables = TABLES[family]
        self._rates = rates
        self._judges = tuple(judges)
        self._apps = Labels(max_apps)
        self._versions = Labels(max_versions)
        self._clock = clock
        self._history: _History | None = None
        self._read_errors = 0
        self._last: dict[tuple[str, Key], float] = {}

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not read the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        try:
            sums = self._read()
        except SQLAlchemyError:  # the other metrics of this process must still be seen
            self._read_errors += 1
        else:
            yield from _families(sums, self._steady, "rag" if self._family == "fast" else f"rag_{self._family}")
        if self._family != "fast":
            return
        yield self._probabilities()
        yield self._overflow()
        yield CounterMetricFamily(
            "groundwatch_tally_read_errors",
            "Scrapes that could not read the tallies and left rag_* out",
            value=self._read_errors,
        )

    def _read(self) -> _Sums:
        with self._engine.connect() as connection, connection.begin():  # one snapshot for all three tables
            history = self._history
            if history is None or self._clock() >= history.read_again_at:
                history = self._history = self._read_history(connection)
            recent = _Rows.read(connection, self._tables, lambda table: table.c.bucket_start >= history.until)
        return self._sums(history.rows, recent)

    def _read_history(self, connection: Connection) -> _History:
        started = self._clock()
        newest = connection.scalar(select(func.max(self._tables.traffic.c.bucket_start))) or 0
        until = newest - RECENT_SECONDS
        rows = _Rows.read(connection, self._tables, lambda table: table.c.bucket_start < until)
        ended = self._clock()
        return _History(until, rows, ended + 20 * (ended - started))

    def _sums(self, *parts: _Rows) -> _Sums:
        traffic = [row for part in parts for row in part.traffic]
        verdicts = [row for part in parts for row in part.verdicts]
        sums = _Sums()
        places = sorted({self._place(row[0], row[1]) for row in traffic})
        _create(sums, places, sorted({*self._judges, *(row[4] for row in verdicts)}), self._strata())
        for app, version, stratum, outcome, traces in traffic:
            place = (*self._place(app, version), stratum)
            _add(sums.traces, place, traces)
            _add(sums.eligible, place, traces if outcome in ELIGIBLE else 0.0)
        for app, version, stratum, criterion, judge, *values in verdicts:
            key = (*self._place(app, version), stratum, criterion, judge)
            row = sums.verdicts.setdefault(key, [0.0] * len(_VERDICT_COLUMNS))
            row[:] = [a + b for a, b in zip(row, values, strict=True)]
        for app, version, stratum, judge, layer, weight in (row for part in parts for row in part.faults):
            _add(sums.faults, (*self._place(app, version), stratum, judge, layer), weight)
        return sums

    def _place(self, app: str, version: str) -> tuple[str, str]:
        if not self._apps.admit((app,)):
            return OTHER, OTHER
        return (app, version) if self._versions.admit((app, version)) else (app, OTHER)

    def _steady(self, name: str, key: Key, value: float) -> float:
        """A sum of the same weights in another order may come out a rounding lower, which would read as a restart.

        The order changes when retention merges steps of time. Ten digits hide it, also from one process to the next.
        """
        value = float(f"{value:.10g}")
        last = self._last.get((name, key), 0.0)
        if last * (1 - 1e-9) <= value < last:
            return last
        self._last[name, key] = value
        return value

    def _strata(self) -> Sequence[str]:
        """What is built in, and the strata of the user's rules: they have a rate."""
        rates = self._rates() if callable(self._rates) else self._rates or {}
        return tuple(dict.fromkeys((*STRATA, *rates)))

    def _probabilities(self) -> Metric:
        gauge = GaugeMetricFamily(
            "rag_inclusion_probability", "Chance with which a trace of the stratum is judged", labels=["stratum"]
        )
        rates = self._rates() if callable(self._rates) else self._rates or {}
        for stratum, probability in rates.items():
            gauge.add_metric([stratum], probability)
        return gauge

    def _overflow(self) -> Metric:
        counter = CounterMetricFamily(
            "groundwatch_tally_label_overflow",
            "Label values of the committed sums that share __other__",
            labels=["label"],
        )
        counter.add_metric(["app"], len(self._apps.folded))
        counter.add_metric(["version"], len(self._versions.folded))
        return counter


def _totals(
    connection: Connection,
    table: Table,
    where: Callable[[Table], ColumnElement[bool]],
    keys: Sequence[str],
    values: Sequence[str],
) -> Sequence[Sequence[Any]]:
    groups = [table.c[name] for name in ("app", "version", "stratum", *keys)]
    # Oldest first, so that after a restart the same values keep their names under the label caps.
    query = (
        select(*groups, *(func.sum(table.c[name]) for name in values))
        .where(where(table))
        .group_by(*groups)
        .order_by(func.min(table.c.bucket_start), *groups)
    )
    return connection.execute(query).all()


def _create(sums: _Sums, places: Iterable[Key], judges: Sequence[str], strata: Sequence[str]) -> None:
    """Every series at zero: one that is born with a value loses that value to ``increase()``."""
    for place in places:
        for stratum in strata:
            sums.traces[*place, stratum] = sums.eligible[*place, stratum] = 0.0
            for judge in judges:
                for criterion in CRITERIA:
                    sums.verdicts[*place, stratum, criterion, judge] = [0.0] * len(_VERDICT_COLUMNS)
                for layer in LAYERS:
                    sums.faults[*place, stratum, judge, layer] = 0.0


def _add(sums: dict[Key, float], key: Key, value: float) -> None:
    sums[key] = sums.get(key, 0.0) + value


def _families(sums: _Sums, steady: Callable[[str, Key, float], float], prefix: str) -> Iterator[Metric]:
    def counter(name: str, text: str, labels: Sequence[str], samples: Iterable[tuple[Key, float]]) -> Metric:
        name = name.replace("rag", prefix, 1)
        family = CounterMetricFamily(name, text, labels=labels)
        for key, value in samples:
            family.add_metric(key, steady(name, key, value))
        return family

    place = ["app", "version", "stratum"]
    yield counter("rag_traces", "All requests, whatever became of them", place, sums.traces.items())
    eligible = (((*key, criterion), n) for key, n in sums.eligible.items() for criterion in CRITERIA)
    yield counter("rag_eligible_traces", "Requests whose answer can be judged (N)", [*place, "criterion"], eligible)
    labels = [*place, "criterion", "judge"]
    for index, (name, text) in enumerate(_VERDICT_FAMILIES.values()):
        yield counter(name, text, labels, [(key, row[index]) for key, row in sums.verdicts.items()])
    yield counter("rag_judged", "Judged traces, unweighted", [*labels, "verdict"], _counts(sums))
    faults = "Sum of weights of failed traces by the layer at fault"
    yield counter("rag_fault_weight", faults, [*place, "judge", "layer"], sums.faults.items())


def _counts(sums: _Sums) -> Iterator[tuple[Key, float]]:
    judged, failed = _VERDICT_COLUMNS.index("judged"), _VERDICT_COLUMNS.index("failed")
    for key, row in sums.verdicts.items():
        yield (*key, "pass"), row[judged] - row[failed]
        yield (*key, "fail"), row[failed]
