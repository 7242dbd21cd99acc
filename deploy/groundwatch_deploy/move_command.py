"""`groundwatch move`: take the rows of one process with SQLite into the database of a cluster."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Table, func, insert, select, text

from groundwatch_collector.spanlog import LogLocked, SpanLog
from groundwatch_collector.storage import open_engine, reader
from groundwatch_deploy import migrations
from groundwatch_deploy.cli import Failed, Misused, emit
from groundwatch_deploy.config import ConfigError
from groundwatch_deploy.data_trouble import explained
from groundwatch_deploy.ledger_report import read_account
from groundwatch_deploy.settings import Settings, load

_ROWS_AT_ONCE: Final = 500
_KEYS: Final = {"GROUNDWATCH_SAMPLING_SALT": "sampling.salt", "GROUNDWATCH_CANDIDATE_KEY": "candidate.key"}

_OF_THE_OLD_LOG: Final = frozenset({"positions", "partition_positions", "novelty_state"})
"""How far a log is decided, and what its reader remembers of kinds of questions: a topic begins anew with both."""

_NOWHERE: Final[Mapping[str, dict[str, Any]]] = {
    # Before every record of any topic: a later vote is newer than each of these, and nothing is read again.
    "ledger": {"first_position": 0, "last_position": -1},
    "feedback": {"position": -1},
    "dead_letters": {"position": None},
}
_FREE: Final = {"state": "waiting", "lease_until": 0.0}


def command(arguments: argparse.Namespace) -> int:
    """Copy every row in one transaction and count both sides. Where it cannot be done nothing is changed."""
    try:
        new = load(arguments.config)
        old = load(None, data_directory=arguments.data_dir)
        _refuse_wrong_ends(old, new)
        with explained(new.server):
            moved = move(old, new)
    except ConfigError as error:
        raise Misused(str(error)) from error
    emit({"rows": moved}, arguments.json, lambda: _text(moved))
    return 0


def move(old: Settings, new: Settings) -> dict[str, int]:
    """Rows of each table that are now in the new database. Raises :class:`Failed` and leaves it empty where not."""
    same_log = not new.kafka.bootstrap_servers
    with _stopped(old):
        if not same_log:
            _refuse_undecided(old)
        source, target = open_engine(old.server.url), open_engine(new.server.url)
        try:
            migrations.upgrade(source)
            migrations.upgrade(target)
            with reader(source).connect() as origin, target.begin() as connection:
                _refuse_rows(connection)
                return {table.name: _copy(origin, connection, table, same_log) for table in _tables_to_move(same_log)}
        finally:
            source.dispose()
            target.dispose()


def _refuse_wrong_ends(old: Settings, new: Settings) -> None:
    folder = old.server.data_directory
    if not (folder / "groundwatch.db").exists() or not (folder / "spanlog").is_dir():
        raise ConfigError(
            f"{folder}: no database and span log here; give the old process's directory with --data-dir"
        )
    if not new.server.database_url:
        raise ConfigError(
            "[server] database_url: not set; --config is the file of the new deployment, with its database"
        )
    for variable, name in _KEYS.items():
        given, path = os.environ.get(variable, ""), folder / name
        if given and path.exists() and given.lower() != path.read_text().strip().lower():
            raise ConfigError(
                f"environment variable {variable}: not the key in {path}; the new deployment must go on with that one"
            )


def _stopped(old: Settings) -> SpanLog:
    """The lock that a running process holds. Use as a context manager."""
    try:
        return SpanLog(old.server.data_directory / "spanlog")
    except LogLocked as error:
        raise Failed(f"{old.server.data_directory}: a process is running on it; stop it first") from error


def _refuse_undecided(old: Settings) -> None:
    account = read_account(old)
    if account.undecided:
        raise Failed(
            f"{account.undecided} traces in the span log are not decided yet, and a topic does not have them; run "
            f"`groundwatch serve --data-dir {old.server.data_directory}` without senders until `groundwatch ledger` "
            "shows none undecided"
        )


def _tables_to_move(same_log: bool) -> Sequence[Table]:
    return [table for table in migrations.metadata.sorted_tables if same_log or table.name not in _OF_THE_OLD_LOG]


def _refuse_rows(connection: Connection) -> None:
    for table in migrations.metadata.sorted_tables:
        if _count(connection, table):
            raise Failed(f"the new database is not empty (table {table.name}): two histories cannot be told apart")


def _copy(origin: Connection, target: Connection, table: Table, same_log: bool) -> int:
    for rows in _batches(origin, table):
        target.execute(insert(table), [_moved(table, row, same_log) for row in rows])
    _continue_numbers(target, table)
    before, after = _count(origin, table), _count(target, table)
    if before != after:
        raise Failed(f"table {table.name}: {after} of {before} rows arrived; nothing was moved")
    return after


def _batches(origin: Connection, table: Table) -> Iterator[list[dict[str, Any]]]:
    found = origin.execute(select(table)).mappings().partitions(_ROWS_AT_ONCE)
    return ([dict(row) for row in rows] for rows in found)


def _moved(table: Table, row: dict[str, Any], same_log: bool) -> dict[str, Any]:
    if row.get("state") == "leased":  # whoever had claimed it was stopped
        row |= _FREE
    return row if same_log else row | _NOWHERE.get(table.name, {})


def _continue_numbers(target: Connection, table: Table) -> None:
    """Let PostgreSQL count on after the highest number that was copied; SQLite does so by itself."""
    column = table.autoincrement_column
    if column is None or target.dialect.name != "postgresql":
        return
    highest = target.execute(select(func.max(column))).scalar()
    if highest is not None:
        names = {"table": table.name, "column": column.name, "highest": highest}
        target.execute(text("SELECT setval(pg_get_serial_sequence(:table, :column), :highest)"), names)


def _count(connection: Connection, table: Table) -> int:
    return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def _text(moved: Mapping[str, int]) -> str:
    lines = [f"{name:<28}{count:>10}" for name, count in moved.items() if count]
    keys = "the new processes need the keys of the old data directory: " + ", ".join(_KEYS)
    erased = "erasures.jsonl and erased_traces.txt say what was erased: copy them to the new data directory"
    return "\n".join(["rows moved:", *lines, keys, erased])
