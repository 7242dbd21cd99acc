"""The worker over a real SQLite queue, with judges that behave and judges that do not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from queue_rows import put_in_queue
from sqlalchemy import Engine, select
from sqlalchemy.exc import DBAPIError

from groundwatch_collector.ragtrace import RagTrace
from groundwatch_collector.storage import metadata
from groundwatch_scorer import judgement_store, queue
from groundwatch_scorer.judgement import AnnotatorKind, Assessment, Criterion, Judge, Judgement
from groundwatch_scorer.scorer_metrics import ScorerMetrics
from groundwatch_scorer.tables import verdict_tally
from groundwatch_scorer.worker import ScorerWorker

T0 = 1_700_000_000.0


class WordJudge:
    """Fails an answer that contains its word."""

    def __init__(self, word: str = "bad", identifier: str = "word-1") -> None:
        self.word = word
        self.identifier = identifier
        self.seen: list[str] = []

    def assess(self, trace: RagTrace) -> Assessment:
        self.seen.append(trace.trace_id)
        bad = self.word in (trace.answer or "")
        return Assessment(
            self.identifier,
            AnnotatorKind.CODE,
            explanation="fail" if bad else "pass",
            cost_usd=0.5,
            input_tokens=100,
            output_tokens=10,
            flags=("context_truncated",),
        )


class RaisingJudge:
    identifier = "llm:raises:rubric-v1"

    def assess(self, trace: RagTrace) -> Assessment:
        raise RuntimeError(f"cannot read {trace.answer}")


class SilentJudge(WordJudge):
    def assess(self, trace: RagTrace) -> Assessment:
        return replace(super().assess(trace), unscored_reason="timeout")


def judgements(trace: RagTrace, assessment: Assessment, judged_at: float) -> list[Judgement]:
    label = "unscored" if assessment.unscored_reason else assessment.explanation
    return [
        Judgement(
            trace.trace_id, criterion, label, None, "", assessment.annotator_kind, assessment.identifier, judged_at
        )
        for criterion in Criterion
    ]


def put(engine: Engine, *answers: str) -> None:
    put_in_queue(engine, T0, *answers)


class Clock:
    def __init__(self) -> None:
        self.at = T0 + 10

    def __call__(self) -> float:
        return self.at


def worker(
    engine: Engine,
    judges: Sequence[Judge],
    *,
    now: Callable[[], float] | None = None,
    registry: CollectorRegistry | None = None,
    batch: int = 16,
    to_judgements: Callable[[RagTrace, Assessment, float], list[Judgement]] = judgements,
    concurrency: int = 1,
) -> ScorerWorker:
    return ScorerWorker(
        engine,
        judges,
        ScorerMetrics(registry or CollectorRegistry()),
        bucket_seconds=60,
        now=now or Clock(),
        batch=batch,
        lease_seconds=60,
        to_judgements=to_judgements,
        concurrency=concurrency,
    )


def tally(engine: Engine, judge: str) -> tuple[float, int, int, float]:
    query = select(verdict_tally).where(verdict_tally.c.criterion == "any_failure", verdict_tally.c.judge == judge)
    with engine.connect() as connection:
        row = connection.execute(query).one()
    return row.weight, row.judged, row.failed, row.missing_weight


def test_a_step_judges_a_batch_oldest_first(engine: Engine) -> None:
    put(engine, "good", "bad", "good")
    judge = WordJudge()
    scorer = worker(engine, [judge], batch=2)
    assert [scorer.step(), scorer.step(), scorer.step()] == [2, 1, 0]
    assert judge.seen == ["t0", "t1", "t2"]
    assert tally(engine, "word-1") == (6.0, 3, 1, 0.0)
    assert len(judgement_store.for_trace(engine, "t1")) == len(Criterion)


def test_every_judge_reads_each_trace_and_keeps_its_own_sums(engine: Engine) -> None:
    put(engine, "good", "bad")
    worker(engine, [WordJudge(), WordJudge("good", "word-2")]).step()
    assert tally(engine, "word-1")[1:3] == (2, 1)
    assert tally(engine, "word-2")[1:3] == (2, 1)


def test_a_judge_that_raises_leaves_its_verdict_missing_and_the_others_whole(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    put(engine, "my secret 4711", "bad")
    registry = CollectorRegistry()
    assert worker(engine, [RaisingJudge(), WordJudge()], registry=registry).step() == 2
    assert tally(engine, "llm:raises:rubric-v1") == (0.0, 0, 0, 4.0)
    assert tally(engine, "word-1") == (4.0, 2, 1, 0.0)
    labels = {"judge": "llm:raises:rubric-v1", "reason": "judge_error"}
    assert registry.get_sample_value("groundwatch_judge_failures_total", labels) == 2
    kinds = {j.annotator_kind for j in judgement_store.for_trace(engine, "t0")}
    assert kinds == {AnnotatorKind.LLM, AnnotatorKind.CODE}
    assert "RuntimeError" in caplog.text
    assert "4711" not in caplog.text


def test_criteria_that_raise_are_unscored_as_well(engine: Engine) -> None:
    put(engine, "good")

    def broken(trace: RagTrace, assessment: Assessment, judged_at: float) -> list[Judgement]:
        raise KeyError("x")

    registry = CollectorRegistry()
    assert worker(engine, [WordJudge()], registry=registry, to_judgements=broken).step() == 1
    assert tally(engine, "word-1")[3] == 2.0
    labels = {"judge": "word-1", "reason": "criteria_error"}
    assert registry.get_sample_value("groundwatch_judge_failures_total", labels) == 1


def test_metrics_count_verdicts_money_tokens_and_the_queue(engine: Engine) -> None:
    put(engine, "good", "bad", "good")
    registry = CollectorRegistry()
    scorer = worker(engine, [WordJudge(), SilentJudge(identifier="silent")], registry=registry, batch=2)
    value = registry.get_sample_value
    assert value("groundwatch_judged_total", {"judge": "word-1", "verdict": "fail"}) == 0.0  # born at zero
    scorer.step()
    assert value("groundwatch_judged_total", {"judge": "word-1", "verdict": "fail"}) == len(Criterion)
    assert value("groundwatch_judged_total", {"judge": "silent", "verdict": "unscored"}) == 2 * len(Criterion)
    assert value("groundwatch_judge_failures_total", {"judge": "silent", "reason": "timeout"}) == 2
    assert value("groundwatch_judge_cost_usd_total", {"judge": "word-1"}) == 1.0
    assert value("groundwatch_judge_tokens_total", {"judge": "word-1", "direction": "input"}) == 200
    assert value("groundwatch_judge_flags_total", {"judge": "word-1", "flag": "context_truncated"}) == 2
    assert value("groundwatch_judge_seconds_count", {"judge": "word-1"}) == 2
    assert value("groundwatch_judge_queue_traces", {"state": "waiting"}) == 1
    assert value("groundwatch_judge_queue_oldest_timestamp_seconds") == T0 + 2
    scorer.step()
    assert value("groundwatch_judge_queue_traces", {"state": "waiting"}) == 0
    assert value("groundwatch_judge_queue_oldest_timestamp_seconds") == 0


def test_a_slow_judge_gives_the_rest_of_its_batch_back_before_the_lease_ends(engine: Engine) -> None:
    put(engine, "a", "b", "c")
    clock = Clock()

    class SlowJudge(WordJudge):
        def assess(self, trace: RagTrace) -> Assessment:
            clock.at += 25
            return super().assess(trace)

    scorer = worker(engine, [SlowJudge()], now=clock)
    assert scorer.step() == 2  # 50 of the lease's 60 seconds are gone
    assert queue.depth(engine).waiting == 1
    assert scorer.step() == 1


def test_a_trace_that_another_worker_finished_is_not_counted_again(engine: Engine) -> None:
    put(engine, "bad")
    clock = Clock()
    other = worker(engine, [WordJudge()], now=clock)

    class OvertakenJudge(WordJudge):
        def assess(self, trace: RagTrace) -> Assessment:
            clock.at += 61  # the lease ends, and another worker is quicker
            assert other.step() == 1
            return super().assess(trace)

    registry = CollectorRegistry()
    assert worker(engine, [OvertakenJudge()], now=clock, registry=registry).step() == 0
    assert tally(engine, "word-1") == (2.0, 1, 1, 0.0)
    assert registry.get_sample_value("groundwatch_judged_total", {"judge": "word-1", "verdict": "fail"}) == 0


def test_run_stops_between_traces_and_gives_the_rest_back(engine: Engine) -> None:
    put(engine, "a", "b", "c")
    stop = threading.Event()

    class StoppingJudge(WordJudge):
        def assess(self, trace: RagTrace) -> Assessment:
            stop.set()
            return super().assess(trace)

    judge = StoppingJudge()
    worker(engine, [judge]).run(stop)
    assert judge.seen == ["t0"]
    assert queue.depth(engine) == queue.Depth(waiting=2, leased=0, oldest_queued_at=T0 + 1)


def test_a_database_that_is_away_is_waited_for(empty_engine: Engine) -> None:
    """No tables yet: every step fails until they are made."""
    engine = empty_engine
    registry = CollectorRegistry()
    scorer = worker(engine, [WordJudge()], registry=registry)
    with pytest.raises(DBAPIError):
        scorer.step()

    class Waits(threading.Event):
        """Makes the tables while the worker waits, then stops it once it has judged."""

        def __init__(self) -> None:
            super().__init__()
            self.waits: list[float] = []

        def wait(self, timeout: float | None = None) -> bool:
            self.waits.append(timeout or 0.0)
            if len(self.waits) == 3:
                metadata.create_all(engine)
                put(engine, "bad")
            if len(self.waits) == 4:
                self.set()
            return self.is_set()

    stop = Waits()
    scorer.run(stop)
    assert stop.waits[:3] == pytest.approx([0.2, 0.4, 0.8])
    assert registry.get_sample_value("groundwatch_judge_database_errors_total") == 3
    assert tally(engine, "word-1") == (2.0, 1, 1, 0.0)


def test_a_scorer_without_judges_is_refused(engine: Engine) -> None:
    with pytest.raises(ValueError, match="at least one judge"):
        worker(engine, [])


class Crowd(WordJudge):
    """Knows how many of its readings are at work at once; each waits until *together* are, or a moment."""

    def __init__(self, together: int) -> None:
        super().__init__()
        self.together = together
        self.lock = threading.Condition()
        self.now = self.most = 0

    def assess(self, trace: RagTrace) -> Assessment:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.lock.notify_all()
            self.lock.wait_for(lambda: self.most >= self.together, timeout=5)
            found = super().assess(trace)
            self.now -= 1
        return found


def test_so_many_traces_are_read_at_once_and_no_more(engine: Engine) -> None:
    put(engine, *["good", "bad"] * 6)
    judge = Crowd(3)
    assert worker(engine, [judge], concurrency=3).step() == 12
    assert judge.most == 3
    assert tally(engine, "word-1") == (24.0, 12, 6, 0.0)
    assert sorted(judge.seen) == sorted(f"t{i}" for i in range(12))


def test_what_has_begun_when_a_stop_comes_is_finished_and_the_rest_given_back(engine: Engine) -> None:
    put(engine, *["good"] * 10)
    stop = threading.Event()

    class Stopping(Crowd):
        def assess(self, trace: RagTrace) -> Assessment:
            found = super().assess(trace)
            stop.set()
            return found

    judge = Stopping(2)
    worker(engine, [judge], concurrency=2).run(stop)
    assert len(judge.seen) == tally(engine, "word-1")[1] == 2
    assert queue.depth(engine) == queue.Depth(8, 0, T0 + 2)


def test_readers_end_with_the_step(engine: Engine) -> None:
    put(engine, *["good"] * 4)
    worker(engine, [RaisingJudge(), WordJudge()], concurrency=4).step()
    names = [thread for thread in threading.enumerate() if thread.name.startswith("groundwatch-reader")]
    for thread in names:
        thread.join(5)
    assert not [thread for thread in names if thread.is_alive()]
    assert tally(engine, "word-1") == (8.0, 4, 0, 0.0)
