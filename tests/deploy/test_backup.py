"""A backup that was taken while the monitor ran, put back after a disaster: the span log brings what came since."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest
import torture
from sqlalchemy import URL, create_engine, func, make_url, select, text

from groundwatch_alerts.estimator import Estimate, estimate
from groundwatch_alerts.tallies import sums
from groundwatch_collector.ledger import report
from groundwatch_collector.storage import open_engine, reader
from groundwatch_collector.tables import sampled_traces
from groundwatch_deploy.cli import main
from groundwatch_deploy.serve import Monitor, judging_everything
from groundwatch_deploy.settings import load
from groundwatch_scorer.judgement import Criterion
from groundwatch_scorer.local_judge import IDENTIFIER

IDS = [f"{number:016x}{number + 99:016x}" for number in range(1, 21)]
WRONG = (b"kept for 30 days [1]", b"kept for 90 days [1]")


def test_an_old_copy_of_the_database_is_brought_up_to_date_from_the_span_log(tmp_path):
    with started(tmp_path / "data") as monitor:
        ingest = monitor.start().ingest
        assert torture.post(ingest, torture.body(IDS[:10]))
        wait_judged(monitor, 10)
        backup(tmp_path / "data" / "groundwatch.db", tmp_path / "copy.db")
        assert torture.post(ingest, torture.body(IDS[10:]).replace(*WRONG))
        wait_judged(monitor, 20)
        before = estimated(monitor)
    remove_database(tmp_path / "data")
    (tmp_path / "copy.db").rename(tmp_path / "data" / "groundwatch.db")
    with started(tmp_path / "data") as monitor:
        with reader(monitor.engine).connect() as connection:  # nothing runs yet: this is the copy
            assert connection.scalar(select(func.count()).select_from(sampled_traces)) == 10
        monitor.start()
        all_are_there(monitor, before)


def test_without_any_copy_the_database_is_built_again_from_the_span_log(tmp_path):
    before = twenty_judged(tmp_path / "data")
    remove_database(tmp_path / "data")
    with started(tmp_path / "data") as monitor:
        monitor.start()
        all_are_there(monitor, before)


def test_without_its_span_log_a_database_goes_on_behind_the_lost_part_and_says_so(tmp_path, caplog):
    before = twenty_judged(tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "spanlog")
    with started(tmp_path / "data") as monitor:
        ingest = monitor.start().ingest
        all_are_there(monitor, before)
        assert torture.post(ingest, torture.body([f"{21:016x}{120:016x}"]))
        wait_judged(monitor, 21)
        account = report(reader(monitor.engine), monitor.log)
    assert (account.received, account.judged, account.adds_up) == (21, 21, True)
    assert "files were lost" in caplog.text


@pytest.mark.service("postgresql")
def test_a_dump_of_postgresql_is_restored_and_what_was_erased_since_goes_again(tmp_path, postgresql_url):
    data, dump = tmp_path / "data", tmp_path / "copy.dump"
    url = make_url(postgresql_url).set(database="restored")
    shown = url.render_as_string(hide_password=False)
    (tmp_path / "groundwatch.toml").write_text(f'[server]\ndatabase_url = "{shown}"\ndata_directory = "{data}"\n')
    create_anew(postgresql_url)
    with started(data, shown) as monitor:
        ingest = monitor.start().ingest
        assert torture.post(ingest, torture.body(IDS[:10]))
        wait_judged(monitor, 10)
        of_postgresql("pg_dump", "--format=custom", f"--file={dump}", url)
        assert main(["erase", "--trace", IDS[0], "--config", str(tmp_path / "groundwatch.toml")]) == 0
        assert torture.post(ingest, torture.body(IDS[10:]).replace(*WRONG))
        wait_judged(monitor, 20)
        before = estimated(monitor)
    create_anew(postgresql_url)
    of_postgresql("pg_restore", "--exit-on-error", "--dbname=restored", url, str(dump))
    assert "30 days" in text_of(shown, IDS[0])  # the copy brought it back
    assert main(["erase", "--again", "--config", str(tmp_path / "groundwatch.toml")]) == 0
    with started(data, shown) as monitor:
        monitor.start()
        all_are_there(monitor, before)
    assert "30 days" not in text_of(shown, IDS[0]) and "30 days" in text_of(shown, IDS[1])


def test_a_database_of_the_first_revision_with_its_rows_is_upgraded_and_goes_on(tmp_path):
    """Written by the program of that time: six judged traces, three of them wrong, a complaint about one."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / "sampling.salt").write_text("11" * 32)
    (data / "sampling.salt").chmod(0o600)
    with closing(sqlite3.connect(data / "groundwatch.db")) as connection:
        connection.executescript((Path(__file__).parent / "data" / "revision_0001.sql").read_text())
    with started(data) as monitor:
        ingest = monitor.start().ingest
        assert torture.post(ingest, torture.body(IDS[10:]).replace(*WRONG))
        wait_judged(monitor, 16)
        account = report(reader(monitor.engine), monitor.log)
        assert (account.received, account.judged, account.adds_up, dict(account.lost)) == (16, 16, True, {})
        assert estimated(monitor).rate == pytest.approx(13 / 16)


