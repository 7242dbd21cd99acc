"""One vote for each trace, person and name of feedback. A later one takes the place of the one before.

A vote has the position of its record in the span log. Reading a record again after a crash changes nothing, and so
does an older record that is read after a newer one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sqlalchemy import Connection, Engine, insert, select, update

from groundwatch_collector import tables
from groundwatch_collector.feedback_bursts import Bursts, Complaint
from groundwatch_collector.feedback_policy import HOUR
from groundwatch_collector.ragtrace import Feedback
from groundwatch_collector.storage import reader

Change = Literal["new", "replaced", "duplicate", "read_again"]
Key = tuple[str, str, str]
_CHUNK = 500  # ids per query: below every database's bound on parameters
_COLUMNS = ("feedback_id", "trace_id", "name", "sentiment", "score", "label", "comment", "by", "received_at")


@dataclass(frozen=True, slots=True)
class Vote:
    """One record of feedback, and what became of it."""

    feedback: Feedback
    position: int
    change: Change
    quarantined_for: str = ""  # subject | app: complaints came faster than people make them
    replaced_id: str = ""  # of the row whose place it takes

    @property
    def stored(self) -> bool:
        return self.change in ("new", "replaced")

    @property
    def complains(self) -> bool:
        """Whether it moves its trace among the complaints."""
        return self.stored and self.feedback.sentiment == "negative" and not self.quarantined_for


@dataclass(slots=True)
class Known:
    """Votes that are stored, of the traces in hand."""

    by_key: dict[Key, Vote] = field(default_factory=dict)
    by_id: dict[str, Vote] = field(default_factory=dict)

    def add(self, vote: Vote) -> None:
        self.by_key[_key(vote.feedback)] = self.by_id[vote.feedback.id] = vote


def _key(feedback: Feedback) -> Key:
    return feedback.trace_id, feedback.by, feedback.name


def known(connection: Connection, given: Sequence[tuple[int, Feedback]]) -> Known:
    """What is stored under the ids and for the traces of *given*."""
    table, found = tables.feedback.c, Known()
    for column, values in (
        (table.trace_id, [feedback.trace_id for _, feedback in given]),
        (table.feedback_id, [feedback.id for _, feedback in given]),
    ):
        for chunk in _chunks(values):
            for row in connection.execute(select(tables.feedback).where(column.in_(chunk))):
                feedback = Feedback(*(getattr(row, name) for name in _COLUMNS))
                found.add(Vote(feedback, row.position, "read_again"))
    return found


def weigh(
    given: Sequence[tuple[int, Feedback]], stored: Known, bursts: Bursts, app_of: Callable[[Feedback], str]
) -> list[Vote]:
    """Say of each record, in the order of the log, what becomes of it. *stored* and *bursts* learn from it."""
    votes = []
    for position, feedback in given:
        vote = _vote(position, feedback, stored)
        if vote.stored and feedback.sentiment == "negative":
            complaint = Complaint(feedback.by, app_of(feedback), feedback.received_at)
            vote = replace(vote, quarantined_for=bursts.admit(complaint))
        if vote.stored:
            stored.add(vote)
        votes.append(vote)
    return votes


def _vote(position: int, feedback: Feedback, stored: Known) -> Vote:
    same_id, before = stored.by_id.get(feedback.id), stored.by_key.get(_key(feedback))
    for earlier in (same_id, before):
        if earlier is not None and position <= earlier.position:
            return Vote(feedback, position, "read_again")
    if same_id is not None or (before is not None and _says(before.feedback) == _says(feedback)):
        return Vote(feedback, position, "duplicate")
    if before is None:
        return Vote(feedback, position, "new")
    return Vote(feedback, position, "replaced", replaced_id=before.feedback.id)


def _says(feedback: Feedback) -> tuple[object, ...]:
    return feedback.sentiment, feedback.score, feedback.label, feedback.comment


def write(connection: Connection, votes: Iterable[Vote]) -> None:
    """Store what :func:`weigh` found to be new or to take the place of a row, in its order."""
    fresh: dict[str, dict[str, Any]] = {}
    for vote in votes:
        if vote.change == "new" or vote.replaced_id in fresh:
            fresh.pop(vote.replaced_id, None)
            fresh[vote.feedback.id] = _row(vote)
        elif vote.change == "replaced":
            place = update(tables.feedback).where(tables.feedback.c.feedback_id == vote.replaced_id)
            connection.execute(place.values(**_row(vote)))
    if fresh:
        connection.execute(insert(tables.feedback), list(fresh.values()))


def _row(vote: Vote) -> dict[str, Any]:
    feedback = vote.feedback
    values = {name: getattr(feedback, name) for name in _COLUMNS if name != "feedback_id"}
    return {
        "feedback_id": feedback.id,
        **values,
        "position": vote.position,
        "quarantined": bool(vote.quarantined_for),
    }


def complaints_before(
    engine: Engine, now: float, apps: Callable[[Connection, Sequence[str]], Mapping[str, str]]
) -> list[Complaint]:
    """The complaints of the hour before *now*, oldest first; *apps* names the app of decided traces."""
    table = tables.feedback.c
    query = (
        select(table.trace_id, table.by, table.received_at, table.quarantined)
        .where(table.received_at > now - HOUR, table.sentiment == "negative")
        .order_by(table.received_at)
    )
    with reader(engine).connect() as connection:
        rows = connection.execute(query).all()
        app_of = apps(connection, [row.trace_id for row in rows])
    return [Complaint(row.by, app_of.get(row.trace_id, "unknown"), row.received_at, row.quarantined) for row in rows]


def _chunks(values: Iterable[str]) -> Iterator[list[str]]:
    every = list(dict.fromkeys(values))
    return (every[start : start + _CHUNK] for start in range(0, len(every), _CHUNK))
