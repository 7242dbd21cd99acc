"""Sessions of the console, kept in the database: what is ended there is ended, whatever a browser still holds."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, delete, insert, or_, select, update

from groundwatch_collector.storage import reader

from ..accounts import User, by_id
from ..tables import console_sessions

SESSIONS_OF_ONE_USER = 10
"""More than a person's browsers; the oldest ends."""

_SEEN_EVERY_SECONDS = 60.0  # a page view must not be a write each time


@dataclass(frozen=True, slots=True)
class Lifetime:
    idle_seconds: float = 3600.0
    longest_seconds: float = 43_200.0


class Sessions:
    def __init__(
        self,
        engine: Engine,
        now: Callable[[], float],
        lifetime: Lifetime,
        token: Callable[[], str] = lambda: secrets.token_urlsafe(32),
    ) -> None:
        self._engine = engine
        self._now = now
        self._lifetime = lifetime
        self._token = token

    def open(self, user: User, replaced: str = "") -> str:
        """Begin a session under a token that nobody had before, and end the one of the token *replaced*."""
        token, now = self._token(), self._now()
        with self._engine.begin() as connection:
            connection.execute(delete(console_sessions).where(self._over(now)))
            connection.execute(delete(console_sessions).where(console_sessions.c.token_sha256 == _digest(replaced)))
            self._make_room(connection, user)
            row = {"token_sha256": _digest(token), "user_id": user.user_id, "created_at": now, "seen_at": now}
            connection.execute(insert(console_sessions).values(row))
        return token

    def _make_room(self, connection: Connection, user: User) -> None:
        table = console_sessions
        newest = table.c.seen_at.desc()
        held = connection.scalars(
            select(table.c.token_sha256).where(table.c.user_id == user.user_id).order_by(newest)
        ).all()
        for digest in held[SESSIONS_OF_ONE_USER - 1 :]:
            connection.execute(delete(table).where(table.c.token_sha256 == digest))

    def user_of(self, token: str) -> User | None:
        """Whose session this is; None when it is over, was ended, or never was one."""
        if not token:
            return None
        now, digest = self._now(), _digest(token)
        table = console_sessions
        with reader(self._engine).connect() as connection:
            query = select(table.c.user_id, table.c.seen_at).where(table.c.token_sha256 == digest, ~self._over(now))
            row = connection.execute(query).one_or_none()
            if row is None:
                return None
            user = by_id(connection, row.user_id)
        if now - row.seen_at >= _SEEN_EVERY_SECONDS:
            with self._engine.begin() as connection:
                connection.execute(update(table).where(table.c.token_sha256 == digest).values(seen_at=now))
        return user

    def end(self, token: str) -> None:
        with self._engine.begin() as connection:
            connection.execute(delete(console_sessions).where(console_sessions.c.token_sha256 == _digest(token)))

    def _over(self, now: float) -> Any:
        idle = console_sessions.c.seen_at <= now - self._lifetime.idle_seconds
        return or_(idle, console_sessions.c.created_at <= now - self._lifetime.longest_seconds)


def _digest(token: str) -> str:
    """The token has 256 random bits: a plain hash is enough, and a lookup by it tells nothing by its time."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
