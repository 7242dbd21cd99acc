"""What waits for a person, in the order in which it is worth a person's time, and why each of it is there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    case,
    exists,
    false,
    func,
    or_,
    select,
    true,
)

from groundwatch_collector.sampled import BLANK_PAYLOAD
from groundwatch_collector.tables import ledger, sampled_traces
from groundwatch_scorer.judgement import AnnotatorKind, Criterion
from groundwatch_scorer.second_look import PEOPLE
from groundwatch_scorer.tables import judgements, second_looks

from . import families
from .desk import DISPUTED
from .queries import has_feedback, json_number, json_path, trace_join
from .rereading import REPEAT, SECOND
from .tables import candidates, reviews

UNCERTAIN_BELOW: Final = 0.6
"""A fault named with less confidence than this is shown as uncertain in the review queue."""

DRAWN_FIRST = 50
"""Of the traces drawn for people so many come before all others: more would hide the failures behind them."""

REREAD_FIRST = 10
"""The same of traces that somebody has read already."""

REASONS: Final = (
    "disputed",
    "reread",
    "drawn",
    "failed",
    "failed_unsure",
    "complained",
    "complained_but_passed",
    "unscored",
)


@dataclass(frozen=True, slots=True)
class Reader:
    """Who looks at the queue: what was read already comes back to some people only."""

    reviewer: str = ""
    repeat_before: float = 0.0  # what this person labelled before this time may be read again


ANYBODY: Final = Reader()


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which part of the queue; "" is all of it."""

    version: str = ""
    layer: str = ""
    why: str = ""  # one of REASONS

    @property
    def tells_the_verdict(self) -> bool:
        """Whether whoever asks for this part knows what the judge said of each of it: nobody reads that blind."""
        return bool(self.layer) or self.why in (
            "failed",
            "failed_unsure",
            "complained",
            "complained_but_passed",
            "unscored",
        )


@dataclass(frozen=True, slots=True)
class QueueItem:
    trace_id: str
    started_at: float
    version: str
    query: str | None
    why: tuple[str, ...]  # of REASONS
    layer: str
    confidence: float | None
    page: str = ""  # the document on which the fault rests
    family: int = 1  # how many of the queue's items are this failure again, itself included


def read(
    connection: Connection, app: str, limit: int, reader: Reader = ANYBODY, wanted: Wanted | None = None
) -> list[QueueItem]:
    """Up to *limit* items: what people disagree on, what is to be read again, what was drawn for people, the rest.

    The rest is ordered by how telling it is: judged failures with a complaint, failures by confidence, complaints
    that the judge passed, what it could not tell. What was drawn comes by time alone: whoever stops half-way has read
    a random part.
    """
    waiting = and_(ledger.c.app == app, _waits(reader), _filter(connection, wanted or Wanted(), reader))
    rows: list[Row[Any]] = []
    for part, first in ((_disputed(), limit), (_again(reader), REREAD_FIRST), (_drawn(), DRAWN_FIRST)):
        rows += _part(connection, and_(waiting, part), reader, rows, min(first, limit - len(rows)), by_time=True)
    rows += _part(connection, waiting, reader, rows, limit - len(rows), by_time=False)
    return _with_families([_item(row) for row in rows])


def size(connection: Connection, app: str, reader: Reader = ANYBODY) -> int:
    """How many wait for *reader*, exactly."""
    where = and_(ledger.c.app == app, _waits(reader))
    return int(connection.execute(select(func.count()).select_from(trace_join()).where(where)).scalar_one())


def find(connection: Connection, app: str, trace_id: str, reader: Reader = ANYBODY) -> QueueItem | None:
    """The item of this trace, wherever in the queue it stands; None when it does not wait for *reader*."""
    where = and_(ledger.c.app == app, ledger.c.trace_id == trace_id, _waits(reader))
    row = connection.execute(_select(connection, where, reader, by_time=True)).first()
    return None if row is None else _item(row)


def is_drawn(connection: Connection, trace_id: str) -> bool:
    """Whether it was drawn for people at random, and none has labelled it yet."""
    return (
        connection.execute(select(ledger.c.trace_id).where(ledger.c.trace_id == trace_id, _drawn())).first()
        is not None
    )


