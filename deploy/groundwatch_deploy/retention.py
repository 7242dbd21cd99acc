"""Remove what is past its time: the text of people first, then rows, then fine steps of time. No counter falls.

Each step is many small transactions, so that the pipeline and the scorer never wait long for this one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge
from sqlalchemy import ColumnElement, Connection, Engine, and_, bindparam, delete, exists, or_, select, update
from sqlalchemy.exc import SQLAlchemyError

from groundwatch_alerts import compaction
from groundwatch_collector.ledger import DEAD_LETTER
from groundwatch_collector.sampled import BLANK_PAYLOAD
from groundwatch_collector.storage import add_to_tally, metadata, reader, reclaim
from groundwatch_collector.tables import dead_letters, feedback, ledger, ledger_base, sampled_traces
from groundwatch_review import second_person
from groundwatch_review.review_queue import waits_for_somebody
from groundwatch_review.tables import candidates, reviews
from groundwatch_scorer.tables import judge_calls, judgements

logger = logging.getLogger(__name__)

DAY_SECONDS = 86_400.0
EVERY_POSITION = 2**63 - 1  # beyond every position: of a topic, whose own retention must be the shorter one
KINDS = (
    "payloads",
    "judgement_texts",
    "judge_calls",
    "feedback_texts",
    "review_notes",
    "dead_letter_bodies",
    "dead_letters",
    "ledger_rows",
    "feedback_rows",
    "candidates",
    "tally_rows",
)
_LONGEST_PAUSE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RetentionConfig:
    """How long things are kept. Sums, and with them every counter and estimate, are kept for ever."""

    raw_days: float = 14.0  # text of people: sampled traces, comments, what judges wrote, unreadable bodies
    review_days: float = 30.0  # the same of a trace that waits for a person's decision, at the longest
    ledger_days: float = 180.0  # rows without text: ledger, verdicts, feedback, and redacted candidates
    hourly_after_days: float = 31.0  # sums older than this are kept by the hour (UTC)
    daily_after_days: float = 180.0  # sums older than this are kept by the day (UTC)
    interval_seconds: float = 600.0  # how often it is looked for what is past its time
    batch_rows: int = 500  # rows of one transaction

    def __post_init__(self) -> None:
        ordered = (("raw_days", "review_days", "ledger_days"), ("hourly_after_days", "daily_after_days"))
        for names in ordered:
            for shorter, longer in pairwise(names):
                if not 0 < getattr(self, shorter) <= getattr(self, longer):
                    raise ValueError(
                        f"{shorter}: found {getattr(self, shorter)}, accepted: more than 0 and at most {longer} "
                        f"({getattr(self, longer)})"
                    )
        if not 1 <= self.batch_rows <= 10_000:
            raise ValueError(f"batch_rows: found {self.batch_rows}, accepted: 1 to 10000")
        if self.interval_seconds <= 0:
            raise ValueError(f"interval_seconds: found {self.interval_seconds}, accepted: more than 0")


class RetentionMetrics:
    """What was removed, and whether the job runs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._removed = Counter(
            "groundwatch_retention_removed",
            "Texts and rows that were removed because their time was over.",
            ["kind"],
            registry=registry,
        )
        for kind in KINDS:
            self._removed.labels(kind)
        self.failures = Counter(
            "groundwatch_retention_failures", "Runs of retention that failed and are tried again.", registry=registry
        )
        self.finished_at = Gauge(
            "groundwatch_retention_last_success_timestamp_seconds",
            "When retention last ran to its end.",
            registry=registry,
        )

    def removed(self, kind: str, count: int) -> None:
        self._removed.labels(kind).inc(count)


