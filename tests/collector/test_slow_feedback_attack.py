"""Patient complainers, below every bound of quarantine for days: what is judged for them stays below its share."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from groundwatch_alerts import tallies
from groundwatch_alerts.estimator import Estimate, estimate
from groundwatch_collector import tables
from groundwatch_collector.decision import DEFAULT_RATES
from groundwatch_collector.feedback_policy import DAY, HOUR, FeedbackPolicy
from groundwatch_scorer import queue
from groundwatch_scorer.judgement import AnnotatorKind, Criterion, Judgement

TICK = 1200.0
A_TICK, COMPLAINED = 10, 6  # traces in twenty minutes, and those that are complained of
CALM, ATTACK = int(DAY / TICK), int(1.5 * DAY / TICK)  # ticks
PEOPLE = 9  # each complains twice an hour; 30 are allowed
JUDGE = "local-1"
POLICY = FeedbackPolicy()
FIXED: Mapping[str, Any] = {"rates": {**dict.fromkeys(DEFAULT_RATES, 0.3), "feedback_neg": 1.0}}
PLANNED: Mapping[str, Any] = {"budget_judged_per_day": 150.0, "expected_traces_per_day": 720.0}


def fails(number: int) -> bool:
    return number % 25 < 2


def send(world: Any, make: Any, numbers: range) -> None:
    world.send(*(make.request(number, start=world.time)[-1] for number in numbers))


def complain(world: Any, make: Any, numbers: list[int]) -> None:
    for number in numbers:
        vote = {"trace_id": make.trace_id(number), "name": "thumbs", "label": "down", "by": f"p{number % PEOPLE}"}
        world.log.append("feedback", orjson.dumps(vote)).result()


def live(world: Any, make: Any, config: Mapping[str, Any]) -> Any:
    """A calm day, then days under attack: of each ten minutes' traces the failed ones and some others."""
    world.start(dataclasses.replace(world.config, reask_seconds=0.0, novel_budget=0.0, **config))
    late: list[int] = []
    for tick in range(CALM + ATTACK):
        numbers = range(1 + tick * A_TICK, 1 + (tick + 1) * A_TICK)
        targets = sorted(numbers, key=lambda number: not fails(number))[:COMPLAINED]
        send(world, make, numbers)
        if tick >= CALM:
            complain(world, make, targets[::2] + late)
            late = targets[1::2]
        world.settle(TICK)
    return world


def caused(world: Any) -> list[tuple[float, bool]]:
    """When each trace was put before the judge, and whether a complaint put it there."""
    rows = world.rows(tables.sampled_traces)
    return sorted((row.queued_at, row.stratum == "feedback_neg") for row in rows)


def worst_share(put: list[tuple[float, bool]], now: float) -> float:
    """The largest share of complaints in what was put before the judge within a day that ends under attack."""
    ends = [now - step * HOUR for step in range(int(ATTACK * TICK / HOUR))]
    found = []
    for end in ends:
        day = [complaint for at, complaint in put if end - DAY < at <= end]
        found.append(sum(day) / len(day))
    return max(found)


def estimated(world: Any) -> Estimate:
    while claimed := queue.claim(world.engine, 500, 60.0, world.time):
        for sampled in claimed:
            label = "fail" if fails(int(sampled.trace.trace_id, 16)) else "pass"
            verdict = Judgement(
                sampled.trace.trace_id, Criterion.ANY_FAILURE, label, None, "", AnnotatorKind.CODE, JUDGE, world.time
            )
            queue.finish(world.engine, sampled, [verdict], bucket_seconds=world.config.bucket_seconds, now=world.time)
    found = estimate(tallies.sums(world.engine, app="shop", criterion="any_failure", judge=JUDGE))
    assert found is not None
    return found


@pytest.mark.parametrize("new_database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("config", [FIXED, PLANNED], ids=["fixed", "planned"])
def test_a_slow_attack_stays_below_its_cap_and_moves_nothing(new_world: Any, make: Any, config: Any) -> None:
    world = live(new_world("attacked"), make, config)
    assert world.value("groundwatch_feedback_quarantined_total", bound="subject") == 0
    # Spend: of the day, and of complaints where nothing else bounds them.
    share = worst_share(caused(world), world.time)
    if config is PLANNED:
        started = Counter(row.started_at // DAY for row in world.rows(tables.sampled_traces))
        assert max(started.values()) < 1.15 * config["budget_judged_per_day"]
    else:
        assert 0.1 < share <= POLICY.late_share + 0.02
    # Estimate.
    made = estimated(world)
    truth = sum(map(fails, range(1, 1 + A_TICK * (CALM + ATTACK)))) / (A_TICK * (CALM + ATTACK))
    assert made.low <= truth <= made.high
    # Seen: late complaints that are not chosen.
    results = ("queued", "not_chosen")
    late = {result: world.value("groundwatch_late_feedback_total", result=result) for result in results}
    assert late["not_chosen"] > 5 * late["queued"]
