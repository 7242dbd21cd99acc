"""The figures of docs/concepts/estimate.md are those that the code computes."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from groundwatch_alerts.estimator import StratumSums, estimate

PAGE = Path(__file__).resolve().parents[2] / "docs" / "concepts" / "estimate.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| ([\d,]+) \| (\d+) \| (\d+) \| ([\d.]+) % \|$", re.MULTILINE)


def test_the_example_runs() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert result.attempted >= 5
    assert result.failed == 0


def test_the_table_and_the_text_say_what_the_code_says() -> None:
    strata = []
    for name, traffic, judged, failed, rate in ROW.findall(TEXT):
        n, m, y = float(traffic.replace(",", "")), int(judged), int(failed)
        assert float(rate) == pytest.approx(100 * y / m, abs=0.05)
        strata.append(StratumSums(name, n, n, n * y / m, n * n / m, m, y))
    assert len(strata) == 6
    found = estimate(strata)
    assert found is not None
    assert (found.traffic, found.judged, found.failed) == (10_000, 345, 98)
    for figure in (found.raw_mean, found.rate, found.low, found.high):
        assert f"**{100 * figure:.1f} %**" in TEXT
