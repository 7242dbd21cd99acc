"""What the planner of rates is told of the judge's work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, insert

from groundwatch_collector.rates import DAY, Verdicts
from groundwatch_collector.storage import metadata, open_engine
from groundwatch_scorer import judgement_store
from groundwatch_scorer.judged_history import JudgedHistory
from groundwatch_scorer.judgement import AnnotatorKind, Criterion, Judgement
from groundwatch_scorer.tables import verdict_tally

MIDNIGHT = 1_780_012_800


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = open_engine(f"sqlite:///{tmp_path / 'history.db'}")
    metadata.create_all(made)
    yield made
    made.dispose()


def add(engine: Engine, at: int, judged: int, failed: int, **changes: str) -> None:
    place = {"app": "shop", "version": "1", "stratum": "refusal", "criterion": "any_failure", "judge": "local-v1"}
    sums = dict.fromkeys(("weight", "fail_weight", "weight_sq", "not_applicable_weight", "missing_weight"), 1.0)
    row = {"bucket_start": at, **place, **sums, **changes, "judged": judged, "failed": failed}
    with engine.begin() as connection:
        connection.execute(insert(verdict_tally).values(row))


def test_verdicts_of_the_headline_are_summed_by_day_and_stratum(engine):
    add(engine, MIDNIGHT, 3, 1)
    add(engine, MIDNIGHT + 3600, 4, 2, app="other")
    add(engine, MIDNIGHT + DAY, 5, 0)
    add(engine, MIDNIGHT + 60, 7, 7, criterion="faithfulness")
    add(engine, MIDNIGHT + 60, 7, 7, judge="llm:model:rubric")
    found = JudgedHistory(engine, "local-v1").verdicts(0, MIDNIGHT + 10 * DAY)
    middle = MIDNIGHT + DAY / 2
    assert found == [Verdicts(middle, "refusal", 7, 3), Verdicts(middle + DAY, "refusal", 5, 0)]


def test_only_traces_that_started_before_the_limit_are_known(engine):
    add(engine, MIDNIGHT, 3, 1)
    add(engine, MIDNIGHT + 60, 4, 2)
    found = JudgedHistory(engine, "local-v1").verdicts(MIDNIGHT, MIDNIGHT + 60)
    assert [(v.judged, v.failed) for v in found] == [(3, 1)]


def test_the_price_is_the_mean_over_traces_that_have_one(engine):
    history = JudgedHistory(engine, "local-v1")
    assert history.usd_per_trace() is None
    rows = [
        Judgement(trace, Criterion.ANY_FAILURE, "pass", 1.0, "", AnnotatorKind.LLM, "llm:m:r", 1.0, cost_usd=cost)
        for trace, cost in (("a", 0.01), ("b", 0.03), ("c", None))
    ]
    with engine.begin() as connection:
        judgement_store.append(connection, rows)
    assert history.usd_per_trace() == pytest.approx(0.02)
