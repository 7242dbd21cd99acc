"""A full disk and a database that is away: nothing acknowledged is lost, memory is bounded, no restart is needed."""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import torture
from kafka_outage import memory_mb
from sqlalchemy import func, make_url
from sqlalchemy import select as query

from groundwatch_collector.ledger import report
from groundwatch_collector.storage import reader
from groundwatch_collector.tables import ledger
from groundwatch_deploy.serve import Monitor
from groundwatch_deploy.settings import load

SECONDS = 60.0
BATCH = 500  # traces


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MB of its own, so that the kernel says ENOSPC and nothing else is harmed."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("a file system can be mounted by root only; run this test as root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(path: Path) -> None:
    """Write until the kernel has no more room."""
    with path.open("wb", buffering=0) as file:
        for size in (65_536, 4_096, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * size)


def open_monitor(folder: Path, database_url: str = "") -> Monitor:
    settings = load(None, data_directory=folder, ingest_port=0, console_port=0, metrics_port=0)
    server = replace(settings.server, database_url=database_url)
    decide = replace(settings.decide, grace_seconds=0.05)
    return Monitor(replace(settings, server=server, decide=decide))


class Sender:
    def __init__(self, url: str) -> None:
        self._url = url
        self._sent = 0
        self.acknowledged: set[str] = set()

    def send(self) -> int:
        """One batch; the status of the answer."""
        ids = [f"{1_000 + self._sent:016x}{number:016x}" for number in range(1, BATCH + 1)]
        self._sent += 1
        headers = {"content-type": "application/x-protobuf"}
        status = httpx.post(
            f"{self._url}/v1/traces", content=torture.body(ids), headers=headers, timeout=30
        ).status_code
        if status == 200:
            self.acknowledged.update(ids)
        return status

    def until(self, wanted: int) -> None:
        deadline = time.monotonic() + SECONDS
        while self.send() != wanted:
            assert time.monotonic() < deadline, f"no answer {wanted}"
            time.sleep(0.1)


def decided(monitor: Monitor) -> int:
    with reader(monitor.engine).connect() as connection:
        return int(connection.scalar(query(func.count()).select_from(ledger)) or 0)


def everything_is_decided(monitor: Monitor, sender: Sender) -> None:
    """Thousands of traces are decided in one transaction. The account reads the whole log, so it comes last."""
    deadline = time.monotonic() + 5 * SECONDS  # a busy machine takes its time
    while decided(monitor) < len(sender.acknowledged):
        assert time.monotonic() < deadline, (decided(monitor), len(sender.acknowledged))
        time.sleep(0.2)
    while (account := report(reader(monitor.engine), monitor.log)).undecided:
        assert time.monotonic() < deadline, account
        time.sleep(0.2)
    assert account.received >= len(sender.acknowledged)
    assert account.adds_up, account
    assert not account.lost
    assert account.ledger_traffic >= len(sender.acknowledged)


def test_a_full_disk_refuses_and_heals_without_a_restart(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with open_monitor(small_disk / "data") as monitor:
        sender = Sender(monitor.start().ingest)
        sender.until(200)
        fill(ballast)
        with pytest.raises(OSError, match="No space") as caught:
            (small_disk / "one more").write_bytes(b"x" * 65_536)
        assert caught.value.errno == errno.ENOSPC
        sender.until(503)
        before = len(sender.acknowledged)
        assert [sender.send() for _ in range(5)] == [503] * 5
        assert len(sender.acknowledged) == before
        (small_disk / "one more").unlink()
        ballast.unlink()
        sender.until(200)
        everything_is_decided(monitor, sender)


class Cable:
    """A loopback port that leads to another one, and can be cut."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._cut = threading.Event()
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._cut.set()

    def mend(self) -> None:
        self._cut.clear()

    def close(self) -> None:
        self._closed = True
        self._cut.set()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while not self._closed:
                caller, _ = self._listener.accept()
                if self._cut.is_set():
                    caller.close()
                    continue
                threading.Thread(target=self._carry, args=(caller,), daemon=True).start()

    def _carry(self, caller: socket.socket) -> None:
        with caller, socket.create_connection(self._target) as far, contextlib.suppress(OSError):
            other = {caller: far, far: caller}
            while not self._cut.is_set():
                ready, _, _ = select.select([caller, far], [], [], 0.05)
                for one in ready:
                    if not (data := one.recv(65_536)):
                        return
                    other[one].sendall(data)


@pytest.fixture
def cable(postgresql_url: str) -> Iterator[Cable]:
    url = make_url(postgresql_url)
    made = Cable(url.host or "", url.port or 0)
    yield made
    made.close()


@pytest.mark.timeout(900)
@pytest.mark.service("postgresql")
@pytest.mark.parametrize("new_database", ["postgresql"], indirect=True)
def test_a_database_that_is_away_is_waited_for(
    new_database, cable: Cable, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    url = make_url(new_database("outage")).set(port=cable.port, host="127.0.0.1")
    with open_monitor(tmp_path / "data", url.render_as_string(hide_password=False)) as monitor:
        sender = Sender(monitor.start().ingest)
        sender.until(200)
        everything_is_decided(monitor, sender)
        cable.cut()
        sender.until(200)
        memory = memory_mb()
        statuses = [sender.send() for _ in range(40)]  # the span log is on this disk, so traces are still taken
        assert statuses == [200] * 40
        # 20,000 traces lie on the disk; in memory there is one batch of records, and what is handed over.
        assert memory_mb() - memory < 100
        assert failures(monitor) > 0
        assert "succeed again" not in caplog.text
        cable.mend()
        everything_is_decided(monitor, sender)
    said = [record.getMessage() for record in caplog.records]  # an outage is told once, and so is its end
    assert [line for line in said if line.startswith("decision step")] == [
        "decision step failed (database: OperationalError); trying again",
        "decision steps succeed again",
    ]


def failures(monitor: Monitor) -> float:
    return monitor.registry.get_sample_value("groundwatch_pipeline_failures_total", {"kind": "database"}) or 0.0
