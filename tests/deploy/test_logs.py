"""What the monitor says on stderr: readable at night, bounded, and nothing of what a user wrote. And SIGHUP."""

from __future__ import annotations

import argparse
import errno
import io
import json
import logging
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest
import torture
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError, OperationalError

from groundwatch_collector.storage import open_engine
from groundwatch_deploy import serve
from groundwatch_deploy.config import ConfigError, ServerConfig
from groundwatch_deploy.logs import MOST_IN_WINDOW, Lines, Sparing

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (DEBUG|INFO|WARNING|ERROR|CRITICAL) +[\w.]+: \S.*")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def said(clock) -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """A logger of the product, and what comes of it."""
    logger, stream = logging.getLogger("groundwatch_collector.pipeline"), io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Lines())
    handler.addFilter(Sparing(clock))
    logger.addHandler(handler)
    yield logger, stream
    logger.removeHandler(handler)


def test_a_line_says_when_how_bad_where_and_what(said):
    logger, stream = said
    logger.warning("trace %s is lost", "4e30")
    assert LINE.fullmatch(stream.getvalue().strip())
    assert stream.getvalue().endswith("Z WARNING collector.pipeline: trace 4e30 is lost\n")


def test_of_an_exception_its_kinds_and_places_are_written_but_not_its_words(said):
    logger, stream = said
    try:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            raise ValueError("invalid literal: 'my account is 4711'") from error
    except ValueError:
        logger.exception("decision step failed (other)")
    written = stream.getvalue()
    assert "4711" not in written
    assert written.index("builtins.OSError: No space left on device") < written.index("builtins.ValueError\n")
    assert re.search(r"at .*test_logs\.py:\d+ in test_of_an_exception", written)


@pytest.mark.service("postgresql")
def test_of_a_row_that_postgresql_refuses_the_constraint_is_written_and_not_the_row(said, postgresql_url):
    logger, stream = said
    engine = open_engine(postgresql_url)
    try:
        with engine.begin() as connection:
            connection.execute(text("CREATE TEMPORARY TABLE kept (answer TEXT CONSTRAINT short CHECK (answer = ''))"))
            connection.execute(text("INSERT INTO kept VALUES (:answer)"), {"answer": "my account is 4711"})
    except IntegrityError as error:
        assert "4711" in str(error.orig)  # so it would have been
        logger.exception("decision step failed (refused)")
    engine.dispose()
    assert "4711" not in stream.getvalue()
    assert "psycopg.errors.CheckViolation: 23514 short\n" in stream.getvalue()


def test_a_flood_of_one_kind_is_cut_and_counted_and_other_kinds_are_not(said, clock):
    logger, stream = said
    for number in range(25):
        logger.error("trace %s is lost", number)
    logger.error("the disk is full")
    assert stream.getvalue().count("\n") == MOST_IN_WINDOW + 1
    clock.now = 60.0
    logger.error("trace %s is lost", "the last")
    assert stream.getvalue().endswith("trace the last is lost (15 more like it were not written)\n")
    logger.error("trace %s is lost", "another")
    assert "another" in stream.getvalue() and stream.getvalue().count("more like it") == 1


def test_a_level_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="found 'verbose', accepted: debug, info, warning, error"):
        ServerConfig(log_level="verbose")


class Served:
    """`groundwatch serve` with a file that a test changes."""

    def __init__(self, folder: Path) -> None:
        self.config, self._said = folder / "groundwatch.toml", folder / "stderr"
        self.ports = [torture.free_port(), torture.free_port()]
        self.write(self.ports[0])
        command = [sys.executable, "-m", "groundwatch_deploy", "serve", "--json", "--config", str(self.config)]
        command += ["--ingest-port", "0", "--console-port", "0", "--data-dir", str(folder / "data")]
        before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup we are deaf to it, and children with us
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, text=True
            )
        signal.signal(signal.SIGHUP, before)

    def write(self, metrics_port: int | str) -> None:
        self.config.write_text(f"[server]\nmetrics_port = {metrics_port}\n")

    def addresses(self) -> dict[str, str]:
        assert self.process.stdout is not None
        found: dict[str, str] = json.loads(self.process.stdout.readline())
        return found

    def said(self, wanted: str) -> str:
        deadline = time.monotonic() + 60
        while wanted not in (found := self._said.read_text()):
            assert time.monotonic() < deadline and self.process.poll() is None, found
            time.sleep(0.05)
        return found

    def starts_anew(self) -> None:
        """Wait until the process is between its old self and its new one: it holds SIGHUP back."""
        status, deadline = Path(f"/proc/{self.process.pid}/status"), time.monotonic() + 60
        while not int(status.read_text().partition("SigBlk:")[2].split()[0], 16) & 1:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_reloading_takes_a_good_file_refuses_a_bad_one_and_an_end_is_told(tmp_path):
    served = Served(tmp_path)
    try:
        assert served.addresses()["metrics"].endswith(f":{served.ports[0]}")
        served.said("deploy.migrations: the database is brought from revision none to ")
        served.write('"many"')
        served.process.send_signal(signal.SIGHUP)
        served.said("the old one stays: [server].metrics_port: expected int, found str")
        served.write(served.ports[1])
        served.process.send_signal(signal.SIGHUP)
        served.starts_anew()
        served.process.send_signal(signal.SIGHUP)  # while nobody listens: not the end of it, and not forgotten
        for _begun in range(2):  # the same process: its stdout goes on
            assert served.addresses()["metrics"].endswith(f":{served.ports[1]}")
        with urllib.request.urlopen(f"http://127.0.0.1:{served.ports[1]}/metrics", timeout=10) as reply:
            assert reply.status == 200
        served.process.terminate()
        assert served.process.wait(30) == 0
    finally:
        served.process.kill()
        served.process.communicate()
    written = (tmp_path / "stderr").read_text()
    lines = [line for line in written.splitlines() if not line.startswith("groundwatch: stopping (SIGTERM)")]
    assert all(LINE.fullmatch(line) for line in lines), written
    assert (
        written.count("serve: started: groundwatch ") == 3 and written.count("; what was acknowledged is kept") == 3
    )


def sent(*numbers: signal.Signals) -> SimpleQueue[int]:
    signals: SimpleQueue[int] = SimpleQueue()
    for number in numbers:
        signals.put(number)
    return signals


def test_a_daemon_without_stdin_reloads_too_and_a_check_that_breaks_ends_nothing(tmp_path, monkeypatch, caplog):
    arguments = argparse.Namespace(config=None, data_dir=tmp_path, ingest_port=None, console_port=None)
    vars(arguments).update(metrics_port=None, role=[], judge_everything=False)
    monkeypatch.setattr(sys, "stdin", None)
    assert serve._until_told(sent(signal.SIGHUP), arguments)
    monkeypatch.setattr(serve, "_check", lambda settings: settings.no_such_thing)
    assert not serve._until_told(sent(signal.SIGHUP, signal.SIGTERM), arguments)
    assert "cannot be checked, the old one stays" in caplog.text


def test_a_stop_that_comes_while_the_process_starts_anew_is_obeyed():
    assert not serve._told_to_stop(sent())
    assert not serve._told_to_stop(sent(signal.SIGHUP))
    assert serve._told_to_stop(sent(signal.SIGHUP, signal.SIGTERM))


def test_each_line_that_the_manual_explains_can_come():
    root = Path(__file__).parents[2]
    part = (
        (root / "docs" / "operating.md")
        .read_text(encoding="utf-8")
        .split("## What the log says")[1]
        .split("\n## ")[0]
    )
    listed = [
        text for row in re.findall(r"^\| (`.*?) \|", part, re.MULTILINE) for text in re.findall("`([^`]+)`", row)
    ]
    sources = [path.read_text(encoding="utf-8") for path in root.glob("[cdrs]*/groundwatch_*/**/*.py")]
    missing = [text for text in listed if not any(text in source for source in sources)]
    assert len(listed) > 10 and missing == []


def test_of_a_failure_deep_in_a_library_our_own_places_and_the_last_one_are_told(said, tmp_path):
    logger, stream = said
    engine = open_engine(f"sqlite:///{tmp_path / 'nowhere' / 'g.db'}")
    try:
        engine.connect()
    except OperationalError:
        logger.exception("decision step failed (database)")
    engine.dispose()
    places = re.findall(r"^ +at (.*):\d+ in", stream.getvalue(), re.MULTILINE)
    assert "unable to open database file" in stream.getvalue()
    assert 2 <= len(places) <= 4 and all("sqlalchemy" in place or "test_logs" in place for place in places)
