"""Every time that a person read a trace and said whether it failed, oldest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from groundwatch_scorer.judgement import AnnotatorKind, Criterion
from groundwatch_scorer.tables import judgements

from .queries import read_detail

_BY = "reviewer:"


@dataclass(frozen=True, slots=True)
class Reading:
    trace_id: str
    reviewer: str
    criterion: str
    label: str  # pass | fail | not_applicable | unscored
    read_at: float
    kind: str  # first | second | repeat | again | settled; "" for a label from elsewhere
    blind: bool
    policy: str
    layer: str  # of a failure
    note: str


def of_trace(connection: Connection, trace_id: str) -> list[Reading]:
    """The headline labels of one trace."""
    where = (judgements.c.trace_id == trace_id, judgements.c.criterion == str(Criterion.ANY_FAILURE))
    return _read(connection, *where)


def blind(connection: Connection) -> list[Reading]:
    """All labels of all traces that are still kept, of every criterion, given without a sight of other verdicts."""
    return [reading for reading in _read(connection) if reading.blind]


def _read(connection: Connection, *where: Any) -> list[Reading]:
    by_people = judgements.c.annotator_kind == str(AnnotatorKind.HUMAN)
    rows = connection.execute(select(judgements).where(by_people, *where).order_by(judgements.c.id))
    return list(from_rows(dict(row._mapping) for row in rows))


def from_rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[Reading]:
    """What people said, among rows of ``judgements`` in their order."""
    for row in rows:
        if row["annotator_kind"] != AnnotatorKind.HUMAN:
            continue
        detail = read_detail(row["detail"])
        how, fault = _part(detail, "labelling"), _part(detail, "fault")
        yield Reading(
            trace_id=row["trace_id"],
            reviewer=str(row["identifier"]).removeprefix(_BY),
            criterion=row["criterion"],
            label=row["label"],
            read_at=row["judged_at"],
            kind=str(how.get("reading") or ""),
            blind=how.get("blind") is True,
            policy=str(how.get("policy") or ""),
            layer=str(fault.get("layer") or ""),
            note=row["explanation"],
        )


def share_agreeing(said: Sequence[Reading], decision: str) -> float | None:
    """Of the people who read the trace, the share whose last word is *decision*; None where only one did."""
    last = {reading.reviewer: reading.label for reading in said if reading.criterion == Criterion.ANY_FAILURE}
    wanted = "fail" if decision == "confirmed" else "pass"
    return sum(label == wanted for label in last.values()) / len(last) if len(last) > 1 else None


def _part(detail: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = detail.get(name)
    return found if isinstance(found, dict) else {}
