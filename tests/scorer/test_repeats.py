"""A share of all readings is made twice, and what a judge changes its mind about is counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from queue_rows import put_in_queue, queue_row
from sqlalchemy import Engine, insert

from groundwatch_collector.ragtrace import Document, Outcome, RagTrace, to_json
from groundwatch_collector.tables import sampled_traces
from groundwatch_scorer import judgement_store
from groundwatch_scorer.judgement import AnnotatorKind, Assessment, Criterion, Judge, Judgement
from groundwatch_scorer.local_judge import LocalJudge
from groundwatch_scorer.repeats import RepeatPlan
from groundwatch_scorer.scorer_metrics import ScorerMetrics
from groundwatch_scorer.worker import ScorerWorker

T0 = 1_700_000_000.0
SALT = b"a salt of this test"


@dataclass
class Scripted:
    """Says the next of its words on every reading, and goes round."""

    words: tuple[str, ...]
    identifier: str = "llm:m:rubric-v1"
    cost_usd: float | None = 0.5
    seen: list[str] = field(default_factory=list)

    def assess(self, trace: RagTrace) -> Assessment:
        word = self.words[len(self.seen) % len(self.words)]
        self.seen.append(trace.trace_id)
        if word == "breaks":
            raise RuntimeError
        return Assessment(self.identifier, AnnotatorKind.LLM, explanation=word, cost_usd=self.cost_usd)


def judgements(trace: RagTrace, assessment: Assessment, judged_at: float) -> list[Judgement]:
    word = assessment.explanation
    label = "unscored" if word in ("abstained", "timeout") else word
    one = Judgement(
        trace.trace_id, Criterion.FAITHFULNESS, label, None, "", AnnotatorKind.LLM, assessment.identifier, judged_at
    )
    headline = replace(one, criterion=Criterion.ANY_FAILURE, cost_usd=assessment.cost_usd, detail={"reasons": [word]})
    return [one, headline]


def run(
    engine: Engine,
    judge: Judge,
    plan: RepeatPlan | None = None,
    *,
    now: Callable[[], float] = lambda: T0 + 60,
    **options: Any,
) -> Callable[..., float | None]:
    """Judge whatever waits; return how a counter of the repeats is read."""
    registry = CollectorRegistry()
    plan = plan or RepeatPlan(1.0, 1000, SALT)
    ScorerWorker(
        engine,
        [judge],
        ScorerMetrics(registry),
        bucket_seconds=60,
        now=now,
        batch=2000,
        repeats=plan,
        **({"to_judgements": judgements} | options),
    ).step()
    return lambda name, **labels: registry.get_sample_value(
        f"groundwatch_judge_{name}_total", {"judge": judge.identifier} | labels
    )


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        (("pass", "pass"), 0),
        (("fail", "pass"), 3),
        (("pass", "abstained"), 3),
        (("abstained", "abstained"), 0),
        (("pass", "not_applicable"), 3),
        (("pass", "pass", "fail", "pass", "pass", "fail"), 2),
    ],
)
def test_another_headline_the_second_time_is_counted(engine: Engine, words: tuple[str, ...], changes: int) -> None:
    put_in_queue(engine, T0, "a", "b", "c")
    counter = run(engine, Scripted(words))
    assert (counter("repeats"), counter("repeat_changes")) == (3, changes)


def test_the_first_reading_is_the_verdict_and_bears_the_cost_of_both(engine: Engine) -> None:
    put_in_queue(engine, T0, "a")
    judge = Scripted(("fail", "pass"))
    counter = run(engine, judge)
    kept = {j.criterion: j for j in judgement_store.for_trace(engine, "t0")}
    assert {j.label for j in kept.values()} == {"fail"}
    assert kept[Criterion.ANY_FAILURE].cost_usd == 1.0
    assert kept[Criterion.FAITHFULNESS].cost_usd is None
    assert counter("cost_usd") == 1.0
    assert judgement_store.spent_usd(engine, judge.identifier, T0) == 1.0  # counts against the day after a restart


@pytest.mark.parametrize(
    ("words", "reason", "readings"),
    [(("timeout",), "no_verdict", 1), (("pass", "timeout"), "no_verdict", 2), (("pass", "breaks"), "error", 2)],
)
def test_a_reading_in_trouble_says_nothing_of_stability(
    engine: Engine, words: tuple[str, ...], reason: str, readings: int
) -> None:
    put_in_queue(engine, T0, "a")
    judge = Scripted(words)
    counter = run(engine, judge)
    assert (counter("repeats"), counter("repeat_changes")) == (0, 0)
    assert counter("repeats_missed", reason=reason) == 1
    assert len(judge.seen) == readings
    assert len(judgement_store.for_trace(engine, "t0")) == 2


def test_a_day_has_only_so_many_second_readings(engine: Engine) -> None:
    put_in_queue(engine, T0, *"abcdef")
    clock = iter([T0] * 40)
    counter = run(engine, Scripted(("pass",)), RepeatPlan(1.0, 4, SALT), now=lambda: next(clock))
    assert (counter("repeats"), counter("repeats_missed", reason="over_limit")) == (4, 2)


def test_the_next_day_has_its_own(engine: Engine) -> None:
    put_in_queue(engine, T0, *"abcdef")
    days = iter(range(1000))
    counter = run(
        engine, Scripted(("pass",)), RepeatPlan(1.0, 1, SALT), now=lambda: T0 + 86_400 * next(days), lease_seconds=1e9
    )
    assert (counter("repeats"), counter("repeats_missed", reason="over_limit")) == (6, 0)


def test_the_share_is_what_was_asked_for_and_the_same_traces_each_time(engine: Engine) -> None:
    put_in_queue(engine, T0, *["a"] * 1500)
    judge = Scripted(("pass",))
    counter = run(engine, judge, RepeatPlan(0.1, 1000, SALT))
    made = counter("repeats")
    assert made is not None
    assert abs(made - 150) < 3.3 * (1500 * 0.1 * 0.9) ** 0.5
    twice = {trace for trace in judge.seen if judge.seen.count(trace) == 2}
    assert len(twice) == made


def test_what_no_judge_reads_is_not_read_twice(engine: Engine) -> None:
    put_in_queue(engine, T0, "", "  ")
    failed = RagTrace("f", "shop", "v1", T0, 0.5, Outcome.ERROR, "recorded", answer="half an ans")
    with engine.begin() as connection:
        connection.execute(insert(sampled_traces), [queue_row("f", "", T0) | {"payload": to_json(failed)}])
    judge = Scripted(("not_applicable",))
    counter = run(engine, judge)
    assert len(judge.seen) == 3
    assert counter("repeats") == 0


def test_the_local_judge_never_contradicts_itself(engine: Engine) -> None:
    document = Document("d", 1, 0.9, "Backups are kept for 30 days. 备份保留三十天。")
    for number, answer in enumerate(
        ["Backups are kept for 90 days.", "备份保留九十天。", "Cats sleep.", "备份保留三十天。"]
    ):
        trace = RagTrace(
            f"l{number}", "shop", "v1", T0, 0.5, Outcome.ANSWERED, "recorded", answer=answer, context=(document,)
        )
        with engine.begin() as connection:
            connection.execute(
                insert(sampled_traces), [queue_row(trace.trace_id, "", T0) | {"payload": to_json(trace)}]
            )
    counter = run(engine, LocalJudge(), to_judgements=None)
    assert (counter("repeats"), counter("repeat_changes")) == (4, 0)


@pytest.mark.parametrize(
    ("share", "per_day", "named"), [(0.0, 5, "repeat_share"), (1.1, 5, "repeat_share"), (0.5, 0, "per_day")]
)
def test_a_plan_that_is_none_is_refused(share: float, per_day: int, named: str) -> None:
    with pytest.raises(ValueError, match=rf"{named}.*found .*, accepted: "):
        RepeatPlan(share, per_day, SALT)
