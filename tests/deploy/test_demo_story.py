"""The story from traffic to table, with the real monitor in this process and the application in its own."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from sqlalchemy import select

from groundwatch_collector import ledger
from groundwatch_collector.ledger import LedgerReport
from groundwatch_collector.tables import ledger as ledger_table
from groundwatch_deploy import settings
from groundwatch_deploy.demo import measure, story, truth
from groundwatch_deploy.demo.behaviour import INCIDENTS, INJECTED_LAYER
from groundwatch_deploy.demo.sampling_rates import DEMO_RATES
from groundwatch_deploy.demo.story import Phase, Plan, Story, StoryError
from groundwatch_deploy.serve import Monitor
from groundwatch_scorer.local_judge import LocalJudge

GOOD = Phase("v1.4.0", 2_000, 1_980, 100, {"generation": 60, "refusal": 40}, 450, 0.052, 0.041, 0.066, 0.14, {})
BAD = Phase(
    "v1.5.0", 1_200, 1_190, 440, {"rerank": 440}, 500, 0.365, 0.34, 0.39, 0.65, {"rerank": 430.0, "refusal": 9.0}
)
LEDGER = LedgerReport(3_200, 950, 0, 2_250, {}, 0, 0, {}, 0, 3_200, 3_200, {})
TOLD = Story(Plan(), GOOD, BAD, LEDGER, 48.0)


def test_a_story_comes_true_when_every_promise_holds():
    assert TOLD.came_true


@pytest.mark.parametrize(
    "broken",
    [
        {"healthy": replace(GOOD, high=0.045)},
        {"bad": replace(BAD, low=0.38)},
        {"bad": replace(BAD, raw_mean=0.37)},
        {"bad": replace(BAD, estimate=None, low=None, high=None, raw_mean=None)},
        {"bad": replace(BAD, found_layers={"refusal": 300.0, "rerank": 200.0})},
        {"ledger": replace(LEDGER, undecided=1, received=3_201)},
        {"ledger": replace(LEDGER, lost={"not_in_ledger": 1}, received=3_201)},
        {"ledger": replace(LEDGER, doubled=1)},
    ],
)
def test_a_story_with_one_broken_promise_does_not(broken):
    told = replace(TOLD, **broken)
    assert not told.came_true
    assert json.loads(story.as_json(told))["came_true"] is False


def test_people_read_truth_and_estimate_side_by_side():
    table = story.as_table(replace(TOLD, healthy=replace(GOOD, high=0.045)))
    assert "v1.4.0        2000     450           5.1%      5.2% (4.1% - 4.5%)     14.0%  MISSES the truth" in table
    assert "v1.5.0        1200     500          37.0%   36.5% (34.0% - 39.0%)     65.0%  covers the truth" in table
    assert "put into rerank; failures in all traffic of v1.5.0, estimated by layer: rerank 430, refusal 9." in table
    assert "3200 received = 950 judged + 0 unscored + 2250 not sampled + 0 skipped + 0 waiting" in table


def test_machines_read_one_line():
    line = story.as_json(TOLD)
    told = json.loads(line)
    assert "\n" not in line
    assert told["after"]["true_rate"] == pytest.approx(440 / 1_190)
    assert (told["injected_layer"], told["found_layer"]) == ("rerank", "rerank")


@pytest.fixture
def monitor(tmp_path: Path):
    found = settings.load(None, data_directory=tmp_path / "data", ingest_port=0, console_port=0, metrics_port=0)
    decide = replace(found.decide, rates=DEMO_RATES, grace_seconds=1.5)
    with Monitor(replace(found, decide=decide)) as started:
        yield started


def tell(monitor: Monitor, folder: Path, plan: Plan) -> Story:
    return story.run_story(
        monitor.start().ingest,
        monitor.engine,
        ledger_report=lambda: ledger.report(monitor.engine, monitor.log),
        judge=LocalJudge().identifier,
        folder=folder,
        plan=plan,
        progress=lambda _line: None,
    )


def test_what_was_served_is_what_the_ledger_holds(monitor, tmp_path):
    """Every request is decided once, under its own trace id, and the truth counts the same requests."""
    told = tell(monitor, tmp_path, Plan(healthy_requests=60, bad_requests=40, per_second=200.0))
    with monitor.engine.connect() as connection:
        rows = {row.trace_id: row for row in connection.execute(select(ledger_table))}
    happened = [*truth.read(tmp_path / "truth-v1.4.0.jsonl"), *truth.read(tmp_path / "truth-v1.5.0.jsonl")]
    assert {t.trace_id: (t.version, t.outcome) for t in happened} == {
        trace_id: (row.version, row.outcome) for trace_id, row in rows.items()
    }
    assert told.ledger.adds_up
    assert (told.ledger.received, told.ledger.waiting, dict(told.ledger.lost)) == (100, 0, {})
    assert (told.healthy.requests, told.bad.requests) == (60, 40)
    assert told.healthy.judged + told.bad.judged > 0
    with pytest.raises(StoryError, match="empty data directory"):
        tell_again = Plan(healthy_requests=1, bad_requests=1)
        story.run_story(
            "http://127.0.0.1:9",
            monitor.engine,
            ledger_report=lambda: told.ledger,
            judge="x",
            folder=tmp_path,
            plan=tell_again,
            progress=lambda _line: None,
        )


def test_an_application_that_cannot_start_ends_the_story(monitor, tmp_path, monkeypatch):
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(StoryError, match=r"exit code 1: --llm needs OPENAI_BASE_URL"):
        tell(monitor, tmp_path, Plan(healthy_requests=1, bad_requests=1, llm=True))


class Refusing(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_error(403)

    def log_message(self, *_args: object) -> None:
        pass


def test_a_story_that_does_not_reach_the_monitor_ends_at_once(tmp_path):
    """Not after the monitor's patience: the application knows what it could not send."""
    said: list[str] = []
    record = tmp_path / "truth.jsonl"
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        command = story._command(f"http://127.0.0.1:{server.server_port}", Plan(), None, 5, record)
        with pytest.raises(StoryError, match=r"could not send: 5 requests, refused"):
            story._serve_traffic(command, said.append)
        server.shutdown()
    assert len(truth.read(record)) == 5
    assert any(f"requests cannot be sent to 127.0.0.1:{server.server_port} (HTTP 403)" in line for line in said)


@pytest.fixture(scope="module")
def bench():
    return measure.Bench()


def test_the_estimate_covers_the_truth_before_the_incident(bench):
    run = bench.run(None, seed=1, requests=800)
    assert run.covered
    assert not run.raw_mean_inside


@pytest.mark.parametrize("incident", INCIDENTS)
def test_the_estimate_covers_the_truth_and_names_the_layer(bench, incident):
    """One fixed seed: the figures over many are in docs/demo.md."""
    run = bench.run(incident, seed=1, requests=500)
    assert run.covered
    assert not run.raw_mean_inside
    assert run.found_layer == INJECTED_LAYER[incident]
