"""Schema migrations: `upgrade(engine)` brings a database of any earlier version to this one."""

from __future__ import annotations

import logging
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script.revision import ResolutionError
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, text

from groundwatch_alerts import alert_tables
from groundwatch_collector import settling_tables
from groundwatch_collector import tables as collector_tables
from groundwatch_collector.storage import metadata
from groundwatch_review import tables as review_tables
from groundwatch_scorer import tables as scorer_tables

logger = logging.getLogger(__name__)

TABLES = (collector_tables, settling_tables, scorer_tables, alert_tables, review_tables)
"""Importing these modules registers every table in ``metadata``."""

_LOCK = 0x67726F756E64  # "ground": of the advisory lock, the same in every process

__all__ = ["NewerSchema", "configuration", "metadata", "upgrade"]


class NewerSchema(Exception):
    """The database is of a later version than this program."""


def configuration(connection: Connection) -> Config:
    """Alembic's configuration for the scripts in this package, on an open connection."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    return config


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Create or migrate the schema in one transaction; of processes that start together, one does it.

    Raises :class:`NewerSchema` for a database that a later version has migrated.
    """
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":  # SQLite's own lock does as much
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        before = _revision(connection)
        try:
            command.upgrade(configuration(connection), revision)
        except CommandError as error:
            if isinstance(error.__cause__, ResolutionError):
                raise NewerSchema(
                    f"the database was migrated by a later version (revision {error.__cause__.argument}); "
                    "run that version, or restore the backup from before the upgrade"
                ) from error
            raise
        after = _revision(connection)
    if before != after:
        logger.info("the database is brought from revision %s to %s", before or "none", after)


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()
