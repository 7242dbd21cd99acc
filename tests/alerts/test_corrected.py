"""The corrected rate: unbiased whatever the first judge errs, an interval that holds, and refusals with a reason."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import mean, stdev
from typing import Any

import pytest
from two_phase_traffic import World

from groundwatch_alerts.corrected import Corrected, Refused, Twice, corrected

RUNS = 120
PLAIN = Twice("normal", 10.0, False, False, 0.5, True, False)


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.20])
def test_a_weak_judge_corrected_by_few_labels_is_unbiased_and_its_interval_holds(rate: float) -> None:
    runs = [World(rate, requests=20_000).run(seed) for seed in range(RUNS)]
    kept = [(truth, found) for truth, found in runs if isinstance(found, Corrected)]
    assert len(kept) > 0.9 * RUNS
    errors = [found.rate - truth for truth, found in kept]
    assert abs(mean(errors)) < 3 * stdev(errors) / math.sqrt(len(kept))
    covered = sum(found.low <= truth <= found.high for truth, found in kept) / len(kept)
    assert covered >= 0.95 - 2 * math.sqrt(0.95 * 0.05 / len(kept))
    assert 80 < mean(found.labels for _truth, found in kept) < 400


def test_the_judge_as_it_is_would_read_several_times_too_high() -> None:
    truth, found = World(0.05).run(1)
    assert isinstance(found, Corrected)
    raw = found.sensitivity * found.rate + found.false_positive_rate * (1 - found.rate)
    assert raw > 4 * truth
    assert found.low <= truth <= found.high


def test_a_judge_that_cannot_tell_failures_from_the_rest_is_not_corrected() -> None:
    weak = World(0.20, sensitivity=0.35, false_positive_rate=0.33)
    found = [weak.run(seed)[1] for seed in range(20)]
    assert sum(isinstance(f, Refused) and f.reason == "judge_too_weak" for f in found) >= 16


def test_verdicts_that_come_in_for_a_random_part_do_not_bias() -> None:
    runs = [World(0.10, requests=20_000, answered=0.85).run(seed) for seed in range(RUNS)]
    errors = [found.rate - truth for truth, found in runs if isinstance(found, Corrected)]
    assert len(errors) > 0.7 * RUNS
    assert abs(mean(errors)) < 3 * stdev(errors) / math.sqrt(len(errors))


def rows(count: int, **changes: Any) -> list[Twice]:
    return [replace(PLAIN, **changes) for _ in range(count)]


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ([], "no_verdicts"),
        (rows(49), "too_few_labels"),
        (rows(60) + rows(40, failed=None), "many_unanswered"),
        (rows(60) + rows(20, first_failed=True, chosen=False, failed=None), "unseen_part"),
    ],
)
def test_why_there_is_no_corrected_rate(found: Sequence[Twice], reason: str) -> None:
    refused = corrected({"normal": 2000.0}, found)
    assert isinstance(refused, Refused)
    assert refused.reason == reason


def test_everything_judged_and_read_again_is_a_count() -> None:
    census = [
        *(Twice("normal", 1.0, True, True, 1.0, True, True) for _ in range(20)),
        *(Twice("normal", 1.0, False, False, 1.0, True, False) for _ in range(180)),
    ]
    found = corrected({"normal": 200.0}, census)
    assert isinstance(found, Corrected)
    assert (found.rate, found.low, found.high) == pytest.approx((0.1, 0.1, 0.1))
    assert (found.sensitivity, found.false_positive_rate, found.answered_share) == pytest.approx((1, 0, 1))


def test_a_stratum_counts_by_its_traffic_and_not_by_its_sample() -> None:
    """Complaints are a tenth of the traffic and half of the sample."""
    sample = [
        *(Twice("normal", 9.0, False, False, 1.0, True, False) for _ in range(100)),
        *(Twice("complaint", 1.0, True, True, 1.0, True, True) for _ in range(100)),
    ]
    found = corrected({"normal": 900.0, "complaint": 100.0}, sample)
    assert isinstance(found, Corrected)
    assert found.rate == pytest.approx(0.1)
    assert found.low < 0.1 < found.high
