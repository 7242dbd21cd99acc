"""The review desk's tables."""

from __future__ import annotations

from sqlalchemy import DDL, Boolean, Column, Float, Integer, String, Table, Text, UniqueConstraint, event

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

holdout_ticks = Table(
    "holdout_ticks",
    metadata,
    Column("candidate_id", String(40), primary_key=True),
    Column("reviewer", String(40), primary_key=True),  # who read the redacted text and released it
    Column("revision", Integer, nullable=False),  # of the candidate, as it was read
    Column("ticked_at", Float, nullable=False),
)

outbox = Table(
    "outbox",
    metadata,
    Column("destination", String(64), primary_key=True),  # a tool, and a digest of its address and public key
    Column("kind", String(16), primary_key=True),  # item | score
    Column("item", String(64), primary_key=True),  # id of a candidate or of a judgement: what is sent is read then
    Column("digest", String(64), nullable=False),  # of what was sent last; "" before and after a removal
    Column("state", String(16), nullable=False),  # waiting | sent | removing | removed | failed
    Column("attempts", Integer, nullable=False),
    Column("next_at", Float, nullable=False),  # not tried again before
    Column("reason", String(64), nullable=False, server_default=""),  # why the last attempt failed
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
)

console_users = Table(
    "console_users",
    metadata,
    Column("user_id", String(40), primary_key=True),  # rv_<hex>: what records carry instead of the name
    Column("name", String(64), nullable=False, unique=True),
    Column("roles", String(100), nullable=False),  # viewer | reviewer | exporter | admin, separated by commas
    Column("holdout", Boolean, nullable=False),  # may read the hold-out set whatever the role
    Column("password", String(300), nullable=False),  # scrypt, salt and cost beside the hash; "": single sign-on
    Column("identity", String(64), nullable=True, unique=True, index=True),  # SHA-256 of issuer and subject there
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
)

console_sessions = Table(
    "console_sessions",
    metadata,
    Column("token_sha256", String(64), primary_key=True),  # a copy of the database opens no session
    Column("user_id", String(40), nullable=False, index=True),
    Column("created_at", Float, nullable=False),
    Column("seen_at", Float, nullable=False),
)

saved_views = Table(
    "saved_views",
    metadata,
    Column("view_id", String(40), primary_key=True),  # sv_<hex>
    Column("owner", String(40), nullable=False),  # rv_<hex> of the user; "local" where nobody logs in
    Column("name", String(60), nullable=False),
    Column("query", Text, nullable=False),  # the filters, as they stand in the address of the trace list
    Column("shared", Boolean, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    UniqueConstraint("owner", "name"),
)

# No trace_id and no text: retention and erasure leave the trail alone, and it tells of nobody.
audit_log = Table(
    "audit_log",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("at", Float, nullable=False),
    Column("actor", String(40), nullable=False),
    Column("action", String(24), nullable=False),
    Column("about", String(32), nullable=False),  # keyed digest of what it was done to
    Column("detail", String(200), nullable=False),
    Column("previous", String(64), nullable=False),
    Column("digest", String(64), nullable=False),
)

APPEND_ONLY = {
    "sqlite": tuple(
        f"CREATE TRIGGER audit_log_no_{verb} BEFORE {verb.upper()} ON audit_log "
        "BEGIN SELECT RAISE(ABORT, 'audit_log is append-only'); END"
        for verb in ("update", "delete")
    ),
    "postgresql": (
        "CREATE FUNCTION audit_log_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'audit_log is append-only'; END $$",
        "CREATE TRIGGER audit_log_no_change BEFORE UPDATE OR DELETE ON audit_log "
        "FOR EACH ROW EXECUTE FUNCTION audit_log_append_only()",
    ),
}
"""A wall against our own mistakes; against others there is the chain."""

for _dialect, _statements in APPEND_ONLY.items():
    for _statement in _statements:
        event.listen(audit_log, "after_create", DDL(_statement).execute_if(dialect=_dialect))  # type: ignore[no-untyped-call]
