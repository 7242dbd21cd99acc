"""Confirmed failures in a database, ready to be exported, for the tests of the exports."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, insert

from groundwatch_collector.ragtrace import Document, Outcome, RagTrace, to_json
from groundwatch_collector.tables import sampled_traces
from groundwatch_review import candidates, desk, families
from groundwatch_review.candidates import CandidatePolicy

KEY = b"k" * 32
NOW = 1_760_000_000.0
DAY = 86_400.0
REVIEWER = "rv_0123456789abcdef"
POLICY = CandidatePolicy(consent="NOT_PERSONAL", license="CC0-1.0")
DEV_QUESTION = "How large may a file be?"


def make_trace(number: int, question: str, **changes: Any) -> RagTrace:
    documents = (Document("d1", 1, 0.5, "Uploads may be up to 20 MB."),)
    base = {
        "trace_id": f"{number:032x}",
        "app": "manual",
        "version": "2",
        "started_at": NOW,
        "duration_seconds": 1.0,
        "outcome": Outcome.ANSWERED,
        "outcome_source": "recorded",
        "query": question,
        "candidates": documents,
        "context": documents,
        "answer": "Up to 500 MB.",
    }
    return RagTrace(**{**base, **changes})


def add(
    engine: Engine, trace: RagTrace, *, confirm: bool = True, policy: CandidatePolicy = POLICY, **times: float
) -> str:
    row = {
        "trace_id": trace.trace_id,
        "family": "fast",
        "payload": to_json(trace),
        "app": trace.app,
        "version": trace.version,
        "started_at": trace.started_at,
        "stratum": "normal_b0",
        "inclusion_probability": 1.0,
        "reason": "hash",
        "epoch": "e",
        "state": "judged",
        "queued_at": NOW,
    }
    with engine.begin() as connection:
        connection.execute(insert(sampled_traces).values(**row))
    desk.confirm(engine, trace.trace_id, "generation", "", REVIEWER, NOW)
    candidate_id = candidates.create(
        engine, trace.trace_id, KEY, times.get("at", NOW), policy=policy, verdict=lambda _trace: "fail"
    )
    if confirm:
        candidates.confirm(engine, candidate_id, REVIEWER, NOW)
    return candidate_id


def questions(split: str, count: int) -> list[str]:
    """Questions whose families fall on that side of the split."""
    found = []
    for number in range(1000):
        question = f"Question {number} about files?"
        document: dict[str, Any] = {"question": {"text": question}, "fault": {"layer": "GENERATION"}, "family": {}}
        families.assign(document)
        if document["split"] == split:
            found.append(question)
    return found[:count]
