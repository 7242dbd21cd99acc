"""10,000 thumbs-down by 5 people: judging stays under its cap, no estimate moves, and the alert's metric rises."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson
import pytest

from groundwatch_alerts import tallies
from groundwatch_alerts.estimator import Estimate, estimate
from groundwatch_collector import settling, tables
from groundwatch_collector.decision import DEFAULT_RATES
from groundwatch_collector.feedback_policy import FeedbackPolicy
from groundwatch_collector.settling_tables import late_offers
from groundwatch_scorer import queue, settle
from groundwatch_scorer.judgement import AnnotatorKind, Criterion, Judgement

TRACES, PEOPLE, A_MINUTE = 2_000, 5, 100
JUDGE = "local-1"
RATES = {**dict.fromkeys(DEFAULT_RATES, 0.1), "feedback_neg": 1.0}
POLICY = FeedbackPolicy()


def fails(trace_id: str) -> bool:
    return int(trace_id, 16) * 2_654_435_761 % 100 < 8


def send(world: Any, make: Any, numbers: range) -> None:
    """One record for many traces; each is a root alone, which is all that sampling looks at here."""
    world.send(*(make.request(number, start=world.time)[-1] for number in numbers))


def complain(world: Any, make: Any, numbers: range) -> None:
    """Everyone votes on every trace, with ids and comments of their own."""
    futures = [
        world.log.append(
            "feedback",
            orjson.dumps({"id": f"{n}-{who}", "trace_id": make.trace_id(n), "name": "thumbs", "label": "down",
                          "by": f"person {who}"}),
        )
        for n in numbers
        for who in range(PEOPLE)
    ]  # fmt: skip
    if futures:
        futures[-1].result()


def live(world: Any, make: Any, *, attacked: bool) -> None:
    """Twenty minutes of traffic. The first half is complained of at once, the second a minute later."""
    world.start(dataclasses.replace(world.config, rates=RATES))
    for first in range(1, TRACES + 1, A_MINUTE):
        send(world, make, range(first, first + A_MINUTE))
        at_once = first <= TRACES // 2
        for numbers in (range(first, first + A_MINUTE),) if attacked and at_once else ():
            complain(world, make, numbers)
        world.settle(30)
        if attacked and not at_once:
            complain(world, make, range(first, first + A_MINUTE))
        world.settle(30)
    judge(world)
    world.time += POLICY.settle_after_seconds + settling.STEP + settling.MARGIN_SECONDS
    while settle.settle(
        world.engine, [(JUDGE, AnnotatorKind.CODE)], horizon_seconds=POLICY.settle_after_seconds,
        bucket_seconds=world.config.bucket_seconds, now=world.time,
    ):  # fmt: skip
        pass


def judge(world: Any) -> None:
    while claimed := queue.claim(world.engine, 500, 60.0, world.time):
        for sampled in claimed:
            label = "fail" if fails(sampled.trace.trace_id) else "pass"
            verdict = Judgement(
                sampled.trace.trace_id, Criterion.ANY_FAILURE, label, None, "", AnnotatorKind.CODE, JUDGE, world.time
            )
            queue.finish(world.engine, sampled, [verdict], bucket_seconds=world.config.bucket_seconds, now=world.time)


def estimated(world: Any, family: tallies.Family) -> Estimate:
    found = estimate(tallies.sums(world.engine, app="shop", criterion="any_failure", judge=JUDGE, family=family))
    assert found is not None
    return found


@pytest.fixture
def worlds(new_world: Any, make: Any) -> tuple[Any, Any]:
    """The same traffic, calm and under attack."""
    calm, attacked = new_world("calm"), new_world("attacked")
    live(calm, make, attacked=False)
    live(attacked, make, attacked=True)
    return calm, attacked


@pytest.mark.parametrize("new_database", ["sqlite"], indirect=True)
def test_an_attack_spends_little_moves_nothing_and_is_seen(worlds: tuple[Any, Any], make: Any) -> None:
    calm, attacked = worlds
    # Everything is stored: nothing is lost, and people can look at it.
    assert len(attacked.rows(tables.feedback)) == TRACES * PEOPLE
    # Spend.
    sampled = attacked.rows(tables.sampled_traces)
    caused = [row for row in sampled if row.stratum == "feedback_neg"]
    assert 0 < len(caused) <= POLICY.late_share * len(sampled)
    assert len(sampled) - len(calm.rows(tables.sampled_traces)) <= len(caused)
    # Estimate, in both families.
    truth = sum(fails(make.trace_id(number)) for number in range(1, TRACES + 1)) / TRACES
    for family in ("fast", "settled"):
        before, after = estimated(calm, family), estimated(attacked, family)
        assert before.low <= truth <= before.high and after.low <= truth <= after.high
        assert abs(after.rate - before.rate) < (before.high - before.low) / 8
        assert before.traffic == after.traffic == TRACES
    # Alert.
    quarantined = attacked.value("groundwatch_feedback_quarantined_total", bound="subject")
    assert quarantined > 0.99 * TRACES * PEOPLE
    assert calm.value("groundwatch_feedback_quarantined_total", bound="subject") == 0
    assert attacked.rows(late_offers) == []  # settled, every one
