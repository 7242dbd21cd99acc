"""Every read that the console makes. Each function takes one connection, so that a page is one snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import (
    JSON,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Row,
    Select,
    and_,
    case,
    cast,
    exists,
    func,
    literal,
    or_,
    select,
    true,
)

from groundwatch_collector import ragtrace
from groundwatch_collector.noticing import REASK_NAME
from groundwatch_collector.ragtrace import RagTrace
from groundwatch_collector.sampled import BLANK_PAYLOAD
from groundwatch_collector.storage import reader
from groundwatch_collector.tables import feedback, ledger, sampled_traces, traffic_tally
from groundwatch_scorer.judgement import AnnotatorKind, Criterion
from groundwatch_scorer.tables import fault_tally, judge_calls, judgements, verdict_tally

from .tables import candidates, reviews

COMPLETED = tuple(str(outcome) for outcome in ragtrace.COMPLETED)


@contextmanager
def snapshot(engine: Engine) -> Iterator[Connection]:
    """One snapshot: every number of a page is of the same moment."""
    reading = reader(engine)
    if reading.dialect.name == "postgresql":  # its default takes a new snapshot with every statement
        reading = reading.execution_options(isolation_level="REPEATABLE READ")
    with reading.connect() as connection, connection.begin():
        yield connection


@dataclass(frozen=True, slots=True)
class Scope:
    """Which traffic a page speaks of."""

    app: str
    criterion: str = Criterion.ANY_FAILURE.value
    judge: str = ""  # the identifier of one judge; two judges never share a series
    since: float | None = None  # Unix seconds, of the trace's start
    until: float | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class AppSeen:
    app: str
    traces: float
    last_bucket: int


@dataclass(frozen=True, slots=True)
class Cell:
    """Sums of one stratum of one version in one stretch of time: what every estimate on a page is added up from."""

    chunk: int  # index of the stretch, from the start of the chart
    version: str
    stratum: str
    traffic: float = 0.0
    weight: float = 0.0
    fail_weight: float = 0.0
    weight_sq: float = 0.0
    judged: int = 0
    failed: int = 0
    not_applicable_weight: float = 0.0
    missing_weight: float = 0.0


def apps(connection: Connection) -> list[AppSeen]:
    """Apps that have sent anything, the one heard from last first."""
    last = func.max(traffic_tally.c.bucket_start)
    rows = connection.execute(
        select(traffic_tally.c.app, func.sum(traffic_tally.c.traces), last)
        .group_by(traffic_tally.c.app)
        .order_by(last.desc(), traffic_tally.c.app)
    )
    return [AppSeen(app, traces, bucket) for app, traces, bucket in rows]


def judges(connection: Connection, app: str, criterion: str) -> list[str]:
    """Judges that have given verdicts on *criterion*, the one heard from last first."""
    last = func.max(verdict_tally.c.bucket_start)
    rows = connection.execute(
        select(verdict_tally.c.judge)
        .where(verdict_tally.c.app == app, verdict_tally.c.criterion == criterion)
        .group_by(verdict_tally.c.judge)
        .order_by(last.desc(), func.sum(verdict_tally.c.judged).desc(), verdict_tally.c.judge)
    )
    return [judge for (judge,) in rows]


def versions(connection: Connection, app: str) -> list[tuple[str, int]]:
    """Versions of *app* and the bucket in which each was first seen, oldest first."""
    first = func.min(traffic_tally.c.bucket_start)
    rows = connection.execute(
        select(traffic_tally.c.version, first)
        .where(traffic_tally.c.app == app)
        .group_by(traffic_tally.c.version)
        .order_by(first, traffic_tally.c.version)
    )
    return [(version, int(start)) for version, start in rows]


def _tally_where(table: Any, scope: Scope) -> ColumnElement[bool]:
    parts = [table.c.app == scope.app]
    if scope.since is not None:
        parts.append(table.c.bucket_start >= scope.since)
    if scope.until is not None:
        parts.append(table.c.bucket_start < scope.until)
    if scope.version is not None:
        parts.append(table.c.version == scope.version)
    return and_(*parts)


def _verdict_where(scope: Scope) -> ColumnElement[bool]:
    same_series = and_(verdict_tally.c.criterion == scope.criterion, verdict_tally.c.judge == scope.judge)
    return and_(_tally_where(verdict_tally, scope), same_series)


def extent(connection: Connection, scope: Scope) -> tuple[int, int, int] | None:
    """First and last bucket with traffic and the number of verdicts between them; None without traffic."""
    first, last = connection.execute(
        select(func.min(traffic_tally.c.bucket_start), func.max(traffic_tally.c.bucket_start)).where(
            _tally_where(traffic_tally, scope)
        )
    ).one()
    if first is None:
        return None
    judged = connection.execute(select(func.sum(verdict_tally.c.judged)).where(_verdict_where(scope))).scalar()
    return int(first), int(last), int(judged or 0)


def bucket_starts(connection: Connection, scope: Scope, limit: int) -> list[int]:
    """Up to *limit* distinct buckets with traffic, oldest first."""
    start = traffic_tally.c.bucket_start
    rows = connection.execute(
        select(start).where(_tally_where(traffic_tally, scope)).distinct().order_by(start).limit(limit)
    )
    return [int(found) for (found,) in rows]


def cells(connection: Connection, scope: Scope, *, origin: int, width: int) -> list[Cell]:
    """Add up traffic and verdicts in stretches of *width* seconds from *origin*, by version and stratum.

    Traffic counts completed requests only: what failed to run or was cancelled could not be judged.
    """
    found: dict[tuple[int, str, str], dict[str, Any]] = {}
    for row in connection.execute(_traffic_by_chunk(scope, origin, width)):
        found.setdefault((int(row.chunk), row.version, row.stratum), {})["traffic"] = row.traffic
    for row in connection.execute(_verdicts_by_chunk(scope, origin, width)):
        sums = {key: value for key, value in row._mapping.items() if key not in ("chunk", "version", "stratum")}
        found.setdefault((int(row.chunk), row.version, row.stratum), {}).update(sums)
    return [Cell(*key, **sums) for key, sums in sorted(found.items())]


def _chunk(table: Any, origin: int, width: int) -> Any:
    return ((table.c.bucket_start - literal(origin)) // literal(width)).label("chunk")


def _traffic_by_chunk(scope: Scope, origin: int, width: int) -> Select[Any]:
    table = traffic_tally
    keys = (_chunk(table, origin, width), table.c.version, table.c.stratum)
    where = and_(_tally_where(table, scope), table.c.outcome.in_(COMPLETED))
    return select(*keys, func.sum(table.c.traces).label("traffic")).where(where).group_by("chunk", *keys[1:])


_SUMS = ("weight", "fail_weight", "weight_sq", "judged", "failed", "not_applicable_weight", "missing_weight")


def _verdicts_by_chunk(scope: Scope, origin: int, width: int) -> Select[Any]:
    table = verdict_tally
    keys = (_chunk(table, origin, width), table.c.version, table.c.stratum)
    sums = [func.sum(table.c[name]).label(name) for name in _SUMS]
    return select(*keys, *sums).where(_verdict_where(scope)).group_by("chunk", *keys[1:])


def outcomes(connection: Connection, scope: Scope) -> dict[str, float]:
    """Requests by the state that the program recorded, over all traffic."""
    rows = connection.execute(
        select(traffic_tally.c.outcome, func.sum(traffic_tally.c.traces))
        .where(_tally_where(traffic_tally, scope))
        .group_by(traffic_tally.c.outcome)
    )
    return {outcome: float(traces) for outcome, traces in rows}


def faults(connection: Connection, scope: Scope) -> list[tuple[str, str, float, int]]:
    """(version, layer, weight, judged) of the failures whose layer the judge named."""
    rows = connection.execute(
        select(
            fault_tally.c.version,
            fault_tally.c.layer,
            func.sum(fault_tally.c.weight),
            func.sum(fault_tally.c.judged),
        )
        .where(_tally_where(fault_tally, scope), fault_tally.c.judge == scope.judge)
        .group_by(fault_tally.c.version, fault_tally.c.layer)
    )
    return [(version, layer, float(weight), int(judged)) for version, layer, weight, judged in rows]


def _ledger_where(scope: Scope) -> ColumnElement[bool]:
    parts = [ledger.c.app == scope.app]
    if scope.since is not None:
        parts.append(ledger.c.started_at >= scope.since)
    if scope.until is not None:
        parts.append(ledger.c.started_at < scope.until)
    if scope.version is not None:
        parts.append(ledger.c.version == scope.version)
    return and_(*parts)


def durations(connection: Connection, scope: Scope, limit: int) -> list[float]:
    """Durations of the newest *limit* completed requests, sampled or not."""
    rows = connection.execute(
        select(ledger.c.duration_seconds)
        .where(_ledger_where(scope), ledger.c.outcome.in_(COMPLETED), ledger.c.verdict != "skipped")
        .order_by(ledger.c.started_at.desc())
        .limit(limit)
    )
    return [float(seconds) for (seconds,) in rows]


def first_token_times(connection: Connection, scope: Scope, limit: int) -> list[tuple[float, float]]:
    """(seconds to the first token, weight) of the newest *limit* sampled requests: only those keep their stages."""
    seconds = json_number(connection, sampled_traces.c.payload, "time_to_first_token_seconds")
    rows = connection.execute(
        select(seconds, sampled_traces.c.inclusion_probability)
        .join(ledger, ledger.c.trace_id == sampled_traces.c.trace_id)
        .where(_ledger_where(scope), sampled_traces.c.family == "fast", seconds.is_not(None))
        .order_by(sampled_traces.c.started_at.desc())
        .limit(limit)
    )
    return [(float(value), 1.0 / probability) for value, probability in rows]


def inclusion(connection: Connection, scope: Scope) -> dict[str, tuple[float, float]]:
    """Lowest and highest inclusion probability that each stratum's traces had."""
    low, high = func.min(ledger.c.inclusion_probability), func.max(ledger.c.inclusion_probability)
    rows = connection.execute(
        select(ledger.c.stratum, low, high)
        .where(_ledger_where(scope), ledger.c.verdict != "skipped")
        .group_by(ledger.c.stratum)
    )
    return {stratum: (float(least), float(most)) for stratum, least, most in rows}


