"""How much judging late complaints may cause: a chance that is known before they come.

Complaints before a decision are a stratum that the plan of the rates bounds. Late ones come on top. Their chance is
fixed for ten minutes at a time, from what was committed two such spans before: so it depends on no complaint that it
is used for, and weighting by it stays unbiased.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Engine, func, select

from groundwatch_collector.feedback_policy import DAY, FeedbackPolicy
from groundwatch_collector.settling_tables import late_offers
from groundwatch_collector.storage import reader
from groundwatch_collector.tables import sampled_traces

EPOCH_SECONDS = 600
FREE = 20  # late complaints in the window that are never cut: too few to matter
LEAST = 0.01  # of the stratum's own chance: what is always left, so that nothing becomes unknowable
_STATES = ("waiting", "leased", "judged", "unscored")


class Caused(NamedTuple):
    """What was put before the judge in the window, and the late complaints that asked for more."""

    complaints: float  # judged because somebody complained before the decision
    others: float  # judged for any other reason but late complaints
    late: float  # complaints after the decision, judged or not


def late_chance(base: float, share: float, caused: Caused) -> float:
    """The largest chance up to *base* at which all complaints together cause at most *share* of what is judged."""
    if caused.late <= FREE:
        return base
    left = share * (caused.complaints + caused.others) - caused.complaints
    return min(base, max(base * LEAST, left / ((1 - share) * caused.late)))


class LateCap:
    """The chance of late complaints, by time."""

    def __init__(self, engine: Engine, policy: FeedbackPolicy) -> None:
        self._engine = reader(engine)
        self._share = policy.late_share
        self._window = min(DAY, policy.settle_after_seconds)  # settled offers are gone
        self._epoch = -1
        self._caused = Caused(0, 0, 0)

    def chance(self, base: float, now: float) -> tuple[float, str]:
        """The chance of a late complaint that is handled at *now*, and the name of its epoch.

        *base* is what the rate table gives the stratum. Raises what the database raises.
        """
        epoch = int(now // EPOCH_SECONDS)
        if epoch != self._epoch:
            self._caused = self._read((epoch - 1) * EPOCH_SECONDS)
            self._epoch = epoch
        return late_chance(base, self._share, self._caused), f"late-{epoch}"

    def _read(self, until: float) -> Caused:
        queued, fast = sampled_traces.c, sampled_traces.c.family == "fast"
        since = until - self._window
        # The states are named so that the index over them and the time is used.
        query = (
            select(queued.stratum, func.count())
            .where(queued.state.in_(_STATES), queued.queued_at >= since, queued.queued_at < until, fast)
            .group_by(queued.stratum)
        )
        offered = late_offers.c.offered_at
        late = select(func.count()).select_from(late_offers).where(offered >= since, offered < until)
        with self._engine.connect() as connection:
            judged = {stratum: float(count) for stratum, count in connection.execute(query)}
            complaints = judged.pop("feedback_neg", 0.0)
            return Caused(complaints, sum(judged.values()), float(connection.scalar(late) or 0))
