"""Named filters of the trace list: one person's, or shared by everybody who may open the console."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Connection, Engine, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from .desk import Refused
from .tables import saved_views

NAME_LIMIT_CHARACTERS = 60
VIEWS_OF_ONE_OWNER = 50
SHARED_VIEWS = 200
QUERY_LIMIT_CHARACTERS = 2_000  # 200 characters of a search in Chinese are 1 800 in an address


@dataclass(frozen=True, slots=True)
class SavedView:
    view_id: str  # sv_<hex>
    owner: str  # rv_... of the user, "local" where nobody logs in
    name: str
    query: str  # what stands behind the ? of the list
    shared: bool


_VIEWS = select(*(saved_views.c[column.name] for column in fields(SavedView)))


def new_view_id() -> str:
    return f"sv_{secrets.token_hex(8)}"


def seen_by(connection: Connection, owner: str) -> list[SavedView]:
    """The views of *owner*, then those that others share, each by name."""
    table = saved_views.c
    mine_or_shared = _VIEWS.where(or_(table.owner == owner, table.shared))
    rows = connection.execute(mine_or_shared.order_by(table.owner != owner, table.name, table.view_id))
    return [SavedView(**row._mapping) for row in rows]


def find(connection: Connection, view_id: str) -> SavedView | None:
    row = connection.execute(_VIEWS.where(saved_views.c.view_id == view_id)).one_or_none()
    return None if row is None else SavedView(**row._mapping)


def save(engine: Engine, view: SavedView, now: float) -> str:
    """Keep *view*, in place of the one of the same owner and name; return its identifier.

    Raises :class:`Refused` for a name that cannot be read, and beyond the bounds.
    """
    _check(view)
    try:
        return _keep(engine, view, now)
    except IntegrityError:  # the same name, saved twice at the same moment: the later one stands
        return _keep(engine, view, now)


def _keep(engine: Engine, view: SavedView, now: float) -> str:
    table = saved_views
    with engine.begin() as connection:
        mine = (table.c.owner == view.owner) & (table.c.name == view.name)
        held = connection.execute(select(table.c.view_id, table.c.shared).where(mine)).one_or_none()
        _check_room(connection, view, held)
        values: dict[str, Any] = {"query": view.query, "shared": view.shared, "updated_at": now}
        if held is not None:
            connection.execute(update(table).where(table.c.view_id == held.view_id).values(values))
            return str(held.view_id)
        row = {"view_id": view.view_id, "owner": view.owner, "name": view.name, "created_at": now, **values}
        connection.execute(insert(table).values(row))
    return view.view_id


def remove(engine: Engine, view_id: str) -> None:
    with engine.begin() as connection:
        connection.execute(delete(saved_views).where(saved_views.c.view_id == view_id))


def _check(view: SavedView) -> None:
    if not 1 <= len(view.name) <= NAME_LIMIT_CHARACTERS or not view.name.isprintable():
        raise Refused(
            f"the name of the view has {len(view.name)} characters; accepted: 1 to {NAME_LIMIT_CHARACTERS} that show"
        )
    if len(view.query) > QUERY_LIMIT_CHARACTERS:
        raise Refused(
            f"the filters take {len(view.query)} characters of an address; accepted: up to {QUERY_LIMIT_CHARACTERS}"
        )


def _check_room(connection: Connection, view: SavedView, held: Any) -> None:
    """A view in place of another takes no more room than that one had."""
    table = saved_views
    counting = select(func.count()).select_from(table)
    if held is None and (connection.scalar(counting.where(table.c.owner == view.owner)) or 0) >= VIEWS_OF_ONE_OWNER:
        raise Refused(f"you have {VIEWS_OF_ONE_OWNER} saved views, which is the most; remove one first")
    newly_shared = view.shared and (held is None or not held.shared)
    if newly_shared and (connection.scalar(counting.where(table.c.shared)) or 0) >= SHARED_VIEWS:
        raise Refused(f"there are {SHARED_VIEWS} shared views, which is the most; keep this one for yourself")
