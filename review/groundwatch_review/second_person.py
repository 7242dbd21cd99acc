"""Four eyes for the hold-out set: what leaves it was read and ticked by two people.

The hold-out set tests whoever works with the other one. One person alone must not be able to let it out, nor to
choose what it is made of.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, delete, insert, select

from . import accounts
from .tables import console_users, holdout_ticks

NEEDED: Final = 2


@dataclass(frozen=True, slots=True)
class Ticks:
    """People by candidate and revision, and how many it takes. Where nobody logs in one browser is nobody in
    particular, and two of them are not two people: there it takes one tick, which every candidate needs anyway."""

    by: Mapping[tuple[str, int], Collection[str]]
    needed: int = NEEDED

    def released_by(self, document: Mapping[str, Any]) -> frozenset[str]:
        """Who released *document* as it is now."""
        return frozenset(self.by.get((document["candidate_id"], _revision(document)), ()))

    def is_missing(self, document: Mapping[str, Any]) -> bool:
        """Whether *document* is of the hold-out set and somebody is missing who has to release it."""
        return document.get("split") != "DEV" and self.needed > 1 and len(self.released_by(document)) < self.needed


def tick(connection: Connection, document: Mapping[str, Any], reviewer: str, now: float) -> None:
    """Remember that *reviewer* released this revision of a hold-out candidate; the same person counts once."""
    if document["split"] != "HOLDOUT":
        return
    table, candidate_id = holdout_ticks, document["candidate_id"]
    connection.execute(delete(table).where(table.c.candidate_id == candidate_id, table.c.reviewer == reviewer))
    row = {"candidate_id": candidate_id, "reviewer": reviewer, "revision": _revision(document), "ticked_at": now}
    connection.execute(insert(table).values(row))


def take_back(connection: Connection, candidate_ids: Sequence[str]) -> None:
    """Forget all ticks of these: they are gone, or whoever rejected them has found what the others did not."""
    connection.execute(delete(holdout_ticks).where(holdout_ticks.c.candidate_id.in_(candidate_ids)))


def ticks(connection: Connection, candidate_id: str = "") -> Ticks:
    """Who released which revision of each hold-out candidate, or of one.

    Only users are people here. Browsers of before there were any may have been one person's; and whoever was removed
    and comes back through single sign-on is somebody new by the records.
    """
    people = select(console_users.c.user_id)
    query = select(holdout_ticks).where(holdout_ticks.c.reviewer.in_(people))
    if candidate_id:
        query = query.where(holdout_ticks.c.candidate_id == candidate_id)
    found: dict[tuple[str, int], set[str]] = {}
    for row in connection.execute(query):
        found.setdefault((row.candidate_id, row.revision), set()).add(row.reviewer)
    return Ticks(found, NEEDED if accounts.exist(connection) else 1)


def _revision(document: Mapping[str, Any]) -> int:
    """An edit makes another text, which nobody has read yet."""
    found = document.get("revision")
    return found if isinstance(found, int) else 1
