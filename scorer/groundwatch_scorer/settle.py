"""Write the settled family: each trace once, when nothing can move it any longer and its judge is done.

Everything that was decided within a few minutes is settled in one transaction, which also deletes what it was settled
from. So a crash leaves all of it or none, and doing it twice finds nothing to do.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, and_, delete, func, or_, select
from sqlalchemy.exc import SQLAlchemyError

from groundwatch_collector.ragtrace import COMPLETED
from groundwatch_collector.settling import LATE_ERROR, MARGIN_SECONDS, STEP, Standing, chance_of_being_judged, final
from groundwatch_collector.settling_tables import late_offers, settled_traffic_tally, settling_tally
from groundwatch_collector.storage import add_to_tally, reader
from groundwatch_collector.tables import ledger, sampled_traces
from groundwatch_scorer import judgement_store, second_look
from groundwatch_scorer.judgement import AnnotatorKind, Judgement
from groundwatch_scorer.queue import Tallies, add_to_tallies, place_of, unscored
from groundwatch_scorer.scorer_metrics import SettleMetrics
from groundwatch_scorer.tables import settled_fault_tally, settled_verdict_tally

log = logging.getLogger(__name__)

SETTLED = Tallies(settled_verdict_tally, settled_fault_tally)
IDLE_SECONDS = 30.0
MAX_BACKOFF_SECONDS = 300.0
GONE = "late_payload_gone"  # the judge was to have it, but its spans had left the log
_OPEN = ("waiting", "leased")
_CHUNK = 500


@dataclass(frozen=True, slots=True)
class Settled:
    """What one transaction settled."""

    traces: int  # received
    risen: int  # of them, into another stratum after their decision
    judged: int
    missing: int  # chosen, but without a verdict


class _Risen(NamedTuple):
    """A trace with its rises, which may be several."""

    row: Any
    offers: Sequence[Standing]

    @property
    def ends_in(self) -> str:
        return final(Standing(self.row.from_stratum, self.row.decided_probability), self.offers).stratum

    @property
    def ended(self) -> str:
        """How the request ended, as far as is known in the end: a late error takes it out of the quality rates."""
        return str(self.row.outcome)

    @property
    def seemed(self) -> str:
        """How it ended at the decision, where it was counted."""
        return str(self.row.decided_outcome or self.row.outcome)


class _Chosen(NamedTuple):
    """A trace that the judge was to have."""

    trace_id: str
    place: dict[str, Any]
    weight: float
    eligible: bool


def settle(
    engine: Engine,
    judges: Iterable[tuple[str, AnnotatorKind]],
    *,
    horizon_seconds: float,
    bucket_seconds: int,
    now: float,
) -> Settled | None:
    """Settle the oldest decisions that are due; None when none are, or while one of them still waits for its judge.

    *judges* are the identifiers and kinds that a verdict is missing from where a chosen trace could not be judged.
    """
    with engine.begin() as connection:
        bucket = connection.scalar(select(func.min(settling_tally.c.settle_bucket)))
        if bucket is None or bucket + STEP + horizon_seconds + MARGIN_SECONDS > now or _unjudged(connection, bucket):
            return None
        traffic = connection.execute(
            select(settling_tally).where(settling_tally.c.settle_bucket == bucket).with_for_update()
        ).all()
        if not traffic:  # another scorer was first
            return None
        risen = _risen(connection, bucket)
        add_to_tally(connection, settled_traffic_tally, _traffic_rows(traffic, risen))
        drawn = {row.trace_id: row for row in _drawn(connection, bucket)}
        chosen = [*_late(risen, drawn), *_fast(drawn, {found.row.trace_id for found in risen}, bucket_seconds)]
        judged = _add_verdicts(connection, chosen, list(judges), now)
        connection.execute(delete(settling_tally).where(settling_tally.c.settle_bucket == bucket))
        connection.execute(delete(late_offers).where(late_offers.c.settle_bucket == bucket))
    received = sum(row.received for row in traffic)
    return Settled(received, len(risen), judged, len(chosen) - judged)


def oldest_unsettled(engine: Engine) -> float | None:
    """When the oldest trace was decided that is not in the settled family yet (Unix seconds)."""
    with reader(engine).connect() as connection:
        found = connection.scalar(select(func.min(settling_tally.c.settle_bucket)))
    return None if found is None else float(found)


def _decided_in(bucket: int) -> Any:
    """Traces that the hash chose at their decision within *bucket*: they are queued at that moment."""
    queued_at = sampled_traces.c.queued_at
    return and_(sampled_traces.c.family == "fast", queued_at >= bucket, queued_at < bucket + STEP)


def _unjudged(connection: Connection, bucket: int) -> bool:
    rose = select(late_offers.c.trace_id).where(late_offers.c.settle_bucket == bucket)
    query = (
        select(sampled_traces.c.trace_id)
        .where(sampled_traces.c.state.in_(_OPEN), or_(_decided_in(bucket), sampled_traces.c.trace_id.in_(rose)))
        .limit(1)
    )
    return connection.scalar(query) is not None


def _risen(connection: Connection, bucket: int) -> list[_Risen]:
    rows: dict[str, list[Any]] = {}
    query = (
        select(late_offers, ledger.c.outcome.label("decided_outcome"))
        .join_from(late_offers, ledger, ledger.c.trace_id == late_offers.c.trace_id, isouter=True)
        .where(late_offers.c.settle_bucket == bucket)
        .order_by(late_offers.c.reason != LATE_ERROR)  # which knows the outcome better
    )
    for row in connection.execute(query):
        rows.setdefault(row.trace_id, []).append(row)
    return [
        _Risen(offers[0], [Standing(row.stratum, row.inclusion_probability) for row in offers])
        for offers in rows.values()
    ]


def _traffic_rows(traffic: Sequence[Any], risen: Sequence[_Risen]) -> list[dict[str, Any]]:
    """The traffic as it was decided, with those that rose moved to where they ended."""
    sums = {
        (row.bucket_start, row.app, row.version, row.stratum, row.outcome): [row.traces, row.received]
        for row in traffic
    }
    for found in risen:
        row, end = found.row, found.ends_in
        before = sums.get((row.bucket_start, row.app, row.version, row.from_stratum, found.seemed))
        if before is None:  # the width of buckets was changed in between: it stays where it was counted
            continue
        after = sums.setdefault((row.bucket_start, row.app, row.version, end, found.ended), [0.0, 0])
        before[0], after[0] = max(0.0, before[0] - row.adjusted_count), after[0] + row.adjusted_count
        before[1], after[1] = before[1] - 1, after[1] + 1
    names = ("bucket_start", "app", "version", "stratum", "outcome")
    return [
        {**dict(zip(names, key, strict=True)), "traces": traces, "received": received}
        for key, (traces, received) in sums.items()
    ]


def _drawn(connection: Connection, bucket: int) -> Sequence[Any]:
    """What the hash chose at the decision, with the chance that its verdict was weighed by."""
    names = ("trace_id", "app", "version", "started_at", "stratum", "inclusion_probability")
    query = (
        select(*(sampled_traces.c[name] for name in names), ledger.c.outcome, ledger.c.adjusted_count)
        .join_from(sampled_traces, ledger, ledger.c.trace_id == sampled_traces.c.trace_id)
        .where(sampled_traces.c.state.in_(("judged", "unscored")), _decided_in(bucket))
    )
    return connection.execute(query).all()


def _fast(drawn: Mapping[str, Any], risen: set[str], bucket_seconds: int) -> Iterable[_Chosen]:
    for row in drawn.values():
        if row.trace_id not in risen:
            place = place_of(row.started_at, bucket_seconds, row.app, row.version, row.stratum)
            weight = row.adjusted_count / row.inclusion_probability
            yield _Chosen(row.trace_id, place, weight, row.outcome in COMPLETED)


def _late(risen: Sequence[_Risen], drawn: Mapping[str, Any]) -> Iterable[_Chosen]:
    for found in risen:
        row, before = found.row, drawn.get(found.row.trace_id)
        at_decision = before.inclusion_probability if before is not None else None
        chance = chance_of_being_judged(row.u56, at_decision, found.offers)
        if chance is not None:
            place = {"bucket_start": row.bucket_start, "app": row.app, "version": row.version}
            eligible = found.ended in COMPLETED
            yield _Chosen(row.trace_id, place | {"stratum": found.ends_in}, row.adjusted_count / chance, eligible)


def _add_verdicts(
    connection: Connection, chosen: Sequence[_Chosen], judges: Sequence[tuple[str, AnnotatorKind]], now: float
) -> int:
    judged = 0
    for start in range(0, len(chosen), _CHUNK):
        part = chosen[start : start + _CHUNK]
        ids = [one.trace_id for one in part]
        verdicts, asked = judgement_store.automatic(connection, ids), second_look.chances(connection, ids)
        for one in part:
            found = verdicts.get(one.trace_id)
            judged += found is not None
            if one.eligible:
                rows = found or _gone(one, judges, now)
                chances = asked.get(one.trace_id, {})
                add_to_tallies(connection, one.place, one.weight, rows, SETTLED, asked=chances)
    return judged


def _gone(one: _Chosen, judges: Sequence[tuple[str, AnnotatorKind]], now: float) -> list[Judgement]:
    return [j for name, kind in judges for j in unscored(one.trace_id, name, kind, GONE, now)]


class Settler:
    """Settles again and again, in a thread of its own."""

    def __init__(
        self,
        engine: Engine,
        judges: Iterable[tuple[str, AnnotatorKind]],
        metrics: SettleMetrics,
        *,
        horizon_seconds: float,
        bucket_seconds: int,
        now: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._judges = list(judges)
        self._metrics = metrics
        self._horizon_seconds = horizon_seconds
        self._bucket_seconds = bucket_seconds
        self._now = now

    def step(self) -> int:
        """Settle everything that is due; return how many traces that were. Raises what the database raises."""
        traces = 0
        while (
            done := settle(
                self._engine,
                self._judges,
                horizon_seconds=self._horizon_seconds,
                bucket_seconds=self._bucket_seconds,
                now=self._now(),
            )
        ) is not None:
            self._metrics.settled(done.traces, done.risen, done.judged, done.missing)
            traces += done.traces
        self._metrics.oldest.set(oldest_unsettled(self._engine) or 0.0)
        return traces

    def run(self, stop: threading.Event) -> None:
        """Step until *stop*; wait longer and longer while the database is away."""
        pause = IDLE_SECONDS
        while not stop.is_set():
            try:
                self.step()
                pause = IDLE_SECONDS
            except SQLAlchemyError as error:
                self._metrics.failures.inc()
                log.warning("settling failed (%s) and tries again in %.0f s", type(error).__name__, pause)
                pause = min(MAX_BACKOFF_SECONDS, pause * 2)
            stop.wait(pause)
