"""Claim, finish and expire on a real SQLite file."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, insert, select, update

from groundwatch_collector.ragtrace import Outcome, RagTrace, to_json
from groundwatch_collector.sampled import SampledTrace
from groundwatch_collector.tables import ledger, sampled_traces
from groundwatch_scorer import judgement_store, queue
from groundwatch_scorer.judgement import AnnotatorKind, Criterion, Judgement
from groundwatch_scorer.tables import fault_tally, judgements, verdict_tally

BUCKET = 60
T0 = 1_700_000_010.0  # in the bucket that starts at 1_699_999_980


def put(
    engine: Engine,
    trace_id: str,
    *,
    queued_at: float = T0,
    probability: float = 0.1,
    stratum: str = "normal_b0",
    outcome: Outcome = Outcome.ANSWERED,
    family: str = "fast",
    payload: str | None = None,
    adjusted_count: float = 1.0,
) -> None:
    trace = RagTrace(
        trace_id, "shop", "v1", T0, 0.5, outcome, "recorded", query="q", answer="a", adjusted_count=adjusted_count
    )
    sampled = {
        "trace_id": trace_id,
        "family": family,
        "payload": payload if payload is not None else to_json(trace),
        "app": "shop",
        "version": "v1",
        "started_at": T0,
        "stratum": stratum,
        "inclusion_probability": probability,
        "reason": "hash",
        "epoch": "e1",
        "state": "waiting",
        "queued_at": queued_at,
    }
    decided = {
        "trace_id": trace_id,
        "app": "shop",
        "version": "v1",
        "started_at": T0,
        "decided_at": T0,
        "epoch": "e1",
        "stratum": stratum,
        "outcome": str(outcome),
        "inclusion_probability": probability,
        "u56": 1,
        "salt_version": 1,
        "verdict": "sampled",
        "reason": "hash",
        "adjusted_count": adjusted_count,
        "first_position": 0,
        "last_position": 0,
    }
    with engine.begin() as connection:
        connection.execute(insert(sampled_traces), [sampled])
        connection.execute(insert(ledger), [decided])


def verdict(trace_id: str, label: str, criterion: Criterion = Criterion.ANY_FAILURE, **detail: object) -> Judgement:
    return Judgement(trace_id, criterion, label, None, "", AnnotatorKind.CODE, "local-1", T0 + 5, detail=detail)


def finish(engine: Engine, sampled: SampledTrace, *rows: Judgement) -> bool:
    return queue.finish(engine, sampled, rows, bucket_seconds=BUCKET, now=T0 + 5)


def tally(engine: Engine, criterion: str = "any_failure") -> dict[str, object]:
    with engine.connect() as connection:
        row = connection.execute(select(verdict_tally).where(verdict_tally.c.criterion == criterion)).one()
    return dict(row._mapping)


def states(engine: Engine) -> dict[str, str]:
    with engine.connect() as connection:
        return {row.trace_id: row.state for row in connection.execute(select(sampled_traces))}


def test_the_oldest_traces_are_claimed_once(engine: Engine) -> None:
    for trace_id, queued_at in (("c", 3), ("a", 1), ("b", 2)):
        put(engine, trace_id, queued_at=queued_at)
    first = queue.claim(engine, 2, lease_seconds=10, now=T0)
    second = queue.claim(engine, 2, lease_seconds=10, now=T0)
    assert [s.trace.trace_id for s in first] == ["a", "b"]
    assert [s.trace.trace_id for s in second] == ["c"]
    assert queue.claim(engine, 2, lease_seconds=10, now=T0) == []


def test_a_claim_carries_the_chance_and_the_trace(engine: Engine) -> None:
    put(engine, "a", probability=0.25, stratum="refusal", adjusted_count=2.0)
    (claimed,) = queue.claim(engine, 1, lease_seconds=10, now=T0)
    assert (claimed.stratum, claimed.inclusion_probability, claimed.weight) == ("refusal", 0.25, 8.0)
    assert (claimed.trace.app, claimed.trace.answer, claimed.epoch, claimed.family) == ("shop", "a", "e1", "fast")


def test_a_lease_that_ran_out_can_be_taken_again(engine: Engine) -> None:
    put(engine, "a")
    queue.claim(engine, 1, lease_seconds=10, now=T0)
    assert queue.claim(engine, 1, lease_seconds=10, now=T0 + 9) == []
    assert len(queue.claim(engine, 1, lease_seconds=10, now=T0 + 10)) == 1


def test_finish_adds_weights_to_the_bucket_of_the_traces_start(engine: Engine) -> None:
    put(engine, "a", probability=0.1)
    put(engine, "b", probability=0.5)
    a, b = queue.claim(engine, 2, lease_seconds=10, now=T0)
    assert finish(engine, a, verdict("a", "fail", fault={"layer": "rerank"}))
    assert finish(engine, b, verdict("b", "pass"))
    assert tally(engine) == {
        "bucket_start": 1_699_999_980,
        "app": "shop",
        "version": "v1",
        "stratum": "normal_b0",
        "criterion": "any_failure",
        "judge": "local-1",
        "weight": 12.0,
        "fail_weight": 10.0,
        "weight_sq": 104.0,
        "judged": 2,
        "failed": 1,
        "not_applicable_weight": 0.0,
        "missing_weight": 0.0,
    }
    with engine.connect() as connection:
        fault = connection.execute(select(fault_tally)).one()
        assert (fault.layer, fault.weight, fault.judged, fault.judge) == ("rerank", 10.0, 1, "local-1")
    assert states(engine) == {"a": "judged", "b": "judged"}


def test_finishing_twice_counts_once(engine: Engine) -> None:
    put(engine, "a")
    (a,) = queue.claim(engine, 1, lease_seconds=10, now=T0)
    (again,) = queue.claim(engine, 1, lease_seconds=10, now=T0 + 20)  # the first worker was slow
    assert finish(engine, again, verdict("a", "pass"))
    assert not finish(engine, a, verdict("a", "fail", fault={"layer": "rerank"}))
    assert (tally(engine)["judged"], tally(engine)["failed"]) == (1, 0)
    with engine.connect() as connection:
        assert len(connection.execute(select(judgements)).all()) == 1
        assert connection.execute(select(fault_tally)).all() == []


def test_a_failing_write_leaves_nothing_behind(engine: Engine) -> None:
    put(engine, "a")
    (a,) = queue.claim(engine, 1, lease_seconds=10, now=T0)
    with pytest.raises(TypeError):
        finish(engine, a, verdict("a", "fail", fault={"layer": object()}))
    assert states(engine) == {"a": "leased"}
    with engine.connect() as connection:
        assert connection.execute(select(judgements)).all() == []
        assert connection.execute(select(verdict_tally)).all() == []


def test_not_applicable_and_missing_have_sums_of_their_own(engine: Engine) -> None:
    for trace_id in ("a", "b", "c"):
        put(engine, trace_id, probability=0.5)
    a, b, c = queue.claim(engine, 3, lease_seconds=10, now=T0)
    finish(engine, a, verdict("a", "not_applicable"))
    finish(engine, b, verdict("b", "unscored"))
    finish(engine, c, verdict("c", "unscored"), verdict("c", "fail", Criterion.REFUSAL))
    row = tally(engine)
    assert (row["weight"], row["judged"], row["not_applicable_weight"], row["missing_weight"]) == (0, 0, 2.0, 4.0)
    assert states(engine) == {"a": "judged", "b": "unscored", "c": "judged"}


@pytest.mark.parametrize("outcome", [Outcome.ERROR, Outcome.TIMEOUT, Outcome.CANCELLED])
def test_failed_executions_never_enter_a_quality_sum(engine: Engine, outcome: Outcome) -> None:
    """Their traffic is in no quality denominator, so a verdict about them may not be in a numerator either."""
    put(engine, "a", outcome=outcome)
    (a,) = queue.claim(engine, 1, lease_seconds=10, now=T0)
    assert finish(engine, a, verdict("a", "fail"), verdict("a", "not_applicable", Criterion.FAITHFULNESS))
    with engine.connect() as connection:
        assert connection.execute(select(verdict_tally)).all() == []
        assert len(connection.execute(select(judgements)).all()) == 2


def test_late_traces_are_judged_for_people_only(engine: Engine) -> None:
    put(engine, "a", family="late")
    (a,) = queue.claim(engine, 1, lease_seconds=10, now=T0)
    finish(engine, a, verdict("a", "fail", fault={"layer": "rerank"}))
    assert states(engine) == {"a": "judged"}
    with engine.connect() as connection:
        assert connection.execute(select(verdict_tally)).all() == []
        assert connection.execute(select(fault_tally)).all() == []


def expire(engine: Engine, now: float) -> list[tuple[str, str]]:
    return queue.expire(engine, [("local-1", AnnotatorKind.CODE)], bucket_seconds=BUCKET, now=now)


def test_a_trace_that_kills_its_worker_three_times_is_given_up_and_counted_as_missing(engine: Engine) -> None:
    put(engine, "a", probability=0.1, adjusted_count=3.0)
    for attempt in range(queue.MAX_ATTEMPTS):
        assert expire(engine, T0 + 10 * attempt) == []
        assert len(queue.claim(engine, 1, lease_seconds=10, now=T0 + 10 * attempt)) == 1
    assert expire(engine, T0 + 29) == []  # the third lease still runs
    assert queue.claim(engine, 1, lease_seconds=10, now=T0 + 30) == []
    assert expire(engine, T0 + 30) == [("a", "attempts")]
    assert states(engine) == {"a": "unscored"}
    assert tally(engine)["missing_weight"] == pytest.approx(30.0)
    assert {j.label for j in judgement_store.for_trace(engine, "a")} == {"unscored"}
    assert expire(engine, T0 + 60) == []


@pytest.mark.parametrize("payload", ["", "{", "[]", "null", '"x"', "{}", '{"outcome": "answered"}', "1e999"])
def test_an_unreadable_payload_is_given_up_at_once_and_holds_nobody_up(engine: Engine, payload: str) -> None:
    put(engine, "a", payload=payload, queued_at=1)
    put(engine, "b", queued_at=2)
    assert [s.trace.trace_id for s in queue.claim(engine, 2, lease_seconds=10, now=T0)] == ["b"]
    assert expire(engine, T0) == [("a", "unreadable_payload")]
    assert tally(engine)["missing_weight"] == pytest.approx(10.0)


def test_a_released_trace_waits_again_without_a_lost_attempt(engine: Engine) -> None:
    put(engine, "a")
    for _ in range(10):
        (a,) = queue.claim(engine, 1, lease_seconds=10, now=T0)
        queue.release(engine, [a.trace.trace_id], lease_until=T0 + 10)
    assert states(engine) == {"a": "waiting"}
    assert len(queue.claim(engine, 1, lease_seconds=10, now=T0)) == 1
    assert queue.release_all(engine) == 1
    assert states(engine) == {"a": "waiting"}


def test_depth_counts_what_is_not_finished(engine: Engine) -> None:
    assert queue.depth(engine) == queue.Depth(0, 0, None)
    for trace_id, queued_at in (("a", 1.0), ("b", 2.0), ("c", 3.0)):
        put(engine, trace_id, queued_at=queued_at)
    (a,) = queue.claim(engine, 1, lease_seconds=10, now=T0)
    assert queue.depth(engine) == queue.Depth(waiting=2, leased=1, oldest_queued_at=1.0)
    finish(engine, a, verdict("a", "pass"))
    assert queue.depth(engine) == queue.Depth(waiting=2, leased=0, oldest_queued_at=2.0)


def test_a_chance_of_nought_in_the_table_is_not_divided_by(engine: Engine) -> None:
    put(engine, "a")
    with engine.begin() as connection:
        connection.execute(update(sampled_traces).values(inclusion_probability=0.0))
    assert queue.claim(engine, 1, lease_seconds=10, now=T0) == []
    assert expire(engine, T0) == [("a", "unreadable_payload")]
    with engine.connect() as connection:
        assert connection.execute(select(verdict_tally)).all() == []


def test_judgements_come_back_as_they_were_stored(engine: Engine) -> None:
    row = Judgement(
        "a", Criterion.ANY_FAILURE, "fail", 0.25, "说明", AnnotatorKind.LLM, "llm:m:rubric-v1", T0, 0.002, {"k": [1]}
    )
    other = Judgement("a", Criterion.FAITHFULNESS, "pass", 1.0, "", AnnotatorKind.LLM, "llm:m:rubric-v1", T0, 0.002)
    with engine.begin() as connection:
        judgement_store.append(connection, [row, other])
    assert judgement_store.for_trace(engine, "a") == [row, other]
    assert judgement_store.for_trace(engine, "b") == []
    assert judgement_store.spent_usd(engine, "llm:m:rubric-v1", since=T0 - 1) == pytest.approx(0.002)
    assert judgement_store.spent_usd(engine, "llm:m:rubric-v1", since=T0 + 1) == 0.0
