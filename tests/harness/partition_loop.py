"""One day of made traffic through the product itself, with everything that goes wrong at once. The truth is known.

Four partitions in memory, two processes that own them, one database. Each record goes through the product's pipeline
(assembly, strata, planned rates, hash, shedding), its verdict through the queue of the scorer and its settling, and
the estimate is made of the committed sums. Meanwhile
- every tenth trace is delivered twice, mostly after its decision,
- a process crashes every hour with a batch in hand, and reads again from the committed position,
- a partition moves to the other process every twenty minutes; the old owner still tries to write, and is refused,
- 2 % complain, three of four up to five hours after the decision: 45 % of those answers failed,
- for forty minutes traffic is ten times as much, before a judge that cannot follow, so that its queue is shed.

Only the spans' text, the verdicts and the clock are made.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev

import orjson
from prometheus_client import CollectorRegistry
from sqlalchemy import Connection, Engine, event, func, select

from groundwatch import names
from groundwatch_alerts import tallies
from groundwatch_alerts.estimator import Estimate, estimate
from groundwatch_collector import settling, tables
from groundwatch_collector.decision import DecideConfig
from groundwatch_collector.feedback_policy import FeedbackPolicy
from groundwatch_collector.kafka_partition import Fenced, OwnedPlace, partition_of, position_of
from groundwatch_collector.log_segments import LogRecord
from groundwatch_collector.pipeline import Pipeline
from groundwatch_collector.spans import Span
from groundwatch_collector.storage import metadata, open_engine, reader
from groundwatch_collector.traffic_metrics import TrafficMetrics
from groundwatch_scorer import queue, settle
from groundwatch_scorer.judged_history import JudgedHistory
from groundwatch_scorer.judgement import AnnotatorKind, Criterion, Judgement

START = 1_780_012_800  # a midnight (UTC)
DAY, STEP, HOUR = 86_400, 1_200, 3_600
PARTITIONS, PROCESSES = 4, 2
TOPIC, APP = "loop", "shop"
JUDGES = tuple(f"made-{number}" for number in range(8))
"""Each has failures of its own, drawn apart: one sample then gives eight estimates whose errors hardly depend on each
other. The rates are planned by the first."""
POLICY = FeedbackPolicy(settle_after_seconds=6 * HOUR, late_share=0.3)
_RUSH = range(13 * HOUR, 13 * HOUR + 2 * STEP)
# Kind, share of traffic, share that failed. The answer's text is what puts a trace into its stratum.
KINDS = (("plain", 0.955, 0.04), ("refusal", 0.025, 0.40), ("early", 0.005, 0.85), ("late", 0.015, 0.45))
_SURE = "Files are kept for 30 days [1]."
_REFUSING = "I'm sorry, I could not find anything about that."


@dataclass(frozen=True)
class Plan:
    """Size of one run."""

    traffic_a_day: int = 2_400  # besides the overload
    judged_a_day: int = 1_500
    rush: float = 10.0  # times as much traffic


class MemoryPartition:
    """A partition: records with positions, kept for ever. Reading, not writing, is what goes wrong with a log."""

    def __init__(self, number: int, every: Sequence[MemoryPartition]) -> None:
        self.number = number
        self._every = every
        self._records: list[LogRecord] = []

    def append(self, kind: str, body: bytes, now: float, spans: Sequence[Span] | None = None) -> None:
        position = position_of(self.number, len(self._records))
        self._records.append(LogRecord(position, position + 1, kind, now, body, spans))

    def __len__(self) -> int:
        return len(self._records)

    @property
    def end_position(self) -> int:
        return position_of(self.number, len(self._records))

    def read(self, position: int, limit_records: int) -> list[LogRecord]:
        if partition_of(position) != self.number:
            return self._every[partition_of(position)].read(position, limit_records)
        first = bisect_left(self._records, position, key=lambda record: record.position)
        return self._records[first : first + limit_records]

    def wait(self, position: int, timeout: float) -> bool:
        return position < self.end_position

    def skip_to(self, position: int) -> None:
        """Positions are the list's."""

    def trim(self, low_position: int, now: float) -> int:
        return 0


@dataclass
class Counts:
    """What really happened in a run: a test of trouble that did not come would prove nothing."""

    traces: int = 0
    duplicates: int = 0
    crashes: int = 0
    moves: int = 0
    fenced: int = 0
    late: int = 0  # complaints after the decision
    shed: int = 0
    by_kind: dict[str, int] = field(default_factory=lambda: dict.fromkeys((name for name, *_ in KINDS), 0))