def twenty_judged(folder: Path) -> Estimate:
    """A data directory with ten right and ten wrong answers, and what is estimated of them."""
    with started(folder) as monitor:
        ingest = monitor.start().ingest
        assert torture.post(ingest, torture.body(IDS[:10]))
        assert torture.post(ingest, torture.body(IDS[10:]).replace(*WRONG))
        wait_judged(monitor, 20)
        return estimated(monitor)


def all_are_there(monitor: Monitor, before: Estimate) -> None:
    wait_judged(monitor, 20)
    account = report(reader(monitor.engine), monitor.log)
    assert (account.received, account.judged, account.adds_up, dict(account.lost)) == (20, 20, True, {})
    assert estimated(monitor) == before and before.rate == 0.5


def remove_database(folder: Path) -> None:
    for left in folder.glob("groundwatch.db*"):
        left.unlink()


def create_anew(server: str) -> None:
    """The database "restored", empty."""
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("DROP DATABASE IF EXISTS restored WITH (FORCE)"))
        connection.execute(text("CREATE DATABASE restored"))
    engine.dispose()


def of_postgresql(program: str, *arguments: str | URL) -> None:
    """Run a program of PostgreSQL that speaks to the server of the URL among *arguments*."""
    (url,) = [one for one in arguments if isinstance(one, URL)]
    where = {"PGHOST": url.host, "PGPORT": str(url.port), "PGUSER": url.username, "PGDATABASE": url.database}
    folder = next(path.parent for path in sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}")))
    subprocess.run(
        [str(folder / program), *(one for one in arguments if isinstance(one, str))],
        env=os.environ | {name: value or "" for name, value in where.items()},
        check=True,
    )


def text_of(url: str, trace_id: str) -> str:
    engine = open_engine(url)
    with engine.connect() as connection:
        payload = connection.scalar(select(sampled_traces.c.payload).where(sampled_traces.c.trace_id == trace_id))
    engine.dispose()
    return payload or ""


def started(folder: Path, database_url: str = "") -> Monitor:
    settings = load(
        None, data_directory=folder, database_url=database_url, ingest_port=0, console_port=0, metrics_port=0
    )
    return Monitor(judging_everything(settings))


def backup(source: Path, target: Path) -> None:
    """What `sqlite3 groundwatch.db ".backup copy.db"` does."""
    with sqlite3.connect(source) as old, sqlite3.connect(target) as new:
        old.backup(new)
    old.close()
    new.close()


def wait_judged(monitor: Monitor, count: int) -> None:
    deadline = time.monotonic() + 60
    query = select(func.count()).select_from(sampled_traces).where(sampled_traces.c.state == "judged")
    while True:
        with reader(monitor.engine).connect() as connection:
            judged = connection.scalar(query)
        if judged == count:
            return
        assert time.monotonic() < deadline, judged
        time.sleep(0.1)


def estimated(monitor: Monitor) -> Estimate:
    found = estimate(sums(monitor.engine, app="torture", criterion=Criterion.ANY_FAILURE, judge=IDENTIFIER))
    assert found is not None
    return found
