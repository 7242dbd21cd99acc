"""The migrations and the tables say the same."""

from __future__ import annotations

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from groundwatch_collector.storage import metadata, open_engine
from groundwatch_deploy import migrations


def test_the_newest_migration_gives_exactly_the_tables(tmp_path):
    engine = open_engine(f"sqlite:///{tmp_path / 'new.db'}")
    migrations.upgrade(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    engine.dispose()


def test_upgrading_twice_changes_nothing(tmp_path):
    engine = open_engine(f"sqlite:///{tmp_path / 'new.db'}")
    migrations.upgrade(engine)
    migrations.upgrade(engine)
    engine.dispose()
