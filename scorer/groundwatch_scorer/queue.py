"""The judge's queue: sampled traces are claimed for a time, and finished once, in one transaction.

What a trace adds to the sums that estimates are made of is written together with its judgements and its new state,
so that a crash at any moment leaves either all of it or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Row, Table, and_, func, or_, select, update

from groundwatch_collector import shedding
from groundwatch_collector.ragtrace import COMPLETED, RagTrace, from_json
from groundwatch_collector.sampled import BLANK_PAYLOAD, SampledTrace
from groundwatch_collector.storage import add_to_tally, reader
from groundwatch_collector.tables import ledger, sampled_traces
from groundwatch_scorer import judgement_store, second_look
from groundwatch_scorer.judgement import AnnotatorKind, Criterion, Judgement
from groundwatch_scorer.tables import fault_tally, verdict_tally

MAX_ATTEMPTS = 3
"""Claims of one trace before it is given up: a trace that brings the process down must not do so for ever."""

EXPIRED_ATTEMPTS, EXPIRED_UNREADABLE = "attempts", "unreadable_payload"


@dataclass(frozen=True, slots=True)
class Depth:
    waiting: int
    leased: int
    oldest_queued_at: float | None  # Unix seconds, of those not finished


class Tallies(NamedTuple):
    """Where the verdicts of one family are summed."""

    verdicts: Table
    faults: Table


FAST = Tallies(verdict_tally, fault_tally)


def claim(
    engine: Engine, limit: int, lease_seconds: float, now: float, *, max_attempts: int = MAX_ATTEMPTS
) -> list[SampledTrace]:
    """Take up to *limit* of the oldest unjudged traces for *lease_seconds*; a lease that ran out can be taken again.

    A payload that cannot be read is not returned but left to :func:`expire`.
    """
    ready = or_(
        sampled_traces.c.state == "waiting",
        and_(sampled_traces.c.state == "leased", sampled_traces.c.lease_until <= now),
    )
    query = (
        select(sampled_traces)
        .where(ready, sampled_traces.c.attempts < max_attempts)
        .order_by(sampled_traces.c.queued_at, sampled_traces.c.trace_id)
        .limit(limit)
        .with_for_update(skip_locked=True)  # PostgreSQL; SQLite's transaction is exclusive as it is
    )
    claimed: list[SampledTrace] = []
    with engine.begin() as connection:
        rows = connection.execute(query).all()
        lowered = shedding.chances(connection, [row.trace_id for row in rows])
        for row in rows:
            chance = lowered.get(row.trace_id, row.inclusion_probability)
            sampled = _sampled(row, chance)
            values = {"state": "leased", "lease_until": now + lease_seconds, "attempts": row.attempts + 1}
            values["inclusion_probability"] = chance  # from here on it stays: shedding leaves alone what is in hand
            if sampled is None:
                values |= {"lease_until": now, "attempts": max_attempts}
            else:
                claimed.append(sampled)
            connection.execute(update(sampled_traces).where(sampled_traces.c.trace_id == row.trace_id).values(values))
    return claimed


def release(engine: Engine, trace_ids: Sequence[str], lease_until: float) -> None:
    """Give claimed traces back unjudged, without counting the attempt.

    Only those whose lease still ends at *lease_until*: what another worker took meanwhile stays with it.
    """
    if not trace_ids:
        return
    own = and_(sampled_traces.c.state == "leased", sampled_traces.c.lease_until == lease_until)
    with engine.begin() as connection:
        connection.execute(
            update(sampled_traces)
            .where(sampled_traces.c.trace_id.in_(trace_ids), own)
            .values(state="waiting", lease_until=0.0, attempts=sampled_traces.c.attempts - 1)
        )


def release_all(engine: Engine) -> int:
    """Give back whatever a process that is gone had claimed. Only for the sole scorer of a database, at its start."""
    with engine.begin() as connection:
        return connection.execute(
            update(sampled_traces).where(sampled_traces.c.state == "leased").values(state="waiting", lease_until=0.0)
        ).rowcount


def finish(
    engine: Engine,
    sampled: SampledTrace,
    judgements: Sequence[Judgement],
    *,
    bucket_seconds: int,
    now: float,
    looks: Sequence[second_look.SecondLook] = (),
) -> bool:
    """Record *judgements* (of one or several judges), their tallies and the trace's state, all or nothing.

    *looks* say which judges were asked only with a chance: their verdicts weigh that much more.

    False, and nothing is written, when the trace was finished before: finishing twice does not count twice.
    """
    trace = sampled.trace
    state = "unscored" if all(j.label == "unscored" for j in judgements) else "judged"
    with engine.begin() as connection:
        if not _close(connection, trace.trace_id, state, now):
            return False
        judgement_store.append(connection, _kept(connection, trace.trace_id, judgements))
        second_look.keep(connection, trace.trace_id, looks)
        # Outside COMPLETED nothing was answered: in no denominator of quality, hence in no numerator either.
        if sampled.family == "fast" and trace.outcome in COMPLETED:
            place = place_of(trace.started_at, bucket_seconds, trace.app, trace.version, sampled.stratum)
            add_to_tallies(
                connection, place, sampled.weight, judgements, asked={look.asked: look.chance for look in looks}
            )
    return True


def _kept(connection: Connection, trace_id: str, judgements: Sequence[Judgement]) -> list[Judgement]:
    """The verdicts, without their words where the trace was erased while a judge held it."""
    payload = connection.scalar(select(sampled_traces.c.payload).where(sampled_traces.c.trace_id == trace_id))
    if payload != BLANK_PAYLOAD:
        return list(judgements)
    return [replace(judgement, explanation="", detail={}, calls=()) for judgement in judgements]


def expire(
    engine: Engine,
    judges: Iterable[tuple[str, AnnotatorKind]],
    *,
    bucket_seconds: int,
    now: float,
    max_attempts: int = MAX_ATTEMPTS,
) -> list[tuple[str, str]]:
    """Give up traces that used all their attempts: state ``unscored``, their weight counted as missing.

    Returns (trace id, reason) of each. *judges* are the identifiers and kinds that a verdict is missing from.
    """
    judges = list(judges)
    given_up = and_(
        sampled_traces.c.state.in_(("waiting", "leased")),
        sampled_traces.c.attempts >= max_attempts,
        sampled_traces.c.lease_until <= now,
    )
    query = (
        select(sampled_traces, ledger.c.outcome, ledger.c.adjusted_count)
        .join_from(sampled_traces, ledger, ledger.c.trace_id == sampled_traces.c.trace_id, isouter=True)
        .where(given_up)
        .order_by(sampled_traces.c.queued_at)
    )
    expired: list[tuple[str, str]] = []
    with engine.begin() as connection:
        for row in connection.execute(query).all():
            readable = _sampled(row, row.inclusion_probability) is not None
            reason = EXPIRED_ATTEMPTS if readable else EXPIRED_UNREADABLE
            if _close(connection, row.trace_id, "unscored", now):
                missing = [j for name, kind in judges for j in unscored(row.trace_id, name, kind, reason, now)]
                _record_missing(connection, row, missing, bucket_seconds=bucket_seconds)
                expired.append((row.trace_id, reason))
    return expired


def depth(engine: Engine) -> Depth:
    """How many traces wait for a judge, and since when."""
    query = (
        select(sampled_traces.c.state, func.count(), func.min(sampled_traces.c.queued_at))
        .where(sampled_traces.c.state.in_(("waiting", "leased")))
        .group_by(sampled_traces.c.state)
    )
    with reader(engine).connect() as connection:
        rows = {state: (count, oldest) for state, count, oldest in connection.execute(query)}
    oldest = [queued_at for _count, queued_at in rows.values()]
    return Depth(rows.get("waiting", (0,))[0], rows.get("leased", (0,))[0], min(oldest) if oldest else None)


def unscored(trace_id: str, identifier: str, kind: AnnotatorKind, reason: str, now: float) -> list[Judgement]:
    """One judgement per criterion that says: no verdict could be had, and why."""
    return [
        Judgement(trace_id, criterion, "unscored", None, reason, kind, identifier, now, detail={"unscored": reason})
        for criterion in Criterion
    ]


def _sampled(row: Row[Any], chance: float) -> SampledTrace | None:
    trace = _trace(row.payload)
    if trace is None or not 0 < chance <= 1:
        return None
    return SampledTrace(
        trace=trace,
        stratum=row.stratum,
        inclusion_probability=chance,
        reason=row.reason,
        epoch=row.epoch,
        family=row.family,
    )


def _trace(payload: str) -> RagTrace | None:
    try:
        return from_json(payload)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _close(connection: Connection, trace_id: str, state: str, now: float) -> bool:
    open_row = and_(sampled_traces.c.trace_id == trace_id, sampled_traces.c.state.in_(("waiting", "leased")))
    return (
        connection.execute(update(sampled_traces).where(open_row).values(state=state, finished_at=now)).rowcount == 1
    )


def place_of(started_at: float, bucket_seconds: int, app: str, version: str, stratum: str) -> dict[str, Any]:
    bucket_start = int(started_at // bucket_seconds) * bucket_seconds
    return {"bucket_start": bucket_start, "app": app, "version": version, "stratum": stratum}


def _record_missing(
    connection: Connection, row: Row[Any], judgements: Sequence[Judgement], *, bucket_seconds: int
) -> None:
    """From the ledger's columns, because the payload may be what cannot be read."""
    judgement_store.append(connection, judgements)
    eligible = row.outcome is None or row.outcome in COMPLETED
    if row.family == "fast" and eligible and row.inclusion_probability > 0:
        weight = (row.adjusted_count or 1.0) / row.inclusion_probability
        place = place_of(row.started_at, bucket_seconds, row.app, row.version, row.stratum)
        add_to_tallies(connection, place, weight, judgements)


