"""From one process with SQLite to the database of a cluster: every row arrives, no figure moves, nothing clashes."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torture
from sqlalchemy import Engine, Table, func, insert, select

from groundwatch_alerts.estimator import estimate
from groundwatch_alerts.tallies import sums
from groundwatch_collector import feedback_votes
from groundwatch_collector.feedback_bursts import Bursts
from groundwatch_collector.feedback_policy import FeedbackPolicy
from groundwatch_collector.ragtrace import Feedback
from groundwatch_collector.spanlog import SpanLog
from groundwatch_collector.storage import open_engine, reader
from groundwatch_collector.tables import dead_letters, feedback, ledger, sampled_traces
from groundwatch_deploy.cli import FAILED, MISUSED, main
from groundwatch_deploy.migrations import TABLES, metadata, upgrade
from groundwatch_deploy.serve import Monitor, judging_everything
from groundwatch_deploy.settings import load
from groundwatch_scorer.judgement import Criterion
from groundwatch_scorer.local_judge import IDENTIFIER
from groundwatch_scorer.tables import judgements

assert TABLES  # importing them fills the metadata
LEFT = {"positions", "partition_positions", "novelty_state"}  # the old log's own
CHANGED = {"first_position", "last_position", "position", "state", "lease_until"}


@pytest.fixture(scope="module")
def old(tmp_path_factory) -> Path:
    """The data directory of a process that was stopped: traffic that it judged, and a row in every other table."""
    folder = tmp_path_factory.mktemp("old") / "data"
    settings = load(None, data_directory=folder, ingest_port=0, console_port=0, metrics_port=0)
    with Monitor(judging_everything(settings)) as monitor:
        addresses = monitor.start()
        bad = torture.body([f"{n:016x}{n + 99:016x}" for n in range(1, 4)]).replace(
            b"kept for 30 days [1]", b"kept for 90 days [1]"
        )
        for batch in (bad, torture.body([f"{n:016x}{n + 99:016x}" for n in range(4, 13)])):
            assert torture.post(addresses.ingest, batch)
        _until(lambda: _states(monitor.engine) == {"judged": 12})
    engine = open_engine(settings.server.url)  # the monitor is gone: what it would do with such rows is not meant
    with engine.begin() as connection:
        for number, table in enumerate(metadata.sorted_tables, 1):
            if not connection.execute(select(func.count()).select_from(table)).scalar():
                connection.execute(insert(table), _row(table, number))
        connection.execute(insert(sampled_traces), _row(sampled_traces, 99) | {"state": "leased"})
        connection.execute(insert(ledger), _row(ledger, 99) | {"verdict": "sampled"})
    engine.dispose()
    return folder


def _row(table: Table, number: int) -> dict[str, Any]:
    """Something in every column."""
    of: dict[type, Any] = {str: f"{number:032x}", bytes: b"\x01", bool: True}
    values = {}
    for column in table.columns:
        kind = column.type.python_type
        length = getattr(column.type, "length", None)
        values[column.name] = of[kind][:length] if kind is str else of.get(kind, number)
    return values


def _until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _states(engine: Engine) -> dict[str, int]:
    with reader(engine).connect() as connection:
        query = select(sampled_traces.c.state, func.count()).group_by(sampled_traces.c.state)
        return {row[0]: row[1] for row in connection.execute(query)}


def _rows(engine: Engine, table: Table, without: set[str]) -> list[tuple[Any, ...]]:
    columns = [column for column in table.columns if column.name not in without]
    with reader(engine).connect() as connection:
        return sorted(connection.execute(select(*columns)).all(), key=repr)


def _new(folder: Path, url: str, kafka: bool = True) -> str:
    path = folder / "new.toml"
    topic = '[kafka]\nbootstrap_servers = "127.0.0.1:9"\n' if kafka else ""
    path.write_text(f'[server]\ndatabase_url = "{url}"\n{topic}')
    return str(path)


def _move(old: Path, config: str) -> int:
    return main(["move", "--data-dir", str(old), "--config", config])


def test_every_row_arrives_and_the_estimate_is_the_same(old, database_url, tmp_path, capsys):
    assert _move(old, _new(tmp_path, database_url)) == 0
    assert "ledger                              13" in capsys.readouterr().out
    before, after = open_engine(f"sqlite:///{old / 'groundwatch.db'}"), open_engine(database_url)
    for table in metadata.sorted_tables:
        expected = [] if table.name in LEFT else _rows(before, table, CHANGED)
        assert _rows(after, table, CHANGED) == expected, table.name
        assert expected or table.name in LEFT
    estimates = [
        estimate(sums(engine, app="torture", criterion=Criterion.ANY_FAILURE, judge=IDENTIFIER))
        for engine in (before, after)
    ]
    assert estimates[0] == estimates[1]
    assert estimates[1] is not None and (estimates[1].judged, estimates[1].rate) == (12, 0.25)
    assert _states(after)["waiting"] >= 1 and "leased" not in _states(after)  # what was claimed is judged by others
    _numbers_go_on(after)
    _positions_are_before_every_record(after)
    for engine in (before, after):
        engine.dispose()


def _numbers_go_on(engine: Engine) -> None:
    row = _row(judgements, 1)
    del row["id"]
    with engine.begin() as connection:
        highest = connection.execute(select(func.max(judgements.c.id))).scalar_one()
        (number,) = connection.execute(insert(judgements).returning(judgements.c.id), row).one()
    assert number > highest


def _positions_are_before_every_record(engine: Engine) -> None:
    """A person who changes a vote in the new log is heard, though its first records have lower numbers."""
    with reader(engine).connect() as connection:
        assert set(connection.scalars(select(dead_letters.c.position))) == {None}
        assert set(connection.execute(select(ledger.c.first_position, ledger.c.last_position))) == {(0, -1)}
        stored = connection.execute(select(feedback)).mappings().one()
        names = [column.name for column in feedback.columns if column.name not in ("position", "quarantined")]
        again = Feedback(**{name.replace("feedback_id", "id"): stored[name] for name in names})
        other = replace(again, id="another", label="up")
        votes = feedback_votes.weigh(
            [(0, other)], feedback_votes.known(connection, [(0, other)]), Bursts(FeedbackPolicy()), lambda _: "app"
        )
    assert [vote.change for vote in votes] == ["replaced"]


def test_with_the_log_still_on_this_disk_its_positions_stay(old, new_database, tmp_path):
    url = new_database("same_log")
    assert _move(old, _new(tmp_path, url, kafka=False)) == 0
    before, after = open_engine(f"sqlite:///{old / 'groundwatch.db'}"), open_engine(url)
    for table in metadata.sorted_tables:
        assert _rows(after, table, {"state"}) or table.name == "sampled_traces", table.name
        assert _rows(after, table, {"state", "lease_until"}) == _rows(before, table, {"state", "lease_until"})
    for engine in (before, after):
        engine.dispose()


def test_what_cannot_be_moved_is_said(old, tmp_path, capsys, monkeypatch):
    url = f"sqlite:///{tmp_path / 'new.db'}"
    config = _new(tmp_path, url)

    def said(code: int, folder: Path = old, file: str = config) -> str:
        assert _move(folder, file) == code
        return capsys.readouterr().err

    assert "no database and span log here" in said(MISUSED, tmp_path)
    assert "[server] database_url: not set" in said(MISUSED, old, _new(tmp_path / "..", ""))
    monkeypatch.setenv("GROUNDWATCH_CANDIDATE_KEY", "ab" * 32)
    assert "GROUNDWATCH_CANDIDATE_KEY: not the key in" in said(MISUSED)
    monkeypatch.delenv("GROUNDWATCH_CANDIDATE_KEY")
    with SpanLog(old / "spanlog"):
        assert "a process is running on it" in said(FAILED)
    assert main(["move", "--data-dir", str(old), "--config", config]) == 0
    assert "the new database is not empty (table" in said(FAILED)


def test_an_undecided_trace_stays_until_it_is_decided(tmp_path, capsys):
    folder = tmp_path / "data"
    with SpanLog(folder / "spanlog") as log:
        log.append("otlp_protobuf", torture.body(["ab" * 16])).result(10)
    engine = open_engine(f"sqlite:///{folder / 'groundwatch.db'}")
    upgrade(engine)
    engine.dispose()
    assert _move(folder, _new(tmp_path, f"sqlite:///{tmp_path / 'new.db'}")) == FAILED
    assert "1 traces in the span log are not decided yet" in capsys.readouterr().err