class Retention:
    """The job. *oldest_position* tells from where on the span log still has records: their ledger rows are kept,
    because whoever reads the log again must find that they were decided."""

    def __init__(
        self,
        engine: Engine,
        config: RetentionConfig,
        metrics: RetentionMetrics,
        *,
        now: Callable[[], float],
        oldest_position: Callable[[], int],
    ) -> None:
        self._engine = engine
        self._config = config
        self._metrics = metrics
        self._now = now
        self._oldest_position = oldest_position

    def step(self, stopped: Callable[[], bool] = lambda: False) -> dict[str, int]:
        """Remove everything that is past its time now; return how much of each kind. Raises what the database
        raises; what was removed before that stays removed."""
        removed = dict.fromkeys(KINDS, 0)
        for kind, count in self._parts():
            removed[kind] += count
            self._metrics.removed(kind, count)
            if stopped():
                return removed
        reclaim(self._engine)
        self._metrics.finished_at.set(self._now())
        return removed

    def run(self, stop: threading.Event) -> None:
        """Step every interval until *stop* is set. A database that is away is waited for."""
        while not stop.is_set():
            pause = self._config.interval_seconds
            try:
                self.step(stop.is_set)
            except Exception as error:  # a thread that ended would keep the text of people for ever
                self._metrics.failures.inc()
                known = isinstance(error, SQLAlchemyError)
                logger.error("retention failed (%s); trying again", type(error).__name__, exc_info=not known)
                pause = min(pause, _LONGEST_PAUSE_SECONDS)
            stop.wait(pause)

    def _parts(self) -> Iterator[tuple[str, int]]:
        now, days = self._now(), self._config
        raw, held = now - days.raw_days * DAY_SECONDS, now - days.review_days * DAY_SECONDS
        old = now - days.ledger_days * DAY_SECONDS
        yield from self._blank_traces(raw, held)
        yield from self._blank_rest(raw)
        yield from self._remove_rows(old, held)
        for after, width in ((days.hourly_after_days, compaction.HOUR), (days.daily_after_days, compaction.DAY)):
            for saved in compaction.compact(self._engine, now - after * DAY_SECONDS, width):
                yield "tally_rows", saved

    # Text.

    def _blank_traces(self, raw: float, held: float) -> Iterator[tuple[str, int]]:
        """The text of sampled traces, with everything that was said about each of them."""
        past = and_(
            sampled_traces.c.payload != BLANK_PAYLOAD,
            sampled_traces.c.queued_at < raw,
            or_(sampled_traces.c.queued_at < held, ~waits_for_somebody(sampled_traces.c.trace_id)),
        )
        for ids in self._batches(sampled_traces.c.trace_id, past):
            with self._engine.begin() as connection:
                counts = _blank(connection, ids)
            yield from counts.items()

    def _blank_rest(self, raw: float) -> Iterator[tuple[str, int]]:
        """What belongs to no trace with text: feedback on traces that were not sampled, later notes, bodies."""
        texts = (
            ("feedback_texts", feedback, and_(feedback.c.received_at < raw, _has_words(feedback)), _NO_WORDS),
            ("review_notes", reviews, and_(reviews.c.reviewed_at < raw, reviews.c.note != ""), {"note": ""}),
        )
        for kind, table, past, values in texts:
            key = next(iter(table.primary_key.columns))
            for ids in self._batches(key, and_(past, ~_has_text(table))):
                with self._engine.begin() as connection:
                    yield kind, connection.execute(update(table).where(key.in_(ids)).values(values)).rowcount
        spoken = and_(judgements.c.judged_at < raw, judgements.c.explanation != "", ~_has_text(judgements))
        for ids in self._batches(judgements.c.id, spoken):
            with self._engine.begin() as connection:
                yield "judgement_texts", _strip(connection, judgements.c.id.in_(ids))
        for ids in self._batches(judge_calls.c.id, judge_calls.c.judged_at < raw):  # whatever the payload waits for
            with self._engine.begin() as connection:
                yield "judge_calls", _forget_calls(connection, judge_calls.c.id.in_(ids))
        bodies = and_(dead_letters.c.received_at < raw, dead_letters.c.body.is_not(None))
        for ids in self._batches(dead_letters.c.id, bodies):
            with self._engine.begin() as connection:
                blank = update(dead_letters).where(dead_letters.c.id.in_(ids)).values(body=None)
                yield "dead_letter_bodies", connection.execute(blank).rowcount

    # Rows.

    def _remove_rows(self, old: float, held: float) -> Iterator[tuple[str, int]]:
        oldest = self._oldest_position()
        # Both times: a trace may claim to have started long before it came. The start is what is indexed.
        past = and_(ledger.c.started_at < old, ledger.c.decided_at < old, ledger.c.last_position < oldest)
        for ids in self._batches(ledger.c.trace_id, and_(past, ~_is_open())):
            with self._engine.begin() as connection:
                yield "ledger_rows", _remove_traces(connection, ids)
        read = or_(dead_letters.c.position.is_(None), dead_letters.c.position < oldest)
        unread = and_(dead_letters.c.received_at < old, read)
        for ids in self._batches(dead_letters.c.id, unread):
            with self._engine.begin() as connection:
                yield "dead_letters", _remove_dead_letters(connection, ids)
        unknown = ~exists().where(ledger.c.trace_id == feedback.c.trace_id)
        for ids in self._batches(feedback.c.feedback_id, and_(feedback.c.received_at < old, unknown)):
            with self._engine.begin() as connection:
                gone = delete(feedback).where(feedback.c.feedback_id.in_(ids))
                yield "feedback_rows", connection.execute(gone).rowcount
        # A blocked candidate may hold what redaction could not be sure of.
        blocked = and_(candidates.c.redaction_status == "BLOCKED", candidates.c.updated_at < held)
        for ids in self._batches(candidates.c.candidate_id, or_(blocked, candidates.c.updated_at < old)):
            with self._engine.begin() as connection:
                second_person.take_back(connection, ids)
                gone = delete(candidates).where(candidates.c.candidate_id.in_(ids))
                yield "candidates", connection.execute(gone).rowcount

    def _batches(self, key: ColumnElement[Any], where: ColumnElement[bool]) -> Iterator[list[Any]]:
        """Keys of the rows that match now, found in one query and given out in pieces."""
        with reader(self._engine).connect() as connection:
            found = list(connection.scalars(select(key).where(where)))
        size = self._config.batch_rows
        return (found[start : start + size] for start in range(0, len(found), size))


