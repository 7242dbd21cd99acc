"""which traces are read again, by whom and with which chance"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008_second_looks"
down_revision = "0007_change_detectors"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "second_looks",
        sa.Column("trace_id", sa.String(length=32), nullable=False),
        sa.Column("asked", sa.String(length=200), nullable=False),
        sa.Column("chance", sa.Float(), nullable=False),
        sa.Column("chosen", sa.Boolean(), nullable=False),
        sa.Column("unsure", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("trace_id", "asked", name=op.f("pk_second_looks")),
    )


def downgrade() -> None:
    op.drop_table("second_looks")
