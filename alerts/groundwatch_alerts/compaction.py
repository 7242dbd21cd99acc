"""Merge old buckets of the tallies into larger ones. What is summed over whole larger buckets stays the same.

A tally is any table whose key has ``bucket_start`` and whose other numbers are sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, Table, delete, func, select

from groundwatch_collector.storage import add_to_tally, metadata, reader

HOUR, DAY = 3_600, 86_400
_ROWS_PER_TRANSACTION = 2_000  # some tens of milliseconds


def tally_tables() -> list[Table]:
    """Every tally that is registered."""
    return [table for table in metadata.sorted_tables if "bucket_start" in table.primary_key.columns]


def compact(engine: Engine, before: float, width: int) -> Iterator[int]:
    """Merge buckets that start before *before* into buckets of *width* seconds (in UTC).

    One transaction for a few thousand rows; yields how many rows each saved. A bucket is merged only when all of it
    is older than *before*.
    """
    end = int(before) // width * width
    for table in tally_tables():
        for starts in _unmerged(engine, table, end, width):
            with engine.begin() as connection:
                saved = sum(_merge(connection, table, start, width) for start in starts)
            yield saved


def _unmerged(engine: Engine, table: Table, end: int, width: int) -> Iterator[list[int]]:
    """Starts of the buckets to be, as many at a time as one transaction should change."""
    start = table.c.bucket_start
    bucket = (start - start % width).label("bucket")
    query = select(bucket, func.count()).where(start < end, start % width != 0).group_by(bucket).order_by(bucket)
    with reader(engine).connect() as connection:
        found = connection.execute(query).all()
    starts: list[int] = []
    rows = 0
    for start_of_bucket, count in found:
        starts.append(int(start_of_bucket))
        rows += count
        if rows >= _ROWS_PER_TRANSACTION:
            yield starts
            starts, rows = [], 0
    if starts:
        yield starts


def _merge(connection: Connection, table: Table, start: int, width: int) -> int:
    """Take the rows out and add them to their larger bucket: a sum that another writer adds meanwhile is kept."""
    inside = (table.c.bucket_start > start) & (table.c.bucket_start < start + width)
    taken = connection.execute(delete(table).where(inside).returning(*table.columns)).mappings().all()
    merged = _summed(table, start, [dict(row) for row in taken])
    add_to_tally(connection, table, merged)
    return len(taken) - len(merged)


def _summed(table: Table, start: int, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    keys = [column.name for column in table.primary_key.columns if column.name != "bucket_start"]
    sums = [column.name for column in table.columns if not column.primary_key]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return [
        {
            "bucket_start": start,
            **dict(zip(keys, key, strict=True)),
            **{name: _sum([row[name] for row in group]) for name in sums},
        }
        for key, group in groups.items()
    ]


def _sum(values: Sequence[Any]) -> Any:
    """Whole numbers exactly; weights correctly rounded, whatever their order."""
    return sum(values) if all(isinstance(value, int) for value in values) else math.fsum(values)
