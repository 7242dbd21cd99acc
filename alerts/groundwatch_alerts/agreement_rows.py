"""Read what people said of the traces that were drawn for them, beside what the judges said of the same traces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Engine, Row, and_, func, select

from groundwatch_alerts.judge_agreement import Pair
from groundwatch_collector.ragtrace import COMPLETED
from groundwatch_collector.storage import reader
from groundwatch_collector.tables import ledger, sampled_traces
from groundwatch_scorer.judgement import AnnotatorKind, Criterion
from groundwatch_scorer.second_look import PEOPLE
from groundwatch_scorer.tables import judgements, second_looks

_FAILED = {"pass": False, "fail": True}
_Words = dict[str, tuple[bool, float]]  # by trace: failed, and the weight of the trace


def read(engine: Engine, *, since: float) -> Mapping[str, list[Pair]]:
    """By judge, its verdict and people's on any failure of the traces that started at *since* or later.

    Only traces that were drawn for people count: what a reviewer picks stands for no known number of requests. A
    verdict of a judge that reads by choice weighs one over that chance more. The last word of either side counts.
    """
    with reader(engine).connect() as connection:
        return _pairs(connection.execute(_verdicts(since)))


def _verdicts(since: float) -> Any:
    drawn, asked = second_looks.alias("drawn"), second_looks.alias("asked")
    same_trace = judgements.c.trace_id == sampled_traces.c.trace_id
    weight = func.coalesce(ledger.c.adjusted_count, 1.0) / sampled_traces.c.inclusion_probability / drawn.c.chance
    return (
        select(
            judgements.c.trace_id,
            judgements.c.annotator_kind,
            judgements.c.identifier,
            judgements.c.label,
            (weight / func.coalesce(asked.c.chance, 1.0)).label("weight"),
        )
        .join_from(drawn, sampled_traces, sampled_traces.c.trace_id == drawn.c.trace_id)
        .join(judgements, and_(same_trace, judgements.c.criterion == str(Criterion.ANY_FAILURE)))
        .join(ledger, ledger.c.trace_id == sampled_traces.c.trace_id, isouter=True)
        .join(
            asked, and_(asked.c.trace_id == drawn.c.trace_id, asked.c.asked == judgements.c.identifier), isouter=True
        )
        .where(drawn.c.asked == PEOPLE, drawn.c.chosen, judgements.c.label.in_(tuple(_FAILED)))
        .where(sampled_traces.c.started_at >= since, sampled_traces.c.family == "fast")
        .where(ledger.c.outcome.is_(None) | ledger.c.outcome.in_(sorted(COMPLETED)))
        .order_by(judgements.c.id)  # a later word replaces an earlier one
    )


def _pairs(rows: Iterable[Row[Any]]) -> dict[str, list[Pair]]:
    words: dict[str, _Words] = defaultdict(dict)
    for row in rows:
        who = PEOPLE if row.annotator_kind == AnnotatorKind.HUMAN else row.identifier
        words[who][row.trace_id] = _FAILED[row.label], row.weight
    people = words.pop(PEOPLE, {})
    return {judge: _beside(said, people) for judge, said in words.items()}


def _beside(said: _Words, people: _Words) -> list[Pair]:
    return [Pair(failed, people[trace][0], weight) for trace, (failed, weight) in said.items() if trace in people]
