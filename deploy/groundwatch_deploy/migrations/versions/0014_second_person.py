"""who released which candidate of the hold-out set"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014_second_person"
down_revision = "0013_single_sign_on"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "holdout_ticks",
        sa.Column("candidate_id", sa.String(length=40), nullable=False),
        sa.Column("reviewer", sa.String(length=40), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("ticked_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("candidate_id", "reviewer", name=op.f("pk_holdout_ticks")),
    )


def downgrade() -> None:
    op.drop_table("holdout_ticks")
