"""Who looked at raw text, decided, exported or erased: an append-only chain of entries without personal text.

Each entry holds a keyed digest over its own fields and the digest of the entry before. Whoever changes, removes or
inserts one without the key breaks the chain there. What a chain cannot show by itself is that its end was cut off:
``verify`` takes the number and digest of an entry that was noted elsewhere, and says whether it is still there.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Engine, insert, select, text

from groundwatch_collector.storage import reader

from .tables import audit_log

_FIRST = "0" * 64  # what the first entry follows
_LOCK = 0x67726F756E65  # of the advisory lock: two writers must not both follow the same entry
_AT_ONCE = 2_000
DETAIL_LIMIT_CHARACTERS = 200


class Action(StrEnum):
    LOGIN = "login"
    LOGIN_FAILED = "login_failed"
    LOGOUT = "logout"
    USER_ADDED = "user_added"
    USER_CHANGED = "user_changed"
    USER_REMOVED = "user_removed"
    RAW_VIEW = "raw_view"  # one trace as its user wrote it
    RAW_LIST = "raw_list"  # a list that shows questions as they were asked
    VERDICT = "verdict"
    CANDIDATE_DECISION = "candidate_decision"
    EXPORT = "export"
    EXPORT_HOLDOUT = "export_holdout"
    ERASURE = "erasure"
    VIEW_SAVED = "view_saved"  # filters of the trace list under a name
    VIEW_REMOVED = "view_removed"
    REFUSED = "refused"  # the act of an earlier entry came to nothing


@dataclass(frozen=True, slots=True)
class Entry:
    """``about`` is a keyed digest of what the action was done to: nobody finds a trace or a person by it."""

    seq: int  # 1, 2, 3, ...
    at: float  # Unix seconds
    actor: str  # rv_..., "local" where nobody logs in, "command" for the command line
    action: str
    about: str
    detail: str  # closed words and numbers, never what somebody wrote
    previous: str  # digest of the entry before
    digest: str


@dataclass(frozen=True, slots=True)
class Verified:
    """``broken`` is the number of the first entry that does not hold, and ``why``; None when the chain is whole."""

    entries: int  # that hold
    head: str  # digest of the last of them
    broken: int | None = None
    why: str = ""


class AuditLog:
    """The trail over *engine*. Each entry is committed before what it tells of is done."""

    def __init__(self, engine: Engine, key: bytes, now: Callable[[], float]) -> None:
        self._engine = engine
        self._key = key
        self._now = now

    def append(self, actor: str, action: Action, about: str = "", detail: str = "") -> int:
        """Add one entry and return its number. Raises what the database raises: no entry, no act."""
        with self._engine.begin() as connection:
            return append(connection, self._key, self._now(), actor=actor, action=action, about=about, detail=detail)

    def name(self, about: str) -> str:
        """What stands in the trail for *about*."""
        return _name(self._key, about)


def append(
    connection: Connection, key: bytes, now: float, *, actor: str, action: Action, about: str = "", detail: str = ""
) -> int:
    """Add one entry within the caller's transaction."""
    if connection.dialect.name == "postgresql":  # SQLite has one writer as it is
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    columns = (audit_log.c.seq, audit_log.c.digest)
    last = connection.execute(select(*columns).order_by(audit_log.c.seq.desc()).limit(1)).one_or_none()
    fields: dict[str, Any] = {
        "seq": 1 if last is None else last.seq + 1,
        "at": now,
        "actor": actor,
        "action": action.value,
        "about": _name(key, about),
        "detail": detail[:DETAIL_LIMIT_CHARACTERS],
        "previous": _FIRST if last is None else last.digest,
    }
    connection.execute(insert(audit_log).values(**fields, digest=_digest(key, fields)))
    return int(fields["seq"])


def verify(engine: Engine, key: bytes, *, noted: tuple[int, str] | None = None) -> Verified:
    """Check every entry, oldest first. *noted*: number and digest of an entry that was written down elsewhere."""
    with reader(engine).connect() as connection:
        result = _verify(connection, key)
        if result.broken is None and noted is not None:
            number, digest = noted
            held = connection.scalar(select(audit_log.c.digest).where(audit_log.c.seq == number))
            if held is None:
                why = f"the trail ends at entry {result.entries}: its end was cut off"
                return Verified(result.entries, result.head, min(number, result.entries + 1), why)
            if held != digest:
                return Verified(result.entries, result.head, number, "the entry is another than the one noted")
    return result


def _verify(connection: Connection, key: bytes) -> Verified:
    expected, previous = 1, _FIRST
    while rows := entries(connection, after=expected - 1):
        for entry in rows:
            why = _flaw(key, entry, expected, previous)
            if why:
                return Verified(expected - 1, previous, expected, why)
            expected, previous = expected + 1, entry.digest
    return Verified(expected - 1, previous)


def _flaw(key: bytes, entry: Entry, expected: int, previous: str) -> str:
    if entry.seq != expected:
        return f"entry {expected} is missing; the next one is {entry.seq}"
    if entry.previous != previous:
        return "it does not follow the entry before it"
    fields = {name: getattr(entry, name) for name in _FIELDS}
    if not hmac.compare_digest(_digest(key, fields).encode(), entry.digest.encode()):
        return "its content is not what was written, or the trail has another key"
    return ""


def entries(connection: Connection, *, after: int, limit: int = _AT_ONCE) -> list[Entry]:
    """Up to *limit* entries behind number *after*, oldest first."""
    rows = connection.execute(select(audit_log).where(audit_log.c.seq > after).order_by(audit_log.c.seq).limit(limit))
    return [Entry(**row._mapping) for row in rows]


def newest(
    connection: Connection,
    *,
    before: int | None = None,
    limit: int = 100,
    about: str = "",
    actions: Sequence[str] = (),
) -> list[Entry]:
    """Up to *limit* entries, newest first; *about* is a name of :meth:`AuditLog.name`."""
    query = select(audit_log).order_by(audit_log.c.seq.desc()).limit(limit)
    if before is not None:
        query = query.where(audit_log.c.seq < before)
    if about:
        query = query.where(audit_log.c.about == about)
    if actions:
        query = query.where(audit_log.c.action.in_(list(actions)))
    return [Entry(**row._mapping) for row in connection.execute(query)]


_FIELDS = ("seq", "at", "actor", "action", "about", "detail", "previous")


def _digest(key: bytes, fields: dict[str, Any]) -> str:
    # repr of a float is exact and reads back as the same double from either database.
    body = json.dumps([repr(float(fields["at"])) if name == "at" else fields[name] for name in _FIELDS])
    return hmac.new(key, body.encode(), hashlib.sha256).hexdigest()


def _name(key: bytes, about: str) -> str:
    return "" if not about else hmac.new(key, f"about:{about}".encode(), hashlib.sha256).hexdigest()[:32]
