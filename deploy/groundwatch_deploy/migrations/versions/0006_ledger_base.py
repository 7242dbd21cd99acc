"""counts of ledger rows that retention removed"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006_ledger_base"
down_revision = "0005_settled_family"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "ledger_base",
        sa.Column("verdict", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("family", sa.String(length=8), nullable=False),
        sa.Column("traces", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("verdict", "reason", "state", "family", name=op.f("pk_ledger_base")),
    )


def downgrade() -> None:
    op.drop_table("ledger_base")