def waiting(connection: Connection, app: str) -> int:
    """Sampled traces that no judge has finished yet."""
    states = ("waiting", "leased")
    where = and_(sampled_traces.c.app == app, sampled_traces.c.state.in_(states))
    return int(connection.execute(select(func.count()).select_from(sampled_traces).where(where)).scalar_one())


def text_is_missing(connection: Connection, scope: Scope) -> bool:
    """Whether a judge has read answered requests and found no text in them."""
    reason = json_path(connection, judgements.c.detail, "reasons", 0)
    where = [
        sampled_traces.c.app == scope.app,
        judgements.c.criterion == scope.criterion,
        judgements.c.label == "not_applicable",
        judgements.c.identifier == scope.judge,
        reason == "no_content",
    ]
    if scope.since is not None:
        where.append(sampled_traces.c.started_at >= scope.since)
    if scope.version is not None:
        where.append(sampled_traces.c.version == scope.version)
    read = select(judgements.c.id).join(sampled_traces, sampled_traces.c.trace_id == judgements.c.trace_id)
    return connection.execute(read.where(*where).limit(1)).first() is not None


def json_path(connection: Connection, column: Column[Any], *path: str | int) -> Any:
    """Text at *path* of a JSON text column, on either database."""
    if connection.dialect.name == "sqlite":
        # One odd row must not take the whole list with it.
        place = "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
        return case((func.json_valid(column) == 1, func.json_extract(column, place)), else_=None)
    # PostgreSQL before 16 cannot ask whether a text is JSON; what is not even an object would fail in the cast.
    return case((column.like("{%}"), func.json_extract_path_text(cast(column, JSON), *map(str, path))), else_=None)


