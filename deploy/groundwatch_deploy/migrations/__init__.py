"""Schema migrations: `upgrade(engine)` brings a database of any earlier version to this one."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine

from groundwatch_alerts import alert_tables
from groundwatch_collector import settling_tables
from groundwatch_collector import tables as collector_tables
from groundwatch_collector.storage import metadata
from groundwatch_review import tables as review_tables
from groundwatch_scorer import tables as scorer_tables

TABLES = (collector_tables, settling_tables, scorer_tables, alert_tables, review_tables)
"""Importing these modules registers every table in ``metadata``."""

__all__ = ["configuration", "metadata", "upgrade"]


def configuration(connection: Connection) -> Config:
    """Alembic's configuration for the scripts in this package, on an open connection."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    return config


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Create or migrate the schema in one transaction."""
    with engine.begin() as connection:
        command.upgrade(configuration(connection), revision)
