"""A newcomer's way through the four quickstarts: every command of the pages, in their order, in one empty folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torture
from sqlalchemy import select

from groundwatch_collector.storage import open_engine
from groundwatch_collector.tables import sampled_traces
from groundwatch_deploy.config import load_secrets
from groundwatch_review import candidates, desk
from groundwatch_review.candidates import CandidatePolicy
from groundwatch_scorer.tables import judgements

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("rag", "oncall", "grafana", "dataset")
PORTS = ("4318", "4390", "4391", "9090")
REVIEWER = "rv_0123456789abcdef"


@dataclass(frozen=True)
class Block:
    language: str
    title: str
    text: str


def blocks(page: str) -> list[Block]:
    found = re.findall(
        r'```(\w+)(?: title="([^"]*)")?\n(.*?)```', (DOCS / page).read_text(encoding="utf-8"), re.DOTALL
    )
    return [Block(*parts) for parts in found]


@pytest.mark.parametrize("name", PAGES)
def test_both_languages_show_the_same_files_and_commands(name):
    assert blocks(f"quickstart-{name}.md") == blocks(f"quickstart-{name}.zh.md") != []


class Newcomer:
    """Does what a page says. Ports are other ones, so that two test runs do not meet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ports = {port: str(torture.free_port()) for port in PORTS}
        self._running: list[subprocess.Popen[bytes]] = []
        programs = Path(sys.executable).parent
        self._environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    def follow(self, page: str) -> None:
        for block in blocks(page):
            text = re.sub("|".join(PORTS), lambda found: self._ports[found[0]], block.text)
            if block.language != "sh":
                (self.folder / block.title).write_text(text)
            elif block.title == "leave this running":
                self._leave_running(text)
            elif block.title.startswith("repeat until: "):
                self._repeat(text, block.title.removeprefix("repeat until: "))
            else:
                self._run(block, text)

    def _run(self, block: Block, text: str) -> None:
        if block.title == "after a person has confirmed":
            confirm(self.folder / "groundwatch-data")
        done = self._shell(text)
        assert done.returncode == 0 or block.title == "may say that something is wrong", done.stdout + done.stderr
        assert "Traceback" not in done.stderr

    def _repeat(self, text: str, wanted: str) -> None:
        deadline = time.monotonic() + 90
        pattern = re.compile(r"\s+".join(wanted.split()))
        while not pattern.search((done := self._shell(text)).stdout):
            assert time.monotonic() < deadline, done.stdout + done.stderr
            time.sleep(0.5)

    def _shell(self, text: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "-euo", "pipefail", "-c", text]
        return subprocess.run(
            command, cwd=self.folder, env=self._environment, capture_output=True, text=True, timeout=120, check=False
        )

    def _leave_running(self, text: str) -> None:
        if text.startswith("groundwatch serve"):
            doors = zip(("ingest", "console", "metrics"), PORTS, strict=False)
            text = f"{text.strip()} {' '.join(f'--{door}-port {self._ports[port]}' for door, port in doors)}"
        log = self.folder / f"{text.split()[0]}.log"
        with log.open("wb") as out:
            command = ["bash", "-c", f"exec {text.strip()}"]
            process = subprocess.Popen(command, cwd=self.folder, env=self._environment, stdout=out, stderr=out)
        self._running.append(process)
        deadline = time.monotonic() + 60
        while not re.search("is running|ready to receive web requests", log.read_text()):
            assert time.monotonic() < deadline and process.poll() is None, log.read_text()
            time.sleep(0.1)

    def stop(self) -> None:
        for process in self._running:
            process.terminate()
            process.wait(30)


@pytest.fixture
def newcomer(tmp_path) -> Iterator[Newcomer]:
    made = Newcomer(tmp_path)
    yield made
    made.stop()


def confirm(data: Path) -> None:
    """What the page asks of a person at the console, without a browser."""
    engine = open_engine(f"sqlite:///{data / 'groundwatch.db'}")
    failed = judgements.c.label == "fail", judgements.c.criterion == "any_failure"
    with engine.connect() as connection:
        (trace_id,) = connection.scalars(select(judgements.c.trace_id).where(*failed)).all()
        assert trace_id in connection.scalars(select(sampled_traces.c.trace_id)).all()
    now, policy = time.time(), CandidatePolicy(consent="NOT_PERSONAL", license="CC0-1.0")
    desk.confirm(engine, trace_id, "generation", "", REVIEWER, now)
    key = load_secrets(data).candidate_key.value
    made = candidates.create(engine, trace_id, key, now, policy=policy, verdict=lambda _trace: "fail")
    candidates.confirm(engine, made, REVIEWER, now)
    engine.dispose()


@pytest.mark.service("prometheus")
@pytest.mark.service("alertmanager")
@pytest.mark.timeout(400)
def test_a_newcomer_gets_through_all_four(newcomer, capsys):
    seconds = {}
    for name in PAGES:
        started = time.monotonic()
        newcomer.follow(f"quickstart-{name}.md")
        seconds[name] = round(time.monotonic() - started, 1)
    assert len(list((newcomer.folder / "dashboards").glob("*.json"))) == 8
    assert len((newcomer.folder / "both.jsonl").read_text().splitlines()) == 1
    with capsys.disabled():
        print(f"\nquickstarts took {seconds} s", file=sys.stderr)
    assert shutil.which("promtool")
