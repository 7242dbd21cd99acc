"""The collector's tables. Column names are API; units are in the names, times are Unix seconds."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, LargeBinary, String, Table, Text, false

from groundwatch_collector.storage import metadata

ledger = Table(
    "ledger",
    metadata,
    Column("trace_id", String(32), primary_key=True),
    Column("app", String(200), nullable=False),
    Column("version", String(200), nullable=False),
    Column("started_at", Float, nullable=False),
    Column("decided_at", Float, nullable=False),
    Column("epoch", String(64), nullable=False),  # id of the rate table
    Column("stratum", String(64), nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("inclusion_probability", Float, nullable=False),  # in (0, 1]
    Column("u56", BigInteger, nullable=False),  # the trace's permanent random number, 0 <= u56 < 2**56
    Column("salt_version", Integer, nullable=False),
    Column("verdict", String(16), nullable=False),  # sampled | not_sampled | skipped
    Column("reason", String(64), nullable=False),  # why: "hash", "not_a_question", "late_feedback" ...
    Column("adjusted_count", Float, nullable=False, server_default="1"),
    Column("first_position", BigInteger, nullable=False),  # span log position of its first record
    Column("last_position", BigInteger, nullable=False),
    Column("duration_seconds", Float, nullable=False, server_default="0"),
    Index("ix_ledger_started_at", "started_at"),
    Index("ix_ledger_app_version_started_at", "app", "version", "started_at"),
)

sampled_traces = Table(
    "sampled_traces",
    metadata,
    Column("trace_id", String(32), primary_key=True),
    Column("family", String(8), nullable=False),  # fast | late
    Column("payload", Text, nullable=False),  # RagTrace as JSON
    Column("app", String(200), nullable=False),
    Column("version", String(200), nullable=False),
    Column("started_at", Float, nullable=False),
    Column("stratum", String(64), nullable=False),
    Column("inclusion_probability", Float, nullable=False),
    Column("reason", String(64), nullable=False),
    Column("epoch", String(64), nullable=False),
    Column("state", String(16), nullable=False),  # waiting | leased | judged | unscored
    Column("lease_until", Float, nullable=False, server_default="0"),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("queued_at", Float, nullable=False),
    Column("finished_at", Float, nullable=True),
    Index("ix_sampled_traces_state_queued_at", "state", "queued_at"),
    Index("ix_sampled_traces_started_at", "started_at"),
)

feedback = Table(
    "feedback",
    metadata,
    Column("feedback_id", String(64), primary_key=True),
    Column("trace_id", String(32), nullable=False, index=True),
    Column("name", String(64), nullable=False),
    Column("sentiment", String(8), nullable=False),  # positive | negative | neutral
    Column("score", Float, nullable=True),
    Column("label", String(64), nullable=False, server_default=""),
    Column("comment", Text, nullable=False, server_default=""),
    Column("by", String(64), nullable=False, server_default=""),
    Column("received_at", Float, nullable=False, index=True),
    Column("position", BigInteger, nullable=False),
    Column("quarantined", Boolean, nullable=False, server_default=false()),  # part of a burst: moves no stratum
)

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("received_at", Float, nullable=False),
    Column("reason", String(64), nullable=False),
    Column("detail", Text, nullable=False),  # never payload text
    Column("size_bytes", Integer, nullable=False),
    Column("position", BigInteger, nullable=True),
    Column("body", LargeBinary, nullable=True),
)

erased_traces = Table(
    "erased_traces",
    metadata,
    Column("trace_id", String(32), primary_key=True),  # whatever brings it again, its text is not kept
    Column("erased_at", Float, nullable=False),
)

traffic_tally = Table(
    "traffic_tally",
    metadata,
    Column(
        "bucket_start", BigInteger, primary_key=True, autoincrement=False
    ),  # Unix seconds of the trace's start, floored
    Column("app", String(200), primary_key=True),
    Column("version", String(200), primary_key=True),
    Column("stratum", String(64), primary_key=True),
    Column("outcome", String(16), primary_key=True),
    Column("traces", Float, nullable=False),  # sum of adjusted counts
    Column("received", Integer, nullable=False, server_default="0"),  # plain count
)

positions = Table(
    "positions",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("position", BigInteger, nullable=False),
)

partition_positions = Table(
    "partition_positions",  # how far each partition of a Kafka topic is decided
    metadata,
    Column("topic", String(249), primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, nullable=False),
    Column("owner", String(64), nullable=False),  # the reader that took it last; another one's commit is refused
)

novelty_state = Table(
    "novelty_state",
    metadata,
    Column("name", String(64), primary_key=True),  # the consumer that keeps it
    Column("app", String(200), primary_key=True),
    Column("saved_at", Float, nullable=False),
    Column("questions", BigInteger, nullable=False),
    Column("state", LargeBinary, nullable=False),  # hashed features of question kinds; no text
)

rate_tables = Table(
    "rate_tables",
    metadata,
    Column("epoch", String(64), primary_key=True),  # id; every ledger row carries it
    Column("start", BigInteger, nullable=False, index=True),  # Unix seconds
    Column("epoch_seconds", Integer, nullable=False),
    Column("salt_version", Integer, nullable=False),
    Column("cuts_version", String(32), nullable=False),
    Column("rates", Text, nullable=False),  # JSON: stratum -> chance
    Column("why", Text, nullable=False),  # JSON: the inputs and targets of the plan
    Column("planned_at", Float, nullable=False),
)

shed_chances = Table(
    "shed_chances",
    metadata,
    Column("trace_id", String(32), primary_key=True),  # in the judge's queue
    Column("inclusion_probability", Float, nullable=False),  # lowered because others were shed
)

shed_tally = Table(
    "shed_tally",
    metadata,
    Column("bucket_start", BigInteger, primary_key=True, autoincrement=False),
    Column("stratum", String(64), primary_key=True),
    Column("traces", Integer, nullable=False),  # that the hash chose and an overload took out of the queue
)

ledger_base = Table(
    "ledger_base",
    metadata,
    Column("verdict", String(16), primary_key=True),  # of the ledger, or "dead_letter"
    Column("reason", String(64), primary_key=True),
    Column("state", String(16), primary_key=True),  # of the sampled trace; "" where it was not sampled
    Column("family", String(8), primary_key=True),  # likewise
    Column("traces", BigInteger, nullable=False),  # rows that retention removed, so that accounts still add up
)
