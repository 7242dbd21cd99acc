"""how far each Kafka partition is decided"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004_partition_positions"
down_revision = "0003_rate_tables"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "partition_positions",
        sa.Column("topic", sa.String(length=249), nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("topic", "partition", name=op.f("pk_partition_positions")),
    )


def downgrade() -> None:
    op.drop_table("partition_positions")
