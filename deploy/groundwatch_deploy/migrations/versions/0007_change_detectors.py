"""frozen baselines and the evidence against them"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007_change_detectors"
down_revision = "0006_ledger_base"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "change_detectors",
        sa.Column("app", sa.String(length=200), nullable=False),
        sa.Column("criterion", sa.String(length=32), nullable=False),
        sa.Column("judge", sa.String(length=200), nullable=False),
        sa.Column("since", sa.Float(), nullable=False),
        sa.Column("frozen_at", sa.Float(), nullable=False),
        sa.Column("rates", sa.Text(), nullable=False),
        sa.Column("judged_per_week", sa.Float(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("sums", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("app", "criterion", "judge", name=op.f("pk_change_detectors")),
    )


def downgrade() -> None:
    op.drop_table("change_detectors")
