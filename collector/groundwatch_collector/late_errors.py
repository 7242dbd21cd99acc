"""Errors that arrive after their trace was decided: it rises among the failed ones, with the same random number.

A trace is read again whenever such a span comes, whatever its number is. So whether it was offered to the judge once
more never depended on the number, and the largest chance that it was offered is its true one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Engine

from groundwatch_collector import decision_store, settling
from groundwatch_collector.decision import Decider
from groundwatch_collector.decision_store import DecidedRow
from groundwatch_collector.ragtrace import FAILED_EXECUTION, Feedback, RagTrace
from groundwatch_collector.rising import Ground, Rise, rise
from groundwatch_collector.settling import Decided, Standing
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


# A decided trace as the log has it, with what was said of it and with spans that came late.
ReadAgain = Callable[[str, DecidedRow, Sequence[Feedback], Sequence[LateSpan]], RagTrace | None]


class LateErrors:
    """What late errors ask for. Not for use by several threads at a time."""

    def __init__(self, engine: Engine, decider: Decider, read_again: ReadAgain, horizon_seconds: float) -> None:
        self._engine = engine
        self._decider = decider
        self._read_again = read_again
        self._horizon_seconds = horizon_seconds

    def weigh(self, late: Mapping[str, Sequence[LateSpan]], now: float) -> list[Rise]:
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
                found.append(Rise("skipped"))
            elif trace_id in offered or standing[trace_id].stratum not in LEFT:
                found.append(Rise("no_rise"))
            else:
                spans = late[trace_id]
                trace = self._read_again(trace_id, row, given.get(trace_id, ()), spans)
                found.append(self._risen(row, standing[trace_id], trace, spans[-1].received_at, now))
        return found

    def _risen(
        self, row: DecidedRow, standing: Decided, trace: RagTrace | None, received_at: float, now: float
    ) -> Rise:
        if trace is None:
            return Rise("payload_gone")
        if trace.outcome not in FAILED_EXECUTION:
            return Rise("not_an_error")
        table = self._decider.table(received_at)
        ground = Ground(Standing(STRATUM, table.probability(STRATUM)), table.epoch, REASON, now)
        ended = standing._replace(outcome=trace.outcome.value)
        return rise(row, ended, ground, self._horizon_seconds, lambda: trace)
