"""10,000 thumbs-down by 5 people through the real door: little is judged, no estimate moves, it is seen."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import torture
from sqlalchemy import func, select

from groundwatch_alerts import tallies
from groundwatch_alerts.estimator import Estimate, estimate
from groundwatch_alerts.objectives import AlertsConfig
from groundwatch_alerts.rule_set import rule_files
from groundwatch_collector import tables
from groundwatch_collector.decision import DEFAULT_RATES
from groundwatch_collector.feedback_policy import HOUR
from groundwatch_collector.storage import reader
from groundwatch_deploy.serve import Addresses, Monitor
from groundwatch_deploy.settings import load

TRACES, PEOPLE, BATCH = 2_000, 5, 500
CHANCE = 0.2
GRACE_SECONDS = 1.0
SALT = b"the same in calm and under attack"
IDS = [f"{number // BATCH + 1:016x}{number + 1:016x}" for number in range(TRACES)]
BAD = set(IDS[::12])  # their answers fail: 8.35 % of all
TRUTH = len(BAD) / TRACES


class Clock:
    """The monitor's time. It stands still until it is moved, so what comes before the decision is no accident."""

    def __init__(self) -> None:
        self.time = time.time()

    def __call__(self) -> float:
        return self.time


@contextmanager
def running(folder: Path) -> Iterator[tuple[Monitor, Addresses, Clock]]:
    settings = load(None, data_directory=folder, ingest_port=0, console_port=0, metrics_port=0)
    rates = {**dict.fromkeys(DEFAULT_RATES, CHANCE), "feedback_neg": 1.0}
    decide = replace(settings.decide, rates=rates, grace_seconds=GRACE_SECONDS)
    clock = Clock()
    with Monitor(replace(settings, decide=decide), now=clock, salt=SALT) as monitor:
        yield monitor, monitor.start(), clock


def send(url: str, ids: Sequence[str]) -> None:
    headers = {"content-type": "application/x-protobuf"}
    for part in ([i for i in ids if i not in BAD], [i for i in ids if i in BAD]):
        body = torture.body(part)
        if part[0] in BAD:  # the document says 30
            body = body.replace(b"kept for 30 days [1]", b"kept for 90 days [1]")
        httpx.post(f"{url}/v1/traces", content=body, headers=headers).raise_for_status()


def complain(url: str, votes: Sequence[tuple[str, int]]) -> set[int]:
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


def attack(url: str, ids: Sequence[str]) -> None:
    """Everyone on every trace, bad answers first: so what is let through is as unlike the rest as can be."""
    ordered = sorted(ids, key=lambda trace_id: trace_id not in BAD)
    votes = [(trace_id, (at + turn) % PEOPLE) for turn in range(PEOPLE) for at, trace_id in enumerate(ordered)]
    bad_first, many = votes[: 2 * len(BAD)], votes[2 * len(BAD) :]
    assert complain(url, bad_first) == {202}
    with ThreadPoolExecutor(4) as senders:
        assert set().union(*senders.map(lambda at: complain(url, many[at::4]), range(4))) == {202}


def wait(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def metric(url: str, line: str) -> float:
    found = [row for row in httpx.get(f"{url}/metrics").text.splitlines() if row.startswith(line + " ")]
    return float(found[0].rpartition(" ")[2])


def counted(monitor: Monitor, query) -> int:
    with reader(monitor.engine).connect() as connection:
        return int(connection.scalar(query) or 0)


def wait_for_rows(monitor: Monitor, table, rows: int) -> None:
    wait(lambda: counted(monitor, select(func.count()).select_from(table)) == rows)


def live(monitor: Monitor, addresses: Addresses, clock: Clock, *, attacked: bool) -> Estimate:
    """Half of the traces are complained of before they are decided, half of them after; then all is judged."""
    half = TRACES // 2
    for first in range(0, TRACES, BATCH):
        send(addresses.ingest, IDS[first : first + BATCH])
    if attacked:
        attack(addresses.ingest, IDS[:half])
        wait_for_rows(monitor, tables.feedback, half * PEOPLE)
    assert counted(monitor, select(func.count()).select_from(tables.ledger)) == 0
    clock.time += HOUR + 60  # what is quarantined counts too: a minute later nothing would be let through
    wait_for_rows(monitor, tables.ledger, TRACES)
    if attacked:
        attack(addresses.ingest, IDS[half:])
        wait_for_rows(monitor, tables.feedback, TRACES * PEOPLE)
    sampled = tables.sampled_traces.c
    wait(lambda: counted(monitor, select(func.count()).where(sampled.state.in_(("waiting", "leased")))) == 0)
    judge = monitor.judges[0].identifier
    made = estimate(tallies.sums(monitor.engine, app="torture", criterion="any_failure", judge=judge))
    assert made is not None
    return made


QUARANTINED = 'groundwatch_feedback_quarantined_total{bound="subject"}'


@pytest.mark.timeout(900)
def test_ten_thousand_complaints_by_five_people(tmp_path: Path) -> None:
    with running(tmp_path / "calm") as (monitor, addresses, clock):
        before = live(monitor, addresses, clock, attacked=False)
        calm_judged = counted(monitor, select(func.count()).select_from(tables.sampled_traces))
        assert metric(addresses.metrics, QUARANTINED) == 0
    with running(tmp_path / "attacked") as (monitor, addresses, clock):
        after = live(monitor, addresses, clock, attacked=True)
        sampled = tables.sampled_traces.c
        by_family = [
            counted(monitor, select(func.count()).where(sampled.stratum == "feedback_neg", sampled.family == family))
            for family in ("fast", "late")
        ]
        judged = counted(monitor, select(func.count()).select_from(tables.sampled_traces))
        cap = monitor.settings.feedback.late_share
        quarantined = metric(addresses.metrics, QUARANTINED)
    # Spend.
    assert all(by_family)  # the attack does reach the judge, before the decision and after it
    assert sum(by_family) <= cap * judged
    assert judged <= calm_judged + sum(by_family)
    # Seen.
    assert quarantined > 0.98 * TRACES * PEOPLE
    # The estimate of all 2,000, of which 8.35 % fail. The plain mean of the judged follows the attack.
    assert before.traffic == after.traffic == TRACES
    for made in (before, after):
        assert made.low <= TRUTH <= made.high
    assert abs(after.rate - before.rate) < (before.high - before.low) / 8
    assert after.raw_mean - before.raw_mean > (before.high - before.low) / 2


@pytest.mark.service("prometheus")
def test_the_alert_on_a_burst_is_raised(tmp_path: Path, prometheus) -> None:
    rules = []
    for name, text in rule_files([], AlertsConfig()).items():
        rules.append(tmp_path / name)
        rules[-1].write_text(
            text.replace("interval: 1m", "interval: 500ms").replace("interval: 5m", "interval: 500ms")
        )
    query = {"query": 'ALERTS{alertname="GroundwatchFeedbackBurst",alertstate="firing"}'}
    known = {"query": QUARANTINED}
    with running(tmp_path / "data") as (_, addresses, _clock):
        url = f"{prometheus(urlsplit(addresses.metrics).netloc, tuple(rules))}/api/v1/query"

        def answer(query: dict[str, str]) -> list[dict[str, dict[str, str]]]:
            return list(httpx.get(url, params=query).json()["data"]["result"])

        wait(lambda: len(answer(known)) == 1)
        assert answer(query) == []
        complain(addresses.ingest, [(trace_id, 1) for trace_id in IDS[:20]])
        wait(lambda: answer(query) != [])
        (alert,) = answer(query)
        assert alert["metric"]["bound"] == "subject"
