"""The worker when the database is away, or a trace brings what cannot be written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from queue_rows import put_in_queue
from sqlalchemy import Engine, select
from sqlalchemy.exc import OperationalError

from groundwatch_collector.ragtrace import RagTrace
from groundwatch_collector.storage import metadata, open_engine
from groundwatch_collector.tables import sampled_traces
from groundwatch_scorer import queue
from groundwatch_scorer.judgement import AnnotatorKind, Assessment, Criterion, Judgement
from groundwatch_scorer.scorer_metrics import ScorerMetrics
from groundwatch_scorer.worker import ScorerWorker

T0 = 1_700_000_000.0


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """SQLite: its bound on pages is a disk that can be filled."""
    engine = open_engine(f"sqlite:///{tmp_path / 'g.db'}")
    metadata.create_all(engine)
    return engine


class WordJudge:
    identifier = "word-1"

    def assess(self, trace: RagTrace) -> Assessment:
        return Assessment(self.identifier, AnnotatorKind.CODE, explanation="pass")


def judgements(trace: RagTrace, assessment: Assessment, judged_at: float) -> list[Judgement]:
    kind, name = assessment.annotator_kind, assessment.identifier
    return [Judgement(trace.trace_id, criterion, "pass", None, "", kind, name, judged_at) for criterion in Criterion]


def put(engine: Engine, *answers: str) -> None:
    put_in_queue(engine, T0, *answers)


class Clock:
    def __init__(self) -> None:
        self.at = T0 + 10

    def __call__(self) -> float:
        return self.at


def worker(
    engine: Engine,
    judge: WordJudge,
    registry: CollectorRegistry,
    *,
    now: Callable[[], float] | None = None,
    to_judgements: Callable[[RagTrace, Assessment, float], list[Judgement]] = judgements,
) -> ScorerWorker:
    return ScorerWorker(
        engine,
        [judge],
        ScorerMetrics(registry),
        bucket_seconds=60,
        now=now or Clock(),
        lease_seconds=60,
        to_judgements=to_judgements,
    )


def state_of(engine: Engine, trace_id: str) -> tuple[str, int]:
    query = select(sampled_traces.c.state, sampled_traces.c.attempts).where(sampled_traces.c.trace_id == trace_id)
    with engine.connect() as connection:
        row = connection.execute(query).one()
    return row.state, row.attempts


def test_what_a_full_disk_kept_from_being_recorded_is_judged_at_once_afterwards(engine: Engine) -> None:
    """The claim goes through, the verdicts do not."""
    put(engine, "bad", "good")

    class JudgeOnAFullDisk(WordJudge):
        def assess(self, trace: RagTrace) -> Assessment:
            with engine.connect() as connection:
                connection.exec_driver_sql(f"PRAGMA max_page_count = {self.pages}")
            return super().assess(trace)

        pages = 1

    judge = JudgeOnAFullDisk()
    scorer = worker(engine, judge, CollectorRegistry(), to_judgements=long_judgements)
    for _ in range(queue.MAX_ATTEMPTS + 1):
        with pytest.raises(OperationalError):
            scorer.step()
        assert state_of(engine, "t0") == ("leased", 1)  # an outage uses up no attempts
    judge.pages = 1_000_000
    assert scorer.step() == 2  # without waiting for the lease to end
    assert state_of(engine, "t0") == ("judged", 1)


def long_judgements(trace: RagTrace, assessment: Assessment, judged_at: float) -> list[Judgement]:
    return [replace(j, explanation="x" * 100_000) for j in judgements(trace, assessment, judged_at)]


def test_verdicts_that_cannot_be_written_end_that_trace_and_not_the_scorer(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    put(engine, "odd", "bad")
    clock, registry = Clock(), CollectorRegistry()

    def odd(trace: RagTrace, assessment: Assessment, judged_at: float) -> list[Judgement]:
        found = judgements(trace, assessment, judged_at)
        return [replace(j, explanation="\ud800") for j in found] if trace.answer == "odd" else found

    scorer = worker(engine, WordJudge(), registry, now=clock, to_judgements=odd)
    assert scorer.step() == 1
    assert state_of(engine, "t1")[0] == "judged"
    for _ in range(queue.MAX_ATTEMPTS):
        clock.at += 61
        scorer.step()
    assert state_of(engine, "t0")[0] == "unscored"
    value = registry.get_sample_value
    assert value("groundwatch_judge_failures_total", {"judge": "word-1", "reason": "attempts"}) == 1
    assert value("groundwatch_judge_step_failures_total") == queue.MAX_ATTEMPTS
    assert "t0 cannot be recorded" in caplog.text


def test_a_step_that_fails_for_any_reason_is_tried_again(engine: Engine) -> None:
    """A clock that is broken once stands for a fault of ours outside every judge."""
    put(engine, "bad")
    stop, registry, times = threading.Event(), CollectorRegistry(), iter(range(10))

    def now() -> float:
        if next(times) == 0:
            raise RuntimeError("no clock")
        return T0 + 10

    class LastJudge(WordJudge):
        def assess(self, trace: RagTrace) -> Assessment:
            stop.set()
            return super().assess(trace)

    worker(engine, LastJudge(), registry, now=now).run(stop)
    assert state_of(engine, "t0")[0] == "judged"
    assert registry.get_sample_value("groundwatch_judge_step_failures_total") == 1


def test_a_lease_that_another_worker_took_over_is_not_given_back_for_it(engine: Engine) -> None:
    put(engine, "good")
    queue.claim(engine, 1, lease_seconds=10, now=T0)
    queue.claim(engine, 1, lease_seconds=10, now=T0 + 20)
    queue.release(engine, ["t0"], lease_until=T0 + 10)
    assert state_of(engine, "t0")[0] == "leased"
