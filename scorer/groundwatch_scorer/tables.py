"""The scorer's tables: judgements (append-only) and the sums that every estimate is made of."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, String, Table, Text

from groundwatch_collector.storage import metadata

judgements = Table(
    "judgements",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("trace_id", String(32), nullable=False),
    Column("criterion", String(32), nullable=False),
    Column("label", String(16), nullable=False),  # pass | fail | not_applicable | unscored
    Column("score", Float, nullable=True),
    Column("explanation", Text, nullable=False, server_default=""),
    Column("annotator_kind", String(8), nullable=False),  # CODE | LLM | HUMAN
    Column("identifier", String(200), nullable=False),
    Column("judged_at", Float, nullable=False),
    Column("cost_usd", Float, nullable=True),
    Column("detail", Text, nullable=False, server_default="{}"),  # JSON
    Index("ix_judgements_trace_id", "trace_id"),
    Index("ix_judgements_criterion_label", "criterion", "label"),
)

judge_calls = Table(
    "judge_calls",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("trace_id", String(32), nullable=False, index=True),
    Column("identifier", String(200), nullable=False),
    Column("judged_at", Float, nullable=False),
    Column("part", Integer, nullable=False),  # 0, 1, ... of an answer that was put in several calls
    Column("prompt", Text, nullable=False),  # as it was sent: redacted
    Column("reply", Text, nullable=False),
)
"""What a model was asked and answered. Not in the detail of a judgement, which lists sort and filter by."""

second_looks = Table(
    "second_looks",
    metadata,
    Column("trace_id", String(32), primary_key=True),
    Column("asked", String(200), primary_key=True),  # a judge's identifier, or "people"
    Column("chance", Float, nullable=False),  # in (0, 1], given that the trace was judged at all
    Column("chosen", Boolean, nullable=False),
    Column("unsure", Boolean, nullable=False),  # the verdicts before it were not to be relied on
)
"""Whether a trace was to be read again, by whom and with which chance: a row for every trace that might have been."""


def _verdict_tally(name: str) -> Table:
    return Table(
        name,
        metadata,
        # Unix seconds of the trace's start, floored
        Column("bucket_start", BigInteger, primary_key=True, autoincrement=False),
        Column("app", String(200), primary_key=True),
        Column("version", String(200), primary_key=True),
        Column("stratum", String(64), primary_key=True),
        Column("criterion", String(32), primary_key=True),
        Column("judge", String(200), primary_key=True),
        Column("weight", Float, nullable=False),  # A = sum of w over judged
        Column("fail_weight", Float, nullable=False),  # B = sum of w * y
        Column("weight_sq", Float, nullable=False),  # C = sum of w^2
        Column("judged", Integer, nullable=False),
        Column("failed", Integer, nullable=False),
        Column("not_applicable_weight", Float, nullable=False),
        Column("missing_weight", Float, nullable=False),  # sampled, but no verdict could be had
    )


def _fault_tally(name: str) -> Table:
    return Table(
        name,
        metadata,
        Column("bucket_start", BigInteger, primary_key=True, autoincrement=False),
        Column("app", String(200), primary_key=True),
        Column("version", String(200), primary_key=True),
        Column("stratum", String(64), primary_key=True),
        Column("layer", String(16), primary_key=True),
        Column("judge", String(200), primary_key=True),
        Column("weight", Float, nullable=False),
        Column("judged", Integer, nullable=False),
    )


verdict_tally, fault_tally = _verdict_tally("verdict_tally"), _fault_tally("fault_tally")
"""The fast family: written when a trace is judged, with the stratum and the chance of its decision."""

settled_verdict_tally = _verdict_tally("settled_verdict_tally")
settled_fault_tally = _fault_tally("settled_fault_tally")
"""The settled family: written when nothing can move a trace any longer, with its last stratum and its true chance."""
