"""which traces were erased, and what is to be sent to another tool"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011_erased_traces_outbox"
down_revision = "0009_access"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "erased_traces",
        sa.Column("trace_id", sa.String(length=32), nullable=False),
        sa.Column("erased_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("trace_id", name=op.f("pk_erased_traces")),
    )
    op.create_table(
        "outbox",
        sa.Column("destination", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("item", sa.String(length=64), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", sa.Float(), nullable=False),
        sa.Column("reason", sa.String(length=64), server_default="", nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("destination", "kind", "item", name=op.f("pk_outbox")),
    )


def downgrade() -> None:
    op.drop_table("outbox")
    op.drop_table("erased_traces")
