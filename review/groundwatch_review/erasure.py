"""Forget what somebody wrote: every text of a trace or of all traces of a person, and the candidates made of them.

Rows that are only counted (ledger, labels, scores) stay: without them the estimate of everybody's traffic would move.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, delete, select, update

from groundwatch_collector.ragtrace import from_json
from groundwatch_collector.sampled import BLANK_PAYLOAD
from groundwatch_collector.storage import insert_ignore
from groundwatch_collector.tables import dead_letters, erased_traces, feedback, sampled_traces
from groundwatch_review import second_person
from groundwatch_review.tables import candidates, reviews
from groundwatch_scorer.tables import judge_calls, judgements

_AT_ONCE = 500
_ERASED = "erased_traces.txt"
NOT_REACHED = (
    "the span log or topic, until its retention is over; what is read there again is not kept",
    "backups of the database: restore one, then run `groundwatch erase --again`",
    "copies of exports outside: remove the listed candidates there, and export again to the same files",
    "what people searched for and saved as a view of the console: remove the view there",
)
"""What an erasure cannot change, said with each one."""


@dataclass(frozen=True, slots=True)
class Erasure:
    """What was found and removed. ``exported`` names candidates that had left: whoever has them must remove them."""

    traces: int
    candidates: int
    exported: tuple[str, ...]
    unreadable_bodies: int = 0  # of records that could not be read: nobody can tell whose they are
    not_reached: tuple[str, ...] = NOT_REACHED


def traces_of(engine: Engine, subject: str) -> list[str]:
    """Ids of the kept traces that carry *subject* as their user, or for which *subject* gave feedback."""
    likely = select(sampled_traces.c.trace_id, sampled_traces.c.payload).where(
        sampled_traces.c.payload.contains(json.dumps(subject, ensure_ascii=False)[1:-1], autoescape=True)
    )
    said = select(feedback.c.trace_id).where(feedback.c.by == subject)
    with engine.connect() as connection:
        found = [row.trace_id for row in connection.execute(likely) if from_json(row.payload).user_hash == subject]
        return list(dict.fromkeys([*found, *connection.scalars(said)]))


def erase(engine: Engine, trace_ids: Collection[str], now: float) -> Erasure:
    """Remove all text of these traces, and keep none of it when something brings them again.

    Doing it again changes nothing; ids that nobody knows are remembered and not counted. Bodies of records that could
    not be read go whatever the ids are, as soon as there is one.
    """
    known, bodies, gone = 0, 0, []
    for ids in _batches(trace_ids):
        with engine.begin() as connection:
            known += _known(connection, ids)
            insert_ignore(connection, erased_traces, [{"trace_id": one, "erased_at": now} for one in ids])
            _blank(connection, ids)
            gone += _remove_candidates(connection, ids)
            bodies += _drop_unreadable(connection)
    exported = tuple(sorted(candidate_id for candidate_id, left in gone if left))
    return Erasure(traces=known, candidates=len(gone), exported=exported, unreadable_bodies=bodies)


def remember(folder: Path, trace_ids: Collection[str]) -> None:
    """Add the ids to ``erased_traces.txt`` in *folder*, before anything is erased: :func:`remembered` reads them."""
    _append(folder / _ERASED, "".join(f"{trace_id}\n" for trace_id in dict.fromkeys(trace_ids)))


def remembered(folder: Path) -> list[str]:
    """Ids of all traces that were ever erased here. A line that a crash cut off is no id, and was not erased yet."""
    path = folder / _ERASED
    lines = path.read_text(encoding="ascii", errors="replace").splitlines() if path.exists() else []
    return [line for line in dict.fromkeys(lines) if re.fullmatch(r"[0-9a-f]{32}", line)]


def record(folder: Path, erasure: Erasure, now: float) -> Path:
    """Add the erasure to ``erasures.jsonl`` in *folder*, readable by its owner only; it names no trace and nobody."""
    path = folder / "erasures.jsonl"
    _append(path, json.dumps({"erased_at": datetime.fromtimestamp(now, UTC).isoformat(), **asdict(erasure)}) + "\n")
    return path


def _append(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _batches(trace_ids: Collection[str]) -> Iterator[Sequence[str]]:
    ids = list(dict.fromkeys(trace_ids))
    return (ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE))


def _known(connection: Connection, ids: Sequence[str]) -> int:
    tables = (sampled_traces, judgements, feedback, reviews, candidates)
    found = (connection.scalars(select(table.c.trace_id).where(table.c.trace_id.in_(ids))) for table in tables)
    return len({trace_id for rows in found for trace_id in rows})


def _blank(connection: Connection, ids: Sequence[str]) -> None:
    def change(table: Table, **values: Any) -> None:
        connection.execute(update(table).where(table.c.trace_id.in_(ids)).values(values))

    change(sampled_traces, payload=BLANK_PAYLOAD)
    change(judgements, explanation="", detail="{}")
    connection.execute(delete(judge_calls).where(judge_calls.c.trace_id.in_(ids)))
    change(feedback, comment="", by="")
    change(reviews, note="")


def _drop_unreadable(connection: Connection) -> int:
    dropped = update(dead_letters).where(dead_letters.c.body.is_not(None)).values(body=None)
    return connection.execute(dropped).rowcount


def _remove_candidates(connection: Connection, ids: Sequence[str]) -> list[tuple[str, bool]]:
    """Ids of the candidates that are gone, and whether each had been exported."""
    removed = delete(candidates).where(candidates.c.trace_id.in_(ids))
    rows = connection.execute(removed.returning(candidates.c.candidate_id, candidates.c.exported_at)).all()
    second_person.take_back(connection, [row.candidate_id for row in rows])
    return [(row.candidate_id, row.exported_at is not None) for row in rows]