def _part(
    connection: Connection,
    where: ColumnElement[bool],
    reader: Reader,
    before: Sequence[Row[Any]],
    limit: int,
    *,
    by_time: bool,
) -> Iterable[Row[Any]]:
    if limit <= 0:
        return []
    rest = and_(where, ledger.c.trace_id.not_in([row.trace_id for row in before]))
    return connection.execute(_select(connection, rest, reader, by_time=by_time).limit(limit)).all()


def _select(connection: Connection, where: ColumnElement[bool], reader: Reader, *, by_time: bool) -> Select[Any]:
    confidence = json_number(connection, judgements.c.detail, "fault", "confidence")
    failed, complained = judgements.c.label == "fail", has_feedback("negative")
    telling = (_order(failed, complained, confidence), func.coalesce(confidence, 0.5).desc())
    return (
        select(
            ledger.c.trace_id,
            ledger.c.started_at,
            ledger.c.version,
            json_path(connection, sampled_traces.c.payload, "query").label("query"),
            func.coalesce(judgements.c.label, "").label("label"),
            complained.label("complained"),
            _drawn().label("drawn"),
            _disputed().label("disputed"),
            _again(reader).label("again"),
            func.coalesce(json_path(connection, judgements.c.detail, "fault", "layer"), "").label("layer"),
            json_path(connection, judgements.c.detail, "fault", "evidence", 0, "document_id").label("page"),
            confidence.label("confidence"),
        )
        .select_from(trace_join())
        .where(where)
        .order_by(*(() if by_time else telling), ledger.c.started_at.desc(), ledger.c.trace_id)
    )


def _waits(reader: Reader) -> ColumnElement[bool]:
    worth = or_(judgements.c.label.in_(("fail", "unscored")), has_feedback("negative"), _drawn())
    finished = sampled_traces.c.state.in_(("judged", "unscored"))
    readable = sampled_traces.c.payload != BLANK_PAYLOAD
    undecided = and_(worth, reviews.c.trace_id.is_(None))
    return and_(finished, readable, or_(undecided, _disputed(), _again(reader)))


def _filter(connection: Connection, wanted: Wanted, reader: Reader) -> ColumnElement[bool]:
    parts: list[ColumnElement[bool]] = [true()]
    if wanted.version:
        parts.append(ledger.c.version == wanted.version)
    if wanted.layer:
        parts.append(json_path(connection, judgements.c.detail, "fault", "layer") == wanted.layer)
    if wanted.why:
        parts.append(_reason(connection, wanted.why, reader))
    return and_(*parts)


def _reason(connection: Connection, why: str, reader: Reader) -> ColumnElement[bool]:
    """The condition behind a word of ``REASONS``; :func:`_why` says the same of a row."""
    confidence = json_number(connection, judgements.c.detail, "fault", "confidence")
    sure = func.coalesce(confidence, 0.0) >= UNCERTAIN_BELOW
    failed, complained = func.coalesce(judgements.c.label, "") == "fail", has_feedback("negative")
    first = {"disputed": _disputed(), "reread": _again(reader)}
    others = {
        "drawn": _drawn(),
        "failed": and_(failed, sure),
        "failed_unsure": and_(failed, ~sure),
        "complained": and_(complained, failed),
        "complained_but_passed": and_(complained, ~failed),
        "unscored": judgements.c.label == "unscored",
    }
    return first[why] if why in first else and_(others[why], ~_disputed(), ~_again(reader))


def _disputed() -> ColumnElement[bool]:
    return func.coalesce(reviews.c.decision, "") == DISPUTED


def _looks(asked: str, trace_id: Column[Any] = ledger.c.trace_id) -> ColumnElement[bool]:
    return exists().where(second_looks.c.trace_id == trace_id, second_looks.c.asked == asked, second_looks.c.chosen)


def _said(*columns: Any, trace_id: Column[Any] = ledger.c.trace_id) -> Select[Any]:
    """What people said of the trace as a whole."""
    said = judgements.alias("said")
    return (
        select(*(column(said) for column in columns))
        .where(
            said.c.trace_id == trace_id,
            said.c.annotator_kind == AnnotatorKind.HUMAN.value,
            said.c.criterion == Criterion.ANY_FAILURE.value,
        )
        .correlate(trace_id.table)
    )


