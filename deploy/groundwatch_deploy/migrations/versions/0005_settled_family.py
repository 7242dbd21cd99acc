"""settled family, late offers, quarantined feedback"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005_settled_family"
down_revision = "0004_partition_positions"
branch_labels = None
depends_on = None

_PLACE = ("app", "version", "stratum")


def _place() -> list[sa.Column[str]]:
    widths = {"app": 200, "version": 200, "stratum": 64}
    return [sa.Column(name, sa.String(length=widths[name]), nullable=False) for name in _PLACE]


def _bucket(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=False)


def _key(table: str, *columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns, name=op.f(f"pk_{table}"))


def upgrade() -> None:
    with op.batch_alter_table("feedback", schema=None) as batch_op:
        batch_op.add_column(sa.Column("quarantined", sa.Boolean(), server_default=sa.false(), nullable=False))
        batch_op.create_index(batch_op.f("ix_feedback_received_at"), ["received_at"], unique=False)
    op.create_table(
        "settling_tally",
        _bucket("settle_bucket"),
        _bucket("bucket_start"),
        *_place(),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("traces", sa.Float(), nullable=False),
        sa.Column("received", sa.Integer(), nullable=False),
        _key("settling_tally", "settle_bucket", "bucket_start", *_PLACE, "outcome"),
    )
    op.create_table(
        "late_offers",
        sa.Column("trace_id", sa.String(length=32), nullable=False),
        sa.Column("stratum", sa.String(length=64), nullable=False),
        sa.Column("inclusion_probability", sa.Float(), nullable=False),
        sa.Column("epoch", sa.String(length=64), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=False),
        sa.Column("offered_at", sa.Float(), nullable=False),
        sa.Column("from_stratum", sa.String(length=64), nullable=False),
        sa.Column("decided_probability", sa.Float(), nullable=False),
        sa.Column("settle_bucket", sa.BigInteger(), nullable=False),
        sa.Column("bucket_start", sa.BigInteger(), nullable=False),
        sa.Column("app", sa.String(length=200), nullable=False),
        sa.Column("version", sa.String(length=200), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("adjusted_count", sa.Float(), nullable=False),
        sa.Column("u56", sa.BigInteger(), nullable=False),
        _key("late_offers", "trace_id", "stratum"),
    )
    with op.batch_alter_table("late_offers", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_late_offers_settle_bucket"), ["settle_bucket"], unique=False)
    op.create_table(
        "settled_traffic_tally",
        _bucket("bucket_start"),
        *_place(),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("traces", sa.Float(), nullable=False),
        sa.Column("received", sa.Integer(), nullable=False),
        _key("settled_traffic_tally", "bucket_start", *_PLACE, "outcome"),
    )
    op.create_table(
        "settled_verdict_tally",
        _bucket("bucket_start"),
        *_place(),
        sa.Column("criterion", sa.String(length=32), nullable=False),
        sa.Column("judge", sa.String(length=200), nullable=False),
        sa.Column("weight", sa.Float(), nullable=False),
        sa.Column("fail_weight", sa.Float(), nullable=False),
        sa.Column("weight_sq", sa.Float(), nullable=False),
        sa.Column("judged", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("not_applicable_weight", sa.Float(), nullable=False),
        sa.Column("missing_weight", sa.Float(), nullable=False),
        _key("settled_verdict_tally", "bucket_start", *_PLACE, "criterion", "judge"),
    )
    op.create_table(
        "settled_fault_tally",
        _bucket("bucket_start"),
        *_place(),
        sa.Column("layer", sa.String(length=16), nullable=False),
        sa.Column("judge", sa.String(length=200), nullable=False),
        sa.Column("weight", sa.Float(), nullable=False),
        sa.Column("judged", sa.Integer(), nullable=False),
        _key("settled_fault_tally", "bucket_start", *_PLACE, "layer", "judge"),
    )


def downgrade() -> None:
    for table in ("settled_fault_tally", "settled_verdict_tally", "settled_traffic_tally", "late_offers"):
        op.drop_table(table)
    op.drop_table("settling_tally")
    with op.batch_alter_table("feedback", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_feedback_received_at"))
        batch_op.drop_column("quarantined")