@dataclass(frozen=True)
class Run:
    counts: Counts
    truths: tuple[float, ...]  # by judge
    fast: tuple[Estimate, ...]  # likewise
    settled: tuple[Estimate, ...]
    spent: int  # of the day's budget: put before the judge, what was shed included
    judged: int
    judged_late: int  # of them, after a complaint brought them back
    miscounted: int  # traces in the traffic sums beyond those there were


class Loop:
    """One seeded day, and the hours in which it is settled."""

    def __init__(self, plan: Plan, seed: int, folder: Path) -> None:
        self._plan, self._seed = plan, seed
        self._rng = random.Random(seed)
        self._engine: Engine = open_engine(f"sqlite:///{folder / f'loop-{seed}.db'}")
        metadata.create_all(self._engine)
        self._now = float(START)
        self._logs: list[MemoryPartition] = []
        self._logs.extend(MemoryPartition(n, self._logs) for n in range(PARTITIONS))
        self._config = DecideConfig(
            position_interval_seconds=0.0,
            budget_judged_per_day=plan.judged_a_day,
            expected_traces_per_day=plan.traffic_a_day,
            budget_feedback_share=0.3,
            judge_queue_limit=max(20, plan.judged_a_day // 12),
            novel_budget=0.0,  # every question is the same
            reask_seconds=0.0,
            epoch_seconds=STEP,
        )
        self._failed: dict[str, list[bool]] = {}  # by judge
        self._complaints: defaultdict[int, list[str]] = defaultdict(list)  # by the step at which they come
        self._retries: defaultdict[int, list[tuple[str, Sequence[Span]]]] = defaultdict(list)  # likewise
        self._owners = [0] * PARTITIONS
        self._lives = 0
        self._dying = False  # the next transaction fails at its commit
        event.listen(self._engine, "commit", self._die)
        self._pipelines = [self._open(number) for number in range(PARTITIONS)]
        self._verdicts = 0.0  # that may be given by now
        self._failures = [0] * len(JUDGES)
        self.counts = Counts()

    def run(self) -> Run:
        for at in range(0, DAY, STEP):
            self._deliver(at)
            self._trouble(at)
            self._advance(STEP)
        spent = self._spent()
        for at in range(DAY, DAY + 7 * HOUR, STEP):  # what comes late of the evening
            for trace_id, spans in self._retries.pop(at, ()):
                self._append(trace_id, "otlp_protobuf", b"", spans)
            self._complain(at)
            self._advance(STEP)
        self._now += POLICY.settle_after_seconds + settling.MARGIN_SECONDS + settling.STEP
        self._settle()
        return self._result(spent)

    # Traffic.

    def _deliver(self, at: int) -> None:
        wave = 1 + 0.6 * math.sin(2 * math.pi * at / DAY)
        times = self._plan.rush if at in _RUSH else 1.0
        expected = self._plan.traffic_a_day * STEP / DAY * wave * times
        for _ in range(_poisson(self._rng, expected)):
            self._request(START + at + self._rng.random(), at)
        for trace_id, spans in self._retries.pop(at, ()):
            self._append(trace_id, "otlp_protobuf", b"", spans)
        self._complain(at)

    def _request(self, started_at: float, at: int) -> None:
        self.counts.traces += 1
        trace_id = f"{self._seed << 64 | self.counts.traces:032x}"
        (kind, _, failing) = self._rng.choices(KINDS, weights=[share for _, share, _ in KINDS])[0]
        failed = [self._rng.random() < failing for _ in JUDGES]
        self._failed[trace_id] = failed
        for number, wrong in enumerate(failed):
            self._failures[number] += wrong
        self.counts.by_kind[kind] += 1
        spans = (root(trace_id, started_at, _REFUSING if kind == "refusal" else _SURE),)
        self._append(trace_id, "otlp_protobuf", b"", spans)
        if kind == "early":
            self._append(trace_id, "feedback", complaint(trace_id))
        if kind == "late":
            self._complaints[at + STEP * self._rng.randint(2, 15)].append(trace_id)
        if self._rng.random() < 0.1:
            self.counts.duplicates += 1
            # At once, or as a retry that comes after the decision.
            due = at if self._rng.random() < 0.3 else at + STEP * self._rng.randint(1, 6)
            self._retries[due].append((trace_id, spans))

    def _complain(self, at: int) -> None:
        for trace_id in self._complaints.pop(at, ()):
            self.counts.late += 1
            self._append(trace_id, "feedback", complaint(trace_id))

    def _append(self, trace_id: str, kind: str, body: bytes, spans: Sequence[Span] | None = None) -> None:
        self._logs[int(trace_id, 16) % PARTITIONS].append(kind, body, self._now, spans)

    # Processes.

    def _open(self, number: int) -> Pipeline:
        self._lives += 1
        owner = f"process-{self._owners[number]}-{self._lives}"
        log = self._logs[number]
        return Pipeline(
            log,
            self._engine,
            self._config,
            TrafficMetrics(CollectorRegistry()),
            salt=b"salt of run %d" % self._seed,
            now=lambda: self._now,
            place=OwnedPlace(TOPIC, number, owner, 0, len(log)),
            judged=JudgedHistory(self._engine, JUDGES[0]),
            feedback=POLICY,
        )

    def _trouble(self, at: int) -> None:
        """What was just delivered has been read, and is undecided: it is in memory only."""
        for pipeline in self._pipelines:
            pipeline.step(0)
        if at % HOUR == 0:
            self._crash(self._rng.randrange(PROCESSES))
        self._move(self._rng.randrange(PARTITIONS))

    def _crash(self, process: int) -> None:
        """Half of the times in a commit, else between two."""
        mine = [number for number in range(PARTITIONS) if self._owners[number] == process]
        if not mine:
            return
        self.counts.crashes += 1
        if self._rng.random() < 0.5:
            self._now += self._config.grace_seconds + 1
            self._dying = True
            with suppress(_Killed):
                self._pipelines[mine[0]].step(0)
            self._dying = False
        for number in mine:
            self._pipelines[number] = self._open(number)

    def _die(self, connection: Connection) -> None:
        if self._dying and not connection.get_execution_options().get("read_only", False):
            raise _Killed

    def _move(self, number: int) -> None:
        before = self._pipelines[number]
        self._owners[number] = (self._owners[number] + 1) % PROCESSES
        self._pipelines[number] = self._open(number)
        self.counts.moves += 1
        self._now += self._config.grace_seconds + 1
        try:  # it was paused, and does not know
            before.step(0)
        except Fenced:
            self.counts.fenced += 1

    def _advance(self, seconds: float) -> None:
        until = self._now - self._now % STEP + seconds
        self._step_all()
        self._now += self._config.grace_seconds + 1
        self._step_all()
        self._judge(2 * self._plan.judged_a_day * seconds / DAY)
        self._now = until

    def _step_all(self) -> None:
        for pipeline in self._pipelines:
            while pipeline.step(0):
                pass

    # Verdicts.

    def _judge(self, more: float) -> None:
        self._verdicts = min(self._verdicts, 1.0) + more
        while self._verdicts >= 1:
            claimed = queue.claim(self._engine, min(100, int(self._verdicts)), 60.0, self._now)
            if not claimed:
                return
            self._verdicts -= len(claimed)
            for sampled in claimed:
                verdicts = [
                    self._verdict(sampled.trace.trace_id, number, self._failed[sampled.trace.trace_id][number])
                    for number in range(len(JUDGES))
                ]
                queue.finish(
                    self._engine, sampled, verdicts, bucket_seconds=self._config.bucket_seconds, now=self._now
                )

    def _verdict(self, trace_id: str, judge: int, failed: bool) -> Judgement:
        label = "fail" if failed else "pass"
        code = AnnotatorKind.CODE
        return Judgement(trace_id, Criterion.ANY_FAILURE, label, None, "", code, JUDGES[judge], self._now)

    def _settle(self) -> None:
        while settle.settle(
            self._engine,
            [(name, AnnotatorKind.CODE) for name in JUDGES],
            horizon_seconds=POLICY.settle_after_seconds,
            bucket_seconds=self._config.bucket_seconds,
            now=self._now,
        ):
            pass

    # What came of it.

    def _spent(self) -> int:
        ledger = tables.ledger.c
        put = (ledger.verdict == "sampled") | (ledger.reason == "shed")
        with reader(self._engine).connect() as connection:
            return int(connection.scalar(select(func.count()).where(put)) or 0)

    def _result(self, spent: int) -> Run:
        ledger, sampled, traffic = tables.ledger.c, tables.sampled_traces.c, tables.traffic_tally.c
        with reader(self._engine).connect() as connection:
            self.counts.shed = int(connection.scalar(select(func.count()).where(ledger.reason == "shed")) or 0)
            received = int(connection.scalar(select(func.sum(traffic.received))) or 0)
            grouped = connection.execute(select(sampled.family, func.count()).group_by(sampled.family))
            families = {row[0]: int(row[1]) for row in grouped}
        self._engine.dispose()
        return Run(
            counts=self.counts,
            truths=tuple(failures / self.counts.traces for failures in self._failures),
            fast=tuple(self._estimate("fast", name) for name in JUDGES),
            settled=tuple(self._estimate("settled", name) for name in JUDGES),
            spent=spent,
            judged_late=families.get("late", 0),
            judged=sum(families.values()),
            miscounted=received - self.counts.traces,
        )

    def _estimate(self, family: tallies.Family, judge: str) -> Estimate:
        found = estimate(tallies.sums(self._engine, app=APP, criterion="any_failure", judge=judge, family=family))
        if found is None:
            raise RuntimeError("there is no estimate of a day of traffic")
        return found


class _Killed(Exception):
    """Stands for kill -9: the transaction did not happen, and the process is gone."""


def root(trace_id: str, started_at: float, answer: str) -> Span:
    """A request of one span: all that sampling looks at here."""
    start = int(started_at * 1e9)
    return Span(
        trace_id=trace_id,
        span_id=trace_id[16:],
        parent_id="",
        name="request",
        kind=1,
        start_unix_nano=start,
        end_unix_nano=start + 50_000_000,
        status="unset",
        status_message="",
        attributes={
            names.STAGE: "request",
            names.QUERY: "How long?",
            names.ANSWER: answer,
            names.OUTCOME: "answered",
        },
        scope_name=names.SCOPE_NAME,
        resource={names.SERVICE_NAME: APP, names.SERVICE_VERSION: "1"},
    )


def complaint(trace_id: str) -> bytes:
    """A thumbs-down of a person who votes once."""
    return orjson.dumps({"id": trace_id, "trace_id": trace_id, "name": "thumbs", "label": "down", "by": trace_id})


def _poisson(rng: random.Random, mean: float) -> int:
    limit, count, product = math.exp(-mean), 0, rng.random()
    while product > limit:
        count, product = count + 1, product * rng.random()
    return count


@dataclass(frozen=True)
class Family:
    """One family of sums over all runs, in percentage points where it says pp."""

    bias_pp: float
    bias_se_pp: float
    covered: float
    covered_se: float
    half_width_pp: float


@dataclass(frozen=True)
class Summary:
    runs: int
    fast: Family
    settled: Family
    raw_bias_pp: float  # of the plain mean of the same verdicts
    spent_of_budget: float  # mean over the days
    spent_lowest: float
    spent_highest: float
    miscounted: int


def summary(runs: Sequence[Run], budget: int) -> Summary:
    spent = [run.spent / budget for run in runs]
    return Summary(
        runs=len(runs),
        fast=_family([(run.fast, run.truths) for run in runs]),
        settled=_family([(run.settled, run.truths) for run in runs]),
        raw_bias_pp=fmean(
            100 * (made.raw_mean - truth) for run in runs for made, truth in zip(run.fast, run.truths, strict=True)
        ),
        spent_of_budget=fmean(spent),
        spent_lowest=min(spent),
        spent_highest=max(spent),
        miscounted=sum(abs(run.miscounted) for run in runs),
    )


def _family(found: Sequence[tuple[Sequence[Estimate], Sequence[float]]]) -> Family:
    """Standard errors are those of the means of days: estimates of one day share a sample."""
    days = [list(zip(estimates, truths, strict=True)) for estimates, truths in found]
    errors = [fmean(100 * (made.rate - truth) for made, truth in day) for day in days]
    covered = [fmean(made.low <= truth <= made.high for made, truth in day) for day in days]
    return Family(
        bias_pp=fmean(errors),
        bias_se_pp=stdev(errors) / math.sqrt(len(days)),
        covered=fmean(covered),
        covered_se=stdev(covered) / math.sqrt(len(days)),
        half_width_pp=fmean(50 * (made.high - made.low) for day in days for made, _ in day),
    )
