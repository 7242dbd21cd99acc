"""Write the memory of question kinds down and read it back, so that a restart does not make everything new."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterable
from typing import Any

import orjson
from sqlalchemy import Connection, delete, insert, select

from groundwatch_collector import tables
from groundwatch_collector.novelty import AppNovelty, NoveltySettings

logger = logging.getLogger(__name__)

MAX_STATE_BYTES = 64 * 1024 * 1024  # of one application, unpacked; a larger one is not ours


def save(connection: Connection, name: str, states: Iterable[tuple[str, AppNovelty]], now: float) -> None:
    """Replace the states of those applications in the caller's transaction. *name*: the consumer that keeps them."""
    table = tables.novelty_state
    for app, memory in states:
        connection.execute(delete(table).where(table.c.name == name, table.c.app == app))
        row = {"name": name, "app": app, "saved_at": now, "questions": memory.questions, "state": pack(memory)}
        connection.execute(insert(table).values(row))


def load(connection: Connection, name: str, settings: NoveltySettings) -> dict[str, AppNovelty]:
    """The newest states, as many as there may be applications. What cannot be read warms up again, and is logged."""
    table = tables.novelty_state
    query = select(table).where(table.c.name == name).order_by(table.c.saved_at.desc()).limit(settings.apps)
    found = {}
    for row in connection.execute(query):
        try:
            found[row.app] = unpack(row.state, settings)
        except (ValueError, KeyError, TypeError, OverflowError, zlib.error) as error:
            logger.warning(
                "the memory of question kinds of one application cannot be read (%s); it warms up again",
                type(error).__name__,
            )
    return found


def pack(memory: AppNovelty) -> bytes:
    return zlib.compress(orjson.dumps(memory.state()), 1)


def unpack(packed: bytes, settings: NoveltySettings) -> AppNovelty:
    """Raises ``ValueError``, ``KeyError``, ``TypeError``, ``OverflowError`` or ``zlib.error`` for anything else."""
    opened = zlib.decompressobj()
    state: Any = orjson.loads(opened.decompress(packed, MAX_STATE_BYTES))
    return AppNovelty.restore(settings, state)
