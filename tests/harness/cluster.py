"""A whole cluster on one machine: two collectors, two scorers, and a console that exports, each a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torture

MEMBERS: Mapping[str, tuple[str, ...]] = {
    "collector-1": ("collector",),
    "collector-2": ("collector",),
    "scorer-1": ("scorer",),
    "scorer-2": ("scorer",),
    "console": ("console", "exporter"),
}


SALT = "5a" * 16
DOORS = ("ingest", "console", "metrics")


class Cluster:
    """Every member has a data directory of its own; topic, database and salt are shared. Use as a context manager."""

    def __init__(self, folder: Path, bootstrap: str, database_url: str) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[str]] = {}
        # A member that is started again listens where it did: what scrapes it and sends to it knows no other place.
        self._ports = {name: [torture.free_port() for _door in DOORS] for name in MEMBERS}
        self.addresses: dict[str, dict[str, str]] = {}
        self.config = folder / "groundwatch.toml"
        self.config.write_text(
            f'[server]\ndatabase_url = "{database_url}"\n'
            f'[kafka]\nbootstrap_servers = "{bootstrap}"\nsession_timeout_seconds = 3.0\nprobe_seconds = 0.1\n'
            "[decide]\ngrace_seconds = 0.3\n[judge]\nlease_seconds = 5.0\n"
        )

    @property
    def metrics(self) -> list[str]:
        """Where Prometheus scrapes each member."""
        return [each["metrics"] for each in self.addresses.values()]

    def start(self, *names: str) -> None:
        """Start these members at the same time; each says where it listens when it does."""
        for name in names:
            self._running[name] = self._process(name)
        for name in names:
            said = _first_line(self._running[name])
            if not said:
                raise RuntimeError(f"{name} did not start: {self._log(name).read_text()[-2000:]}")
            self.addresses[name] = json.loads(said)

    def _process(self, name: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "groundwatch_deploy", "serve", "--json", "--judge-everything"]
        command += ["--config", str(self.config), "--data-dir", str(self._folder / name)]
        for door, port in zip(DOORS, self._ports[name], strict=True):
            command += [f"--{door}-port", str(port)]
        for role in MEMBERS[name]:
            command += ["--role", role]
        secrets = {"GROUNDWATCH_SAMPLING_SALT": SALT, "GROUNDWATCH_CANDIDATE_KEY": "6b" * 16}
        with self._log(name).open("ab") as log:
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=os.environ | secrets)

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def kill(self, name: str) -> None:
        """End member *name* without a word, as a machine that fails."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.communicate()

    def __enter__(self) -> Cluster:
        try:
            self.start(*MEMBERS)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            process.communicate(timeout=30)


def _first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def until(condition: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
    """Wait for a fact of another process. Raises ``AssertionError`` when it does not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen: {what}"
        time.sleep(0.1)
