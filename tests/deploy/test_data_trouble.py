"""A data directory that cannot be used: one clear line and exit 1, never a traceback."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from groundwatch_collector.spanlog import SpanLog
from groundwatch_deploy.cli import Failed, main
from groundwatch_deploy.config import ServerConfig
from groundwatch_deploy.data_trouble import explained
from groundwatch_deploy.serve import Monitor
from groundwatch_deploy.settings import load

ANY_PORT = ("--ingest-port", "0", "--console-port", "0", "--metrics-port", "0")


def serve(folder, capsys) -> tuple[int, str]:
    code = main(["serve", "--data-dir", str(folder), *ANY_PORT])
    return code, capsys.readouterr().err


def test_a_damaged_database_is_named_with_what_to_do(tmp_path, capsys):
    (tmp_path / "groundwatch.db").write_bytes(b"garbage" * 1000)
    code, said = serve(tmp_path, capsys)
    assert code == 1
    assert "groundwatch.db: file is not a database; it is damaged; move it away" in said
    with SpanLog(tmp_path / "spanlog"):
        pass  # it was given back
    assert main(["ledger", "--data-dir", str(tmp_path)]) == 1
    assert "file is not a database" in capsys.readouterr().err


def test_a_span_log_of_another_format_is_named(tmp_path, capsys):
    with SpanLog(tmp_path / "spanlog"):
        pass
    (tmp_path / "spanlog" / f"{0:020d}.log").write_bytes(b"GWLOG009" + bytes(8))
    code, said = serve(tmp_path, capsys)
    assert code == 1
    assert "spanlog: 00000000000000000000.log: format b'009' found, this version reads b'001'" in said


def test_a_data_directory_that_is_a_file_is_named(tmp_path, capsys):
    (tmp_path / "data").write_text("")
    code, said = serve(tmp_path / "data", capsys)
    assert (code, said) == (1, f"groundwatch: {tmp_path / 'data'}: File exists\n")


@pytest.mark.parametrize("command", ["estimate", "compare", "export", "erase", "user", "audit", "evaluations"])
def test_a_database_that_does_not_answer_is_one_line_for_every_command(tmp_path, capsys, command):
    config = tmp_path / "groundwatch.toml"
    config.write_text('[server]\ndatabase_url = "postgresql+psycopg://app:hunter2@127.0.0.1:1/g"\n')
    more = {
        "export": [str(tmp_path / "set.jsonl")],
        "erase": ["--trace", "0" * 32],
        "user": ["list"],
        "audit": ["list"],
        "evaluations": ["--endpoint", "http://127.0.0.1:1"],
    }
    place = ["--config", str(config), "--data-dir", str(tmp_path)]
    assert main([command, *more.get(command, []), *place]) == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert "database" in said and "Connection refused" in said and "hunter2" not in said


def test_a_database_password_is_not_said():
    server = ServerConfig(database_url="postgresql+psycopg://app:hunter2@db/g")
    with pytest.raises(Failed) as raised, explained(server):
        raise OperationalError("SELECT 1", {}, Exception("connection refused"))
    assert str(raised.value) == "database postgresql+psycopg://app:***@db/g: connection refused"


def test_the_ledger_of_a_lost_database_makes_no_empty_one(tmp_path, capsys):
    with SpanLog(tmp_path / "spanlog"):
        pass
    assert main(["ledger", "--data-dir", str(tmp_path)]) == 2
    assert "no database here; `groundwatch serve` builds it again" in capsys.readouterr().err
    assert not (tmp_path / "groundwatch.db").exists()


def test_a_locked_database_does_not_hold_up_a_stop(tmp_path, caplog):
    settings = load(None, data_directory=tmp_path, ingest_port=0, console_port=0, metrics_port=0)
    monitor = Monitor(settings)
    waits = threading.Event()

    def tell(*_arguments: object) -> None:
        if threading.current_thread().name == "groundwatch-scorer":
            waits.set()  # what it does next with its connection waits for the lock

    event.listen(monitor.engine, "checkout", tell)
    with closing(sqlite3.connect(tmp_path / "groundwatch.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        monitor.start()
        assert waits.wait(10)
        began = time.monotonic()
        monitor.stop(seconds=0.5)
        assert time.monotonic() - began < 5  # the scorer would wait 30 seconds for the lock
        other.execute("ROLLBACK")
    (said,) = [record.getMessage() for record in caplog.records if "stopped without waiting" in record.getMessage()]
    assert "groundwatch-scorer" in said  # the pipeline may be late as well
