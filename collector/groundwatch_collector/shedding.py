"""Keep the judge's queue within its bound, and the chance of everything that stays in it known.

When more wait than may, those with the largest u / chance are taken out. The smallest value that was taken out is
the threshold t: of all that waited, exactly those below it stay, so each had the chance p * t of being there. That is
what its weight is made of. What was judged before has left the queue and keeps its own chance, so no sum is ever
corrected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, select, update

from groundwatch_collector.sampling import SPACE
from groundwatch_collector.storage import add_to_tally
from groundwatch_collector.tables import ledger, sampled_traces, shed_chances, shed_tally

REASON = "shed"  # in the ledger, of a trace that the hash chose and that was taken out of the queue again
_CHUNK = 500  # ids per query: below every database's bound on parameters


class Waiting(NamedTuple):
    """A trace in the judge's queue, as the ledger knows it."""

    trace_id: str
    u56: int
    chance: float  # with which the hash chose it
    stratum: str
    started_at: float

    @property
    def ratio(self) -> float:
        """u / chance, evenly spread over [0, 1) among what the hash chose."""
        return self.u56 / (self.chance * SPACE)


class Shed(NamedTuple):
    dropped: Sequence[Waiting] = ()
    threshold: float = 1.0  # t: what stayed had its chance multiplied by it


def keep_below(waiting: Sequence[Waiting], keep: int) -> tuple[list[Waiting], Shed]:
    """Part *waiting* into the *keep* with the smallest u / chance and the rest, whose smallest is the threshold."""
    ordered = sorted(waiting, key=lambda trace: (trace.ratio, trace.trace_id))
    stay, dropped = ordered[:keep], ordered[keep:]
    return stay, Shed(dropped, max(dropped[0].ratio, 1 / SPACE)) if dropped else Shed()


def shed(connection: Connection, limit: int, bucket_seconds: int) -> Shed:
    """Bring the queue back to seven eighths of *limit* where it is longer; inside the caller's transaction.

    Only traces that no judge has in hand and that count in the estimate. 0: no bound.
    """
    # The first count reads an index alone; the second, of those that count in the estimate, reads their rows.
    if limit <= 0 or _count(connection, _WAITING) <= limit or _count(connection, _IN_QUEUE) <= limit:
        return Shed()
    stay, found = keep_below(_waiting(connection), limit - limit // 8)
    if found.dropped:
        _lower(connection, stay, found.threshold)
        _drop(connection, found.dropped, bucket_seconds)
    return found


def chances(connection: Connection, trace_ids: Sequence[str]) -> Mapping[str, float]:
    """The chance of those of *trace_ids* whose chance shedding has lowered. For whoever takes them to be judged."""
    found: dict[str, float] = {}
    for chunk in _chunks(trace_ids):
        query = select(shed_chances).where(shed_chances.c.trace_id.in_(chunk))
        found.update((row.trace_id, row.inclusion_probability) for row in connection.execute(query))
    return found


def shed_between(connection: Connection, since: float, until: float) -> int:
    """Traces that started in [since, until) and were shed: the hash chose them, so their budget is spent."""
    start = shed_tally.c.bucket_start
    query = select(func.coalesce(func.sum(shed_tally.c.traces), 0)).where(start >= since, start < until)
    return int(connection.scalar(query) or 0)


_WAITING = sampled_traces.c.state == "waiting"
_IN_QUEUE = and_(_WAITING, sampled_traces.c.family == "fast")


def _count(connection: Connection, where: ColumnElement[bool]) -> int:
    return int(connection.scalar(select(func.count()).select_from(sampled_traces).where(where)) or 0)


def _waiting(connection: Connection) -> list[Waiting]:
    query = (
        select(ledger.c.trace_id, ledger.c.u56, ledger.c.inclusion_probability, ledger.c.stratum, ledger.c.started_at)
        .join_from(sampled_traces, ledger, ledger.c.trace_id == sampled_traces.c.trace_id)
        .where(_IN_QUEUE)
        .with_for_update(of=sampled_traces, skip_locked=True)  # PostgreSQL: what a judge is taking is in its hand
    )
    return [Waiting(*row) for row in connection.execute(query)]


def _lower(connection: Connection, stay: Sequence[Waiting], threshold: float) -> None:
    """Write the chance of what stays. A threshold that is above an earlier one changes nothing."""
    before = chances(connection, [trace.trace_id for trace in stay])
    rows = [
        {"trace_id": t.trace_id, "inclusion_probability": min(t.chance * threshold, before.get(t.trace_id, 1.0))}
        for t in stay
    ]
    gone = select(sampled_traces.c.trace_id).where(sampled_traces.c.state.in_(("waiting", "leased")))
    connection.execute(delete(shed_chances).where(shed_chances.c.trace_id.not_in(gone)))
    for chunk in _chunks(rows):
        ids = [row["trace_id"] for row in chunk]
        connection.execute(delete(shed_chances).where(shed_chances.c.trace_id.in_(ids)))
        connection.execute(insert(shed_chances), chunk)


def _drop(connection: Connection, dropped: Sequence[Waiting], bucket_seconds: int) -> None:
    for chunk in _chunks([trace.trace_id for trace in dropped]):
        connection.execute(delete(sampled_traces).where(sampled_traces.c.trace_id.in_(chunk)))
        connection.execute(delete(shed_chances).where(shed_chances.c.trace_id.in_(chunk)))
        changed = {"verdict": "not_sampled", "reason": REASON}
        connection.execute(update(ledger).where(ledger.c.trace_id.in_(chunk)).values(**changed))
    counts: dict[tuple[int, str], int] = {}
    for trace in dropped:
        place = (int(trace.started_at // bucket_seconds) * bucket_seconds, trace.stratum)
        counts[place] = counts.get(place, 0) + 1
    rows = [{"bucket_start": at, "stratum": name, "traces": n} for (at, name), n in counts.items()]
    add_to_tally(connection, shed_tally, rows)


def _chunks(values: Sequence[Any]) -> Iterator[Any]:
    return (values[start : start + _CHUNK] for start in range(0, len(values), _CHUNK))
