"""An overlong queue loses its least urgent traces, and the chance of what stays is still known."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update

from groundwatch_collector import ledger, shedding, tables
from groundwatch_collector.decision import DEFAULT_RATES
from groundwatch_collector.sampling import SPACE
from groundwatch_collector.shedding import Waiting

HALF = dict.fromkeys(DEFAULT_RATES, 0.5)


def waiting(number: int, u: float, chance: float = 1.0) -> Waiting:
    return Waiting(f"{number:032x}", int(u * SPACE), chance, "refusal", 0.0)


@given(st.lists(st.floats(0, 0.999), min_size=1, max_size=40, unique=True), st.integers(0, 45))
def test_what_stays_lies_below_the_threshold_and_what_goes_does_not(numbers, keep):
    stay, found = shedding.keep_below([waiting(n, u) for n, u in enumerate(numbers)], keep)
    assert len(stay) == min(keep, len(numbers))
    assert len(stay) + len(found.dropped) == len(numbers)
    if found.dropped:
        assert 0 < found.threshold <= 1
        assert found.threshold == max(min(trace.ratio for trace in found.dropped), 1 / SPACE)
        assert all(trace.ratio <= found.threshold for trace in stay)
    else:
        assert found.threshold == 1


COUNT = 400
FAILED = [n % 15 == 0 or n % (20 if n < COUNT / 2 else 10) == 1 for n in range(COUNT)]  # more of them late
CHANCE = [0.9 if n % 5 == 0 else 0.4 for n in range(COUNT)]


def overloaded(rng: random.Random, bound: int = 16) -> tuple[float, float]:
    """Estimated failures when a judge is four times too slow: with the lowered chances, and with the hash's own."""
    queue: list[tuple[Waiting, float]] = []
    judged: list[tuple[Waiting, float]] = []
    for number in range(COUNT):
        trace = waiting(number, rng.random(), CHANCE[number])
        if trace.u56 < trace.chance * SPACE:
            queue.append((trace, trace.chance))
        if len(queue) > bound:
            stay, found = shedding.keep_below([trace for trace, _ in queue], bound - bound // 8)
            kept = {trace.trace_id for trace in stay}
            queue = [(t, min(p, t.chance * found.threshold)) for t, p in queue if t.trace_id in kept]
        if number % 8 == 0 and queue:
            judged.append(queue.pop(0))  # first come, first served
    judged += queue
    failed = [(1 / p, 1 / trace.chance) for trace, p in judged if FAILED[int(trace.trace_id, 16)]]
    return sum(a for a, _ in failed), sum(b for _, b in failed)


def test_weights_stay_unbiased_while_the_judge_is_four_times_too_slow():
    """The mean of 1,500 runs lies within three standard errors of the truth, far from what the plain chances say."""
    rng = random.Random(11)
    runs = [overloaded(rng) for _ in range(1500)]
    estimates = [honest for honest, _ in runs]
    mean = sum(estimates) / len(runs)
    error = math.sqrt(sum((e - mean) ** 2 for e in estimates) / (len(runs) - 1) / len(runs))
    assert abs(mean - sum(FAILED)) <= 3 * error
    assert error < 0.05 * sum(FAILED)
    assert sum(plain for _, plain in runs) / len(runs) < 0.6 * sum(FAILED)


# The same inside the pipeline.


def settings(world: Any, limit: int) -> Any:
    return dataclasses.replace(world.config, rates=HALF, judge_queue_limit=limit)


def fill(world: Any, make: Any, numbers: range) -> None:
    for number in numbers:
        world.send(*make.request(number))
    world.settle(4)


def chances_of(world: Any) -> dict[str, float]:
    with world.engine.connect() as connection:
        ids = [row.trace_id for row in world.rows(tables.sampled_traces)]
        return dict(shedding.chances(connection, ids))


def test_the_queue_is_brought_back_below_its_bound_and_the_ledger_says_why(world, make):
    world.start(settings(world, 8))
    fill(world, make, range(1, 41))
    queued = {row.trace_id for row in world.rows(tables.sampled_traces)}
    rows = world.ledger()
    shed = {trace_id for trace_id, row in rows.items() if row.reason == "shed"}
    assert 0 < len(queued) <= 8
    assert all(rows[trace_id].verdict == "not_sampled" for trace_id in shed)
    assert max(rows[t].u56 for t in queued) < min(rows[t].u56 for t in shed)
    chosen = {trace_id for trace_id, row in rows.items() if row.u56 < SPACE / 2}
    assert queued | shed == chosen
    assert world.value("groundwatch_shed_traces_total", reason="queue_full") == len(shed)
    assert sum(row.traces for row in world.rows(tables.shed_tally)) == len(shed)
    report = ledger.report(world.engine, world.log)
    assert report.adds_up
    assert report.waiting_for_judge == len(queued)


def test_what_stays_has_the_chance_of_the_first_that_was_excluded(world, make):
    world.start(settings(world, 8))
    fill(world, make, range(1, 41))
    rows = world.ledger()
    threshold = min(row.u56 for row in rows.values() if row.reason == "shed") / SPACE
    lowered = chances_of(world)
    assert lowered
    assert all(chance == pytest.approx(threshold) for chance in lowered.values())
    assert all(rows[t].inclusion_probability == 0.5 for t in lowered)  # what the hash chose with


def test_what_a_judge_has_in_hand_is_left_alone(world, make):
    world.start(settings(world, 8))
    fill(world, make, range(1, 11))
    with world.engine.begin() as connection:
        connection.execute(update(tables.sampled_traces).values(state="leased", lease_until=world.time + 1e6))
    held = {row.trace_id for row in world.rows(tables.sampled_traces)}
    fill(world, make, range(11, 61))
    assert held <= {row.trace_id for row in world.rows(tables.sampled_traces)}
    assert not held & chances_of(world).keys()
    assert world.value("groundwatch_shed_traces_total", reason="queue_full") > 0


def test_a_second_overload_never_raises_a_chance(world, make):
    world.start(settings(world, 8))
    fill(world, make, range(1, 41))
    before = chances_of(world)
    fill(world, make, range(41, 121))
    after = chances_of(world)
    assert before.keys() & after.keys()
    assert all(after[t] <= before[t] for t in before.keys() & after.keys())


def test_without_a_bound_nothing_is_shed(world, make):
    world.start(settings(world, 0))
    fill(world, make, range(1, 41))
    assert chances_of(world) == {}
    assert all(row.reason == "hash" for row in world.ledger().values())


def test_shed_traces_are_spent_budget(world, make):
    """Else an overload would raise the rates, and with them the load."""
    world.start(settings(world, 8))
    fill(world, make, range(1, 41))
    with world.engine.connect() as connection:
        shed = shedding.shed_between(connection, make.START - 60, make.START + 60)
    assert shed == sum(1 for row in world.ledger().values() if row.reason == "shed") > 0
