"""Three days of the product with duplicates, crashes, moved partitions, late feedback and overload, all at once.

`make closed-loop RUNS=200` runs as many days, which shows bias and coverage; here it is shown that nothing is counted
twice or lost, and that the budget holds.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from partition_loop import JUDGES, Loop, Plan, Run, summary

PLAN = Plan(traffic_a_day=1_600, judged_a_day=1_000)
DAYS = 3
ESTIMATES = DAYS * len(JUDGES)


pytestmark = pytest.mark.timeout(900)  # half a minute of computing


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    folder: Path = tmp_path_factory.mktemp("days")
    return [Loop(PLAN, seed, folder).run() for seed in range(1, DAYS + 1)]


def test_every_trouble_really_happened(days):
    for day in days:
        happened = day.counts
        assert happened.crashes >= 10
        assert happened.moves == happened.fenced == 72  # every old owner tried to write, and was refused
        assert min(happened.duplicates, happened.late, happened.shed, day.judged_late) > 0


def test_every_trace_counts_once_in_both_families(days):
    for day in days:
        assert day.miscounted == 0
        assert {found.traffic for found in (*day.fast, *day.settled)} == {day.counts.traces}


def test_the_budget_is_kept_within_two_percent(days):
    assert summary(days, PLAN.judged_a_day).spent_of_budget == pytest.approx(1, abs=0.02)


def test_both_families_speak_for_all_traffic_and_the_plain_mean_does_not(days):
    found = summary(days, PLAN.judged_a_day)
    for family in (found.fast, found.settled):
        assert abs(family.bias_pp) <= 3 * family.half_width_pp / 1.96 / math.sqrt(ESTIMATES)
        assert family.covered >= 0.94 - 2 * math.sqrt(0.94 * 0.06 / ESTIMATES)
    assert found.raw_bias_pp > 0.3
