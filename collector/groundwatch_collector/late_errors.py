"""Errors that arrive after their trace was decided: it rises among the failed ones, with the same random number.

A trace is read again whenever such a span comes, whatever its number is. So whether it was offered to the judge once
more never depended on the number, and the largest chance that it was offered is its true one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlalchemy import Engine

from groundwatch_collector import decision_store, sampling, settling
from groundwatch_collector.assembly import Pending
from groundwatch_collector.decision import Decider
from groundwatch_collector.decision_store import DecidedRow
from groundwatch_collector.ragtrace import FAILED_EXECUTION, RagTrace
from groundwatch_collector.sampled import SampledTrace
from groundwatch_collector.settling import Decided, Offer, Standing
from groundwatch_collector.spans import Span
from groundwatch_collector.storage import reader
from groundwatch_collector.strata import STRATA

STRATUM: Final = "error_timeout"
REASON: Final = settling.LATE_ERROR
RESULTS: Final = (
    "queued",
    "already_sampled",
    "not_chosen",
    "not_an_error",  # the trace ended as before: a failed part of a request that was answered all the same
    "no_rise",  # it is among the failed ones already, or in front of them
    "payload_gone",
    "skipped",
    "refused",  # the database refuses what was to be written with it
)
LEFT: Final = tuple(name for name in STRATA if STRATA.index(name) > STRATA.index(STRATUM))


class LateSpan(NamedTuple):
    span: Span
    position: int
    received_at: float


@dataclass(frozen=True, slots=True)
class LateError:
    """What became of one trace with late errors."""

    result: str  # one of RESULTS
    sampled: SampledTrace | None = None
    offer: Offer | None = None  # None: its stratum stays, or it is too late for the settled family


ReadAgain = Callable[[str, DecidedRow, Sequence[LateSpan]], Pending | None]


class LateErrors:
    """What late errors ask for. Not for use by several threads at a time."""

    def __init__(self, engine: Engine, decider: Decider, read_again: ReadAgain, horizon_seconds: float) -> None:
        """*read_again*: the spans of a decided trace from the log, with those that came late."""
        self._engine = engine
        self._decider = decider
        self._read_again = read_again
        self._horizon_seconds = horizon_seconds

    def weigh(self, late: Mapping[str, Sequence[LateSpan]], now: float) -> list[LateError]:
        """Say of each trace what its late errors do. Called before the transaction that writes it."""
        if not late:
            return []
        with reader(self._engine).connect() as connection:
            rows = decision_store.decided(connection, late)
            given = decision_store.feedback_of(connection, rows)
            standing = settling.decided(connection, rows)
            offered = settling.offered(connection, rows, STRATUM)
        found = []
        for trace_id, row in rows.items():
            if row.verdict == "skipped":
                found.append(LateError("skipped"))
            elif trace_id in offered or standing[trace_id].stratum not in LEFT:
                found.append(LateError("no_rise"))
            else:
                spans = late[trace_id]
                pending = None if row.erased else self._read_again(trace_id, row, spans)
                trace = self._decider.read(pending, given.get(trace_id, ())) if pending is not None else None
                found.append(self._risen(row, standing[trace_id], trace, spans[-1].received_at, now))
        return found

    def _risen(
        self, row: DecidedRow, standing: Decided, trace: RagTrace | None, received_at: float, now: float
    ) -> LateError:
        if trace is None:
            return LateError("payload_gone")
        if trace.outcome not in FAILED_EXECUTION:
            return LateError("not_an_error")
        table = self._decider.table(received_at)
        chance = table.probability(STRATUM)
        offer = None
        if settling.may_rise(standing, STRATUM, now, self._horizon_seconds):
            ended = standing._replace(outcome=trace.outcome.value)
            offer = Offer(ended, Standing(STRATUM, chance), table.epoch, REASON, now)
        if row.verdict == "sampled":
            return LateError("already_sampled", offer=offer)
        if not sampling.included(row.u56, chance):
            return LateError("not_chosen", offer=offer)
        return LateError("queued", SampledTrace(trace, STRATUM, chance, REASON, table.epoch, "late"), offer)
