"""What a person decides about a trace: a judgement of the same shape as a judge's, and one current review.

A person's verdict is its own series. It never moves the sums behind the estimate, which belong to a judge:
people see the worst traces first, so their verdicts are no random sample of the traffic.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, Engine, delete, insert, select

from groundwatch_scorer import second_look
from groundwatch_scorer.judgement import AnnotatorKind, Criterion
from groundwatch_scorer.tables import judgements

from . import labels, queries, readings
from .labels import Label, Refused
from .rereading import Rereading
from .tables import reviews

__all__ = ["Decided", "Refused", "confirm", "decide", "is_reviewer", "new_reviewer", "reject"]

DISPUTED = "disputed"
"""The decision of a review while two readings differ: no failure is confirmed until somebody settles it."""

_REVIEWER = re.compile(r"^rv_[0-9a-f]{8,32}$")


def new_reviewer() -> str:
    """A random reviewer identifier: candidates carry it, so it must not be a name."""
    return f"rv_{secrets.token_hex(8)}"


def is_reviewer(text: str) -> bool:
    return _REVIEWER.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Decided:
    """What a decision came to."""

    reading: str  # first | second | repeat | again | settled
    agrees: bool | None = None  # of a second reading and a repeat: with the decision before it

    @property
    def rules(self) -> bool:
        """Whether the trace's review is now this decision."""
        return self.reading in ("first", "again", "settled")


def confirm(  # noqa: PLR0917 (a seam: the order is part of it)
    engine: Engine, trace_id: str, fault_layer: str, note: str, reviewer: str, now: float
) -> None:
    """Record that the answer did fail, at *fault_layer*. Deciding again replaces the review, not its history.

    Raises :class:`Refused` for a layer that is not a ``FaultLayer``, and for a trace that was not sampled.
    """
    decide(engine, trace_id, Label("confirmed", fault_layer, note), reviewer, now)


def reject(  # noqa: PLR0917 (a seam: the order is part of it)
    engine: Engine, trace_id: str, fault_layer: str, note: str, reviewer: str, now: float
) -> None:
    """Record that the answer was right after all. *fault_layer* is accepted for symmetry and not kept."""
    del fault_layer
    decide(engine, trace_id, Label("rejected", "", note), reviewer, now)


def decide(
    engine: Engine,
    trace_id: str,
    label: Label,
    reviewer: str,
    now: float,
    *,
    rereading: Rereading | None = None,
    blind: bool = False,
) -> Decided:
    """Append *label* as judgements of *reviewer*, and make it the review unless it only measures an earlier one.

    *blind*: the reader saw no verdict of anybody. A blind reading of what was decided already changes the review only
    where it differs: then to ``disputed``, until somebody settles it. Raises :class:`Refused`.
    """
    if not is_reviewer(reviewer):
        raise Refused("the reviewer is not rv_ and 8 to 32 hexadecimal digits")
    labels.checked(label)
    with engine.begin() as connection:
        if not queries.sampled_exists(connection, trace_id):
            raise Refused("this trace was not sampled, so there is nothing to review")
        decided = _kind(connection, trace_id, label, reviewer, blind)
        connection.execute(insert(judgements), _judgements(trace_id, label, reviewer, now, decided, blind))
        _keep(connection, trace_id, label, reviewer, now, decided)
        if rereading is not None:
            second_look.keep(connection, trace_id, rereading.looks(trace_id))
    return decided


def _kind(connection: Connection, trace_id: str, label: Label, reviewer: str, blind: bool) -> Decided:
    held = connection.scalar(select(reviews.c.decision).where(reviews.c.trace_id == trace_id))
    earlier = readings.of_trace(connection, trace_id)
    if held is None:
        return Decided("first")
    if held == DISPUTED:
        return Decided("settled")
    if not blind:
        return Decided("again")
    own = any(reading.reviewer == reviewer for reading in earlier)
    return Decided("repeat" if own else "second", held == label.decision)


def _keep(  # noqa: PLR0917 (one row of a table)
    connection: Connection, trace_id: str, label: Label, reviewer: str, now: float, decided: Decided
) -> None:
    if decided.agrees:
        return
    disputed = {"decision": DISPUTED, "fault_layer": "", "note": ""}
    said = {"decision": label.decision, "fault_layer": label.fault_layer, "note": label.note}
    review = {**(said if decided.rules else disputed), "reviewer": reviewer, "reviewed_at": now}
    connection.execute(delete(reviews).where(reviews.c.trace_id == trace_id))
    connection.execute(insert(reviews).values(trace_id=trace_id, **review))


def _judgements(  # noqa: PLR0917 (rows of a table)
    trace_id: str, label: Label, reviewer: str, now: float, decided: Decided, blind: bool
) -> list[dict[str, Any]]:
    """One row a criterion, as a judge gives them; the headline carries the whole label."""
    detail = label.detail(decided.reading, blind=blind)
    shared = {
        "trace_id": trace_id,
        "score": None,
        "annotator_kind": AnnotatorKind.HUMAN.value,
        "identifier": f"reviewer:{reviewer}",
        "judged_at": now,
        "cost_usd": None,
    }
    brief = {"labelling": detail["labelling"]}
    rows = [(name, given, "", brief) for name, given in label.criteria.items()]
    rows.append((Criterion.ANY_FAILURE.value, label.headline, label.note, detail))
    return [
        {
            **shared,
            "criterion": str(name),
            "label": given,
            "explanation": words,
            "detail": orjson.dumps(kept).decode(),
        }
        for name, given, words, kept in rows
    ]
