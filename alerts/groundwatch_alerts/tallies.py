"""Read the committed sums that every estimate is made of: group-bys over the tallies, never over traces.

A window is every bucket that starts in ``[since, until)``; None leaves that side open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, Table, func, select

from groundwatch_alerts.estimator import StratumSums
from groundwatch_collector.ragtrace import COMPLETED
from groundwatch_collector.storage import reader
from groundwatch_collector.tables import traffic_tally
from groundwatch_scorer.tables import fault_tally, verdict_tally

ELIGIBLE = tuple(sorted(COMPLETED))
"""Outcomes whose text can be judged: the denominator of every quality criterion."""


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
) -> list[StratumSums]:
    """Sum one window by stratum; a stratum with traffic and no verdict is there, with zeros."""
    grouped = _grouped(engine, _Window(app, since, until, version), criterion, judge)
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
) -> list[tuple[int, list[StratumSums]]]:
    """The same sums per step of time, oldest first; a step without traffic is left out."""
    if step_seconds < 1:
        raise ValueError(f"step_seconds is a whole number of seconds from 1 up, not {step_seconds}")
    return sorted(_grouped(engine, _Window(app, since, until, version), criterion, judge, step_seconds).items())


def fault_layers(
    engine: Engine,
    *,
    app: str,
    judge: str,
    since: float | None = None,
    until: float | None = None,
    version: str | None = None,
) -> list[LayerSums]:
    """Weight of failures by the layer at fault, heaviest first."""
    where = _Window(app, since, until, version).of(fault_tally)
    weight = func.sum(fault_tally.c.weight)
    query = (
        select(fault_tally.c.layer, weight, func.sum(fault_tally.c.judged))
        .where(*where, fault_tally.c.judge == judge)
        .group_by(fault_tally.c.layer)
        .order_by(weight.desc(), fault_tally.c.layer)
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
    engine: Engine, window: _Window, criterion: str, judge: str, step_seconds: int | None = None
) -> dict[int, list[StratumSums]]:
    traffic_where = [*window.of(traffic_tally), traffic_tally.c.outcome.in_(ELIGIBLE)]
    verdict_where = [
        *window.of(verdict_tally),
        verdict_tally.c.criterion == criterion,
        verdict_tally.c.judge == judge,
    ]
    # One read transaction: traffic and verdicts of the same moment.
    with reader(engine).connect() as connection, connection.begin():
        traffic = _sum_by_stratum(connection, traffic_tally, ("traces",), traffic_where, step_seconds)
        verdicts = _sum_by_stratum(connection, verdict_tally, _VERDICT_SUMS, verdict_where, step_seconds)
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
