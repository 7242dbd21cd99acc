"""Read what the corrected rate is made of: sampled traces of a window, their first verdict and their second."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, Row, Select, and_, func, select

from groundwatch_alerts import tallies
from groundwatch_alerts.corrected import MAX_UNSEEN_SHARE, Corrected, Refused, Twice, corrected
from groundwatch_collector.ragtrace import COMPLETED
from groundwatch_collector.storage import reader
from groundwatch_collector.tables import ledger, sampled_traces
from groundwatch_scorer.judgement import AnnotatorKind, Criterion
from groundwatch_scorer.second_look import PEOPLE
from groundwatch_scorer.tables import judgements, second_looks

_FAILED = {"pass": False, "fail": True}
_APPLIES = ("pass", "fail", "unscored")


def read(
    engine: Engine,
    *,
    app: str,
    judge: str,
    second: str,
    since: float,
    until: float | None = None,
    criterion: str = Criterion.ANY_FAILURE,
) -> Corrected | Refused:
    """The rate of failed answers of *app* as *second* (a judge's identifier, or people) would have it.

    The window is of traces that started in ``[since, until)``. A person's last word on a trace counts.
    """
    with reader(engine).connect() as connection, connection.begin():
        found = connection.execute(_first_verdicts(app, judge, second, criterion, (since, until))).all()
        verdicts = _second_verdicts(connection, second, app, criterion, since)
    sums = tallies.sums(engine, app=app, criterion=criterion, judge=judge, since=since, until=until)
    traffic = {s.stratum: s.traffic for s in sums}
    rows = [row for row in found if row.label in _APPLIES]
    drawn = [row for row in rows if row.chance is not None]
    result = corrected(_applicable(traffic, found), [_twice(row, verdicts) for row in drawn])
    without = 1 - _weight(drawn) / _weight(rows) if rows else 0.0
    if isinstance(result, Corrected) and without > MAX_UNSEEN_SHARE:  # the cascade was off for a part of the window
        return Refused("unseen_part", without, MAX_UNSEEN_SHARE, result.labels)
    return result


def _first_verdicts(
    app: str, judge: str, second: str, criterion: str, times: tuple[float, float | None]
) -> Select[Any]:
    since, until = times
    first = judgements.c.identifier == judge, judgements.c.criterion == criterion
    looks = and_(second_looks.c.trace_id == sampled_traces.c.trace_id, second_looks.c.asked == second)
    window = [sampled_traces.c.app == app, sampled_traces.c.started_at >= since]
    if until is not None:
        window.append(sampled_traces.c.started_at < until)
    return (
        select(
            sampled_traces.c.trace_id,
            sampled_traces.c.stratum,
            sampled_traces.c.inclusion_probability,
            func.coalesce(ledger.c.adjusted_count, 1.0).label("adjusted_count"),
            judgements.c.label,
            second_looks.c.chance,
            second_looks.c.chosen,
            second_looks.c.unsure,
        )
        .join_from(sampled_traces, second_looks, looks, isouter=True)
        .join(judgements, and_(judgements.c.trace_id == sampled_traces.c.trace_id, *first))
        .join(ledger, ledger.c.trace_id == sampled_traces.c.trace_id, isouter=True)
        .where(*window, sampled_traces.c.family == "fast")
        .where(ledger.c.outcome.is_(None) | ledger.c.outcome.in_(sorted(COMPLETED)))
        .order_by(sampled_traces.c.trace_id)
    )


def _second_verdicts(connection: Connection, second: str, app: str, criterion: str, since: float) -> dict[str, bool]:
    by_people = judgements.c.annotator_kind == str(AnnotatorKind.HUMAN)
    who = by_people if second == PEOPLE else judgements.c.identifier == second
    query = (
        select(judgements.c.trace_id, judgements.c.label)
        .join(sampled_traces, sampled_traces.c.trace_id == judgements.c.trace_id)
        .where(
            who,
            judgements.c.criterion == criterion,
            sampled_traces.c.app == app,
            sampled_traces.c.started_at >= since,
        )
        .where(judgements.c.label.in_(tuple(_FAILED)))
        .order_by(judgements.c.id)  # a later word replaces an earlier one
    )
    return {trace_id: _FAILED[label] for trace_id, label in connection.execute(query)}


def _twice(row: Row[Any], verdicts: dict[str, bool]) -> Twice:
    return Twice(
        row.stratum,
        row.adjusted_count / row.inclusion_probability,
        _FAILED.get(row.label),
        row.unsure,
        row.chance,
        row.chosen,
        verdicts.get(row.trace_id) if row.chosen else None,  # what was not chosen has no known chance
    )


def _weight(rows: Iterable[Row[Any]]) -> float:
    return sum(float(row.adjusted_count) / float(row.inclusion_probability) for row in rows)


def _applicable(traffic: dict[str, float], rows: Iterable[Row[Any]]) -> dict[str, float]:
    """The traffic that the criterion applies to, as far as the judged traces tell."""
    seen: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in rows:
        weight = row.adjusted_count / row.inclusion_probability
        seen[row.stratum][0] += weight
        seen[row.stratum][1] += weight * (row.label in _APPLIES)
    shares = {name: applies / whole for name, (whole, applies) in seen.items()}
    return {name: count * shares.get(name, 1.0) for name, count in traffic.items()}


def second_judges(engine: Engine) -> list[str]:
    """Every judge that was ever asked to read again. What people read twice is of labels, and corrects no judge."""
    of_people = (second_looks.c.asked == PEOPLE) | second_looks.c.asked.startswith(f"{PEOPLE}:")
    query = select(second_looks.c.asked).where(~of_people).distinct()
    with reader(engine).connect() as connection:
        return sorted(connection.scalars(query))


def seconds(judges: Sequence[str], engine: Engine) -> list[str]:
    """Whose second looks there are: of *judges* those that read by choice, and people."""
    with reader(engine).connect() as connection:
        asked = set(connection.scalars(select(second_looks.c.asked).distinct()))
    return [name for name in (*judges, PEOPLE) if name in asked]
