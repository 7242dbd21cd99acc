"""The audit trail: what is written cannot be changed unseen, on both databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, func, insert, select, text
from sqlalchemy.exc import DatabaseError

from groundwatch_collector.storage import reader
from groundwatch_deploy import migrations
from groundwatch_review import audit
from groundwatch_review.audit import Action, AuditLog
from groundwatch_review.tables import APPEND_ONLY, audit_log

NOW = 1_790_000_000.123456
KEY = b"a" * 32
TRACE = "0" * 31 + "7"


@pytest.fixture
def trail(engine: Engine) -> AuditLog:
    """Five entries a second apart."""
    moments = iter(range(1, 1_000))
    log = AuditLog(engine, KEY, lambda: NOW + next(moments))
    write_five(log)
    return log


def write_five(log: AuditLog) -> None:
    log.append("local", Action.RAW_VIEW, TRACE)
    log.append("local", Action.VERDICT, TRACE)
    log.append("rv_0123456789abcdef", Action.EXPORT, detail="17 written")
    log.append("command", Action.ERASURE, detail="3 traces")
    log.append("rv_0123456789abcdef", Action.LOGOUT)


def start_again(engine: Engine, log: AuditLog) -> None:
    unguarded(engine, "DELETE FROM audit_log")
    write_five(log)
    assert audit.verify(engine, KEY).broken is None


def unguarded(engine: Engine, *statements: str) -> None:
    """Change the table as somebody would who owns the database: the triggers are no wall against them."""
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("ALTER TABLE audit_log DISABLE TRIGGER ALL"))
        else:
            for name in ("audit_log_no_update", "audit_log_no_delete"):
                connection.execute(text(f"DROP TRIGGER IF EXISTS {name}"))
        for statement in statements:
            connection.execute(text(statement))


def test_a_chain_that_nobody_touched_is_whole(engine, trail):
    found = audit.verify(engine, KEY)
    assert (found.entries, found.broken) == (5, None)
    with reader(engine).connect() as connection:
        assert found.head == audit.newest(connection, limit=1)[0].digest


def test_an_empty_chain_is_whole(engine):
    assert audit.verify(engine, KEY) == audit.Verified(0, "0" * 64)


def test_a_changed_field_is_found_at_its_entry(engine, trail):
    for column in ("at", "actor", "action", "about", "detail", "previous", "digest"):
        unguarded(
            engine, f"UPDATE audit_log SET {column} = {'at + 1' if column == 'at' else repr('x')} WHERE seq = 3"
        )
        found = audit.verify(engine, KEY)
        assert (found.entries, found.broken) == (2, 3), column
        assert found.why
        start_again(engine, trail)


TAMPERED = (
    ("DELETE FROM audit_log WHERE seq = 2", 2),
    ("DELETE FROM audit_log WHERE seq = 1", 1),
    ("UPDATE audit_log SET seq = 9 WHERE seq = 5", 5),
    ("INSERT INTO audit_log SELECT 6, at, actor, action, about, detail, digest, 'x' FROM audit_log WHERE seq = 5", 6),
)


def test_a_removed_moved_or_invented_entry_is_found(engine, trail):
    for change, broken in TAMPERED:
        unguarded(engine, change)
        assert audit.verify(engine, KEY).broken == broken, change
        start_again(engine, trail)


def test_true_entries_put_behind_another_one_are_found(engine, trail):
    """Each of them is genuine: only that they do not follow each other gives it away."""
    with engine.connect() as connection:
        kept = [dict(row._mapping) for row in connection.execute(select(audit_log).where(audit_log.c.seq > 3))]
    unguarded(engine, "DELETE FROM audit_log WHERE seq > 2")
    trail.append("local", Action.RAW_VIEW, TRACE)
    with engine.begin() as connection:
        connection.execute(insert(audit_log), kept)
    found = audit.verify(engine, KEY)
    assert (found.broken, found.why) == (4, "it does not follow the entry before it")


def test_a_cut_end_is_found_by_whoever_noted_an_entry(engine, trail):
    noted = audit.verify(engine, KEY)
    unguarded(engine, "DELETE FROM audit_log WHERE seq > 3")
    assert audit.verify(engine, KEY).broken is None  # a chain alone cannot know
    found = audit.verify(engine, KEY, noted=(noted.entries, noted.head))
    assert found.broken == 4
    assert "cut off" in found.why


def test_a_whole_chain_written_anew_is_another_than_the_one_noted(engine, trail):
    noted = audit.verify(engine, KEY)
    unguarded(engine, "DELETE FROM audit_log")
    for _number in range(6):
        trail.append("local", Action.RAW_VIEW, TRACE)
    assert audit.verify(engine, KEY).broken is None
    assert audit.verify(engine, KEY, noted=(noted.entries, noted.head)).broken == 5


def test_without_the_key_no_chain_can_be_made(engine, trail):
    assert audit.verify(engine, b"b" * 32).broken == 1


@pytest.mark.parametrize("change", ["UPDATE audit_log SET detail = ''", "DELETE FROM audit_log"])
@pytest.mark.parametrize("made_by", ["tables", "migrations"])
def test_the_database_itself_refuses_changes(empty_engine, change, made_by):
    if made_by == "tables":
        audit_log.metadata.create_all(empty_engine)
    else:
        migrations.upgrade(empty_engine)
    AuditLog(empty_engine, KEY, lambda: NOW).append("local", Action.RAW_VIEW, TRACE)
    with pytest.raises(DatabaseError, match="append-only"), empty_engine.begin() as connection:
        connection.execute(text(change))
    assert audit.verify(empty_engine, KEY).entries == 1


def test_every_database_has_its_wall():
    assert set(APPEND_ONLY) == {"sqlite", "postgresql"}


def test_entries_written_at_once_make_one_chain(engine):
    log = AuditLog(engine, KEY, lambda: NOW)
    with ThreadPoolExecutor(6) as pool:
        numbers = list(pool.map(lambda n: log.append("local", Action.RAW_VIEW, f"{n:032x}"), range(30)))
    assert sorted(numbers) == list(range(1, 31))
    assert audit.verify(engine, KEY).entries == 30


def test_an_entry_names_neither_trace_nor_person(engine, trail):
    with engine.connect() as connection:
        rows = connection.execute(select(audit_log)).all()
        assert TRACE not in str(rows)
        assert audit.newest(connection, about=trail.name(TRACE))[0].seq == 2  # yet whoever has the key finds them
        assert connection.scalar(select(func.count()).where(audit_log.c.about == trail.name(TRACE))) == 2
    assert trail.name(TRACE) != AuditLog(engine, b"b" * 32, lambda: NOW).name(TRACE)
