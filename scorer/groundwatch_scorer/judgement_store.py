"""Keep judgements: appended, never edited. A person's has the same shape as a judge's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import orjson
from sqlalchemy import Connection, Engine, Row, func, insert, select

from groundwatch_collector.storage import reader
from groundwatch_scorer.judgement import AnnotatorKind, Criterion, Judgement
from groundwatch_scorer.tables import judge_calls, judgements


def append(connection: Connection, rows: Iterable[Judgement]) -> None:
    """Add *rows* inside the caller's transaction."""
    rows = list(rows)
    values = [_values(row) for row in rows]
    if values:
        connection.execute(insert(judgements), values)
    calls = [call for row in rows for call in _calls(row)]
    if calls:
        connection.execute(insert(judge_calls), calls)


def for_trace(engine: Engine, trace_id: str) -> list[Judgement]:
    """Every judgement of one trace, oldest first."""
    query = select(judgements).where(judgements.c.trace_id == trace_id).order_by(judgements.c.id)
    with reader(engine).connect() as connection:
        return [_judgement(row) for row in connection.execute(query)]


def automatic(connection: Connection, trace_ids: Sequence[str]) -> dict[str, list[Judgement]]:
    """What judges (not people) said of each of *trace_ids*, inside the caller's transaction."""
    query = select(judgements).where(
        judgements.c.trace_id.in_(trace_ids), judgements.c.annotator_kind != str(AnnotatorKind.HUMAN)
    )
    found: dict[str, list[Judgement]] = {}
    for row in connection.execute(query.order_by(judgements.c.id)):
        found.setdefault(row.trace_id, []).append(_judgement(row))
    return found


def spent_usd(engine: Engine, identifier: str, since: float) -> float:
    """What *identifier* has cost since *since*, as far as it was recorded. One reading gives one row a criterion."""
    query = select(func.coalesce(func.sum(judgements.c.cost_usd), 0.0)).where(
        judgements.c.identifier == identifier,
        judgements.c.criterion == Criterion.ANY_FAILURE,
        judgements.c.judged_at >= since,
    )
    with reader(engine).connect() as connection:
        return float(connection.scalar(query) or 0.0)


def _values(row: Judgement) -> dict[str, object]:
    return {
        "trace_id": row.trace_id,
        "criterion": str(row.criterion),
        "label": row.label,
        "score": row.score,
        "explanation": row.explanation,
        "annotator_kind": str(row.annotator_kind),
        "identifier": row.identifier,
        "judged_at": row.judged_at,
        "cost_usd": row.cost_usd,
        "detail": orjson.dumps(dict(row.detail)).decode(),
    }


def _calls(row: Judgement) -> list[dict[str, object]]:
    shared = {"trace_id": row.trace_id, "identifier": row.identifier, "judged_at": row.judged_at}
    return [
        {**shared, "part": part, "prompt": call.prompt, "reply": call.reply} for part, call in enumerate(row.calls)
    ]


def _judgement(row: Row[tuple[object, ...]]) -> Judgement:
    return Judgement(
        trace_id=row.trace_id,
        criterion=Criterion(row.criterion),
        label=row.label,
        score=row.score,
        explanation=row.explanation,
        annotator_kind=AnnotatorKind(row.annotator_kind),
        identifier=row.identifier,
        judged_at=row.judged_at,
        cost_usd=row.cost_usd,
        detail=orjson.loads(row.detail),
    )
