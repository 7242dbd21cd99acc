"""rate tables by epoch, and what shedding changed"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003_rate_tables"
down_revision = "0002_novelty"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "rate_tables",
        sa.Column("epoch", sa.String(length=64), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("epoch_seconds", sa.Integer(), nullable=False),
        sa.Column("salt_version", sa.Integer(), nullable=False),
        sa.Column("cuts_version", sa.String(length=32), nullable=False),
        sa.Column("rates", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("planned_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("epoch", name=op.f("pk_rate_tables")),
    )
    with op.batch_alter_table("rate_tables", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_rate_tables_start"), ["start"], unique=False)
    op.create_table(
        "shed_chances",
        sa.Column("trace_id", sa.String(length=32), nullable=False),
        sa.Column("inclusion_probability", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("trace_id", name=op.f("pk_shed_chances")),
    )
    op.create_table(
        "shed_tally",
        sa.Column("bucket_start", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("stratum", sa.String(length=64), nullable=False),
        sa.Column("traces", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("bucket_start", "stratum", name=op.f("pk_shed_tally")),
    )


def downgrade() -> None:
    op.drop_table("shed_tally")
    op.drop_table("shed_chances")
    with op.batch_alter_table("rate_tables", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_rate_tables_start"))
    op.drop_table("rate_tables")
