"""The migrations and the tables say the same, from every revision up, on both databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, text

from groundwatch_collector.storage import metadata
from groundwatch_deploy import migrations


def revisions(engine: Engine) -> list[str]:
    """Every revision, oldest first."""
    with engine.connect() as connection:
        scripts = ScriptDirectory.from_config(migrations.configuration(connection))
        return [script.revision for script in scripts.walk_revisions()][::-1]


def differences(engine: Engine) -> list[object]:
    with engine.connect() as connection:
        return list(compare_metadata(MigrationContext.configure(connection), metadata))


def test_the_newest_migration_gives_exactly_the_tables(empty_engine):
    migrations.upgrade(empty_engine)
    assert differences(empty_engine) == []


def test_upgrading_twice_changes_nothing(empty_engine):
    migrations.upgrade(empty_engine)
    migrations.upgrade(empty_engine)
    assert differences(empty_engine) == []


def test_a_database_of_every_earlier_revision_comes_to_this_one(empty_engine):
    """Step by step, so that each revision is once the one that a process stopped at."""
    every = revisions(empty_engine)
    for revision in every:
        migrations.upgrade(empty_engine, revision)
    assert differences(empty_engine) == []
    migrations.upgrade(empty_engine)
    assert len(every) == len(set(every))


def test_there_is_one_newest_revision(empty_engine):
    with empty_engine.connect() as connection:
        assert len(ScriptDirectory.from_config(migrations.configuration(connection)).get_heads()) == 1


def test_a_migration_that_fails_leaves_nothing_half_done(empty_engine):
    """Schema changes are part of the transaction."""
    with pytest.raises(RuntimeError, match="halfway"), empty_engine.begin() as connection:
        command.upgrade(migrations.configuration(connection), revisions(empty_engine)[0])
        raise RuntimeError("halfway")
    migrations.upgrade(empty_engine)
    assert differences(empty_engine) == []


def test_processes_that_start_together_migrate_once(empty_engine):
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(migrations.upgrade, empty_engine) for _ in range(4)]:
            done.result()
    assert differences(empty_engine) == []


def test_a_database_of_a_later_version_is_refused_by_name(empty_engine):
    migrations.upgrade(empty_engine)
    with empty_engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(migrations.NewerSchema, match="revision 9999"):
        migrations.upgrade(empty_engine)
