"""A judged trace is weighted with the chance that an overload of the queue left it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, insert, select

from groundwatch_collector import shedding
from groundwatch_collector.ragtrace import Outcome, RagTrace, to_json
from groundwatch_collector.sampling import SPACE
from groundwatch_collector.storage import metadata, open_engine
from groundwatch_collector.tables import ledger, sampled_traces
from groundwatch_scorer import queue
from groundwatch_scorer.judgement import AnnotatorKind, Criterion, Judgement
from groundwatch_scorer.tables import verdict_tally

T0 = 1_700_000_010.0
CHANCE = 0.5


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = open_engine(f"sqlite:///{tmp_path / 'shed.db'}")
    metadata.create_all(made)
    with made.begin() as connection:
        for number in range(10):
            _put(connection, str(number), (number + 1) / 20)
    yield made
    made.dispose()


def _put(connection: Any, trace_id: str, u: float) -> None:
    trace = RagTrace(trace_id, "shop", "v1", T0, 0.5, Outcome.ANSWERED, "recorded", query="q", answer="a")
    both = {
        "trace_id": trace_id,
        "app": "shop",
        "version": "v1",
        "started_at": T0,
        "epoch": "e1",
        "stratum": "refusal",
        "inclusion_probability": CHANCE,
        "reason": "hash",
    }
    queued = {"family": "fast", "payload": to_json(trace), "state": "waiting", "queued_at": T0 + u}
    decided = {
        "decided_at": T0,
        "outcome": "answered",
        "u56": int(u * SPACE),
        "salt_version": 1,
        "verdict": "sampled",
        "first_position": 0,
        "last_position": 0,
    }
    connection.execute(insert(sampled_traces).values(**both, **queued))
    connection.execute(insert(ledger).values(**both, **decided))


def finish(engine: Engine, sampled: Any) -> None:
    verdict = Judgement(
        sampled.trace.trace_id, Criterion.ANY_FAILURE, "fail", 0.0, "", AnnotatorKind.CODE, "judge", T0
    )
    assert queue.finish(engine, sampled, [verdict], bucket_seconds=60, now=T0)


def weight(engine: Engine) -> float:
    with engine.connect() as connection:
        return float(connection.scalar(select(verdict_tally.c.weight)) or 0)


def shed(engine: Engine, limit: int) -> shedding.Shed:
    with engine.begin() as connection:
        return shedding.shed(connection, limit, 60)


def test_what_was_judged_before_keeps_its_weight_and_what_waited_has_the_lower_chance(engine):
    (first,) = queue.claim(engine, 1, 60, T0 + 1)
    finish(engine, first)
    assert weight(engine) == pytest.approx(1 / CHANCE)
    found = shed(engine, 8)  # nine wait; seven may stay
    assert [trace.trace_id for trace in found.dropped] == ["8", "9"]
    assert found.threshold == pytest.approx(0.45 / CHANCE)
    (second,) = queue.claim(engine, 1, 60, T0 + 2)
    assert second.inclusion_probability == pytest.approx(CHANCE * found.threshold)
    finish(engine, second)
    assert weight(engine) == pytest.approx(1 / CHANCE + 1 / 0.45)


def test_a_claimed_trace_keeps_the_chance_it_was_claimed_with(engine):
    (first,) = queue.claim(engine, 1, 60, T0 + 1)
    shed(engine, 4)
    with engine.connect() as connection:
        row = connection.execute(select(sampled_traces).where(sampled_traces.c.state == "leased")).one()
    assert (row.trace_id, row.inclusion_probability) == (first.trace.trace_id, CHANCE)


def test_a_trace_that_was_given_back_takes_part_again(engine):
    shed(engine, 8)
    (first,) = queue.claim(engine, 1, 60, T0 + 1)
    queue.release(engine, [first.trace.trace_id], T0 + 61)
    lower = shed(engine, 4)
    (again,) = queue.claim(engine, 1, 60, T0 + 2)
    assert again.trace.trace_id == first.trace.trace_id
    assert again.inclusion_probability == pytest.approx(CHANCE * lower.threshold)
    assert again.inclusion_probability < first.inclusion_probability
