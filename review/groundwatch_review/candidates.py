"""Stored candidates: made of confirmed failures, decided on by people, counted by family.

The row around a document keeps the trace id, and stays here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from sqlalchemy import Connection, Engine, Row, Select, select, update

from groundwatch_collector.ragtrace import RagTrace, from_json
from groundwatch_collector.sampled import BLANK_PAYLOAD
from groundwatch_collector.storage import insert_ignore, reader
from groundwatch_collector.tables import feedback as feedback_table
from groundwatch_collector.tables import sampled_traces
from groundwatch_review import families, second_person
from groundwatch_review.candidate_document import (
    CONSENTS,
    LAYERS,
    CandidatePolicy,
    ReproVerdict,
    build,
    candidate_id,
    language,
    local_verdict,
    readers,
    stamp,
)
from groundwatch_review.desk import Refused, is_reviewer
from groundwatch_review.schema import problems
from groundwatch_review.tables import candidates, reviews
from groundwatch_scorer.tables import judgements as judgements_table

__all__ = [
    "CONSENTS",
    "LAYERS",
    "CandidatePolicy",
    "apply_policy",
    "build",
    "candidate_id",
    "confirm",
    "create",
    "dump",
    "language",
    "load",
    "local_verdict",
    "note_readers",
    "read",
    "reject",
]


def create(
    engine: Engine,
    trace_id: str,
    key: bytes,
    now: float,
    *,
    policy: CandidatePolicy | None = None,
    verdict: ReproVerdict | None = local_verdict,
) -> str:
    """Make the candidate of a confirmed failure and return its id.

    One that exists already is made anew where the label has changed since: its revision goes up, and a person has to
    read the redacted text again. Raises :class:`Refused` when the trace was not kept or no person confirmed that it
    failed.
    """
    with reader(engine).connect() as connection:
        held = connection.execute(select(candidates).where(candidates.c.trace_id == trace_id)).one_or_none()
        if held is not None and not _has_text(connection, trace_id):
            return str(held.candidate_id)  # too late to make it anew
        trace, review = _confirmed_failure(connection, trace_id)
        judged = _mappings(connection, judgements_table, trace_id)
        voices = _mappings(connection, feedback_table, trace_id)
        others = [other for other in families.stored(connection) if held is None or other != read(held)]
    document = build(trace, judged, review, voices, key, now, policy=policy, verdict=verdict, others=others)
    if held is not None:
        _revise(engine, str(held.candidate_id), document, now)
        return str(held.candidate_id)
    row = {
        "candidate_id": document["candidate_id"],
        "trace_id": trace_id,
        "document": dump(document),
        "redaction_status": document["redaction"]["status"],
        "redaction_confirmed": False,
        "created_at": now,
        "updated_at": now,
    }
    with engine.begin() as connection:
        insert_ignore(connection, candidates, [row])  # two clicks at once make one candidate
    return str(document["candidate_id"])


_CONTENT = ("question", "evidence", "answer", "expectation", "fault")


def _revise(engine: Engine, candidate_id: str, document: dict[str, Any], now: float) -> None:
    """Put *document* in place of the one that is held where it says anything else. What was erased stays away.

    The identifier stays, also under another key. The family stays while the fault does: whoever has the old one must
    not find it across the split.
    """
    with engine.begin() as connection:
        row = connection.execute(_by_id(candidate_id).with_for_update()).one_or_none()
        held = None if row is None else read(row)
        if held is None or all(held.get(part) == document.get(part) for part in _CONTENT):
            return
        document["candidate_id"] = candidate_id
        document["revision"] = held.get("revision", 1) + 1
        if held["fault"]["layer"] == document["fault"]["layer"]:
            document["family"], document["split"] = held["family"], held["split"]
        _store(connection, document, now, confirmed=False)


def note_readers(engine: Engine, trace_id: str, now: float) -> None:
    """Say in the candidate of *trace_id*, if there is one, who has read the trace by now, and how many agree."""
    with engine.begin() as connection:
        about = select(candidates).where(candidates.c.trace_id == trace_id)
        row = connection.execute(about.with_for_update()).one_or_none()
        review = connection.execute(select(reviews).where(reviews.c.trace_id == trace_id)).mappings().one_or_none()
        if row is None or review is None:
            return
        document = read(row)
        found = readers(_mappings(connection, judgements_table, trace_id), dict(review))
        earlier = document["review"].get("reviewers", [])
        found["reviewers"] = list(dict.fromkeys([*earlier, *found["reviewers"]]))
        document["review"].update(found)
        _store(connection, document, now, confirmed=row.redaction_confirmed)


def _has_text(connection: Connection, trace_id: str) -> bool:
    payload = connection.scalar(select(sampled_traces.c.payload).where(sampled_traces.c.trace_id == trace_id))
    return payload not in (None, BLANK_PAYLOAD)


def _confirmed_failure(connection: Connection, trace_id: str) -> tuple[RagTrace, Mapping[str, Any]]:
    payload = connection.scalar(select(sampled_traces.c.payload).where(sampled_traces.c.trace_id == trace_id))
    review = connection.execute(select(reviews).where(reviews.c.trace_id == trace_id)).mappings().one_or_none()
    if payload in (None, BLANK_PAYLOAD):
        raise Refused("this trace was not sampled or its text is gone, so there is nothing to make a candidate of")
    if review is None or review["decision"] != "confirmed":
        raise Refused("no person confirmed that this answer failed; confirm it first")
    return from_json(payload), dict(review)


def _mappings(connection: Connection, table: Any, trace_id: str) -> list[Mapping[str, Any]]:
    return [dict(row) for row in connection.execute(select(table).where(table.c.trace_id == trace_id)).mappings()]


def load(engine: Engine, candidate_id: str) -> dict[str, Any]:
    """Return the document, with the number of confirmed failures that its family stands for. Raises ``KeyError``."""
    with reader(engine).connect() as connection:
        document = read(_row(connection, candidate_id))
        document["family"]["support"] = max(1, _support(connection, document["family"]["family_id"]))
    return document


def confirm(
    engine: Engine,
    candidate_id: str,
    reviewer: str,
    now: float,
    *,
    policy: CandidatePolicy | None = None,
    revision: int | None = None,
) -> None:
    """Record that *reviewer* read the redacted text and found nothing personal in it.

    *revision* is the one that was read; None: that of now. Raises :class:`Refused` where it is another by now and for
    a BLOCKED candidate, naming why, and ``KeyError`` for one that is not there.
    """
    with engine.begin() as connection:
        document = read(_row_to_change(connection, candidate_id))
        if revision not in (None, document.get("revision", 1)):
            raise Refused("the text has changed since you opened it; read it as it is now, then tick again")
        if document["redaction"]["status"] == "BLOCKED":
            raise Refused(f"redaction is in doubt ({', '.join(document['redaction']['residual']['flags'])[:500]})")
        _decide(document, "REVIEWED", reviewer, now)
        apply_policy(document, policy)
        _store(connection, document, now, confirmed=True)
        second_person.tick(connection, document, reviewer, now)


def reject(engine: Engine, candidate_id: str, reviewer: str, now: float) -> None:
    """Record that this must not become a test, whatever its redaction. Raises ``KeyError``."""
    with engine.begin() as connection:
        document = read(_row_to_change(connection, candidate_id))
        _decide(document, "REJECTED", reviewer, now)
        document["governance"]["export_allowed"] = False
        _store(connection, document, now, confirmed=False)
        second_person.take_back(connection, [candidate_id])


def _decide(document: dict[str, Any], status: str, reviewer: str, now: float) -> None:
    if not is_reviewer(reviewer):
        raise Refused("the reviewer is not rv_ and 8 to 32 hexadecimal digits")
    review = document["review"]
    review.update(status=status, redaction_confirmed=status == "REVIEWED", reviewed_at=stamp(now))
    review["reviewers"] = list(dict.fromkeys([*review.get("reviewers", []), reviewer]))


def apply_policy(document: dict[str, Any], policy: CandidatePolicy | None) -> None:
    """Fill in rights that were not known when the candidate was made, then say whether it may leave."""
    governance = document["governance"]
    if policy and governance["consent"] == "UNKNOWN":
        governance["consent"] = policy.consent
    if policy and governance["license"] == "UNKNOWN":
        governance["license"] = policy.license
    allowed = {**document, "governance": {**governance, "export_allowed": True}}
    governance["export_allowed"] = not problems(allowed)  # the schema itself knows what stands in the way


def _store(connection: Connection, document: Mapping[str, Any], now: float, *, confirmed: bool) -> None:
    values = {
        "document": dump(document),
        "redaction_status": document["redaction"]["status"],
        "redaction_confirmed": confirmed,
        "updated_at": now,
    }
    where = candidates.c.candidate_id == document["candidate_id"]
    connection.execute(update(candidates).where(where).values(**values))


def _row(connection: Connection, candidate_id: str) -> Row[Any]:
    return _found(connection, _by_id(candidate_id), candidate_id)


def _row_to_change(connection: Connection, candidate_id: str) -> Row[Any]:
    """The same, and whoever else wants to change it waits: of two who decide at once none overwrites the other."""
    return _found(connection, _by_id(candidate_id).with_for_update(), candidate_id)


def _by_id(candidate_id: str) -> Select[Any]:
    return select(candidates).where(candidates.c.candidate_id == candidate_id)


def _found(connection: Connection, query: Select[Any], candidate_id: str) -> Row[Any]:
    row = connection.execute(query).one_or_none()
    if row is None:
        raise KeyError(f"no candidate {candidate_id[:40]!r}")
    return row


def read(row: Row[Any]) -> dict[str, Any]:
    """The document of a stored candidate."""
    found: dict[str, Any] = orjson.loads(row.document)
    return found


def _support(connection: Connection, family_id: str) -> int:
    """Confirmed failures of this family that no person rejected as a test."""
    documents = connection.execute(select(candidates.c.document).where(candidates.c.document.contains(family_id)))
    found = [orjson.loads(document) for (document,) in documents]
    return sum(d["family"]["family_id"] == family_id and d["review"]["status"] != "REJECTED" for d in found)


def dump(document: Mapping[str, Any]) -> str:
    """*document* as its row holds it."""
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS).decode()
