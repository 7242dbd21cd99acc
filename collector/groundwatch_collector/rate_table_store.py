"""Read and write rate tables. A table is written at most once: whoever comes first writes it, all read that row."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from sqlalchemy import Engine, delete, select

from groundwatch_collector.sampling import RateTable
from groundwatch_collector.storage import insert_ignore, reader
from groundwatch_collector.tables import rate_tables

KEPT_SECONDS = 30 * 86_400  # for traces that come late; the ledger has the chance of each trace itself
_REMEMBERED = 512  # tables in memory; older ones are read again


def row(engine: Engine, epoch: str) -> Mapping[Any, Any] | None:
    """The table of that id, as it is stored."""
    with reader(engine).connect() as connection:
        return connection.execute(select(rate_tables).where(rate_tables.c.epoch == epoch)).mappings().first()


def write(engine: Engine, values: Mapping[str, Any]) -> Mapping[Any, Any]:
    """Write a table where there is none of its id; return what is stored then: perhaps another replica's row."""
    encoded = {name: orjson.dumps(dict(values[name])).decode() for name in ("rates", "why")}
    with engine.begin() as connection:
        insert_ignore(connection, rate_tables, [{**values, **encoded}])
        connection.execute(delete(rate_tables).where(rate_tables.c.start < values["start"] - KEPT_SECONDS))
    stored = row(engine, values["epoch"])
    if stored is None:
        raise RuntimeError(f"rate table {values['epoch']} was written and cannot be read")
    return stored


def table_of(stored: Mapping[Any, Any]) -> RateTable:
    """The table in a row."""
    rates = orjson.loads(stored["rates"])
    return RateTable(stored["epoch"], rates, stored["salt_version"], tuple(rates))  # also of the user's own strata


class PastTables:
    """Tables of epochs that are over, by start of the asked epoch."""

    def __init__(self, read: Callable[[int], RateTable | None]) -> None:
        self._read = read
        self._tables: OrderedDict[int, RateTable] = OrderedDict()

    def table(self, start: int, otherwise: RateTable) -> RateTable:
        """What is stored for the epoch of *start*; *otherwise* where nothing is."""
        found = self._tables.get(start)
        if found is None:
            found = self._tables[start] = self._read(start) or otherwise
            while len(self._tables) > _REMEMBERED:
                self._tables.popitem(last=False)
        return found
