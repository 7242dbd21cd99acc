"""memory of question kinds"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002_novelty"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "novelty_state",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("app", sa.String(length=200), nullable=False),
        sa.Column("saved_at", sa.Float(), nullable=False),
        sa.Column("questions", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", "app", name=op.f("pk_novelty_state")),
    )


def downgrade() -> None:
    op.drop_table("novelty_state")
