"""From the span log to the tables: read, assemble, decide, commit, then count. One consumer per log.

A crash loses nothing: reading starts again at the committed low position, which is the first record of the oldest
undecided trace. What was decided before is found in the ledger and not decided again.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from groundwatch_collector import decision_store as store
from groundwatch_collector import feedback as feedback_records
from groundwatch_collector import feedback_votes, otlp, refused, settling, shedding
from groundwatch_collector.assembly import Assembler, Pending
from groundwatch_collector.decision import DecideConfig, Decider, Decision
from groundwatch_collector.decision_store import DeadLetter, DecidedRow
from groundwatch_collector.feedback_cap import COMPLAINT
from groundwatch_collector.feedback_desk import FeedbackDesk
from groundwatch_collector.feedback_policy import FeedbackPolicy
from groundwatch_collector.feedback_votes import Vote
from groundwatch_collector.late_errors import LateErrors, LateSpan
from groundwatch_collector.limits import Limits, Rejected
from groundwatch_collector.log_protocol import DecisionLog
from groundwatch_collector.log_segments import LogRecord
from groundwatch_collector.mapping import identity
from groundwatch_collector.noticing import reask_feedback
from groundwatch_collector.ragtrace import Feedback, RagTrace
from groundwatch_collector.rate_tables import JudgedSource, rates_of
from groundwatch_collector.reasking import Reasking
from groundwatch_collector.rising import Ground, Rise, rise
from groundwatch_collector.settling import Decided, Offer, Standing
from groundwatch_collector.spanlog import LogError
from groundwatch_collector.spans import Span
from groundwatch_collector.storage import reader
from groundwatch_collector.traffic_metrics import TrafficMetrics

logger = logging.getLogger(__name__)

UNKNOWN_APP = "unknown"  # of feedback for a trace that was never seen
_REMEMBERED = 20_000  # decided trace ids in memory, 300 bytes each; the ledger knows the rest
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0
_LATE = "late_feedback"


@dataclass(slots=True)
class _Batch:
    """Everything that one transaction writes. Kept until it is committed, so that a retry loses nothing."""

    due: Sequence[Pending]
    low_position: int
    records: int = 0
    feedback: Sequence[tuple[int, Feedback]] = ()
    votes: Sequence[Vote] | None = None  # what became of the feedback; said once, however often the write is tried
    dead_letters: Sequence[DeadLetter] = ()
    late_spans: int = 0
    late_errors: dict[str, list[LateSpan]] = field(default_factory=dict)  # trace id -> late spans that failed
    duplicate_spans: int = 0
    rejected_spans: Counter[str] = field(default_factory=Counter)  # reason -> spans that reading refused

    @property
    def has_rows(self) -> bool:
        return bool(self.due or self.feedback or self.dead_letters or self.late_errors)

    def parts(self, position: int) -> list[_Batch]:
        """Two halves of its rows, or none when there is one row at most. They leave the log at *position*."""
        votes = self.votes or ()
        lists: tuple[Sequence[Any], ...] = (self.due, votes, self.dead_letters)
        if sum(map(len, lists)) < 2:
            return []
        longest = max(range(3), key=lambda number: len(lists[number]))
        if len(lists[longest]) == 1:  # one row of each kind: part the kinds
            return [
                _Batch(due, position, votes=said, dead_letters=letters)
                for due, said, letters in ((self.due, (), ()), ((), votes, ()), ((), (), self.dead_letters))
            ]
        middle = len(lists[longest]) // 2
        first = [some[:middle] if number == longest else some for number, some in enumerate(lists)]
        second = [some[middle:] if number == longest else () for number, some in enumerate(lists)]
        return [_Batch(due, position, votes=said, dead_letters=letters) for due, said, letters in (first, second)]


@dataclass(frozen=True, slots=True)
class _Read:
    """One record, decoded."""

    record: LogRecord
    spans: Sequence[Span] = ()
    feedback: Feedback | None = None
    dead_letter: DeadLetter | None = None
    rejected: Mapping[str, int] = field(default_factory=dict)  # reason -> spans


@dataclass(slots=True)
class _Outcome:
    """What a committed transaction changed, for the metrics."""

    decisions: list[Decision] = field(default_factory=list)
    feedback: list[tuple[str, Feedback]] = field(default_factory=list)  # app, feedback
    late: list[str] = field(default_factory=list)
    risen: list[Offer] = field(default_factory=list)
    failed_late: list[tuple[str, str | None]] = field(default_factory=list)  # result, stratum left
    reasked: list[tuple[str, Feedback]] = field(default_factory=list)  # app, feedback that the collector gave itself
    dead_letters: list[DeadLetter] = field(default_factory=list)
    shed: int = 0  # sampled traces that an overload took out of the judge's queue


class Pipeline:
    """Decide every trace of *log* once. Not for use by several threads at a time."""

    def __init__(
        self,
        log: DecisionLog,
        engine: Engine,
        config: DecideConfig,
        metrics: TrafficMetrics,
        *,
        salt: bytes,
        now: Callable[[], float],
        limits: Limits | None = None,
        place: store.Place | None = None,
        judged: JudgedSource | None = None,
        feedback: FeedbackPolicy | None = None,
    ) -> None:
        """*judged*: what the judge found so far, for the planning of rates; without it all strata are alike."""
        self._log = log
        self._place = place or store.Place()
        self._engine = engine
        self._config = config
        self._metrics = metrics
        self._now = now
        self._limits = limits or Limits()  # the receiver's own: what it took must be readable here
        self._noticer = config.noticer(self._place.name)
        feedback = feedback or FeedbackPolicy()
        self._rates = rates_of(config.planned(), config.rate_table(), engine, judged, feedback)
        self._decider = Decider(config, salt, self._noticer, self._rates)
        self._feedback = FeedbackDesk(engine, feedback)
        horizon_seconds = self._feedback.horizon_seconds
        self._late_errors = LateErrors(engine, self._decider, self._read_again, horizon_seconds)
        self._assembler = Assembler(config.assembly())
        self._decided: OrderedDict[str, int] = OrderedDict()  # trace id -> last position; a cache of the ledger
        self._batch: _Batch | None = None
        self._refusals = 0  # of the transaction in hand
        self._carried: list[Feedback] = []  # re-asking that is stored and may bring its earlier trace back
        self._cursor = self._place.begin(engine)
        self._noticer.load(engine)
        self._committed = self._cursor
        self._position_written_at = self._trimmed_at = now()
        log.skip_to(self._cursor)
        metrics.pending_bytes_capacity.set(config.max_pending_bytes)
        metrics.pending_spans_capacity.set(config.max_pending_spans)

    @property
    def committed_position(self) -> int:
        """Everything before it is decided, in the database."""
        return self._committed

    def is_refused(self, error: Exception) -> bool:
        """Whether the last step failed for what is in its transaction, which the next one tries again or parts.

        Who reads the log again instead forgets how often it was tried, and comes to the same rows for ever.
        """
        return self._refusals > 0 and refused.is_refusal(error)

    def share_sessions(self, reasking: Reasking) -> None:
        """Notice asking again across the partitions of one process: the traces of a session lie on all of them."""
        self._noticer.share(reasking)

    def chances(self) -> Mapping[str, float]:
        """Chance of each stratum in the table that holds now; empty before the first step."""
        table = self._rates.current
        return table.rates if table is not None else {}

    def step(self, timeout: float) -> int:
        """Read what is there (waiting up to *timeout* seconds for it), decide what is due, commit.

        Return how many records were read and traces decided. Raises what the database raises; nothing is lost then,
        and the next step tries the same transaction again.
        """
        if self._batch is None:
            self._batch = self._next_batch(self._read(timeout))
        done = self._commit(self._batch)
        self._trim()
        return done

    def drain(self) -> int:
        """Read to the end of the log and decide everything, as if its time had come: traces without their root as
        incomplete. Return how many traces were decided by the last transaction."""
        end = self._log.end_position
        while self._batch is not None or (self._cursor < end and self._log.read(self._cursor, 1)):
            self.step(0)
        pending = self._assembler.drain()
        for trace in pending:
            trace.early = trace.root_received_at is None
        self._batch = _Batch(pending, max(self._cursor, self._committed))
        return self._commit(self._batch)

    def run(self, stop: threading.Event, timeout: float = 0.5) -> None:
        """Step until *stop* is set. A failing database or disk is waited for, with growing pauses."""
        pause = _FIRST_PAUSE_SECONDS
        while not stop.is_set():
            try:
                self.step(timeout)
                if pause != _FIRST_PAUSE_SECONDS:
                    logger.info("decision steps succeed again")
                pause = _FIRST_PAUSE_SECONDS
            except Exception as error:  # a stopped thread would lose more than a repeated step
                kind = "refused" if self.is_refused(error) else _failure_kind(error)
                if kind == "other":
                    self._start_again()
                self._metrics.step_failures.labels(kind).inc()
                if pause == _FIRST_PAUSE_SECONDS:
                    logger.error(
                        "decision step failed (%s: %s); trying again", kind, type(error).__name__, exc_info=True
                    )
                stop.wait(pause)
                pause = min(_LONGEST_PAUSE_SECONDS, pause * 2)
        self._save_memory()

    def _save_memory(self) -> None:
        """So that the next process begins with what this one has learnt. Not worth failing for."""
        try:
            with self._engine.begin() as connection:
                self._noticer.save(connection, self._now())
            self._noticer.committed()
        except SQLAlchemyError as error:
            logger.warning("the memory of question kinds could not be written: %s", type(error).__name__)

    def _start_again(self) -> None:
        """Forget everything that is not committed, as after a crash, and read it again."""
        self._feedback.forget()
        self._assembler = Assembler(self._config.assembly())
        self._batch = None
        self._refusals = 0
        self._cursor = self._committed

    # Reading.

    def _read(self, timeout: float) -> list[LogRecord]:
        records = self._log.read(self._cursor, self._config.batch_records)
        if not records and timeout > 0 and self._log.wait(self._cursor, timeout):
            records = self._log.read(self._cursor, self._config.batch_records)
        return records

    def _next_batch(self, records: Sequence[LogRecord]) -> _Batch:
        """Move the records into the assembler and take out what is due. The ledger is asked before anything moves."""
        read = [self._decode(record) for record in records]
        known = self._known({span.trace_id for entry in read for span in entry.spans})
        batch = _Batch((), self._cursor)
        feedback: list[tuple[int, Feedback]] = []
        dead_letters: list[DeadLetter] = []
        last_received_at = 0.0
        for entry in read:
            self._assemble(entry, known, batch)
            if entry.feedback is not None:
                feedback.append((entry.record.position, entry.feedback))
            if entry.dead_letter is not None:
                dead_letters.append(entry.dead_letter)
            self._cursor = entry.record.next_position
            batch.records += 1
            batch.rejected_spans.update(entry.rejected)
            last_received_at = entry.record.received_at
            if self._assembler.pressed:
                break  # decide before more is taken; the rest is read again
        # Behind the end of the log the clock is the log's own: children that are still to be read are not late.
        behind = batch.records > 0 and self._cursor < self._log.end_position
        batch.due = self._assembler.due(last_received_at if behind else self._now())
        low = self._assembler.low_position
        batch.low_position = self._cursor if low is None else low
        batch.feedback, batch.dead_letters = feedback, dead_letters
        return batch

    def _decode(self, record: LogRecord) -> _Read:
        try:
            if record.kind == "feedback":
                return _Read(record, feedback=feedback_records.read(record.body, record.received_at))
            if record.spans is not None:
                return _Read(record, spans=record.spans)
            return self._decode_spans(record)
        except Rejected as error:
            reason, detail = str(error.reason), error.message
        except Exception as error:  # a fault of ours; the record is kept for us to look at
            logger.error("record %d could not be decoded: %s", record.position, type(error).__name__, exc_info=True)
            reason, detail = "decode_failed", type(error).__name__
        letter = DeadLetter(record.position, record.received_at, reason, detail, record.body)
        return _Read(record, dead_letter=letter)

    def _decode_spans(self, record: LogRecord) -> _Read:
        encoding: otlp.Encoding = "json" if record.kind == "otlp_json" else "protobuf"
        decoded = otlp.decode(record.body, encoding, self._limits)
        if (
            decoded.rejected and not decoded.spans
        ):  # what the receiver took had a good span: limits were lowered since
            raise Rejected(decoded.first_reason, decoded.rejection_message)
        return _Read(record, spans=decoded.spans, rejected=decoded.rejected)

    def _known(self, trace_ids: Iterable[str]) -> dict[str, int]:
        """Last positions of those traces that are decided already."""
        asked = [trace_id for trace_id in trace_ids if trace_id not in self._assembler]
        known = {trace_id: self._decided[trace_id] for trace_id in asked if trace_id in self._decided}
        unknown = [trace_id for trace_id in asked if trace_id not in known]
        if unknown:
            with reader(self._engine).connect() as connection:
                rows = store.decided(connection, unknown)
            known.update((trace_id, row.last_position) for trace_id, row in rows.items())
        return known

    def _assemble(self, entry: _Read, known: Mapping[str, int], batch: _Batch) -> None:
        position = entry.record.position
        fresh = []
        for span in entry.spans:
            decided_up_to = known.get(span.trace_id)
            if decided_up_to is None:
                fresh.append(span)
            elif position > decided_up_to:  # at or before it: read again after a crash, not late
                batch.late_spans += 1
                if span.status == "error":
                    late = LateSpan(span, position, entry.record.received_at)
                    batch.late_errors.setdefault(span.trace_id, []).append(late)
        batch.duplicate_spans += self._assembler.add(fresh, position, entry.record.received_at)

    # Writing.

    def _commit(self, batch: _Batch) -> int:
        self._prepare_rates()
        decided = 0
        if batch.has_rows or self._carried or self._position_is_due(batch):
            batch.votes = self._votes(batch) if batch.votes is None else batch.votes
            decided = self._commit_rows(batch)
            self._noticer.committed()
            self._committed = batch.low_position
            self._position_written_at = self._now()
        self._batch = None
        self._refusals = 0
        self._remember(batch.due)
        self._count_records(batch)
        return batch.records + decided

    def _commit_rows(self, batch: _Batch) -> int:
        """Return how many traces were decided."""
        try:
            return self._transact(batch)
        except Exception as error:
            if not refused.is_refusal(error):
                raise
            self._refusals += 1
            if self._refusals < refused.TRIES:
                raise
            try:
                return self._commit_parted(batch, error)
            except Exception:
                self._start_again()  # how much of it is committed is known to the tables only
                raise

    def _commit_parted(self, batch: _Batch, error: Exception) -> int:
        """Commit *batch* without what is refused: first what asks for earlier traces, which is in no part of it."""
        if not self._passes(_Batch((), self._committed)):
            for _ in self._carried:  # it is stored, and moves nothing
                self._metrics.late_feedback("refused")
            self._carried = []
        decided = self._commit_apart(batch, error)
        for trace_id, late in batch.late_errors.items():
            if not self._passes(_Batch((), self._committed, late_errors={trace_id: late})):
                self._metrics.late_error("refused")  # they are in the log, and move nothing
        return decided + self._transact(_Batch((), batch.low_position))

    def _passes(self, part: _Batch) -> bool:
        try:
            self._transact(part)
        except Exception as error:
            if not refused.is_refusal(error):
                raise
            return False
        return True

    def _transact(self, batch: _Batch) -> int:
        votes = batch.votes or ()
        late = self._prepare_late(votes)
        failed = self._late_errors.weigh(batch.late_errors, self._now())
        with self._engine.begin() as connection:
            outcome = self._write(connection, batch, votes, late)
            outcome.failed_late = self._write_errors(connection, failed)
            self._place.set(connection, batch.low_position)
            self._noticer.save_if_due(connection, self._now())
        self._carried = [feedback for _, feedback in outcome.reasked if feedback.sentiment == "negative"]
        self._count(votes, outcome)
        return len(outcome.decisions)

    def _commit_apart(self, batch: _Batch, error: Exception) -> int:
        """Commit what the database takes of *batch*, half by half; what it refuses alone is lost."""
        parts = batch.parts(self._committed)
        if not parts:
            return self._give_up(batch, error)
        decided = 0
        for part in parts:
            try:
                decided += self._transact(part)
            except Exception as refusal:
                if not refused.is_refusal(refusal):
                    raise
                decided += self._commit_apart(part, refusal)
        return decided

    def _give_up(self, batch: _Batch, error: Exception) -> int:
        """Write down that the one row of *batch* is lost. Raises where not even that is taken."""
        now, kind, reason = self._now(), type(error).__name__, refused.reason(error) or refused.REASON
        decisions = [self._decider.lost(pending, reason) for pending in batch.due]
        letters = [DeadLetter(v.position, now, reason, kind, b"") for v in batch.votes or ()]
        letters += [DeadLetter(d.position, now, reason, kind, b"") for d in batch.dead_letters]
        with self._engine.begin() as connection:
            store.add_decisions(connection, decisions, now=now, bucket_seconds=self._config.bucket_seconds)
            letters = store.add_dead_letters(connection, letters, 0)
        for decision in decisions:
            trace_id = decision.pending.trace_id
            logger.error("trace %s is lost (%s: %s): its spans stay in the log", trace_id, reason, kind)
        self._count((), _Outcome(decisions=decisions, dead_letters=letters))
        return len(decisions)

    def _prepare_rates(self) -> None:
        """Have the table of this epoch before anything is decided: durable, in a transaction of its own."""
        in_force = self._rates.prepare(self._now())
        if in_force is not None:
            self._metrics.planned(in_force)

    def _position_is_due(self, batch: _Batch) -> bool:
        moved = batch.low_position != self._committed
        return moved and self._now() - self._position_written_at >= self._config.position_interval_seconds

    def _write(
        self, connection: Connection, batch: _Batch, votes: Sequence[Vote], late: Mapping[str, _Late]
    ) -> _Outcome:
        now = self._now()
        feedback_votes.write(connection, votes)
        decided = store.decided(connection, (pending.trace_id for pending in batch.due))
        due = [pending for pending in batch.due if pending.trace_id not in decided]
        given = store.feedback_of(connection, (pending.trace_id for pending in due))
        decisions = [self._decider.decide(pending, given.get(pending.trace_id, ())) for pending in due]
        store.add_decisions(connection, decisions, now=now, bucket_seconds=self._config.bucket_seconds)
        shed = shedding.shed(connection, self._config.judge_queue_limit, self._config.bucket_seconds)
        letters = store.add_dead_letters(connection, batch.dead_letters, self._config.dead_letter_body_bytes)
        reasked = self._add_reasking(connection, decisions)
        risen = [found.rise.offer for found in late.values() if found.rise.offer is not None]
        settling.add_offers(connection, risen, self._config.bucket_seconds)
        new = [vote.feedback for vote in votes if vote.change == "new"]
        return _Outcome(
            decisions=decisions,
            feedback=[(self._app_of(feedback, decisions, late), feedback) for feedback in new],
            late=[self._queue_late(connection, found.rise, now) for found in late.values()],
            risen=risen,
            reasked=reasked,
            dead_letters=letters,
            shed=len(shed.dropped),
        )

    def _write_errors(self, connection: Connection, failed: Sequence[Rise]) -> list[tuple[str, str | None]]:
        offers = [found.offer for found in failed if found.offer is not None]
        settling.add_offers(connection, offers, self._config.bucket_seconds)
        now = self._now()
        return [
            (self._queue_late(connection, found, now), found.offer.decided.stratum if found.offer else None)
            for found in failed
        ]

    def _app_of(self, feedback: Feedback, decisions: Sequence[Decision], late: Mapping[str, _Late]) -> str:
        if feedback.id in late:
            return late[feedback.id].row.app
        now_decided = next((d.app for d in decisions if d.pending.trace_id == feedback.trace_id), None)
        return now_decided or self._app_in_hand(feedback.trace_id)

    def _app_in_hand(self, trace_id: str) -> str:
        pending = self._assembler.get(trace_id)
        return identity(list(pending.spans.values()))[0] if pending is not None else UNKNOWN_APP

    def _add_reasking(self, connection: Connection, decisions: Sequence[Decision]) -> list[tuple[str, Feedback]]:
        """Store what traces say about the ones that they ask again; return what was new."""
        found = []
        for decision in decisions:
            reask, trace, pending = decision.noticed.reask, decision.trace, decision.pending
            if reask is not None and trace is not None:
                given = reask_feedback(trace, reask, self._config.reask_sentiment, pending.first_received_at)
                found.append((decision.app, pending.first_position, given))
        new, _ = store.add_feedback(connection, [(position, given) for _, position, given in found])
        return [(app, given) for app, _, given in found if given.id in new]

    # Feedback that comes after the decision.

    def _votes(self, batch: _Batch) -> Sequence[Vote]:
        """What becomes of each record of feedback."""
        due = {pending.trace_id: pending for pending in batch.due}

        def app_in_hand(trace_id: str) -> str:
            pending = due.get(trace_id)
            return identity(list(pending.spans.values()))[0] if pending else self._app_in_hand(trace_id)

        return self._feedback.weigh(batch.feedback, app_in_hand, self._now())

    def _prepare_late(self, votes: Sequence[Vote]) -> dict[str, _Late]:
        """What late feedback asks for, by its id. Payloads are read here, before the transaction: it takes time."""
        asking = [(vote.feedback, vote.quarantined_for) for vote in votes if vote.stored]
        asking += [(feedback, "") for feedback in self._carried]
        if not asking:
            return {}
        with reader(self._engine).connect() as connection:
            rows = store.decided(connection, (feedback.trace_id for feedback, _ in asking))
            given = store.feedback_of(connection, rows)
            standing = settling.decided(connection, rows)
            offered = settling.offered(connection, rows, COMPLAINT)
        found: dict[str, _Late] = {}
        first: dict[str, _Late] = {}  # complaint on each trace
        for feedback, quarantined_for in asking:
            trace_id = feedback.trace_id
            if trace_id not in rows:
                continue
            late = _without_draw(feedback, quarantined_for, rows[trace_id], first.get(trace_id))
            if late is None:
                others = [one for one in given.get(trace_id, ()) if not _same_vote(one, feedback)]
                late = self._late(rows[trace_id], standing[trace_id], [*others, feedback], trace_id in offered)
                first[trace_id] = late
            found[feedback.id] = late
        return found

    def _late(self, row: DecidedRow, standing: Decided, given: Sequence[Feedback], offered: bool) -> _Late:
        """What a complaint on a decided trace does. It is offered to the judge once, at the chance of that moment."""
        if offered or standing.stratum == COMPLAINT:
            return _Late(row, Rise("already_sampled" if row.verdict == "sampled" else "not_chosen"))
        now, table = self._now(), self._decider.table(given[-1].received_at)
        chance, epoch = self._feedback.late_chance(table.probability(COMPLAINT), now)
        ground = Ground(Standing(COMPLAINT, chance), epoch, _LATE, now)

        def read_again() -> RagTrace | None:
            return self._read_again(standing.trace_id, row, given)

        return _Late(row, rise(row, standing, ground, self._feedback.horizon_seconds, read_again))

    def _read_again(
        self, trace_id: str, row: DecidedRow, given: Sequence[Feedback], late: Sequence[LateSpan] = ()
    ) -> RagTrace | None:
        """A decided trace as it lies in the log, with *late* spans; None where it is erased or no longer there."""
        pending = None if row.erased else self._collect(trace_id, row, late)
        return self._decider.read(pending, given) if pending is not None else None

    def _collect(self, trace_id: str, row: DecidedRow, late: Sequence[LateSpan]) -> Pending | None:
        assembler = Assembler(self._config.assembly())
        for record in self._range(row.first_position, row.last_position):
            if not _may_hold(record, trace_id):  # nearly all records of a busy collector: decoding them takes long
                continue
            spans = [span for span in self._decode(record).spans if span.trace_id == trace_id]
            assembler.add(spans, record.position, record.received_at)
        if trace_id in assembler:
            for span, position, received_at in late:
                assembler.add([span], position, received_at)
        return next(iter(assembler.drain()), None)

    def _range(self, first: int, last: int) -> Iterator[LogRecord]:
        position = first
        while position <= last:
            records = self._log.read(position, self._config.batch_records)
            if not records or (position == first and records[0].position != first):
                return  # trimmed or damaged: half a trace is not what was decided
            for record in records:
                if record.position > last:
                    return
                yield record
            position = records[-1].next_position

    def _queue_late(self, connection: Connection, late: Rise, now: float) -> str:
        if late.sampled is None:
            return late.result
        return late.result if store.queue_late(connection, late.sampled, now) else "already_sampled"

    # After the commit.

    def _remember(self, due: Sequence[Pending]) -> None:
        for pending in due:
            self._decided[pending.trace_id] = pending.last_position
        while len(self._decided) > _REMEMBERED:
            self._decided.popitem(last=False)

    def _count(self, votes: Sequence[Vote], outcome: _Outcome) -> None:
        metrics = self._metrics
        for decision in outcome.decisions:
            metrics.decided(decision.verdict, decision.reason, decision.trace)
            metrics.noticed(decision.noticed.sight)
        for app in {decision.app for decision in outcome.decisions}:
            metrics.memory(app, self._noticer.memory(app))
        metrics.excess_spans.inc(sum(decision.pending.excess_spans for decision in outcome.decisions))
        metrics.early_traces.inc(sum(decision.pending.early for decision in outcome.decisions))
        for app, feedback in outcome.feedback:
            metrics.feedback(app, feedback.sentiment)
        for app, _ in outcome.reasked:
            metrics.reasked(app)
        for vote in votes:
            metrics.vote(vote.change, vote.quarantined_for)
        for result in outcome.late:
            metrics.late_feedback(result)
        for offer in outcome.risen:
            metrics.risen(offer.decided.stratum)
        metrics.shed(outcome.shed)
        for result, left in outcome.failed_late:
            metrics.late_error(result, left)
        for letter in outcome.dead_letters:
            metrics.dead_letter(letter.reason)

    def _count_records(self, batch: _Batch) -> None:
        metrics = self._metrics
        for reason, spans in batch.rejected_spans.items():
            metrics.rejected_again(reason, spans)
        metrics.late_spans.inc(batch.late_spans)
        metrics.duplicate_spans.inc(batch.duplicate_spans)
        metrics.pending_traces.set(len(self._assembler))
        metrics.pending_bytes.set(self._assembler.pending_bytes)
        metrics.pending_spans.set(self._assembler.pending_spans)
        metrics.log_backlog_bytes.set(self._log.end_position - self._cursor)

    def _trim(self) -> None:
        now = self._now()
        if now - self._trimmed_at >= self._config.trim_interval_seconds:
            self._trimmed_at = now
            self._log.trim(self._committed, now)


class _Late(NamedTuple):
    """Feedback for a decided trace, and what it leads to."""

    row: DecidedRow
    rise: Rise  # its result is one of traffic_metrics.LATE_RESULTS


def _without_draw(feedback: Feedback, quarantined_for: str, row: DecidedRow, first: _Late | None) -> _Late | None:
    """What feedback does that moves nothing; None for a complaint that may. *first*: an earlier one on its trace."""
    if row.verdict == "skipped":
        return _Late(row, Rise("skipped"))
    if feedback.sentiment != "negative":
        return _Late(row, Rise("not_negative"))
    if quarantined_for:
        return _Late(row, Rise("quarantined"))
    if first is not None:  # several people, one trace: it rises once
        return _Late(row, Rise("already_sampled") if first.rise.result == "queued" else Rise(first.rise.result))
    return None


def _may_hold(record: LogRecord, trace_id: str) -> bool:
    """False where *record* certainly has no span of the trace, which a search of its bytes tells."""
    if record.spans is not None:
        return True
    if record.kind == "otlp_protobuf":
        return bytes.fromhex(trace_id) in record.body
    body = record.body.lower()  # JSON may write the id in capitals, and any character as an escape
    return trace_id.encode() in body or b"\\u00" in body


def _same_vote(one: Feedback, other: Feedback) -> bool:
    return one.id == other.id or (one.by, one.name) == (other.by, other.name)


def _failure_kind(error: Exception) -> str:
    if isinstance(error, SQLAlchemyError):
        return "refused" if refused.is_refusal(error) else "database"
    return "log" if isinstance(error, (LogError, OSError)) else "other"
