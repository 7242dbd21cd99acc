"""The settled family: each trace once, with the stratum it ended in and the largest chance it was offered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import Engine, Table, event, select

from groundwatch_alerts import tallies
from groundwatch_collector import decision_store, sampling, settling
from groundwatch_collector.assembly import Pending
from groundwatch_collector.decision import Decision
from groundwatch_collector.ragtrace import Outcome, RagTrace
from groundwatch_collector.sampled import SampledTrace
from groundwatch_collector.settling import Offer, Standing
from groundwatch_collector.settling_tables import (
    late_offers,
    settled_traffic_tally,
    settling_tally,
)
from groundwatch_scorer import queue, settle
from groundwatch_scorer.judgement import AnnotatorKind, Criterion, Judgement
from groundwatch_scorer.scorer_metrics import SettleMetrics
from groundwatch_scorer.second_look import SecondLook
from groundwatch_scorer.tables import settled_fault_tally, settled_verdict_tally

T0 = 1_780_000_000.0 // settling.STEP * settling.STEP
HORIZON, BUCKET = 86_400.0, 60
DUE = T0 + settling.STEP + HORIZON + settling.MARGIN_SECONDS
JUDGES = [("local-1", AnnotatorKind.CODE)]


def decide(
    engine: Engine,
    number: int,
    *,
    at: float = T0,
    stratum: str = "normal_b0",
    p: float = 0.5,
    u: float = 0.1,
    outcome: Outcome = Outcome.ANSWERED,
    count: float = 1.0,
) -> Decision:
    """Decide one trace whose random number is *u*."""
    trace_id, u56 = f"{number:032x}", int(u * sampling.SPACE)
    trace = RagTrace(trace_id, "shop", "v1", at - 5, 0.5, outcome, "recorded", answer="a", adjusted_count=count)
    verdict = "sampled" if sampling.included(u56, p) else "not_sampled"
    pending = Pending(trace_id, number, number, at, at)
    made = Decision(pending, trace, "shop", "v1", at - 5, stratum, p, u56, "e1", 1, verdict, "hash")
    with engine.begin() as connection:
        decision_store.add_decisions(connection, [made], now=at, bucket_seconds=BUCKET)
    return made


def rise(engine: Engine, made: Decision, p: float, *, to: str = "feedback_neg", gone: bool = False) -> None:
    """Late feedback on *made*, as the pipeline handles it."""
    at = T0 + 3600
    with engine.begin() as connection:
        found = settling.decided(connection, [made.pending.trace_id])[made.pending.trace_id]
        assert settling.may_rise(found, to, at, HORIZON)
        settling.add_offers(connection, [Offer(found, Standing(to, p), "e2", "late_feedback", at)], BUCKET)
        if made.verdict == "not_sampled" and sampling.included(made.u56, p) and not gone and made.trace is not None:
            late = SampledTrace(made.trace, to, p, "late_feedback", "e2", "late")
            assert decision_store.queue_late(connection, late, at)


def judge(
    engine: Engine, failing: Sequence[int] = (), *, now: float = T0 + 7200, looks: Sequence[SecondLook] = ()
) -> None:
    """Judge whatever waits; the traces numbered in *failing* fail."""
    for sampled in queue.claim(engine, 100, 60.0, now):
        failed = int(sampled.trace.trace_id, 16) in failing
        detail = {"fault": {"layer": "retrieval"}} if failed else {}
        verdict = Judgement(
            sampled.trace.trace_id, Criterion.ANY_FAILURE, "fail" if failed else "pass", None, "",
            AnnotatorKind.CODE, "local-1", now, detail=detail,
        )  # fmt: skip
        assert queue.finish(engine, sampled, [verdict], bucket_seconds=BUCKET, now=now, looks=looks)


def settled(engine: Engine, now: float = DUE) -> settle.Settled | None:
    return settle.settle(engine, JUDGES, horizon_seconds=HORIZON, bucket_seconds=BUCKET, now=now)


def rows(engine: Engine, table: Table) -> list[Any]:
    with engine.connect() as connection:
        return list(connection.execute(select(table)))


def sums(engine: Engine, family: tallies.Family) -> dict[str, tuple[float, ...]]:
    """(traffic, A, B, C, missing) by stratum."""
    found = tallies.sums(engine, app="shop", criterion="any_failure", judge="local-1", family=family)
    return {s.stratum: (s.traffic, s.weight, s.fail_weight, s.weight_sq, s.missing_weight) for s in found}


@pytest.mark.parametrize(
    ("decided", "offers", "expected"),
    [
        (("normal_b0", 0.1), [], ("normal_b0", 0.1)),
        (("normal_b0", 0.1), [("feedback_neg", 0.5)], ("feedback_neg", 0.5)),
        (("normal_b3", 0.9), [("feedback_neg", 0.5)], ("feedback_neg", 0.9)),
        (("normal_b0", 0.1), [("feedback_neg", 0.5), ("error_timeout", 0.2)], ("error_timeout", 0.5)),
        (("of an older version", 0.1), [("feedback_neg", 0.5)], ("feedback_neg", 0.5)),
    ],
)
def test_a_trace_ends_in_its_foremost_stratum_at_the_largest_chance_it_was_offered(decided, offers, expected):
    assert settling.final(Standing(*decided), [Standing(*offer) for offer in offers]) == expected


def test_without_late_feedback_both_families_say_the_same(engine):
    decide(engine, 1)
    decide(engine, 2, u=0.7)
    decide(engine, 3, stratum="refusal", p=1.0)
    decide(engine, 4, outcome=Outcome.ERROR, stratum="error_timeout", p=1.0, count=4.0)
    judge(engine, failing=[3])
    assert settled(engine) == settle.Settled(traces=4, risen=0, judged=3, missing=0)
    assert sums(engine, "settled") == sums(engine, "fast")
    assert sums(engine, "settled")["normal_b0"] == (2.0, 2.0, 0.0, 4.0, 0.0)
    faults = [tallies.fault_layers(engine, app="shop", judge="local-1", family=f) for f in ("fast", "settled")]
    assert faults[0] == faults[1] != []
    traffic = {(r.stratum, r.outcome): (r.traces, r.received) for r in rows(engine, settled_traffic_tally)}
    assert traffic["error_timeout", "error"] == (4.0, 1)


def test_a_judge_that_is_asked_with_a_chance_weighs_more_in_both_families(engine):
    decide(engine, 1)
    judge(engine, failing=[1], looks=[SecondLook("local-1", 0.25, chosen=True, unsure=False)])
    settled(engine)
    assert sums(engine, "settled") == sums(engine, "fast") == {"normal_b0": (1.0, 8.0, 8.0, 64.0, 0.0)}
    faults = [tallies.fault_layers(engine, app="shop", judge="local-1", family=f) for f in ("fast", "settled")]
    assert [[(f.layer, f.weight) for f in found] for found in faults] == [[("retrieval", 8.0)]] * 2


def test_late_complaints_move_traffic_and_verdicts_together(engine):
    early = decide(engine, 1, p=0.25, u=0.1)  # judged at once, then complained of
    late = decide(engine, 2, p=0.25, u=0.3)  # judged for the complaint
    never = decide(engine, 3, p=0.25, u=0.8)  # complained of, and not even then chosen
    decide(engine, 4, p=0.25, u=0.2)
    for made in (early, late, never):
        rise(engine, made, 0.5)
    judge(engine, failing=[1, 2])
    fast = {"normal_b0": (4.0, 8.0, 4.0, 32.0, 0.0)}
    assert sums(engine, "fast") == fast
    assert settled(engine) == settle.Settled(traces=4, risen=3, judged=3, missing=0)
    assert sums(engine, "settled") == {
        "feedback_neg": (3.0, 4.0, 4.0, 8.0, 0.0),
        "normal_b0": (1.0, 4.0, 0.0, 16.0, 0.0),
    }
    assert sums(engine, "fast") == fast


def test_a_chosen_trace_whose_spans_are_gone_is_missing_not_absent(engine):
    made = decide(engine, 1, p=0.25, u=0.4)
    rise(engine, made, 0.5, gone=True)
    assert settled(engine) == settle.Settled(traces=1, risen=1, judged=0, missing=1)
    assert sums(engine, "settled")["feedback_neg"] == (1.0, 0.0, 0.0, 0.0, 2.0)


def test_nothing_is_settled_before_its_time_or_before_its_judge_is_done(engine):
    decide(engine, 1)
    assert settled(engine, DUE - 1) is None
    assert settled(engine, DUE) is None
    judge(engine)
    assert settled(engine, DUE - 1) is None
    assert settled(engine, DUE) is not None


def test_settling_again_changes_nothing_and_leaves_nothing_behind(engine):
    rise(engine, decide(engine, 1), 1.0)
    judge(engine, failing=[1])
    assert settled(engine) is not None
    before = [rows(engine, table) for table in (settled_traffic_tally, settled_verdict_tally, settled_fault_tally)]
    assert settled(engine, DUE + 10 * HORIZON) is None
    assert [rows(engine, t) for t in (settled_traffic_tally, settled_verdict_tally, settled_fault_tally)] == before
    assert rows(engine, settling_tally) == rows(engine, late_offers) == []


@pytest.mark.parametrize("statement", range(1, 12))
def test_a_crash_at_any_statement_leaves_all_or_nothing(engine, statement):
    """The connection is lost at one statement of the transaction; the next process starts again."""
    rise(engine, decide(engine, 1), 1.0)
    decide(engine, 2)
    judge(engine, failing=[1])
    seen = 0

    def crash(*_event: object) -> None:
        nonlocal seen
        seen += 1
        if seen == statement:
            raise ConnectionError("the process dies here")

    event.listen(engine, "before_cursor_execute", crash)
    try:
        settled(engine)
    except ConnectionError:
        assert rows_without(engine, crash, settled_traffic_tally) == []
    finally:
        if event.contains(engine, "before_cursor_execute", crash):
            event.remove(engine, "before_cursor_execute", crash)
    settled(engine)
    assert settled(engine) is None
    assert sums(engine, "settled") == {
        "feedback_neg": (1.0, 1.0, 1.0, 1.0, 0.0),
        "normal_b0": (1.0, 2.0, 0.0, 4.0, 0.0),
    }


def rows_without(engine: Engine, listener: Any, table: Table) -> list[Any]:
    event.remove(engine, "before_cursor_execute", listener)
    return rows(engine, table)


def test_what_arrives_very_late_is_settled_by_when_it_was_decided(engine):
    """An old trace, delivered after an outage of days, has its whole horizon for feedback as well."""
    decide(engine, 1)
    judge(engine)
    assert settled(engine) is not None
    decide(engine, 2, at=T0 + 3 * HORIZON)
    judge(engine, now=T0 + 3 * HORIZON + 10)
    assert settled(engine, T0 + 3 * HORIZON + 20) is None
    assert settled(engine, DUE + 3 * HORIZON) is not None
    assert sums(engine, "settled")["normal_b0"][0] == 2.0


def test_counters_of_the_settled_family_never_fall(engine):
    """Every sum that is exported is at least what it was, whatever happens in between."""
    last: dict[str, tuple[float, ...]] = {}
    for number in range(1, 9):
        made = decide(engine, number, at=T0 + number * settling.STEP, u=number / 10, p=0.35)
        rise(engine, made, 0.6) if number % 2 else None
        judge(engine, failing=[3, 5])
        settled(engine, DUE + number * settling.STEP)
        now = sums(engine, "settled")
        for stratum, values in last.items():
            assert all(a >= b for a, b in zip(now[stratum], values, strict=True))
        last = now
    assert sum(values[0] for values in last.values()) == 8


def test_the_settler_works_through_what_is_due_and_says_how_far_it_is(engine):
    for number in range(1, 4):
        rise(engine, decide(engine, number, at=T0 + number * settling.STEP, u=0.4), 1.0)
    judge(engine)
    registry = CollectorRegistry()
    settler = settle.Settler(
        engine, JUDGES, SettleMetrics(registry), horizon_seconds=HORIZON, bucket_seconds=BUCKET,
        now=lambda: DUE + 2 * settling.STEP,
    )  # fmt: skip
    assert settler.step() == 2
    value = registry.get_sample_value
    assert value("groundwatch_settled_traces_total", {"state": "received"}) == 2
    assert value("groundwatch_settled_traces_total", {"state": "risen"}) == 2
    assert value("groundwatch_settled_traces_total", {"state": "missing"}) == 0
    assert value("groundwatch_unsettled_oldest_timestamp_seconds") == T0 + 3 * settling.STEP
    assert settler.step() == 0