def json_number(connection: Connection, column: Column[Any], *path: str) -> Any:
    found = json_path(connection, column, *path)
    return found if connection.dialect.name == "sqlite" else cast(found, ledger.c.duration_seconds.type)


@dataclass(frozen=True, slots=True)
class TraceFilter:
    app: str
    version: str = ""
    stratum: str = ""
    outcome: str = ""
    verdict: str = ""  # pass | fail | not_applicable | unscored | waiting | not_sampled
    criterion: str = ""  # that the verdict speaks of; empty: any failure
    layer: str = ""
    feedback: str = ""  # positive | negative | neutral
    since: float | None = None
    until: float | None = None
    search: str = ""  # in the question; finds sampled traces only, the ledger keeps no text
    sort: str = "newest"  # newest | worst


@dataclass(frozen=True, slots=True)
class TraceRow:
    trace_id: str
    version: str
    started_at: float
    duration_seconds: float
    outcome: str
    stratum: str
    inclusion_probability: float
    sampled: bool
    state: str  # of the sampled trace; "" when it was not sampled
    query: str | None
    label: str  # newest model verdict on any failure; "" when there is none
    layer: str
    decision: str  # of a reviewer
    sentiment: str  # worst feedback received
    badness: float
    asked_again: bool = False  # nearly the same question followed: the collector noticed it
    reason: str = ""


