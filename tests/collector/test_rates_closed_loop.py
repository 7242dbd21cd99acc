"""The planner, the hash and the estimator together over a week: the budget is kept, and the estimate is honest.

`tests/bench/bench_closed_loop.py` runs the same over many months.
"""

from __future__ import annotations

import pytest
from closed_loop import Loop, Window, summary

BUDGET = 300


@pytest.fixture(scope="module")
def days() -> list[Window]:
    runs = [Loop(traffic_a_day=15_000, judged_a_day=BUDGET, seed=seed, days=7, epoch=600).run() for seed in (1, 2, 3)]
    return [day for run in runs for day in run.days]


def test_every_day_keeps_its_budget_within_two_percent(days):
    """The first day too, which begins with nothing known and a wrong expectation of its traffic."""
    found = summary(days)
    assert found.budget_mean == pytest.approx(BUDGET, rel=0.01)
    assert found.budget_max <= BUDGET * 1.02
    assert min(day.judged for day in days) >= BUDGET * 0.98


def test_the_estimate_is_unbiased_and_the_raw_mean_is_not(days):
    found = summary(days)
    assert abs(found.bias_pp) <= 3 * found.bias_se_pp
    assert found.raw_bias_pp > 3


def test_the_interval_covers_the_truth(days):
    found = summary(days)
    assert found.covered >= 0.94 - 2 * found.covered_se


def test_ten_times_the_traffic_before_a_slow_judge_leaves_the_estimate_honest():
    """Two hours of it on the second day; the queue is shed, the budget of the day is not passed."""
    loops = [
        Loop(traffic_a_day=6_000, judged_a_day=BUDGET, seed=seed, days=3, epoch=600, overload=True)
        for seed in range(8)
    ]
    days = [day for loop in loops for day in loop.run().days]
    found = summary(days)
    assert sum(loop.shed for loop in loops) > 100
    assert found.budget_max <= BUDGET * 1.02
    assert abs(found.bias_pp) <= 3 * found.bias_se_pp
    assert found.covered >= 0.94 - 2 * found.covered_se
