"""Read the committed sums that every estimate is made of: group-bys over the tallies, never over traces.

A window is every bucket that starts in ``[since, until)``; None leaves that side open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, Table, func, select

from groundwatch_alerts.estimator import StratumSums
from groundwatch_collector.ragtrace import COMPLETED
from groundwatch_collector.settling_tables import settled_traffic_tally
from groundwatch_collector.storage import reader
from groundwatch_collector.tables import traffic_tally
from groundwatch_scorer.tables import fault_tally, settled_fault_tally, settled_verdict_tally, verdict_tally

ELIGIBLE = tuple(sorted(COMPLETED))
"""Outcomes whose text can be judged: the denominator of every quality criterion."""


Family = Literal["fast", "settled"]
"""Which sums: written at once, with the strata of the decision; or when late feedback can move nothing any more."""


class FamilyTables(NamedTuple):
    traffic: Table
    verdicts: Table
    faults: Table


TABLES: Mapping[Family, FamilyTables] = {
    "fast": FamilyTables(traffic_tally, verdict_tally, fault_tally),
    "settled": FamilyTables(settled_traffic_tally, settled_verdict_tally, settled_fault_tally),
}


@dataclass(frozen=True, slots=True)
class _Window:
    app: str
    since: float | None
    until: float | None
    version: str | None

    def of(self, table: Table) -> list[ColumnElement[bool]]:
        where = [table.c.app == self.app]
        if self.since is not None:
            where.append(table.c.bucket_start >= self.since)
        if self.until is not None:
            where.append(table.c.bucket_start < self.until)
        if self.version is not None:
            where.append(table.c.version == self.version)
        return where


_VERDICT_SUMS = ("weight", "fail_weight", "weight_sq", "judged", "failed", "not_applicable_weight", "missing_weight")


class LayerSums(NamedTuple):
    layer: str
    weight: float  # how many requests of all traffic these stand for
    judged: int


def sums(
    engine: Engine,
    *,
    app: str,
    criterion: str,
    judge: str,
    since: float | None = None,
    until: float | None = None,
    version: str | None = None,
    family: Family = "fast",
) -> list[StratumSums]:
    """Sum one window by stratum; a stratum with traffic and no verdict is there, with zeros."""
    grouped = _grouped(engine, _Window(app, since, until, version), criterion, judge, family=family)
    return grouped.get(0, [])


def series(
    engine: Engine,
    *,
    app: str,
    criterion: str,
    judge: str,
    since: float | None = None,
    until: float | None = None,
    step_seconds: int,
    version: str | None = None,
    family: Family = "fast",
) -> list[tuple[int, list[StratumSums]]]:
    """The same sums per step of time, oldest first; a step without traffic is left out."""
    if step_seconds < 1:
        raise ValueError(f"step_seconds is a whole number of seconds from 1 up, not {step_seconds}")
    window = _Window(app, since, until, version)
    return sorted(_grouped(engine, window, criterion, judge, step_seconds, family=family).items())


def fault_layers(
    engine: Engine,
    *,
    app: str,
    judge: str,
    since: float | None = None,
    until: float | None = None,
    version: str | None = None,
    family: Family = "fast",
) -> list[LayerSums]:
    """Weight of failures by the layer at fault, heaviest first."""
    faults = TABLES[family].faults
    where = _Window(app, since, until, version).of(faults)
    weight = func.sum(faults.c.weight)
    query = (
        select(faults.c.layer, weight, func.sum(faults.c.judged))
        .where(*where, faults.c.judge == judge)
        .group_by(faults.c.layer)
        .order_by(weight.desc(), faults.c.layer)
    )
    with reader(engine).connect() as connection:
        return [LayerSums(layer, float(w), int(n)) for layer, w, n in connection.execute(query)]


def apps(engine: Engine) -> list[str]:
    """Every app that sent traffic, by name."""
    with reader(engine).connect() as connection:
        return list(connection.scalars(select(traffic_tally.c.app).distinct().order_by(traffic_tally.c.app)))


def versions(engine: Engine, app: str) -> list[str]:
    """Every version of *app*, in the order in which they first served traffic."""
    query = (
        select(traffic_tally.c.version)
        .where(traffic_tally.c.app == app)
        .group_by(traffic_tally.c.version)
        .order_by(func.min(traffic_tally.c.bucket_start), traffic_tally.c.version)
    )
    with reader(engine).connect() as connection:
        return list(connection.scalars(query))


def judges(engine: Engine, app: str | None = None) -> list[str]:
    """Every judge identifier with verdicts (of *app*), the most used first."""
    query = select(verdict_tally.c.judge).group_by(verdict_tally.c.judge)
    if app is not None:
        query = query.where(verdict_tally.c.app == app)
    query = query.order_by(func.sum(verdict_tally.c.judged).desc(), verdict_tally.c.judge)
    with reader(engine).connect() as connection:
        return list(connection.scalars(query))


def _step(table: Table, step_seconds: int | None) -> list[ColumnElement[Any]]:
    if step_seconds is None:
        return []
    return [table.c.bucket_start - table.c.bucket_start % step_seconds]


def _grouped(
    engine: Engine,
    window: _Window,
    criterion: str,
    judge: str,
    step_seconds: int | None = None,
    *,
    family: Family = "fast",
) -> dict[int, list[StratumSums]]:
    tables = TABLES[family]
    traffic_where = [*window.of(tables.traffic), tables.traffic.c.outcome.in_(ELIGIBLE)]
    verdict_where = [
        *window.of(tables.verdicts),
        tables.verdicts.c.criterion == criterion,
        tables.verdicts.c.judge == judge,
    ]
    # One read transaction: traffic and verdicts of the same moment.
    with reader(engine).connect() as connection, connection.begin():
        traffic = _sum_by_stratum(connection, tables.traffic, ("traces",), traffic_where, step_seconds)
        verdicts = _sum_by_stratum(connection, tables.verdicts, _VERDICT_SUMS, verdict_where, step_seconds)
    none = dict.fromkeys(_VERDICT_SUMS, 0)
    result: dict[int, list[StratumSums]] = {}
    for key in sorted(traffic.keys() | verdicts.keys()):
        start, stratum = key
        seen = traffic.get(key, {"traces": 0.0})["traces"]
        row = StratumSums(stratum=stratum, traffic=seen, **verdicts.get(key, none))
        result.setdefault(start, []).append(row)
    return result


def _sum_by_stratum(
    connection: Connection,
    table: Table,
    columns: Sequence[str],
    where: Sequence[ColumnElement[bool]],
    step_seconds: int | None,
) -> dict[tuple[int, str], dict[str, Any]]:
    groups = [*_step(table, step_seconds), table.c.stratum]
    query = select(*groups, *(func.sum(table.c[name]) for name in columns)).where(*where).group_by(*groups)
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for row in connection.execute(query):
        *key, stratum = row[: len(groups)]
        found[(int(key[0]) if key else 0, stratum)] = dict(zip(columns, row[len(groups) :], strict=True))
    return found
