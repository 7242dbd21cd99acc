"""The review desk's tables."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Float, String, Table, Text

from groundwatch_collector.storage import metadata

reviews = Table(
    "reviews",
    metadata,
    Column("trace_id", String(32), primary_key=True),
    Column("decision", String(16), nullable=False),  # confirmed | rejected
    Column("fault_layer", String(16), nullable=False, server_default=""),
    Column("note", Text, nullable=False, server_default=""),
    Column("reviewer", String(40), nullable=False),  # rv_<hex>
    Column("reviewed_at", Float, nullable=False),
)

candidates = Table(
    "candidates",
    metadata,
    Column("candidate_id", String(40), primary_key=True),  # rc_<24 hex>
    Column("trace_id", String(32), nullable=False, unique=True),  # stays here; never leaves in an export
    Column("document", Text, nullable=False),  # the candidate as JSON, redacted
    Column("redaction_status", String(16), nullable=False),  # CLEAN | REDACTED | BLOCKED
    Column("redaction_confirmed", Boolean, nullable=False),  # a person ticked the redacted text
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Column("exported_at", Float, nullable=True),
)
