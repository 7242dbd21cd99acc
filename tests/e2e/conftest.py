"""Real peers for the whole monitor, each on a free loopback port."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@pytest.fixture
def prometheus(tmp_path) -> Iterator[object]:
    """Call with a target `host:port` and rule files; returns the base URL of a real Prometheus scraping it."""
    running: list[subprocess.Popen[bytes]] = []

    def start(target: str, rules: tuple[Path, ...] = (), scrape: str = "500ms") -> str:
        port = free_port()
        config = tmp_path / "prometheus.yml"
        listed = "".join(f"  - {path}\n" for path in rules)
        config.write_text(
            f"global: {{scrape_interval: {scrape}, scrape_timeout: {scrape}, evaluation_interval: 500ms}}\n"
            + (f"rule_files:\n{listed}" if rules else "")
            + f"scrape_configs:\n- job_name: groundwatch\n  static_configs: [{{targets: ['{target}']}}]\n"
        )
        command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}"]
        command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
        command += ["--enable-feature=exemplar-storage"]
        with (tmp_path / "prometheus.log").open("wb") as log:
            running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log))
        wait_for(f"http://127.0.0.1:{port}/-/ready")
        return f"http://127.0.0.1:{port}"

    yield start
    for process in running:
        process.terminate()
        process.wait(10)
