"""How much judging complaints may cause: a chance that is known before they come.

It is fixed for ten minutes at a time, from what was committed two such spans before: so it depends on no complaint
that it is used for, and weighting by it stays unbiased. Where rates are planned, complaints before the decision are a
stratum that the plan bounds, and this is for late ones; where they are fixed it is for both.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, Engine, func, select

from groundwatch_collector.feedback_policy import DAY, HOUR, FeedbackPolicy
from groundwatch_collector.settling_tables import late_offers, settling_tally
from groundwatch_collector.storage import reader
from groundwatch_collector.tables import sampled_traces

EPOCH_SECONDS = 600
FREE = 20  # complaints in the window that may always be judged: too few to matter
LEAST = 0.01  # what is always left of the chance, so that nothing becomes unknowable
SPREAD = 4  # parts of the window: what is left is spent at the rate at which it would last for one of them
COMPLAINT = "feedback_neg"
_STATES = ("waiting", "leased", "judged", "unscored")


class Caused(NamedTuple):
    """What was put before the judge in the window, and what complaints asked for."""

    complaints: float  # judged because somebody complained, before the decision or after it
    others: float  # judged for any other reason
    asked: float  # traces that were complained of in the window, judged or not
    asked_lately: float  # likewise, while what is left would be spent


def largest_chance(share: float, caused: Caused) -> float:
    """The largest chance at which complaints go on causing at most *share* of what is judged.

    It follows what they have caused, not how many they are: a flood that begins has a day's worth behind it at once,
    and a chance for the flood alone would let it have that once more for each time that it doubles.
    """
    if caused.asked <= FREE:
        return 1.0
    left = max(FREE, share / (1 - share) * caused.others) - caused.complaints
    return min(1.0, max(LEAST, left / max(1.0, caused.asked_lately)))


class ComplaintCap:
    """The largest chance of complaints, by time. Not for use by several threads at a time."""

    def __init__(self, engine: Engine, policy: FeedbackPolicy) -> None:
        self._engine = reader(engine)
        self._share = policy.late_share
        self._window = min(DAY, policy.settle_after_seconds)  # what is settled is gone
        self._epoch = -1
        self._chance = 1.0

    def chance(self, now: float) -> tuple[float, int]:
        """The largest chance of a complaint that is handled at *now*, and the number of its epoch.

        Raises what the database raises.
        """
        epoch = int(now // EPOCH_SECONDS)
        if epoch != self._epoch:
            self._chance = largest_chance(self._share, self._read((epoch - 1) * EPOCH_SECONDS))
            self._epoch = epoch
        return self._chance, epoch

    def _read(self, until: float) -> Caused:
        queued = sampled_traces.c
        since, spread = until - self._window, max(HOUR, self._window / SPREAD)
        # The states are named so that the index over them and the time is used.
        query = (
            select(queued.stratum, func.count())
            .where(queued.state.in_(_STATES), queued.queued_at >= since, queued.queued_at < until)
            .group_by(queued.stratum)
        )
        with self._engine.connect() as connection:
            judged = {stratum: float(count) for stratum, count in connection.execute(query)}
            return Caused(
                complaints=judged.pop(COMPLAINT, 0.0),
                others=sum(judged.values()),
                asked=_asked(connection, since, until),
                asked_lately=_asked(connection, until - HOUR, until) * spread / HOUR,
            )


def _asked(connection: Connection, since: float, until: float) -> float:
    """Traces that were complained of: before their decision, by when they were decided; or after it."""
    tally, offers = settling_tally.c, late_offers.c
    decided = select(func.coalesce(func.sum(tally.received), 0)).where(
        tally.settle_bucket >= since, tally.settle_bucket < until, tally.stratum == COMPLAINT
    )
    late = select(func.count()).where(
        offers.offered_at >= since, offers.offered_at < until, offers.stratum == COMPLAINT
    )
    return float(connection.scalar(decided) or 0) + float(connection.scalar(late) or 0)
