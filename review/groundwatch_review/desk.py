"""What a person decides about a trace: a judgement of the same shape as a judge's, and one current review.

A person's verdict is its own series. It never moves the sums behind the estimate, which belong to a judge:
people see the worst traces first, so their verdicts are no random sample of the traffic.
"""

from __future__ import annotations

import re
import secrets
from typing import Any

import orjson
from sqlalchemy import Connection, Engine, delete, insert

from groundwatch_scorer.judgement import AnnotatorKind, Criterion, FaultLayer
from groundwatch_scorer.tables import judgements

from . import queries
from .tables import reviews

NOTE_LIMIT_CHARACTERS = 4000
_REVIEWER = re.compile(r"^rv_[0-9a-f]{8,32}$")


class Refused(ValueError):
    """The decision cannot be recorded; the message says what was found and what is accepted."""


def new_reviewer() -> str:
    """A random reviewer identifier: candidates carry it, so it must not be a name."""
    return f"rv_{secrets.token_hex(8)}"


def is_reviewer(text: str) -> bool:
    return _REVIEWER.fullmatch(text) is not None


def confirm(  # noqa: PLR0917 (a seam: the order is part of it)
    engine: Engine, trace_id: str, fault_layer: str, note: str, reviewer: str, now: float
) -> None:
    """Record that the answer did fail, at *fault_layer*. Deciding again replaces the review, not its history.

    Raises :class:`Refused` for a layer that is not a :class:`FaultLayer`, and for a trace that was not sampled.
    """
    if fault_layer not in tuple(FaultLayer):
        raise Refused(f"fault layer {fault_layer[:40]!r} is not known; accepted: {', '.join(FaultLayer)}")
    decision = {"decision": "confirmed", "fault_layer": fault_layer, "note": note, "reviewer": reviewer}
    _decide(engine, trace_id, decision, now)


def reject(  # noqa: PLR0917 (a seam: the order is part of it)
    engine: Engine, trace_id: str, fault_layer: str, note: str, reviewer: str, now: float
) -> None:
    """Record that the answer was right after all. *fault_layer* is accepted for symmetry and not kept."""
    del fault_layer
    _decide(engine, trace_id, {"decision": "rejected", "fault_layer": "", "note": note, "reviewer": reviewer}, now)


def _decide(engine: Engine, trace_id: str, review: dict[str, str], now: float) -> None:
    if not is_reviewer(review["reviewer"]):
        raise Refused("the reviewer is not rv_ and 8 to 32 hexadecimal digits")
    if len(review["note"]) > NOTE_LIMIT_CHARACTERS:
        raise Refused(f"the note has {len(review['note'])} characters; accepted: up to {NOTE_LIMIT_CHARACTERS}")
    with engine.begin() as connection:
        if not queries.sampled_exists(connection, trace_id):
            raise Refused("this trace was not sampled, so there is nothing to review")
        connection.execute(insert(judgements).values(**_judgement(trace_id, review, now)))
        _replace(connection, trace_id, {**review, "reviewed_at": now})


def _replace(connection: Connection, trace_id: str, review: dict[str, Any]) -> None:
    connection.execute(delete(reviews).where(reviews.c.trace_id == trace_id))
    connection.execute(insert(reviews).values(trace_id=trace_id, **review))


def _judgement(trace_id: str, review: dict[str, Any], now: float) -> dict[str, Any]:
    failed = review["decision"] == "confirmed"
    fault = {"layer": review["fault_layer"], "confidence": 1.0, "explanation": review["note"], "evidence": []}
    return {
        "trace_id": trace_id,
        "criterion": Criterion.ANY_FAILURE.value,
        "label": "fail" if failed else "pass",
        "score": None,
        "explanation": review["note"],
        "annotator_kind": AnnotatorKind.HUMAN.value,
        "identifier": f"reviewer:{review['reviewer']}",
        "judged_at": now,
        "cost_usd": None,
        "detail": orjson.dumps({"fault": fault if failed else None}).decode(),
    }
