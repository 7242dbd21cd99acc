"""Sums by stratum, step, layer, app and version out of a real SQLite file."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine

from groundwatch_alerts import tallies
from groundwatch_alerts.estimator import StratumSums, estimate
from groundwatch_collector.storage import add_to_tally
from groundwatch_collector.tables import traffic_tally
from groundwatch_scorer.tables import fault_tally, verdict_tally


def traffic(engine: Engine, bucket: int, traces: float, **changes: str) -> None:
    row = {"app": "shop", "version": "v1", "stratum": "normal_b0", "outcome": "answered"} | changes
    with engine.begin() as connection:
        add_to_tally(
            connection,
            traffic_tally,
            [{**row, "bucket_start": bucket, "traces": traces, "received": int(traces)}],
        )


def verdicts(engine: Engine, bucket: int, judged: int, failed: int, weight: float = 10.0, **changes: str) -> None:
    row = {"app": "shop", "version": "v1", "stratum": "normal_b0", "criterion": "any_failure", "judge": "l"}
    sums = {
        "weight": judged * weight,
        "fail_weight": failed * weight,
        "weight_sq": judged * weight**2,
        "judged": judged,
        "failed": failed,
        "not_applicable_weight": 0.0,
        "missing_weight": 0.0,
    }
    with engine.begin() as connection:
        add_to_tally(connection, verdict_tally, [{**row, **changes, "bucket_start": bucket, **sums}])


ASK: dict[str, Any] = {"app": "shop", "criterion": "any_failure", "judge": "l"}


def test_strata_with_traffic_and_no_verdicts_are_there_with_zeros(engine: Engine) -> None:
    traffic(engine, 0, 100)
    traffic(engine, 60, 50)
    traffic(engine, 0, 7, stratum="refusal", outcome="refused")
    verdicts(engine, 0, judged=10, failed=1)
    verdicts(engine, 60, judged=5, failed=2)
    assert tallies.sums(engine, **ASK) == [
        StratumSums("normal_b0", 150.0, 150.0, 30.0, 1500.0, 15, 3),
        StratumSums("refusal", 7.0, 0, 0, 0, 0, 0),
    ]


def test_only_completed_outcomes_are_in_the_denominator(engine: Engine) -> None:
    for outcome in ("answered", "partial", "refused", "no_result", "unknown"):
        traffic(engine, 0, 1, outcome=outcome)
    for outcome in ("error", "timeout", "cancelled"):
        traffic(engine, 0, 100, outcome=outcome)
    traffic(engine, 0, 100, stratum="error_timeout", outcome="error")
    assert [(s.stratum, s.traffic) for s in tallies.sums(engine, **ASK)] == [("normal_b0", 5.0)]


def test_window_app_version_criterion_and_judge_are_kept_apart(engine: Engine) -> None:
    for bucket, version in ((0, "v1"), (60, "v1"), (120, "v2")):
        traffic(engine, bucket, 100, version=version)
        verdicts(engine, bucket, judged=10, failed=1, version=version)
    traffic(engine, 0, 1000, app="other")
    verdicts(engine, 0, judged=99, failed=99, app="other")
    verdicts(engine, 0, judged=99, failed=99, judge="llm")
    verdicts(engine, 0, judged=99, failed=99, criterion="refusal")

    def seen(**window: Any) -> tuple[float, int]:
        (row,) = tallies.sums(engine, **ASK, **window)
        return row.traffic, row.judged

    assert seen() == (300.0, 30)
    assert seen(since=60) == (200.0, 20)
    assert seen(until=60) == (100.0, 10)
    assert seen(since=60, until=120) == (100.0, 10)
    assert seen(version="v2") == (100.0, 10)
    assert tallies.sums(engine, **ASK, since=180) == []
    assert tallies.sums(engine, app="nobody", criterion="any_failure", judge="l") == []


def test_series_cuts_time_into_steps(engine: Engine) -> None:
    for bucket in (0, 60, 120, 300):
        traffic(engine, bucket, 10)
    verdicts(engine, 60, judged=1, failed=1)
    verdicts(engine, 300, judged=2, failed=0)
    steps = tallies.series(engine, **ASK, step_seconds=120)
    assert [(start, rows[0].traffic, rows[0].judged) for start, rows in steps] == [
        (0, 20, 1),
        (120, 10, 0),
        (240, 10, 2),
    ]
    whole = tallies.sums(engine, **ASK)[0]
    assert sum(rows[0].traffic for _, rows in steps) == whole.traffic
    assert sum(rows[0].weight_sq for _, rows in steps) == whole.weight_sq


@pytest.mark.parametrize("step", [0, -60])
def test_a_step_below_a_second_is_refused(engine: Engine, step: int) -> None:
    with pytest.raises(ValueError, match="step_seconds"):
        tallies.series(engine, **ASK, step_seconds=step)


def test_fault_layers_come_heaviest_first(engine: Engine) -> None:
    rows = [("rerank", 60, "v2", 30.0), ("rerank", 0, "v1", 20.0), ("generation", 0, "v1", 25.0)]
    with engine.begin() as connection:
        for layer, bucket, version, weight in rows:
            row = {"bucket_start": bucket, "app": "shop", "version": version, "stratum": "s", "judge": "l"}
            add_to_tally(connection, fault_tally, [{**row, "layer": layer, "weight": weight, "judged": 2}])
    assert tallies.fault_layers(engine, app="shop", judge="l") == [("rerank", 50.0, 4), ("generation", 25.0, 2)]
    assert tallies.fault_layers(engine, app="shop", judge="l", until=60) == [
        ("generation", 25.0, 2),
        ("rerank", 20.0, 2),
    ]
    assert tallies.fault_layers(engine, app="shop", judge="l", version="v2") == [("rerank", 30.0, 2)]
    assert tallies.fault_layers(engine, app="shop", judge="nobody") == []


def test_apps_versions_and_judges_are_listed(engine: Engine) -> None:
    traffic(engine, 60, 1, version="b")
    traffic(engine, 0, 1, version="z")
    traffic(engine, 120, 1, version="a")
    traffic(engine, 0, 1, app="desk")
    verdicts(engine, 0, judged=2, failed=0, judge="llm")
    verdicts(engine, 0, judged=9, failed=0, judge="l")
    assert tallies.apps(engine) == ["desk", "shop"]
    assert tallies.versions(engine, "shop") == ["z", "b", "a"]
    assert tallies.judges(engine) == ["l", "llm"]
    assert tallies.judges(engine, "shop") == ["l", "llm"]
    assert tallies.judges(engine, "desk") == []


def test_sums_feed_the_estimator(engine: Engine) -> None:
    traffic(engine, 0, 1000)
    verdicts(engine, 0, judged=100, failed=7)
    found = estimate(tallies.sums(engine, **ASK))
    assert found is not None
    assert found.rate == pytest.approx(0.07)
    assert found.traffic == 1000
