"""The sample that the product's own code draws gives back the true failure rate, whatever the rates are."""

from __future__ import annotations

import math
import random

from groundwatch_collector import sampling
from groundwatch_collector.decision import DEFAULT_RATES

TRUE_RATES = {
    "incomplete": 0.2,
    "feedback_neg": 0.8,
    "refusal": 0.4,
    "normal_b0": 0.01,
    "normal_b1": 0.05,
    "normal_b2": 0.15,
    "normal_b3": 0.35,
}
SIZES = {
    "incomplete": 100,
    "feedback_neg": 100,
    "refusal": 400,
    "normal_b0": 5600,
    "normal_b1": 2300,
    "normal_b2": 1000,
    "normal_b3": 500,
}
RUNS = 60


def traffic() -> list[tuple[str, str, bool]]:
    """Trace id, stratum and whether the answer failed; ids are sequential, the hardest case for a hash."""
    rng = random.Random(3)
    names = [name for name, size in SIZES.items() for _ in range(size)]
    rng.shuffle(names)
    return [(f"{n:032x}", name, rng.random() < TRUE_RATES[name]) for n, name in enumerate(names)]


def test_weighted_failures_are_unbiased_and_the_raw_mean_is_not():
    """Mean of 60 samples within three standard errors (each sample's variance is known: sum of (1/p - 1) y)."""
    population = traffic()
    truth = sum(failed for _, _, failed in population)
    sums, raw = [], []
    for run in range(RUNS):
        salt = f"salt {run}".encode()
        drawn = [(n, y) for t, n, y in population if sampling.included(sampling.u56(t, salt), DEFAULT_RATES[n])]
        sums.append(sum(y / DEFAULT_RATES[name] for name, y in drawn))
        raw.append(sum(y for _, y in drawn) / len(drawn))
    variance = sum((1 / DEFAULT_RATES[name] - 1) * failed for _, name, failed in population)
    assert abs(sum(sums) / RUNS - truth) < 3 * math.sqrt(variance / RUNS)
    assert sum(raw) / RUNS > 3 * truth / len(population)


def test_how_many_are_drawn_is_what_the_rates_promise():
    population = traffic()
    for name, size in SIZES.items():
        rate = DEFAULT_RATES[name]
        drawn = sum(
            sampling.included(sampling.u56(trace_id, f"salt {run}".encode()), rate)
            for run in range(RUNS)
            for trace_id, stratum, _ in population
            if stratum == name
        )
        expected = rate * size * RUNS
        assert abs(drawn - expected) <= 4 * math.sqrt(expected * (1 - rate))


def test_drawing_again_draws_the_same():
    population = traffic()[:2000]

    def draw(order: list[tuple[str, str, bool]]) -> set[str]:
        return {t for t, name, _ in order if sampling.included(sampling.u56(t, b"salt"), DEFAULT_RATES[name])}

    again = population + population[:500]
    random.Random(5).shuffle(again)
    assert draw(again) == draw(population)
