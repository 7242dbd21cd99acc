"""The corrected rate with the errors of the shipped local judge, as it makes them on labelled rows."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import mean, stdev

import pytest
from two_phase_traffic import Verdicts, World, measured

from groundwatch_alerts.corrected import Corrected, Refused
from groundwatch_scorer.calibration import Row, read_rows
from groundwatch_scorer.local_judge import LocalJudge

pytestmark = pytest.mark.shared_data
RUNS = 60


@pytest.fixture(scope="module")
def rows(shared_data: Path) -> list[Row]:
    return read_rows(shared_data / "judge_dev.jsonl.gz")


@pytest.fixture(scope="module")
def verdicts(rows: list[Row]) -> Verdicts:
    return measured(rows, LocalJudge())


@pytest.mark.parametrize("rate", [0.05, 0.20])
def test_it_is_unbiased_and_its_interval_holds(verdicts: Verdicts, rate: float) -> None:
    runs = [World(rate, requests=20_000, verdicts=verdicts).run(seed) for seed in range(RUNS)]
    kept = [(truth, found) for truth, found in runs if isinstance(found, Corrected)]
    assert len(kept) > 0.8 * RUNS
    errors = [found.rate - truth for truth, found in kept]
    assert abs(mean(errors)) < 3 * stdev(errors) / math.sqrt(len(kept))
    covered = sum(found.low <= truth <= found.high for truth, found in kept) / len(kept)
    assert covered >= 0.95 - 2 * math.sqrt(0.95 * 0.05 / len(kept))


def test_its_own_flags_would_read_several_times_too_high(verdicts: Verdicts) -> None:
    decided = [said for said in verdicts[False] if said is not None]
    assert mean(decided) > 0.3  # of good answers, where it decides


def test_where_it_tells_nothing_apart_there_is_no_rate(rows: list[Row]) -> None:
    weak = measured([row for row in rows if row["source"] == "healthver"], LocalJudge())
    found = [World(0.20, requests=20_000, verdicts=weak).run(seed)[1] for seed in range(20)]
    assert sum(isinstance(f, Refused) and f.reason == "judge_too_weak" for f in found) >= 16