_NO_WORDS = {"comment": "", "by": ""}


def _has_words(table: Any) -> ColumnElement[bool]:
    return or_(table.c.comment != "", table.c.by != "")


def _has_text(table: Any) -> ColumnElement[bool]:
    """Whether the trace of the row still has its text, and then keeps this as well."""
    return exists().where(sampled_traces.c.trace_id == table.c.trace_id, sampled_traces.c.payload != BLANK_PAYLOAD)


def _forget_calls(connection: Connection, where: ColumnElement[bool]) -> int:
    """Remove what models were asked and answered: the words behind those judgements."""
    return connection.execute(delete(judge_calls).where(where)).rowcount


def _is_open() -> ColumnElement[bool]:
    return exists().where(
        sampled_traces.c.trace_id == ledger.c.trace_id, sampled_traces.c.state.in_(("waiting", "leased"))
    )


def _blank(connection: Connection, ids: Sequence[str]) -> dict[str, int]:
    """Blank all text of these traces. One that was not judged yet can no longer be: the scorer gives it up."""

    def change(table: Any, where: ColumnElement[bool], values: Mapping[str, Any]) -> int:
        return connection.execute(update(table).where(table.c.trace_id.in_(ids), where).values(values)).rowcount

    return {
        "payloads": change(sampled_traces, sampled_traces.c.payload != BLANK_PAYLOAD, {"payload": BLANK_PAYLOAD}),
        "judgement_texts": _strip(connection, judgements.c.trace_id.in_(ids)),
        "judge_calls": _forget_calls(connection, judge_calls.c.trace_id.in_(ids)),
        "feedback_texts": change(feedback, _has_words(feedback), _NO_WORDS),
        "review_notes": change(reviews, reviews.c.note != "", {"note": ""}),
    }


def _strip(connection: Connection, where: ColumnElement[bool]) -> int:
    """Keep of judgements what is counted and sorted by: label, score, layer, confidence, and how it was labelled."""
    rows = connection.execute(
        select(judgements.c.id, judgements.c.explanation, judgements.c.detail).where(where)
    ).all()
    kept = [{"row": row.id, "rest": _without_text(row.detail)} for row in rows]
    changed = [
        entry for row, entry in zip(rows, kept, strict=True) if row.explanation != "" or row.detail != entry["rest"]
    ]
    if changed:
        blank = update(judgements).where(judgements.c.id == bindparam("row"))
        connection.execute(blank.values(explanation="", detail=bindparam("rest")), changed)
    return len(changed)


def _without_text(detail: str) -> str:
    try:
        found = orjson.loads(detail)
    except orjson.JSONDecodeError:
        return "{}"
    found = found if isinstance(found, dict) else {}
    kept: dict[str, Any] = {}
    if isinstance(fault := found.get("fault"), dict):
        kept["fault"] = {"layer": str(fault.get("layer"))[:16], "confidence": fault.get("confidence")}
    if isinstance(how := found.get("labelling"), dict):  # how a person labelled: their agreement is taken over months
        words = {name: str(how.get(name) or "")[:40] for name in ("policy", "reading")}
        kept["labelling"] = {**words, "blind": how.get("blind") is True}
    return orjson.dumps(kept).decode()


def _remove_traces(connection: Connection, ids: Sequence[str]) -> int:
    """Take the rows of these traces out and count them in ``ledger_base``."""
    gone = delete(ledger).where(ledger.c.trace_id.in_(ids))
    decided = connection.execute(gone.returning(ledger.c.trace_id, ledger.c.verdict, ledger.c.reason)).all()
    gone = delete(sampled_traces).where(sampled_traces.c.trace_id.in_(ids))
    columns = (sampled_traces.c.trace_id, sampled_traces.c.state, sampled_traces.c.family)
    sampled = {row.trace_id: (row.state, row.family) for row in connection.execute(gone.returning(*columns))}
    for table in metadata.sorted_tables:
        if "trace_id" in table.columns and table is not candidates:  # a candidate has an age of its own
            connection.execute(delete(table).where(table.c.trace_id.in_(ids)))
    keys = [(row.verdict, row.reason, *sampled.get(row.trace_id, ("", ""))) for row in decided]
    _add_to_base(connection, keys)
    return len(decided)


def _remove_dead_letters(connection: Connection, ids: Sequence[int]) -> int:
    gone = delete(dead_letters).where(dead_letters.c.id.in_(ids)).returning(dead_letters.c.reason)
    reasons = connection.scalars(gone).all()
    _add_to_base(connection, [(DEAD_LETTER, reason, "", "") for reason in reasons])
    return len(reasons)


def _add_to_base(connection: Connection, keys: Sequence[tuple[str, str, str, str]]) -> None:
    names = ("verdict", "reason", "state", "family")
    counts: dict[tuple[str, str, str, str], int] = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    rows = [{**dict(zip(names, key, strict=True)), "traces": count} for key, count in counts.items()]
    add_to_tally(connection, ledger_base, rows)
