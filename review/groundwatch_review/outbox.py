"""What is to be sent to another tool, kept in the database until the tool has it: at least once, under fixed ids.

The rows hold ids and no text: what is sent is read at that moment, so that nothing leaves which was erased, rejected
or found doubtful since. A candidate that was sent and may no longer be out there is removed there.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, and_, delete, func, insert, select, update

from groundwatch_collector.storage import reader
from groundwatch_review.tables import outbox

Kind = Literal["item", "score"]

ITEM: Final[Kind] = "item"
SCORE: Final[Kind] = "score"
_OPEN: Final = ("waiting", "removing")
_FEW: Final = 10  # candidates that any run may take back


@dataclass(frozen=True, slots=True)
class OutboxPolicy:
    """How much may wait, and how patiently the tool is asked again."""

    most_waiting: int = 10_000  # of each kind; what is beyond is planned by a later run
    most_attempts: int = 10  # then the entry is failed, until somebody asks for it again
    first_pause_seconds: float = 30.0  # doubled with each attempt
    longest_pause_seconds: float = 3_600.0
    most_troubles: int = 3  # in a row: the tool is away, and the rest waits for the next run


class Entry(NamedTuple):
    kind: Kind
    item: str
    state: str
    attempts: int


class Again(Exception):
    """The tool could not take it now. ``reason`` is one word of a closed set."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Never(Exception):
    """The tool refuses this entry, and would again. ``reason`` is one word of a closed set."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


Send = Callable[[Entry], str | None]
"""Send one entry and return the digest of what was sent; None: there is nothing left to send. Raises :class:`Again`
or :class:`Never`; what else it raises ends the run and loses nothing."""


class TooManyRemovals(Exception):
    """Most of what was sent may no longer be there. More often a wrong configuration than what somebody wants."""


def plan_items(
    engine: Engine,
    destination: str,
    wanted: Mapping[str, str],
    now: float,
    policy: OutboxPolicy | None = None,
    *,
    where_known: Mapping[str, str] | None = None,
    remove_many: bool = False,
) -> int:
    """Have *wanted* (candidate id -> digest) there, each as it is now, and nothing else that we sent.

    *where_known*: the same for candidates that are kept up where they are, and sent nowhere anew. Return how many
    were not planned because too much waits already. Raises :class:`TooManyRemovals`.
    """
    most = (policy or OutboxPolicy()).most_waiting
    with engine.begin() as connection:
        rows = connection.execute(select(outbox).where(_is(destination), outbox.c.kind == ITEM))
        known = {row.item: row for row in rows}
        there = {item for item, row in known.items() if row.state not in ("removing", "removed")}
        wanted = {**{item: digest for item, digest in (where_known or {}).items() if item in there}, **wanted}
        gone = there - wanted.keys()
        if len(gone) > max(_FEW, len(there) // 2) and not remove_many:
            raise TooManyRemovals(f"{len(gone)} of {len(there)} candidates that were sent may no longer be there")
        for item in gone:
            _plan(connection, destination, ITEM, item, "", now, state="removing", is_known=True)
        due = [item for item, digest in wanted.items() if _is_due(known.get(item), digest)]
        room = max(0, most - len([row for row in known.values() if row.state == "waiting"]))
        for item in due[:room]:
            _plan(connection, destination, ITEM, item, wanted[item], now, is_known=item in known)
    return max(0, len(due) - room)


def plan_scores(connection: Connection, destination: str, items: Sequence[str], now: float) -> None:
    """Add *items* in the caller's transaction, which also remembers how far it has planned."""
    known = set(
        connection.scalars(
            select(outbox.c.item).where(_is(destination), outbox.c.kind == SCORE, outbox.c.item.in_(items))
        )
    )
    for item in dict.fromkeys(items):
        if item not in known:
            _plan(connection, destination, SCORE, item, "", now)


def waiting(connection: Connection, destination: str, kind: Kind) -> int:
    where = and_(_is(destination), outbox.c.kind == kind, outbox.c.state.in_(_OPEN))
    return int(connection.scalar(select(func.count()).select_from(outbox).where(where)) or 0)


def retry_failed(engine: Engine, destination: str, now: float) -> int:
    """Give every failed entry its attempts back."""
    again = update(outbox).where(_is(destination), outbox.c.state == "failed")
    with engine.begin() as connection:
        return int(
            connection.execute(again.values(state="waiting", attempts=0, next_at=now, updated_at=now)).rowcount
        )


