"""The rate as a second judge or people would have it, beside the first judge's: what the overview shows of it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Engine

from groundwatch_alerts import corrected_rows
from groundwatch_alerts.corrected import Corrected
from groundwatch_alerts.corrected_metrics import WINDOW_SECONDS


@dataclass(frozen=True, slots=True)
class SecondSight:
    """A corrected rate with its interval, or in ``said`` why there is none."""

    second: str  # whose verdicts: a judge's identifier, or "people"
    labels: int
    days: float  # the window that it is of
    rate: float | None = None
    low: float | None = None
    high: float | None = None
    said: str = ""


def read(
    engine: Engine, *, app: str, criterion: str, judge: str, since: float | None, now: float
) -> tuple[SecondSight, ...]:
    """What everyone who read again says of the last 7 days, or of less where *since* is later."""
    begun = max(since or 0.0, now - WINDOW_SECONDS)
    asked = corrected_rows.seconds(corrected_rows.second_judges(engine), engine)
    return tuple(
        _one(engine, second, app=app, criterion=criterion, judge=judge, since=begun, days=(now - begun) / 86_400)
        for second in asked
        if second != judge
    )


def _one(
    engine: Engine, second: str, *, app: str, criterion: str, judge: str, since: float, days: float
) -> SecondSight:
    found = corrected_rows.read(engine, app=app, judge=judge, second=second, since=since, criterion=criterion)
    if isinstance(found, Corrected):
        return SecondSight(second, found.labels, days, found.rate, found.low, found.high)
    return SecondSight(second, found.labels, days, said=found.said)
