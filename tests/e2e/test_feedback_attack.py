"""10,000 thumbs-down by 5 people through the real door: little is judged, no estimate moves, it is seen."""

from __future__ import annotations

import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import torture
from sqlalchemy import func, select

from groundwatch_alerts import tallies
from groundwatch_alerts.estimator import estimate
from groundwatch_collector import tables
from groundwatch_collector.decision import DEFAULT_RATES
from groundwatch_collector.storage import reader
from groundwatch_deploy.serve import Monitor
from groundwatch_deploy.settings import load

TRACES, PEOPLE, BATCH = 2_000, 5, 500
CHANCE = 0.2


@pytest.fixture
def monitor(tmp_path: Path):
    settings = load(None, data_directory=tmp_path, ingest_port=0, console_port=0, metrics_port=0)
    rates = {**dict.fromkeys(DEFAULT_RATES, CHANCE), "feedback_neg": 1.0}
    decide = replace(settings.decide, rates=rates, grace_seconds=1.0)
    with Monitor(replace(settings, decide=decide)) as running:
        yield running


def complain(url: str, votes: list[tuple[str, int]]) -> set[int]:
    """Post *votes*, each of a trace and a person, over one connection; the statuses of the answers."""
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
    found = set()
    for trace_id, person in votes:
        vote = {"trace_id": trace_id, "name": "thumbs", "label": "down", "by": f"person {person}"}
        connection.request("POST", "/v1/feedback", json.dumps(vote), {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        found.add(answer.status)
    connection.close()
    return found


def wait(condition, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def metric(url: str, line: str) -> float:
    found = [row for row in httpx.get(f"{url}/metrics").text.splitlines() if row.startswith(line + " ")]
    return float(found[0].rpartition(" ")[2]) if found else 0.0


def counted(monitor: Monitor, query) -> int:
    with reader(monitor.engine).connect() as connection:
        return int(connection.scalar(query) or 0)


@pytest.mark.timeout(300)
def test_ten_thousand_complaints_by_five_people(monitor: Monitor) -> None:
    addresses = monitor.start()
    headers = {"content-type": "application/x-protobuf"}
    ids = [f"{number // BATCH + 1:016x}{number + 1:016x}" for number in range(TRACES)]
    for first in range(0, TRACES, BATCH):
        body = torture.body(ids[first : first + BATCH])
        httpx.post(f"{addresses.ingest}/v1/traces", content=body, headers=headers).raise_for_status()
    # The whole attack takes longer than the grace: some of it comes before the decisions, most of it after.
    votes = [(trace_id, person) for trace_id in ids for person in range(PEOPLE)]
    with ThreadPoolExecutor(4) as senders:
        statuses = set().union(*senders.map(lambda at: complain(addresses.ingest, votes[at::4]), range(4)))
    assert statuses == {202}
    wait(lambda: counted(monitor, select(func.count()).select_from(tables.feedback)) == TRACES * PEOPLE)
    sampled = tables.sampled_traces.c
    wait(lambda: counted(monitor, select(func.count()).where(sampled.state.in_(("waiting", "leased")))) == 0)
    # Spend.
    caused = counted(monitor, select(func.count()).where(sampled.stratum == "feedback_neg"))
    judged = counted(monitor, select(func.count()).select_from(tables.sampled_traces))
    assert 0 < caused <= monitor.settings.feedback.late_share * judged
    # Seen.
    quarantined = metric(addresses.metrics, 'groundwatch_feedback_quarantined_total{bound="subject"}')
    assert quarantined > 0.98 * TRACES * PEOPLE
    # The estimate is that of all 2,000: the answers are good, and complaints are no verdicts.
    made = estimate(
        tallies.sums(monitor.engine, app="torture", criterion="any_failure", judge=monitor.judges[0].identifier)
    )
    assert made is not None
    assert (made.traffic, made.rate) == (TRACES, 0.0)
    assert made.judged < TRACES * CHANCE * 1.3
