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
    traffic_where, verdict_where = _conditions(tables, window, criterion, judge)
    # One read transaction: traffic and verdicts of the same moment.
    with reader(engine).connect() as connection, connection.begin():
        traffic = _sum_by(connection, _groups(tables.traffic, step_seconds), ("traces",), traffic_where)
        verdicts = _sum_by(connection, _groups(tables.verdicts, step_seconds), _VERDICT_SUMS, verdict_where)
    result: dict[int, list[StratumSums]] = {}
    for *start, stratum in sorted(traffic.keys() | verdicts.keys()):
        key = (*start, stratum)
        result.setdefault(int(start[0]) if start else 0, []).append(
            _stratum_sums(stratum, traffic.get(key), verdicts.get(key))
        )
    return result


def version_sums(
    connection: Connection, *, app: str, judge: str, version: str, since: float, until: float | None = None
) -> dict[str, list[StratumSums]]:
    """The fast sums of one version by criterion: two group-bys for all criteria together."""
    window, tables = _Window(app, since, until, version), TABLES["fast"]
    traffic_where, verdict_where = _conditions(tables, window, None, judge)
    traffic = _sum_by(connection, _groups(tables.traffic), ("traces",), traffic_where)
    by_criterion = [tables.verdicts.c.criterion, *_groups(tables.verdicts)]
    verdicts = _sum_by(connection, by_criterion, _VERDICT_SUMS, verdict_where)
    strata = sorted({stratum for (stratum,) in traffic} | {stratum for _criterion, stratum in verdicts})
    return {
        criterion: [_stratum_sums(s, traffic.get((s,)), verdicts.get((criterion, s))) for s in strata]
        for criterion in sorted({criterion for criterion, _stratum in verdicts})
    }


def _conditions(
    tables: FamilyTables, window: _Window, criterion: str | None, judge: str
) -> tuple[list[ColumnElement[bool]], list[ColumnElement[bool]]]:
    traffic = [*window.of(tables.traffic), tables.traffic.c.outcome.in_(ELIGIBLE)]
    verdicts = [*window.of(tables.verdicts), tables.verdicts.c.judge == judge]
    if criterion is not None:
        verdicts.append(tables.verdicts.c.criterion == criterion)
    return traffic, verdicts


def _groups(table: Table, step_seconds: int | None = None) -> list[ColumnElement[Any]]:
    return [*_step(table, step_seconds), table.c.stratum]


def _stratum_sums(stratum: str, traffic: Mapping[str, Any] | None, verdicts: Mapping[str, Any] | None) -> StratumSums:
    none = dict.fromkeys(_VERDICT_SUMS, 0)
    return StratumSums(stratum=stratum, traffic=traffic["traces"] if traffic else 0.0, **(verdicts or none))


def _sum_by(
    connection: Connection,
    groups: Sequence[ColumnElement[Any]],
    columns: Sequence[str],
    where: Sequence[ColumnElement[bool]],
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Sums of *columns* of the groups' table, by group."""
    table = groups[-1].table
    query = select(*groups, *(func.sum(table.c[name]) for name in columns)).where(*where).group_by(*groups)
    return {
        tuple(row[: len(groups)]): dict(zip(columns, row[len(groups) :], strict=True))
        for row in connection.execute(query)
    }