def drain(
    engine: Engine,
    destination: str,
    send: Send,
    now: Callable[[], float],
    *,
    jitter: random.Random,
    policy: OutboxPolicy | None = None,
) -> Counter[str]:
    """Send what is due, oldest first; return how often each came: ``sent`` ``removed`` ``gone`` or a reason.

    Each attempt is written down before it is made: after a crash in between, the entry is sent once more.
    """
    policy = policy or OutboxPolicy()
    done: Counter[str] = Counter()
    started, troubles = now(), 0
    while troubles < policy.most_troubles:
        entry = _claim(engine, destination, started, now(), jitter, policy)
        if entry is None:
            break
        try:
            digest = send(entry)
        except Again as error:
            troubles += 1
            done[error.reason] += 1
            _failed(engine, destination, entry, error.reason, now(), final=entry.attempts >= policy.most_attempts)
        except Never as error:
            done[error.reason] += 1
            _failed(engine, destination, entry, error.reason, now(), final=True)
        else:
            troubles = 0
            done[_finish(engine, destination, entry, digest, now())] += 1
    return done


def states(engine: Engine, destination: str) -> dict[str, int]:
    """How many entries are in each state, the failed ones by reason (``failed:refused``)."""
    with reader(engine).connect() as connection:
        columns = (outbox.c.state, outbox.c.reason, func.count())
        rows = connection.execute(select(*columns).where(_is(destination)).group_by(outbox.c.state, outbox.c.reason))
        found: Counter[str] = Counter()
        for state, reason, count in rows:
            found[f"failed:{reason}" if state == "failed" else state] += count
    return dict(sorted(found.items()))


def _is(destination: str) -> ColumnElement[bool]:
    return outbox.c.destination == destination


def _row(destination: str, kind: str, item: str) -> ColumnElement[bool]:
    return and_(_is(destination), outbox.c.kind == kind, outbox.c.item == item)


def _is_due(row: Any, digest: str) -> bool:
    """Not there yet, on its way out, or there as it was before. What failed as it is now is not tried by itself."""
    return row is None or row.state in ("removing", "removed") or row.digest != digest


def _plan(  # noqa: PLR0917 (one row)
    connection: Connection,
    destination: str,
    kind: Kind,
    item: str,
    digest: str,
    now: float,
    *,
    state: str = "waiting",
    is_known: bool = False,
) -> None:
    fresh = {"state": state, "digest": digest, "attempts": 0, "next_at": now, "reason": "", "updated_at": now}
    if is_known:
        connection.execute(update(outbox).where(_row(destination, kind, item)).values(fresh))
    else:
        keys = {"destination": destination, "kind": kind, "item": item}
        connection.execute(insert(outbox).values(**keys, **fresh, created_at=now))


def _claim(  # noqa: PLR0917 (one query)
    engine: Engine, destination: str, started: float, now: float, jitter: random.Random, policy: OutboxPolicy
) -> Entry | None:
    """The next entry that was due when the run began, with the attempt counted and its next one set.

    Nothing is tried twice in one run, and a second sender finds the entry not due.
    """
    due = and_(_is(destination), outbox.c.state.in_(_OPEN), outbox.c.next_at <= started)
    with engine.begin() as connection:
        order = (outbox.c.next_at, outbox.c.created_at, outbox.c.kind, outbox.c.item)
        row = connection.execute(select(outbox).where(due).order_by(*order).limit(1).with_for_update()).first()
        if row is None:
            return None
        pause = min(policy.longest_pause_seconds, policy.first_pause_seconds * 2.0**row.attempts)
        tried = {"attempts": row.attempts + 1, "next_at": max(now, started) + pause * jitter.uniform(0.75, 1.25)}
        connection.execute(
            update(outbox).where(_row(destination, row.kind, row.item)).values(**tried, updated_at=now)
        )
    return Entry(row.kind, row.item, row.state, row.attempts + 1)


def _failed(engine: Engine, destination: str, entry: Entry, reason: str, now: float, *, final: bool) -> None:
    values = {"reason": reason, "updated_at": now, **({"state": "failed"} if final else {})}
    with engine.begin() as connection:
        where = and_(_row(destination, entry.kind, entry.item), outbox.c.state == entry.state)
        connection.execute(update(outbox).where(where).values(values))


def _finish(engine: Engine, destination: str, entry: Entry, digest: str | None, now: float) -> str:
    """Write down what the tool has now. A score is sent once and needs no row any more.

    A candidate that may not leave any more, though it was planned, may have left before: it is removed there.
    """
    row = and_(_row(destination, entry.kind, entry.item), outbox.c.state == entry.state)
    with engine.begin() as connection:
        if entry.kind == SCORE:
            connection.execute(delete(outbox).where(row))
            return "gone" if digest is None else "sent"
        if entry.state == "waiting" and digest is None:
            _plan(connection, destination, ITEM, entry.item, "", now, state="removing", is_known=True)
            return "gone"
        state = "removed" if entry.state == "removing" else "sent"
        values = {"state": state, "digest": digest or "", "reason": "", "updated_at": now}
        connection.execute(update(outbox).where(row).values(values))
    return state
