"""Read and write the tables of decisions. Every function works inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, exists, insert, select, update

from groundwatch_collector import settling, tables
from groundwatch_collector.decision import Decision
from groundwatch_collector.ragtrace import Feedback, to_json
from groundwatch_collector.sampled import BLANK_PAYLOAD, SampledTrace
from groundwatch_collector.settling_tables import settling_tally
from groundwatch_collector.storage import add_to_tally, insert_ignore, reader

POSITION_NAME = "pipeline"
_CHUNK = 500  # ids per query: below every database's bound on parameters


class DecidedRow(NamedTuple):
    """What the ledger knows of a trace that was decided before."""

    app: str
    verdict: str
    u56: int
    first_position: int
    last_position: int
    erased: bool = False  # somebody asked for it: its text is not read again


class DeadLetter(NamedTuple):
    position: int
    received_at: float
    reason: str
    detail: str
    body: bytes


def committed_position(connection: Connection, name: str = POSITION_NAME) -> int:
    """Where reading has to start: nothing undecided lies before it."""
    found = connection.execute(select(tables.positions.c.position).where(tables.positions.c.name == name)).scalar()
    return int(found) if found is not None else 0


def set_position(connection: Connection, position: int, name: str = POSITION_NAME) -> None:
    changed = connection.execute(
        update(tables.positions).where(tables.positions.c.name == name).values(position=position)
    )
    if changed.rowcount == 0:
        connection.execute(insert(tables.positions).values(name=name, position=position))


class Place:
    """The row that remembers how far one log is decided. This one belongs to the only reader of its log."""

    name = POSITION_NAME

    def begin(self, engine: Engine) -> int:
        """Where to start reading."""
        with reader(engine).connect() as connection:
            return committed_position(connection)

    def set(self, connection: Connection, position: int) -> None:
        set_position(connection, position)


def decided(connection: Connection, trace_ids: Iterable[str]) -> dict[str, DecidedRow]:
    """Those of *trace_ids* that are in the ledger."""
    ledger = tables.ledger.c
    erased = exists().where(tables.erased_traces.c.trace_id == ledger.trace_id)
    columns = (
        ledger.trace_id,
        ledger.app,
        ledger.verdict,
        ledger.u56,
        ledger.first_position,
        ledger.last_position,
        erased.label("erased"),
    )
    found = {}
    for chunk in _chunks(trace_ids):
        for row in connection.execute(select(*columns).where(ledger.trace_id.in_(chunk))):
            found[row.trace_id] = DecidedRow(*row[1:])
    return found


def feedback_of(connection: Connection, trace_ids: Iterable[str]) -> dict[str, list[Feedback]]:
    """Stored feedback by trace, oldest first. What is quarantined is not among it: it moves nothing."""
    table = tables.feedback.c
    columns = (
        table.feedback_id,
        table.trace_id,
        table.name,
        table.sentiment,
        table.score,
        table.label,
        table.comment,
        table.by,
        table.received_at,
    )
    found: dict[str, list[Feedback]] = {}
    for chunk in _chunks(trace_ids):
        counted = table.trace_id.in_(chunk), table.quarantined.is_(False)
        query = select(*columns).where(*counted).order_by(table.position, table.feedback_id)
        for row in connection.execute(query):
            found.setdefault(row.trace_id, []).append(Feedback(*row))
    return found


def add_feedback(connection: Connection, given: Sequence[tuple[int, Feedback]]) -> tuple[set[str], int]:
    """Store feedback with its position; return the ids that were new, and how many others came again.

    An id that exists stays as it is. A record that is read again after a crash has not come again.
    """
    rows = {feedback.id: _feedback_row(position, feedback) for position, feedback in reversed(given)}
    known = _feedback_positions(connection, rows)
    fresh = [row for identifier, row in rows.items() if identifier not in known]
    if fresh:
        connection.execute(insert(tables.feedback), fresh)
    first = known | {row["feedback_id"]: row["position"] for row in fresh}
    return {row["feedback_id"] for row in fresh}, sum(first[feedback.id] != at for at, feedback in given)


def add_dead_letters(connection: Connection, letters: Sequence[DeadLetter], body_bytes: int) -> list[DeadLetter]:
    """Store what can never be read, once for each position; return those that were new."""
    known = _existing(connection, tables.dead_letters.c.position, [letter.position for letter in letters])
    fresh = [letter for letter in letters if letter.position not in known]
    if fresh:
        connection.execute(insert(tables.dead_letters), [_dead_letter_row(letter, body_bytes) for letter in fresh])
    return fresh


def add_decisions(connection: Connection, decisions: Sequence[Decision], *, now: float, bucket_seconds: int) -> None:
    """Write ledger, sampled traces and tallies of traces that are not in the ledger."""
    if not decisions:
        return
    connection.execute(insert(tables.ledger), [_ledger_row(decision, now) for decision in decisions])
    queued = [_sampled_row(sampled, now) for decision in decisions if (sampled := decision.sampled) is not None]
    if queued:
        connection.execute(insert(tables.sampled_traces), _without_erased(connection, queued))
    traffic = _tally_rows(decisions, bucket_seconds)
    add_to_tally(connection, tables.traffic_tally, traffic)
    settled_with = settling.bucket_of(now)
    add_to_tally(connection, settling_tally, [row | {"settle_bucket": settled_with} for row in traffic])


def queue_late(connection: Connection, sampled: SampledTrace, now: float) -> bool:
    """Queue a trace that feedback brought back; False when it is queued or judged already."""
    if not insert_ignore(
        connection, tables.sampled_traces, _without_erased(connection, [_sampled_row(sampled, now)])
    ):
        return False
    connection.execute(
        update(tables.ledger)
        .where(tables.ledger.c.trace_id == sampled.trace.trace_id)
        .values(verdict="sampled", reason=sampled.reason)
    )
    return True


def _without_erased(connection: Connection, queued: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """*queued* with no text of a trace that was erased before it was decided."""
    ids = [row["trace_id"] for row in queued]
    gone = _existing(connection, tables.erased_traces.c.trace_id, ids)
    return [row | {"payload": BLANK_PAYLOAD} if row["trace_id"] in gone else row for row in queued]


def _chunks(values: Iterable[Any]) -> Iterator[list[Any]]:
    every = list(dict.fromkeys(values))
    return (every[start : start + _CHUNK] for start in range(0, len(every), _CHUNK))


def _feedback_positions(connection: Connection, identifiers: Iterable[str]) -> dict[str, int]:
    table = tables.feedback.c
    found: dict[str, int] = {}
    for chunk in _chunks(identifiers):
        query = select(table.feedback_id, table.position).where(table.feedback_id.in_(chunk))
        found.update((row.feedback_id, row.position) for row in connection.execute(query))
    return found


def _existing(connection: Connection, column: Any, values: Iterable[Any]) -> set[Any]:
    return {
        row[0] for chunk in _chunks(values) for row in connection.execute(select(column).where(column.in_(chunk)))
    }


def _ledger_row(decision: Decision, now: float) -> dict[str, Any]:
    trace, pending = decision.trace, decision.pending
    return {
        "trace_id": pending.trace_id,
        "app": decision.app,
        "version": decision.version,
        "started_at": decision.started_at,
        "decided_at": now,
        "epoch": decision.epoch,
        "stratum": decision.stratum,
        "outcome": trace.outcome.value if trace is not None else "unknown",
        "inclusion_probability": decision.probability,
        "u56": decision.u56,
        "salt_version": decision.salt_version,
        "verdict": decision.verdict,
        "reason": decision.reason,
        "adjusted_count": trace.adjusted_count if trace is not None else 1.0,
        "first_position": pending.first_position,
        "last_position": pending.last_position,
        "duration_seconds": trace.duration_seconds if trace is not None else 0.0,
    }


def _sampled_row(sampled: SampledTrace, now: float) -> dict[str, Any]:
    trace = sampled.trace
    return {
        "trace_id": trace.trace_id,
        "family": sampled.family,
        "payload": to_json(trace),
        "app": trace.app,
        "version": trace.version,
        "started_at": trace.started_at,
        "stratum": sampled.stratum,
        "inclusion_probability": sampled.inclusion_probability,
        "reason": sampled.reason,
        "epoch": sampled.epoch,
        "state": "waiting",
        "queued_at": now,
    }


def _tally_rows(decisions: Sequence[Decision], bucket_seconds: int) -> list[dict[str, Any]]:
    """One row for each group. Skipped traces are no traffic of the application and have no row."""
    sums: dict[tuple[Any, ...], list[float]] = {}
    for decision in decisions:
        if decision.trace is not None:
            bucket = int(decision.started_at // bucket_seconds) * bucket_seconds
            key = (bucket, decision.app, decision.version, decision.stratum, decision.trace.outcome.value)
            total = sums.setdefault(key, [0.0, 0])
            total[0] += decision.trace.adjusted_count
            total[1] += 1
    names = ("bucket_start", "app", "version", "stratum", "outcome")
    return [
        {**dict(zip(names, key, strict=True)), "traces": traces, "received": received}
        for key, (traces, received) in sums.items()
    ]


def _feedback_row(position: int, feedback: Feedback) -> dict[str, Any]:
    return {
        "feedback_id": feedback.id,
        "trace_id": feedback.trace_id,
        "name": feedback.name,
        "sentiment": feedback.sentiment,
        "score": feedback.score,
        "label": feedback.label,
        "comment": feedback.comment,
        "by": feedback.by,
        "received_at": feedback.received_at,
        "position": position,
    }


def _dead_letter_row(letter: DeadLetter, body_bytes: int) -> dict[str, Any]:
    return {
        "received_at": letter.received_at,
        "reason": letter.reason[:64],
        "detail": letter.detail[:500],
        "size_bytes": len(letter.body),
        "position": letter.position,
        "body": letter.body if len(letter.body) <= body_bytes else None,
    }
