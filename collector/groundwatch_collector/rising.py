"""What a complaint or an error does to a trace that is decided: it rises, and its one draw may now choose it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from groundwatch_collector import sampling, settling
from groundwatch_collector.decision_store import DecidedRow
from groundwatch_collector.ragtrace import RagTrace
from groundwatch_collector.sampled import SampledTrace
from groundwatch_collector.settling import Decided, Offer, Standing


class Ground(NamedTuple):
    """Why a trace rises, where to, and from when."""

    to: Standing
    epoch: str
    reason: str
    now: float


@dataclass(frozen=True, slots=True)
class Rise:
    """What became of one decided trace."""

    result: str
    sampled: SampledTrace | None = None
    offer: Offer | None = None  # None: its stratum stays, or it is too late for the settled family


def rise(
    row: DecidedRow, standing: Decided, ground: Ground, horizon_seconds: float, read: Callable[[], RagTrace | None]
) -> Rise:
    """Offer a decided trace to the judge once more. *read* gives its payload, and is called for a chosen one only."""
    to, epoch, reason, now = ground
    offer = None
    if settling.may_rise(standing, to.stratum, now, horizon_seconds):
        offer = Offer(standing, to, epoch, reason, now)
    if row.verdict == "sampled":
        return Rise("already_sampled", offer=offer)
    if not sampling.included(row.u56, to.probability):
        return Rise("not_chosen", offer=offer)
    trace = read()
    if trace is None:
        return Rise("payload_gone", offer=offer)
    return Rise("queued", SampledTrace(trace, to.stratum, to.probability, reason, epoch, "late"), offer)
