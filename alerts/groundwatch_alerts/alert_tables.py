"""The table of change detection: a frozen baseline and the evidence against it, per app, criterion and judge."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, String, Table, Text

from groundwatch_collector.storage import metadata

change_detectors = Table(
    "change_detectors",
    metadata,
    Column("app", String(200), primary_key=True),
    Column("criterion", String(32), primary_key=True),
    Column("judge", String(200), primary_key=True),
    Column("since", Float, nullable=False),  # Unix seconds: the baseline was learnt from here
    Column("frozen_at", Float, nullable=False),  # until here
    Column("rates", Text, nullable=False),  # JSON: stratum -> usual failure rate
    Column("judged_per_week", Float, nullable=False),
    Column("position", BigInteger, nullable=False),  # id of the last judgement that the sums hold
    Column("sums", Text, nullable=False),  # JSON: evidence for each size of rise
)
