"""Sampled traces as they wait in the judge's queue."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, insert

from groundwatch_collector.ragtrace import Outcome, RagTrace, to_json
from groundwatch_collector.tables import sampled_traces


def queue_row(trace_id: str, answer: str, started_at: float, *, queued_at: float | None = None) -> dict[str, Any]:
    """A trace of app ``shop``, version ``v1``, sampled with chance one half and not judged yet."""
    trace = RagTrace(trace_id, "shop", "v1", started_at, 0.5, Outcome.ANSWERED, "recorded", answer=answer)
    return {
        "trace_id": trace.trace_id,
        "family": "fast",
        "payload": to_json(trace),
        "app": trace.app,
        "version": trace.version,
        "started_at": started_at,
        "stratum": "normal_b0",
        "inclusion_probability": 0.5,
        "reason": "hash",
        "epoch": "e1",
        "state": "waiting",
        "queued_at": started_at if queued_at is None else queued_at,
    }


def put_in_queue(engine: Engine, started_at: float, *answers: str) -> None:
    """Traces ``t0``, ``t1`` ... with these answers, a second apart in the queue."""
    rows = [queue_row(f"t{i}", answer, started_at, queued_at=started_at + i) for i, answer in enumerate(answers)]
    with engine.begin() as connection:
        connection.execute(insert(sampled_traces), rows)