def latest_model_judgement() -> Any:
    """Condition that joins ``judgements`` to its newest headline verdict by a judge that is not a person."""
    other = judgements.alias("other")
    newest = (
        select(func.max(other.c.id))
        .where(
            other.c.trace_id == ledger.c.trace_id,
            other.c.criterion == Criterion.ANY_FAILURE.value,
            other.c.annotator_kind != AnnotatorKind.HUMAN.value,
        )
        .correlate(ledger)
        .scalar_subquery()
    )
    return judgements.c.id == newest


def has_feedback(sentiment: str, trace_id: ColumnElement[str] = ledger.c.trace_id) -> ColumnElement[bool]:
    """Not what is quarantined: a burst must not fill the queue of people either. A trace's own page shows it."""
    same = feedback.c.trace_id == trace_id
    return exists().where(same, feedback.c.sentiment == sentiment, feedback.c.quarantined.is_(False))


def _badness(confidence: Any) -> Any:
    """Order of "worst first": failures by the confidence of their fault, then the unscored, then passes."""
    scored = case(
        (judgements.c.label == "fail", literal(2.0) + func.coalesce(confidence, 0.5)),
        (judgements.c.label == "unscored", literal(1.5)),
        (judgements.c.label == "pass", literal(0.5)),
        else_=literal(0.0),
    )
    complained = case((has_feedback("negative"), literal(1.0)), else_=literal(0.0))
    return scored + complained


def trace_rows(
    connection: Connection, wanted: TraceFilter, limit: int, after: tuple[float, float, str] | None = None
) -> list[TraceRow]:
    """Up to *limit* traces of the ledger; *after* is (badness, started_at, trace_id) of the last row shown."""
    layer = json_path(connection, judgements.c.detail, "fault", "layer")
    confidence = json_number(connection, judgements.c.detail, "fault", "confidence")
    query = json_path(connection, sampled_traces.c.payload, "query")
    worst_first = wanted.sort == "worst"
    badness = _badness(confidence) if worst_first else literal(0.0)
    order = [badness.desc()] if worst_first else []  # by a constant as well, no index would give the newest
    rows = connection.execute(
        select(
            ledger,
            sampled_traces.c.state,
            query.label("query"),
            func.coalesce(judgements.c.label, "").label("label"),
            func.coalesce(layer, "").label("layer"),
            func.coalesce(reviews.c.decision, "").label("decision"),
            _worst_sentiment().label("sentiment"),
            _asked_again().label("asked_again"),
            badness.label("badness"),
        )
        .select_from(trace_join())
        .where(_trace_where(wanted, query, layer), _beyond(after, badness), ledger.c.verdict != "skipped")
        .order_by(*order, ledger.c.started_at.desc(), ledger.c.trace_id.desc())
        .limit(limit)
    )
    return [_trace_row(row) for row in rows]


def trace_join() -> Any:
    return (
        ledger.outerjoin(sampled_traces, sampled_traces.c.trace_id == ledger.c.trace_id)
        .outerjoin(judgements, latest_model_judgement())
        .outerjoin(reviews, reviews.c.trace_id == ledger.c.trace_id)
    )


def _worst_sentiment() -> Any:
    words = ("negative", "neutral", "positive")
    return case(*((has_feedback(word), literal(word)) for word in words), else_=literal(""))


def _asked_again() -> ColumnElement[bool]:
    same = feedback.c.trace_id == ledger.c.trace_id
    return exists().where(same, feedback.c.name == REASK_NAME, feedback.c.quarantined.is_(False))


def _beyond(after: tuple[float, float, str] | None, badness: Any) -> ColumnElement[bool]:
    if after is None:
        return true()
    worst, started_at, trace_id = after
    same_start = and_(ledger.c.started_at == started_at, ledger.c.trace_id < trace_id)
    return or_(badness < worst, and_(badness == worst, or_(ledger.c.started_at < started_at, same_start)))


