"""The settled family: every trace counted once more when nothing can move it any longer.

A trace is decided in one stratum, at one chance. A late complaint or a late error makes it rise: it is offered to the
judge again, at the chance of the other stratum, with the same random number. It is judged when that number lies below
any of the chances that it was offered, so below the largest of them; and that is its true chance, because whether it
was offered never depended on the number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, insert, select

from groundwatch_collector import sampling, settling_tables, tables
from groundwatch_collector.strata import STRATA

STEP = 300
"""Seconds of decisions that are settled together."""

LATE_ERROR = "late_error"
"""Reason of a rise that changed how the trace ended: its outcome is the new one, the ledger has the old one."""

MARGIN_SECONDS = 600.0
"""From the last moment at which a trace can rise to the first at which it is settled: clocks of replicas differ."""


class Standing(NamedTuple):
    """A stratum, and the chance of a trace in it."""

    stratum: str
    probability: float


class Decided(NamedTuple):
    """What the ledger knows of a trace that may rise."""

    trace_id: str
    app: str
    version: str
    started_at: float
    decided_at: float
    stratum: str
    outcome: str
    inclusion_probability: float
    u56: int
    adjusted_count: float


@dataclass(frozen=True, slots=True)
class Offer:
    """One rise of one trace."""

    decided: Decided
    to: Standing
    epoch: str
    reason: str
    offered_at: float


def final(decided: Standing, offers: Iterable[Standing]) -> Standing:
    """Where a trace ends: in the foremost stratum that it was in, at the largest chance that it was offered."""
    every = [decided, *offers]
    return Standing(min((s.stratum for s in every), key=_order), max(s.probability for s in every))


def chance_of_being_judged(u56: int, at_decision: float | None, offers: Iterable[Standing]) -> float | None:
    """The largest chance that a risen trace was offered; None where no draw chose it.

    *at_decision*: the chance with which the decision's draw has it in the queue; None where it has not. Shedding may
    have lowered that chance, and the number of a trace that it took out lies above it.
    """
    offered_at_most = max(standing.probability for standing in offers)
    if at_decision is not None:
        return max(at_decision, offered_at_most)
    return offered_at_most if sampling.included(u56, offered_at_most) else None


def _order(stratum: str) -> int:
    return STRATA.index(stratum) if stratum in STRATA else len(STRATA)


def bucket_of(decided_at: float) -> int:
    return int(decided_at // STEP) * STEP


def may_rise(decided: Decided, stratum: str, now: float, horizon_seconds: float) -> bool:
    """Whether a trace can still rise into *stratum*: it is not in it or before it, and not yet to be settled."""
    return _order(stratum) < _order(decided.stratum) and now < decided.decided_at + horizon_seconds


def decided(connection: Connection, trace_ids: Iterable[str]) -> dict[str, Decided]:
    """Those of *trace_ids* that are traffic in the ledger."""
    columns = [tables.ledger.c[name] for name in Decided._fields]
    found = {}
    for chunk in _chunks(trace_ids):
        query = select(*columns).where(tables.ledger.c.trace_id.in_(chunk), tables.ledger.c.verdict != "skipped")
        for row in connection.execute(query):
            found[row.trace_id] = Decided(*row)
    return found


def offered(connection: Connection, trace_ids: Iterable[str], stratum: str) -> set[str]:
    """Those of *trace_ids* of which a rise into *stratum* is stored."""
    table = settling_tables.late_offers.c
    query = select(table.trace_id).where(table.stratum == stratum)
    return {
        trace_id
        for chunk in _chunks(trace_ids)
        for trace_id in connection.scalars(query.where(table.trace_id.in_(chunk)))
    }


def add_offers(connection: Connection, offers: Sequence[Offer], bucket_seconds: int) -> None:
    """Store rises; each trace rises into a stratum once, and the caller has looked."""
    if offers:
        connection.execute(insert(settling_tables.late_offers), [_row(offer, bucket_seconds) for offer in offers])


def _row(offer: Offer, bucket_seconds: int) -> Mapping[str, Any]:
    trace = offer.decided
    return {
        "trace_id": trace.trace_id,
        "stratum": offer.to.stratum,
        "inclusion_probability": offer.to.probability,
        "epoch": offer.epoch,
        "reason": offer.reason,
        "offered_at": offer.offered_at,
        "from_stratum": trace.stratum,
        "decided_probability": trace.inclusion_probability,
        "settle_bucket": bucket_of(trace.decided_at),
        "bucket_start": int(trace.started_at // bucket_seconds) * bucket_seconds,
        "app": trace.app,
        "version": trace.version,
        "started_at": trace.started_at,
        "outcome": trace.outcome,
        "adjusted_count": trace.adjusted_count,
        "u56": trace.u56,
    }


def _chunks(values: Iterable[str]) -> Iterable[list[str]]:
    every = list(dict.fromkeys(values))
    return (every[start : start + 500] for start in range(0, len(every), 500))
