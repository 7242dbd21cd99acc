"""Take sampled traces from the queue, have every judge read them, record what they say."""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable, Sequence
from time import perf_counter

from sqlalchemy import Engine
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError

from groundwatch_collector.ragtrace import RagTrace
from groundwatch_collector.sampled import SampledTrace
from groundwatch_scorer import queue, second_look
from groundwatch_scorer.judgement import AnnotatorKind, Judge, Judgement
from groundwatch_scorer.readers import readers
from groundwatch_scorer.repeats import RepeatPlan, Repeats, ToJudgements
from groundwatch_scorer.scorer_metrics import ScorerMetrics

log = logging.getLogger(__name__)

IDLE_SECONDS = 0.2
MAX_BACKOFF_SECONDS = 30.0


_Reading = tuple[list[Judgement], list[second_look.SecondLook]]


class ScorerWorker:
    """Runs *judges* over the queue. Every claimed trace is finished exactly once, whatever a judge does.

    The first judge makes the headline; the others have series of their own. With a *cascade* the model in it reads
    only what it is chosen for. With *repeats* a share of all readings is made twice. *concurrency* traces are read at
    once, for judges that wait for somebody; their verdicts are recorded one after another, in order.
    """

    def __init__(
        self,
        engine: Engine,
        judges: Sequence[Judge],
        metrics: ScorerMetrics,
        *,
        bucket_seconds: int,
        now: Callable[[], float],
        lease_seconds: float = 300.0,
        batch: int = 16,
        max_attempts: int = queue.MAX_ATTEMPTS,
        to_judgements: ToJudgements | None = None,
        cascade: second_look.Cascade | None = None,
        repeats: RepeatPlan | None = None,
        concurrency: int = 1,
    ) -> None:
        if not judges:
            raise ValueError("a scorer needs at least one judge")
        self._engine = engine
        self._judges = list(judges)
        self._metrics = metrics
        self._bucket_seconds = bucket_seconds
        self._now = now
        self._lease_seconds = lease_seconds
        self._batch = batch
        self._max_attempts = max_attempts
        self._to_judgements = to_judgements or _criteria_judgements()
        self._cascade = cascade
        self._repeats = Repeats(repeats, metrics, self._to_judgements) if repeats else None
        self._concurrency = concurrency
        self._stop = threading.Event()
        self._held: list[str] = []  # claimed by this worker and neither finished nor given back
        self._held_until = 0.0  # when that lease ends
        for judge in self._judges:
            metrics.prepare(judge.identifier)

    def step(self) -> int:
        """Judge one batch; return how many traces were finished. Raises only what the database raises.

        What could not be recorded because the database was away is given back by the next step, and no attempt of
        its is used up: the trace did nothing wrong.
        """
        self._give_back()
        self._expire()
        claimed_at = self._now()
        claimed = queue.claim(
            self._engine, self._batch, self._lease_seconds, claimed_at, max_attempts=self._max_attempts
        )
        self._held = [sampled.trace.trace_id for sampled in claimed]
        self._held_until = claimed_at + self._lease_seconds
        done = self._finish_all(claimed, claimed_at)
        self._give_back()
        self._measure_queue()
        return done

    def _finish_all(self, claimed: Sequence[SampledTrace], claimed_at: float) -> int:
        def read(trace: RagTrace) -> _Reading | None:
            # Half the lease is left for the traces in hand: a second worker must not find them free meanwhile.
            late = self._stop.is_set() or self._now() - claimed_at > self._lease_seconds / 2
            return None if late else self._read(trace)

        done = 0
        with readers(min(self._concurrency, max(1, len(claimed))), read) as start:
            for sampled, reading in [(sampled, start(sampled.trace)) for sampled in claimed]:
                found = reading.result()
                if found is not None:  # what has begun may have cost money, and is finished also when it is late
                    done += self._finish(sampled, *found)
                    self._held.remove(sampled.trace.trace_id)
        return done

    def _give_back(self) -> None:
        queue.release(self._engine, self._held, self._held_until)
        self._held = []

    def run(self, stop: threading.Event) -> None:
        """Step until *stop*; wait a moment when idle, longer and longer while the database is away."""
        self._stop = stop
        backoff = IDLE_SECONDS
        while not stop.is_set():
            try:
                idle = self.step() == 0
                if backoff != IDLE_SECONDS:
                    log.info("scoring succeeds again")
                backoff = IDLE_SECONDS
            except Exception as error:  # a thread that ended would leave every later trace unjudged
                if isinstance(error, SQLAlchemyError):
                    self._metrics.database_errors.inc()
                else:
                    self._metrics.step_failures.inc()
                log.warning("scoring failed (%s) and tries again in %.1f s", type(error).__name__, backoff)
                stop.wait(backoff)
                backoff = min(MAX_BACKOFF_SECONDS, backoff * 2)
                continue
            if idle:
                stop.wait(IDLE_SECONDS)

    def _finish(self, sampled: SampledTrace, judgements: list[Judgement], looks: list[second_look.SecondLook]) -> int:
        try:
            finished = queue.finish(
                self._engine, sampled, judgements, bucket_seconds=self._bucket_seconds, now=self._now(), looks=looks
            )
        except (OperationalError, InterfaceError):
            raise  # the database is away: this trace is as good as any
        except Exception as error:  # what this trace brings cannot be written: its attempts end, not the scorer
            log.error("verdicts of trace %s cannot be recorded: %s", sampled.trace.trace_id, type(error).__name__)
            self._metrics.step_failures.inc()
            return 0
        if finished:  # metrics follow what is committed
            self._metrics.recorded(judgements)
            self._metrics.looked(looks)
        return int(finished)

    def _read(self, trace: RagTrace) -> _Reading:
        """What the judges say, those that read second only where they are chosen to; and how was chosen."""
        first, *others = self._judges
        found = self._judge(first, trace)
        if self._cascade is None:
            return [*found, *(j for judge in others for j in self._judge(judge, trace))], []
        unsure = second_look.is_unsure(found)
        looks: list[second_look.SecondLook] = []
        model, second = self._cascade.model, list[Judgement]()
        for judge in others:
            if model is not None and judge.identifier == model.asked:
                looks.append(model.look(trace.trace_id, unsure))
                if not looks[-1].chosen:
                    continue
            second += self._judge(judge, trace)
        looks.append(self._cascade.people.look(trace.trace_id, second_look.is_open(found, second)))
        return [*found, *second], looks

    def _judge(self, judge: Judge, trace: RagTrace) -> list[Judgement]:
        started = perf_counter()
        reason = "judge_error"
        try:
            assessment = judge.assess(trace)
            self._metrics.assessed(assessment, perf_counter() - started)
            reason = "criteria_error"
            found = self._to_judgements(trace, assessment, self._now())
            return self._repeats.check(judge, trace, found, self._now()) if self._repeats else found
        except Exception as error:  # a judge is replaceable code; one trace must never stop the queue
            # The type only: the message may hold text of the trace.
            log.error("%s on trace %s: %s", reason, trace.trace_id, type(error).__name__)
        self._metrics.failures.labels(judge.identifier, reason).inc()
        return queue.unscored(trace.trace_id, judge.identifier, annotator_kind(judge), reason, self._now())

    def _expire(self) -> None:
        expired = queue.expire(
            self._engine,
            [(judge.identifier, annotator_kind(judge)) for judge in self._judges],
            bucket_seconds=self._bucket_seconds,
            now=self._now(),
            max_attempts=self._max_attempts,
        )
        for trace_id, reason in expired:
            log.error("trace %s is given up unscored: %s", trace_id, reason)
            for judge in self._judges:
                self._metrics.failures.labels(judge.identifier, reason).inc()

    def _measure_queue(self) -> None:
        depth = queue.depth(self._engine)
        self._metrics.queue.labels("waiting").set(depth.waiting)
        self._metrics.queue.labels("leased").set(depth.leased)
        self._metrics.oldest.set(depth.oldest_queued_at or 0.0)


def annotator_kind(judge: Judge) -> AnnotatorKind:
    """LLM judges say so in their identifier (``llm:model:rubric``)."""
    return AnnotatorKind.LLM if judge.identifier.startswith("llm:") else AnnotatorKind.CODE


def _criteria_judgements() -> ToJudgements:
    found: ToJudgements = importlib.import_module("groundwatch_scorer.criteria").judgements
    return found