def _trace_where(wanted: TraceFilter, query: Any, layer: Any) -> ColumnElement[bool]:
    parts = [ledger.c.app == wanted.app, _verdict_is(wanted.verdict, wanted.criterion)]
    parts += [
        ledger.c[name] == value for name in ("version", "stratum", "outcome") if (value := getattr(wanted, name))
    ]
    if wanted.layer:
        parts.append(layer == wanted.layer)
    if wanted.feedback:
        parts.append(has_feedback(wanted.feedback))
    if wanted.since is not None:
        parts.append(ledger.c.started_at >= wanted.since)
    if wanted.until is not None:
        parts.append(ledger.c.started_at < wanted.until)
    if wanted.search:
        parts.append(func.lower(query).contains(wanted.search.lower(), autoescape=True))
    return and_(*parts)


def _verdict_is(verdict: str, criterion: str) -> ColumnElement[bool]:
    if not verdict:
        return true()
    if verdict == "not_sampled":
        return sampled_traces.c.trace_id.is_(None)
    if verdict == "waiting":
        return sampled_traces.c.state.in_(("waiting", "leased"))
    return _newest_label(criterion) == verdict if criterion else judgements.c.label == verdict


def _newest_label(criterion: str) -> Any:
    """What a judge that is not a person said last of *criterion*."""
    said = judgements.alias("said")
    return (
        select(said.c.label)
        .where(said.c.trace_id == ledger.c.trace_id, said.c.criterion == criterion)
        .where(said.c.annotator_kind != AnnotatorKind.HUMAN.value)
        .order_by(said.c.id.desc())
        .limit(1)
        .correlate(ledger)
        .scalar_subquery()
    )


def _trace_row(row: Row[Any]) -> TraceRow:
    return TraceRow(
        trace_id=row.trace_id,
        version=row.version,
        started_at=row.started_at,
        duration_seconds=row.duration_seconds,
        outcome=row.outcome,
        stratum=row.stratum,
        inclusion_probability=row.inclusion_probability,
        sampled=row.state is not None,
        state=row.state or "",
        query=row.query,
        label=row.label,
        layer=row.layer,
        decision=row.decision,
        sentiment=row.sentiment,
        badness=float(row.badness),
        asked_again=bool(row.asked_again),
        reason=row.reason,
    )


def strata_seen(connection: Connection, app: str) -> list[str]:
    rows = connection.execute(select(traffic_tally.c.stratum).where(traffic_tally.c.app == app).distinct())
    return sorted(stratum for (stratum,) in rows)


@dataclass(frozen=True, slots=True)
class JudgementRow:
    id: int
    criterion: str
    label: str
    score: float | None
    explanation: str
    annotator_kind: str
    identifier: str
    judged_at: float
    cost_usd: float | None
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FeedbackRow:
    name: str
    sentiment: str
    score: float | None
    label: str
    comment: str
    received_at: float


@dataclass(frozen=True, slots=True)
class ReviewRow:
    decision: str
    fault_layer: str
    note: str
    reviewer: str
    reviewed_at: float


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """Everything that is stored of one trace. ``trace`` is None when it was counted but not sampled."""

    row: TraceRow
    app: str
    decided_at: float
    epoch: str
    adjusted_count: float
    family: str
    trace: RagTrace | None
    judgements: tuple[JudgementRow, ...]
    feedback: tuple[FeedbackRow, ...]
    review: ReviewRow | None
    candidate_id: str  # "" when there is none

    @property
    def headline(self) -> JudgementRow | None:
        """The newest verdict on any failure by a judge that is not a person."""
        wanted = (j for j in self.judgements if j.criterion == Criterion.ANY_FAILURE.value)
        return next((j for j in wanted if j.annotator_kind != AnnotatorKind.HUMAN.value), None)


@dataclass(frozen=True, slots=True)
class CallRow:
    identifier: str
    judged_at: float
    prompt: str
    reply: str


def judge_calls_of(connection: Connection, trace_id: str) -> list[CallRow]:
    """What models were asked about a trace and answered, the newest reading first."""
    table = judge_calls
    columns = (table.c.identifier, table.c.judged_at, table.c.prompt, table.c.reply)
    query = select(*columns).where(table.c.trace_id == trace_id)
    rows = connection.execute(query.order_by(table.c.judged_at.desc(), table.c.part, table.c.id).limit(20))
    return [CallRow(**row._mapping) for row in rows]