def _drawn() -> ColumnElement[bool]:
    """Chosen with a known chance to be read by people, and not labelled by any yet."""
    return and_(_looks(PEOPLE), ~_said(lambda said: said.c.id).exists())


def _again(reader: Reader) -> ColumnElement[bool]:
    """Drawn to be read twice, and due for this person: what one other read, or what they read themselves long ago."""
    if not reader.reviewer:
        return false()
    me = f"reviewer:{reader.reviewer}"
    people = _said(lambda said: func.count(said.c.identifier.distinct())).scalar_subquery()
    mine = _said(lambda said: func.sum(case((said.c.identifier == me, 1), else_=0))).scalar_subquery()
    last = _said(lambda said: func.max(case((said.c.identifier == me, said.c.judged_at)))).scalar_subquery()
    second = and_(_looks(SECOND), people == 1, func.coalesce(mine, 0) == 0)
    repeat = and_(_looks(REPEAT), func.coalesce(mine, 0) == 1, last <= reader.repeat_before)
    return and_(func.coalesce(reviews.c.decision, DISPUTED) != DISPUTED, or_(second, repeat))


def waits_for_somebody(trace_id: Column[Any]) -> ColumnElement[bool]:
    """Whether somebody may still find the trace here or make a candidate of it, so that its text is needed.

    For queries without the joins of the queue. It keeps a little more than the queue shows: what any judge doubts,
    and what somebody else may have to read again.
    """
    automatic = and_(
        judgements.c.criterion == Criterion.ANY_FAILURE, judgements.c.annotator_kind != AnnotatorKind.HUMAN
    )
    doubtful = exists().where(
        judgements.c.trace_id == trace_id, automatic, judgements.c.label.in_(("fail", "unscored"))
    )
    decided = exists().where(reviews.c.trace_id == trace_id)
    disputed = exists().where(reviews.c.trace_id == trace_id, reviews.c.decision == DISPUTED)
    confirmed = exists().where(reviews.c.trace_id == trace_id, reviews.c.decision == "confirmed")
    made = exists().where(candidates.c.trace_id == trace_id)
    undecided = and_(or_(doubtful, has_feedback("negative", trace_id)), ~decided)
    return or_(undecided, disputed, _reads_left(trace_id), and_(confirmed, ~made))


def _reads_left(trace_id: Column[Any]) -> ColumnElement[bool]:
    """Drawn for people and unread, for a second person and read by one, or to be repeated by who read it once."""
    readings = _said(lambda _said: func.count(), trace_id=trace_id).scalar_subquery()
    people = _said(lambda said: func.count(said.c.identifier.distinct()), trace_id=trace_id).scalar_subquery()
    return or_(
        and_(_looks(PEOPLE, trace_id), readings == 0),
        and_(_looks(SECOND, trace_id), people == 1),
        and_(_looks(REPEAT, trace_id), readings > 0, readings == people),
    )


def _order(failed: Any, complained: Any, confidence: Any) -> Any:
    sure = func.coalesce(confidence, 0.0) >= UNCERTAIN_BELOW
    return case((and_(failed, complained), 0), (and_(failed, sure), 1), (complained, 2), (failed, 3), else_=4)


def _item(row: Row[Any]) -> QueueItem:
    return QueueItem(
        row.trace_id, row.started_at, row.version, row.query, _why(row), row.layer, row.confidence, row.page or ""
    )


def _why(row: Row[Any]) -> tuple[str, ...]:
    if row.disputed:
        return ("disputed",)
    if row.again:
        return ("reread",)
    failed = row.label == "fail"
    reasons = ["drawn"] if row.drawn else []
    if failed:
        reasons.append("failed" if (row.confidence or 0.0) >= UNCERTAIN_BELOW else "failed_unsure")
    if row.complained:
        reasons.append("complained" if failed else "complained_but_passed")
    if row.label == "unscored":
        reasons.append("unscored")
    return tuple(reasons)


def _with_families(items: Sequence[QueueItem]) -> list[QueueItem]:
    sizes = families.sizes([(item.layer, item.query or "", item.page) for item in items])
    return [replace(item, family=count) for item, count in zip(items, sizes, strict=True)]
