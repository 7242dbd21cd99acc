"""Users of the console. Records carry a user's random identifier; the name stands in this one table only."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Engine, Row, delete, func, insert, select, text, update

from groundwatch_collector.storage import reader

from . import passwords
from .desk import new_reviewer
from .tables import console_sessions, console_users, saved_views

_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")
_LOCK = 0x67726F756E66  # of the advisory lock: two changes at once must not leave no administrator


class Role(StrEnum):
    VIEWER = "viewer"
    REVIEWER = "reviewer"
    EXPORTER = "exporter"
    ADMIN = "admin"


class Unacceptable(ValueError):
    """The change cannot be made; the message says what was found and what is accepted."""


@dataclass(frozen=True, slots=True)
class User:
    user_id: str  # rv_<hex>: also the reviewer of the user's verdicts
    name: str
    roles: tuple[Role, ...]
    holdout: bool  # may read the hold-out set whatever the role
    created_at: float
    updated_at: float
    sso: bool = False  # comes in through the OpenID provider, which gives the roles at each login


@dataclass(frozen=True, slots=True)
class Identity:
    """Who an OpenID provider says somebody is, and the roles that the configuration gives for it."""

    issuer: str
    subject: str  # never given to anybody else by that issuer
    name: str  # what the person is called there; anybody may call himself anything
    roles: tuple[Role, ...]
    holdout: bool

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.issuer}\n{self.subject}".encode()).hexdigest()


def check_name(name: str) -> None:
    """Raise :class:`Unacceptable` for a name that could be taken for another one."""
    if not _NAME.fullmatch(name):
        raise Unacceptable(
            f"name {name[:40]!r}; accepted: up to 64 small letters a to z, digits and . _ @ -, a letter or digit "
            "first"
        )


def checked_roles(names: Iterable[str]) -> tuple[Role, ...]:
    """Roles by name, in the order of the table. Raises :class:`Unacceptable` for an unknown one, and for none."""
    wanted = list(names)
    unknown = [name for name in wanted if name not in set(Role)]
    if unknown or not wanted:
        found = f"role {unknown[0][:40]!r}" if unknown else "no role"
        raise Unacceptable(f"{found}; accepted: {', '.join(Role)}")
    return tuple(role for role in Role if role in wanted)


Note = Callable[[Connection, User], object]
"""Called with the changed user before the change is committed: where it raises, nothing is changed."""


def _no_note(_connection: Connection, _user: User) -> None:
    """Who asks through the console has written it down already."""


def add(
    engine: Engine,
    name: str,
    roles: Iterable[str],
    password: str,
    now: float,
    *,
    holdout: bool = False,
    cost: passwords.Cost = passwords.COST,
    note: Note = _no_note,
) -> User:
    """Make a user. Raises :class:`Unacceptable` for a name that is taken or not allowed, or a role that is not known,
    and :class:`passwords.Unfit`."""
    check_name(name)
    chosen = checked_roles(roles)
    passwords.check_fit(password, name)
    row = {
        "user_id": new_reviewer(),
        "name": name,
        "roles": ",".join(chosen),
        "holdout": holdout,
        "password": passwords.hashed(password, cost),
        "created_at": now,
        "updated_at": now,
    }
    with engine.begin() as connection:
        _one_at_a_time(connection)
        if find(connection, name) is not None:
            raise Unacceptable(f"there is a user {name!r} already")
        if Role.ADMIN not in chosen and not exist(connection):
            raise Unacceptable("the first user has to be an admin: nobody could make others")
        connection.execute(insert(console_users).values(row))
        note(connection, _user(row))
    return _user(row)


def change(
    engine: Engine,
    name: str,
    now: float,
    *,
    roles: Iterable[str] | None = None,
    holdout: bool | None = None,
    password: str | None = None,
    cost: passwords.Cost = passwords.COST,
    note: Note = _no_note,
) -> User:
    """Change what is not None, and end the user's sessions. Raises as :func:`add` does, and for the last admin."""
    values: dict[str, Any] = {"updated_at": now}
    if roles is not None:
        values["roles"] = ",".join(checked_roles(roles))
    if holdout is not None:
        values["holdout"] = holdout
    if password is not None:
        passwords.check_fit(password, name)
        values["password"] = passwords.hashed(password, cost)
    with engine.begin() as connection:
        _one_at_a_time(connection)
        user = _known(connection, name)
        if user.sso:
            raise Unacceptable(
                f"{name!r} comes in through single sign-on, which gives the roles and asks for a password"
            )
        connection.execute(update(console_users).where(console_users.c.user_id == user.user_id).values(values))
        _keep_an_admin(connection, user)
        connection.execute(delete(console_sessions).where(console_sessions.c.user_id == user.user_id))
        changed = _known(connection, name)
        note(connection, changed)
    return changed