def trace(connection: Connection, trace_id: str) -> TraceRecord | None:
    """Read one trace with all that was said of it, newest judgement first; None when the ledger does not know it."""
    confidence = json_number(connection, judgements.c.detail, "fault", "confidence")
    row = connection.execute(
        select(
            ledger,
            sampled_traces.c.state,
            sampled_traces.c.payload,
            sampled_traces.c.family,
            json_path(connection, sampled_traces.c.payload, "query").label("query"),
            func.coalesce(judgements.c.label, "").label("label"),
            func.coalesce(json_path(connection, judgements.c.detail, "fault", "layer"), "").label("layer"),
            func.coalesce(reviews.c.decision, "").label("decision"),
            _worst_sentiment().label("sentiment"),
            _asked_again().label("asked_again"),
            _badness(confidence).label("badness"),
        )
        .select_from(trace_join())
        .where(ledger.c.trace_id == trace_id)
    ).one_or_none()
    if row is None:
        return None
    return TraceRecord(
        row=_trace_row(row),
        app=row.app,
        decided_at=row.decided_at,
        epoch=row.epoch,
        adjusted_count=row.adjusted_count,
        family=row.family or "",
        trace=None if row.payload in (None, BLANK_PAYLOAD) else ragtrace.from_json(row.payload),
        judgements=_judgements(connection, trace_id),
        feedback=_feedback(connection, trace_id),
        review=_review(connection, trace_id),
        candidate_id=candidate_of(connection, trace_id),
    )


def _judgements(connection: Connection, trace_id: str) -> tuple[JudgementRow, ...]:
    columns = [c for c in judgements.c if c.name not in ("trace_id", "detail")]
    rows = connection.execute(
        select(*columns, judgements.c.detail)
        .where(judgements.c.trace_id == trace_id)
        .order_by(judgements.c.judged_at.desc(), judgements.c.id.desc())
    )
    return tuple(JudgementRow(**{**row._mapping, "detail": read_detail(row.detail)}) for row in rows)


def read_detail(text: str) -> Mapping[str, Any]:
    """JSON object of a judgement; empty when it is not one (a page must not fail on one odd row)."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _feedback(connection: Connection, trace_id: str) -> tuple[FeedbackRow, ...]:
    columns = [feedback.c[name] for name in FeedbackRow.__dataclass_fields__]
    rows = connection.execute(
        select(*columns).where(feedback.c.trace_id == trace_id).order_by(feedback.c.received_at)
    )
    return tuple(FeedbackRow(**row._mapping) for row in rows)


def _review(connection: Connection, trace_id: str) -> ReviewRow | None:
    columns = [reviews.c[name] for name in ReviewRow.__dataclass_fields__]
    row = connection.execute(select(*columns).where(reviews.c.trace_id == trace_id)).one_or_none()
    return None if row is None else ReviewRow(**row._mapping)


def candidate_of(connection: Connection, trace_id: str) -> str:
    """Identifier of the candidate made from *trace_id*, or ""."""
    found = connection.execute(select(candidates.c.candidate_id).where(candidates.c.trace_id == trace_id)).scalar()
    return found or ""


@dataclass(frozen=True, slots=True)
class CandidateRow:
    candidate_id: str
    trace_id: str
    redaction_status: str
    redaction_confirmed: bool
    created_at: float
    updated_at: float
    exported_at: float | None
    document: Mapping[str, Any] = field(default_factory=dict)
    decision: str = ""  # on the trace: confirmed | rejected | disputed


def candidate_rows(connection: Connection, limit: int) -> list[CandidateRow]:
    """Candidates, those that wait for a person first, then the newest."""
    rows = connection.execute(
        _candidates()
        .order_by(candidates.c.redaction_confirmed, candidates.c.created_at.desc(), candidates.c.candidate_id)
        .limit(limit)
    )
    return [_candidate_row(row) for row in rows]


def candidate(connection: Connection, candidate_id: str) -> CandidateRow | None:
    row = connection.execute(_candidates().where(candidates.c.candidate_id == candidate_id)).one_or_none()
    return None if row is None else _candidate_row(row)


def _candidates() -> Select[Any]:
    decision = func.coalesce(reviews.c.decision, "").label("decision")
    return select(candidates, decision).outerjoin(reviews, reviews.c.trace_id == candidates.c.trace_id)


def _candidate_row(row: Row[Any]) -> CandidateRow:
    return CandidateRow(**{**row._mapping, "document": read_detail(row.document)})


def sampled_exists(connection: Connection, trace_id: str) -> bool:
    """Whether the full trace was kept, so that it can be reviewed."""
    return (
        connection.execute(select(sampled_traces.c.trace_id).where(sampled_traces.c.trace_id == trace_id)).first()
        is not None
    )
