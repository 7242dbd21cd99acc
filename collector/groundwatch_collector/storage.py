"""Open the database. One schema for SQLite (default) and PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Engine, MetaData, Table, create_engine, event
from sqlalchemy.dialects import postgresql, sqlite

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)
"""Every table of the product registers here; each package owns the tables that it writes."""


_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "foreign_keys=ON",
    "secure_delete=ON",  # what is deleted or replaced is overwritten: the text of people must not stay in free pages
)


def open_engine(url: str, *, busy_timeout_seconds: float = 30.0) -> Engine:
    """Return an engine for *url*; SQLite gets WAL, full durability, enforced foreign keys and a busy timeout.

    SQLite transactions begin IMMEDIATE, so that two writers wait for each other instead of failing half-way.
    """
    if not url.startswith("sqlite"):
        return create_engine(url, pool_pre_ping=True, hide_parameters=True)
    # hide_parameters: an error's text, which ends in the log, must not hold what users wrote.
    options = {"timeout": busy_timeout_seconds, "check_same_thread": False}
    engine = create_engine(url, connect_args=options, hide_parameters=True)

    @event.listens_for(engine, "connect")
    def _pragmas(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # SQLAlchemy's begin event below issues BEGIN itself
        cursor = connection.cursor()
        if _pragma(cursor, "page_count") == 0:  # a new file: its freed pages can be given back without rewriting it
            cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")
        for pragma in _PRAGMAS:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        read_only = connection.get_execution_options().get("read_only", False)
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine


def reader(engine: Engine) -> Engine:
    """The same database for queries only: SQLite readers then never wait for a writer."""
    return engine.execution_options(read_only=True)


def reclaim(engine: Engine, *, pages: int = 2_000) -> bool:
    """Give freed pages of a SQLite file back, at most *pages* at a time, and empty its write-ahead log.

    False when a reader still needed the log; it is then emptied another time. PostgreSQL does this by itself.
    """
    if engine.dialect.name != "sqlite":
        return True
    connection = engine.raw_connection()  # outside of a transaction: a checkpoint cannot be in one
    try:
        cursor = connection.cursor()
        while _pragma(cursor, "freelist_count") > 0:
            before = _pragma(cursor, "freelist_count")
            cursor.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()
            if _pragma(cursor, "freelist_count") >= before:
                break  # a file from before incremental vacuum: its free pages are used again, not given back
        return _pragma(cursor, "wal_checkpoint(TRUNCATE)") == 0
    finally:
        connection.close()


def _pragma(cursor: Any, name: str) -> int:
    return int(cursor.execute(f"PRAGMA {name}").fetchone()[0])


def insert_ignore(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> int:
    """Insert *rows*, skip those whose primary key exists; return how many were new."""
    if not rows:
        return 0
    builder: Any = (postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert)(table)
    # What was inserted is counted by its keys: the row count of several rows is not reported by every driver.
    new = builder.on_conflict_do_nothing().returning(*table.primary_key.columns)
    return len(connection.execute(new, list(rows)).all())


def add_to_tally(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Add each row's non-key numbers to the row with the same primary key, creating it where it is missing."""
    if not rows:
        return
    keys = [column.name for column in table.primary_key.columns]
    # Always in the same order: two writers that lock the same rows in different orders would wait for each other.
    ordered = sorted(rows, key=lambda row: tuple(row[name] for name in keys))
    connection.execute(_adding(table, connection.dialect.name), ordered)


@cache
def _adding(table: Table, dialect: str) -> Any:
    """The statement, built once for each table: building it takes longer than running it."""
    keys = [column.name for column in table.primary_key.columns]
    builder: Any = (postgresql.insert if dialect == "postgresql" else sqlite.insert)(table)
    sums = {
        column.name: table.c[column.name] + builder.excluded[column.name]
        for column in table.columns
        if column.name not in keys
    }
    return builder.on_conflict_do_update(index_elements=keys, set_=sums)