def add_to_tallies(
    connection: Connection,
    place: dict[str, Any],
    weight: float,
    judgements: Sequence[Judgement],
    tallies: Tallies = FAST,
    *,
    asked: Mapping[str, float] = MappingProxyType({}),
) -> None:
    """Add what *judgements* of one trace say to the sums at *place*, inside the caller's transaction.

    *asked* is the chance with which a judge was asked, where that was not certain.
    """
    weights = {j.identifier: second_look.weight_of(j, weight, asked) for j in judgements}
    rows = [_verdict_row(place, weights[j.identifier], j) for j in judgements]
    add_to_tally(connection, tallies.verdicts, rows)
    faults = [(j, layer) for j in judgements if (layer := _fault_layer(j))]
    add_to_tally(
        connection,
        tallies.faults,
        [
            place | {"layer": layer, "judge": j.identifier, "weight": weights[j.identifier], "judged": 1}
            for j, layer in faults
        ],
    )


def _verdict_row(place: dict[str, Any], weight: float, judgement: Judgement) -> dict[str, Any]:
    has_verdict, failed = judgement.failed is not None, judgement.failed is True
    return place | {
        "criterion": str(judgement.criterion),
        "judge": judgement.identifier,
        "weight": weight * has_verdict,
        "fail_weight": weight * failed,
        "weight_sq": weight * weight * has_verdict,
        "judged": int(has_verdict),
        "failed": int(failed),
        "not_applicable_weight": weight * (judgement.label == "not_applicable"),
        "missing_weight": weight * (judgement.label not in ("pass", "fail", "not_applicable")),
    }


def _fault_layer(judgement: Judgement) -> str | None:
    if judgement.criterion is not Criterion.ANY_FAILURE or judgement.failed is not True:
        return None
    fault = judgement.detail.get("fault")
    return str(fault["layer"]) if fault else None