def enter(engine: Engine, identity: Identity, now: float) -> User:
    """The user behind *identity*, made at the first time, with the roles that it has today.

    Who has other roles than at the last time loses the sessions that began with those.
    """
    table = console_users
    values = {"roles": ",".join(identity.roles), "holdout": identity.holdout, "updated_at": now}
    with engine.begin() as connection:
        _one_at_a_time(connection)
        row = connection.execute(select(table).where(table.c.identity == identity.digest)).one_or_none()
        if row is None:
            made = {
                "user_id": new_reviewer(),
                "name": _free_name(connection, identity),
                "password": "",
                "identity": identity.digest,
                "created_at": now,
                **values,
            }
            connection.execute(insert(table).values(made))
            return _user(made)
        if (row.roles, bool(row.holdout)) != (values["roles"], identity.holdout):
            connection.execute(update(table).where(table.c.user_id == row.user_id).values(values))
            connection.execute(delete(console_sessions).where(console_sessions.c.user_id == row.user_id))
        return _user({**row._mapping, **values})


def shut_out(engine: Engine, identity: Identity) -> None:
    """End the sessions of the user behind *identity*, if there is one: the provider gives no role any more."""
    users = console_users.c
    with engine.begin() as connection:
        user_id = connection.scalar(select(users.user_id).where(users.identity == identity.digest))
        if user_id is not None:
            connection.execute(delete(console_sessions).where(console_sessions.c.user_id == user_id))


def _free_name(connection: Connection, identity: Identity) -> str:
    """A name that nobody has: whoever is called like a local user elsewhere must not be taken for that user."""
    wanted = identity.name.lower()
    for name in (wanted, f"{wanted[:59]}.sso"):
        if _NAME.fullmatch(name) and find(connection, name) is None:
            return name
    return f"sso-{identity.digest[:24]}"


def remove(engine: Engine, name: str, *, even_the_last: bool = False, note: Note = _no_note) -> User:
    """Remove a user and the user's sessions. Records keep the identifier, which then leads to no name.

    Raises :class:`Unacceptable` for the last administrator, while there are others who then could not be helped;
    *even_the_last* says that this is meant.
    """
    with engine.begin() as connection:
        _one_at_a_time(connection)
        user = _known(connection, name)
        for table in (console_sessions, console_users):
            connection.execute(delete(table).where(table.c.user_id == user.user_id))
        own = (saved_views.c.owner == user.user_id) & ~saved_views.c.shared  # shared ones are still used by others
        connection.execute(delete(saved_views).where(own))
        if not even_the_last:
            _keep_an_admin(connection, user)
        note(connection, user)
    return user


def _keep_an_admin(connection: Connection, before: User) -> None:
    if Role.ADMIN in before.roles and not any(Role.ADMIN in user.roles for user in listed(connection)):
        raise Unacceptable(f"{before.name!r} is the last admin; make another user one first")


def _one_at_a_time(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":  # SQLite has one writer as it is
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})


def listed(connection: Connection) -> list[User]:
    """All users, by name."""
    return [_user(row._mapping) for row in connection.execute(select(console_users).order_by(console_users.c.name))]


def find(connection: Connection, name: str) -> User | None:
    row = _row(connection, name)
    return None if row is None else _user(row._mapping)


def by_id(connection: Connection, user_id: str) -> User | None:
    row = connection.execute(select(console_users).where(console_users.c.user_id == user_id)).one_or_none()
    return None if row is None else _user(row._mapping)


def names(connection: Connection, user_ids: Collection[str]) -> dict[str, str]:
    """Names by identifier, of those users that still exist."""
    where = console_users.c.user_id.in_(list(user_ids))
    rows = connection.execute(select(console_users.c.user_id, console_users.c.name).where(where))
    return {row.user_id: row.name for row in rows}


def exist(connection: Connection) -> bool:
    """Whether there is any user, so that everybody has to log in."""
    return connection.scalar(select(func.count()).select_from(console_users)) != 0


def check(engine: Engine, name: str, password: str, cost: passwords.Cost = passwords.COST) -> tuple[User | None, str]:
    """The user of this name and password, or None; and the identifier of the name, "" when nobody has it.

    A name that nobody has costs the same work: the time of the answer does not tell which names exist.
    """
    with reader(engine).connect() as connection:
        row = _row(connection, name) if _NAME.fullmatch(name) else None
    kept = row.password if row is not None and row.password else _nobodys(cost)
    right = len(password) <= passwords.MAX_CHARACTERS and passwords.matches(password, kept)
    if row is None:
        return None, ""
    return (_user(row._mapping) if right else None), row.user_id


def _nobodys(cost: passwords.Cost) -> str:
    """A record of the same cost that no password matches."""
    return f"scrypt${cost.n}${cost.r}${cost.p}${'A' * 22}==$AAAA"


def _known(connection: Connection, name: str) -> User:
    user = find(connection, name)
    if user is None:
        raise Unacceptable(f"there is no user {name[:64]!r}")
    return user


def _row(connection: Connection, name: str) -> Row[Any] | None:
    return connection.execute(select(console_users).where(console_users.c.name == name)).one_or_none()


def _user(row: Any) -> User:
    return User(
        user_id=row["user_id"],
        name=row["name"],
        roles=tuple(Role(role) for role in row["roles"].split(",") if role in set(Role)),
        holdout=bool(row["holdout"]),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        sso=row.get("identity") is not None,
    )
