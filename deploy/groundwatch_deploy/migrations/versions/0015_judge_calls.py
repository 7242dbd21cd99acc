"""what a model was asked about a trace, and what it answered"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015_judge_calls"
down_revision = "0014_second_person"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "judge_calls",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("trace_id", sa.String(length=32), nullable=False),
        sa.Column("identifier", sa.String(length=200), nullable=False),
        sa.Column("judged_at", sa.Float(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("prompt", sa.Text(), nullable=False),
        sa.Column("reply", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_judge_calls")),
    )
    op.create_index(op.f("ix_judge_calls_trace_id"), "judge_calls", ["trace_id"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_judge_calls_trace_id"), table_name="judge_calls")
    op.drop_table("judge_calls")
