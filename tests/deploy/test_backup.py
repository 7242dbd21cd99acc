"""A backup that was taken while the monitor ran, put back after a disaster: the span log brings what came since."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import torture
from sqlalchemy import func, select

from groundwatch_alerts.estimator import Estimate, estimate
from groundwatch_alerts.tallies import sums
from groundwatch_collector.ledger import report
from groundwatch_collector.storage import reader
from groundwatch_collector.tables import sampled_traces
from groundwatch_deploy.serve import Monitor, judging_everything
from groundwatch_deploy.settings import load
from groundwatch_scorer.judgement import Criterion
from groundwatch_scorer.local_judge import IDENTIFIER


def test_an_old_copy_of_the_database_is_brought_up_to_date_from_the_span_log(tmp_path):
    ids = [f"{number:016x}{number + 99:016x}" for number in range(1, 21)]
    with started(tmp_path / "data") as monitor:
        ingest = monitor.start().ingest
        assert torture.post(ingest, torture.body(ids[:10]))
        wait_judged(monitor, 10)
        backup(tmp_path / "data" / "groundwatch.db", tmp_path / "copy.db")
        wrong = torture.body(ids[10:]).replace(b"kept for 30 days [1]", b"kept for 90 days [1]")
        assert torture.post(ingest, wrong)
        wait_judged(monitor, 20)
        before = estimated(monitor)
    for left in (tmp_path / "data").glob("groundwatch.db*"):
        left.unlink()
    (tmp_path / "copy.db").rename(tmp_path / "data" / "groundwatch.db")
    with started(tmp_path / "data") as monitor:
        with reader(monitor.engine).connect() as connection:  # nothing runs yet: this is the copy
            assert connection.scalar(select(func.count()).select_from(sampled_traces)) == 10
        monitor.start()
        wait_judged(monitor, 20)
        account = report(reader(monitor.engine), monitor.log)
        assert (account.received, account.judged, account.adds_up, dict(account.lost)) == (20, 20, True, {})
        assert estimated(monitor) == before and before.rate == 0.5


def started(folder: Path) -> Monitor:
    settings = load(None, data_directory=folder, ingest_port=0, console_port=0, metrics_port=0)
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
