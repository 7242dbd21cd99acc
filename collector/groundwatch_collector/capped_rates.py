"""Fixed rates, with a bound on what complaints may cause."""

from __future__ import annotations

from sqlalchemy import Engine

from groundwatch_collector import rate_table_store
from groundwatch_collector.feedback_cap import COMPLAINT, EPOCH_SECONDS, ComplaintCap
from groundwatch_collector.sampling import RateTable

UNPLANNED = ""
"""In the place of a version of cuts: no plan made this table."""


class CappedRates:
    """One table for ever, but for complaints: their chance falls where they would cause more than their share.

    An epoch in which it falls has a table of its own, which is durable before it is used; all others have the one.
    """

    def __init__(self, engine: Engine, fixed: RateTable, cap: ComplaintCap) -> None:
        self._engine = engine
        self._fixed = fixed
        self._cap = cap
        self._past = rate_table_store.PastTables(self._read)
        self._start = -1
        self.current: RateTable = fixed  # also before the first `prepare`

    def prepare(self, now: float) -> None:
        """Make sure of the table of the epoch of *now*. Raises what the database raises."""
        start = _epoch_start(now)
        if start != self._start:
            self.current = self._read(start) or self._capped(start, now) or self._fixed
            self._start = start

    def table(self, started_at: float) -> RateTable:
        """The table of the epoch in which a trace started."""
        start = _epoch_start(started_at)
        return self.current if start >= self._start else self._past.table(start, self._fixed)

    def _epoch_id(self, start: int) -> str:
        return f"e{start}-{self._fixed.epoch}"

    def _read(self, start: int) -> RateTable | None:
        row = rate_table_store.row(self._engine, self._epoch_id(start))
        return rate_table_store.table_of(row) if row is not None else None

    def _capped(self, start: int, now: float) -> RateTable | None:
        usual = self._fixed.probability(COMPLAINT)
        most, _ = self._cap.chance(now)
        if most >= usual:
            return None
        values = {
            "epoch": self._epoch_id(start),
            "start": start,
            "epoch_seconds": EPOCH_SECONDS,
            "salt_version": self._fixed.salt_version,
            "cuts_version": UNPLANNED,  # the name of the fixed table, which is part of this one's, has them
            "rates": {**self._fixed.rates, COMPLAINT: most},
            "why": {"usual": usual},
            "planned_at": now,
        }
        return rate_table_store.table_of(rate_table_store.write(self._engine, values))


def _epoch_start(at: float) -> int:
    return int(at // EPOCH_SECONDS) * EPOCH_SECONDS
