"""What waits to be written into the settled family, and its traffic. Times are Unix seconds."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Integer, String, Table

from groundwatch_collector.storage import metadata

settling_tally = Table(
    "settling_tally",  # traffic_tally again, by when it was decided; a bucket is deleted when it is settled
    metadata,
    Column("settle_bucket", BigInteger, primary_key=True, autoincrement=False),  # of the decision, floored
    Column("bucket_start", BigInteger, primary_key=True, autoincrement=False),  # of the trace's start, floored
    Column("app", String(200), primary_key=True),
    Column("version", String(200), primary_key=True),
    Column("stratum", String(64), primary_key=True),
    Column("outcome", String(16), primary_key=True),
    Column("traces", Float, nullable=False),  # sum of adjusted counts
    Column("received", Integer, nullable=False),  # plain count
)

late_offers = Table(
    "late_offers",  # traces that rose into another stratum after their decision, whether that had them judged or not
    metadata,
    Column("trace_id", String(32), primary_key=True),
    Column("stratum", String(64), primary_key=True),  # into which it rose
    Column("inclusion_probability", Float, nullable=False),  # of that stratum when it rose
    Column("epoch", String(64), nullable=False),  # id of the rate table that gave it
    Column("reason", String(64), nullable=False),  # late_feedback | late_error
    Column("offered_at", Float, nullable=False),
    Column("from_stratum", String(64), nullable=False),
    Column("decided_probability", Float, nullable=False),
    Column("settle_bucket", BigInteger, nullable=False, index=True),
    Column("bucket_start", BigInteger, nullable=False),
    Column("app", String(200), nullable=False),
    Column("version", String(200), nullable=False),
    Column("started_at", Float, nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("adjusted_count", Float, nullable=False),
    Column("u56", BigInteger, nullable=False),
)

settled_traffic_tally = Table(
    "settled_traffic_tally",  # as traffic_tally, with the strata that traces ended in
    metadata,
    Column("bucket_start", BigInteger, primary_key=True, autoincrement=False),
    Column("app", String(200), primary_key=True),
    Column("version", String(200), primary_key=True),
    Column("stratum", String(64), primary_key=True),
    Column("outcome", String(16), primary_key=True),
    Column("traces", Float, nullable=False),
    Column("received", Integer, nullable=False),
)
