"""users that an OpenID provider lets in"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013_single_sign_on"
down_revision = "0012_saved_views"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("console_users", sa.Column("identity", sa.String(length=64), nullable=True))
    op.create_index(op.f("ix_console_users_identity"), "console_users", ["identity"], unique=True)


def downgrade() -> None:
    op.drop_index(op.f("ix_console_users_identity"), table_name="console_users")
    op.drop_column("console_users", "identity")
