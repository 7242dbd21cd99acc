"""named filters of the trace list"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012_saved_views"
down_revision = "0011_erased_traces_outbox"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "saved_views",
        sa.Column("view_id", sa.String(length=40), nullable=False),
        sa.Column("owner", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=60), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("shared", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("view_id", name=op.f("pk_saved_views")),
        sa.UniqueConstraint("owner", "name", name=op.f("uq_saved_views_owner")),
    )


def downgrade() -> None:
    op.drop_table("saved_views")
