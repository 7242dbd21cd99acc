"""users and sessions of the console, and the audit trail"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009_access"
down_revision = "0008_second_looks"
branch_labels = None
depends_on = None

APPEND_ONLY = {
    "sqlite": (
        "CREATE TRIGGER audit_log_no_update BEFORE UPDATE ON audit_log BEGIN SELECT RAISE(ABORT, 'audit_log is append-only'); END",
        "CREATE TRIGGER audit_log_no_delete BEFORE DELETE ON audit_log BEGIN SELECT RAISE(ABORT, 'audit_log is append-only'); END",
    ),
    "postgresql": (
        "CREATE FUNCTION audit_log_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'audit_log is append-only'; END $$",
        "CREATE TRIGGER audit_log_no_change BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW EXECUTE FUNCTION audit_log_append_only()",
    ),
}


def upgrade() -> None:
    op.create_table(
        "console_users",
        sa.Column("user_id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("roles", sa.String(length=100), nullable=False),
        sa.Column("holdout", sa.Boolean(), nullable=False),
        sa.Column("password", sa.String(length=300), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", name=op.f("pk_console_users")),
        sa.UniqueConstraint("name", name=op.f("uq_console_users_name")),
    )
    op.create_table(
        "console_sessions",
        sa.Column("token_sha256", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=40), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("seen_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("token_sha256", name=op.f("pk_console_sessions")),
    )
    op.create_index(op.f("ix_console_sessions_user_id"), "console_sessions", ["user_id"])
    op.create_table(
        "audit_log",
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("actor", sa.String(length=40), nullable=False),
        sa.Column("action", sa.String(length=24), nullable=False),
        sa.Column("about", sa.String(length=32), nullable=False),
        sa.Column("detail", sa.String(length=200), nullable=False),
        sa.Column("previous", sa.String(length=64), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_audit_log")),
    )
    for statement in APPEND_ONLY[op.get_bind().dialect.name]:
        op.execute(statement)


def downgrade() -> None:
    op.drop_table("audit_log")
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION audit_log_append_only()")
    op.drop_table("console_sessions")
    op.drop_table("console_users")
