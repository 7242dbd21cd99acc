"""Which objectives are missed, and which nobody can speak of: what the alerts say, without Prometheus.

The conditions are those of the rendered rules: the same estimate, the same score, the same verdicts that are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Engine

from groundwatch_alerts import tallies
from groundwatch_alerts.alert_rules import MIN_JUDGED_SHARE
from groundwatch_alerts.estimator import Estimate, estimate
from groundwatch_alerts.objectives import AlertsConfig, Objective, covering

from .overview import Figure, figure


@dataclass(frozen=True, slots=True)
class ObjectiveLine:
    objective: Objective
    figure: Figure | None
    state: str  # missed | blind | kept | elsewhere
    said: str


@dataclass(frozen=True, slots=True)
class AlertsPage:
    app: str
    judge: str
    lines: tuple[ObjectiveLine, ...]

    @property
    def sentence(self) -> tuple[str, str]:
        """(sentence, tone) at the top of the page."""
        counts = {state: sum(line.state == state for line in self.lines) for state in ("missed", "blind", "kept")}
        if not any(counts.values()):
            return "No objective is set for judged answers.", "unknown"
        if counts["missed"]:
            return f"{_number(counts['missed'])} missed, {counts['blind']} cannot be told.", "bad"
        if counts["blind"]:
            return (
                f"No objective is seen to be missed, but {_number(counts['blind']).lower()} cannot be told.",
                "unknown",
            )
        return "No objective is seen to be missed.", "good"


def _number(count: int) -> str:
    return "1 objective" if count == 1 else f"{count} objectives"


def read(
    engine: Engine, app: str, judge: str, objectives: Sequence[Objective], *, config: AlertsConfig, now: float
) -> AlertsPage:
    """Every objective that holds for *app*, over its own window; *judge* where it names none."""
    lines = tuple(
        _line(engine, app, item, item.judge or judge, config=config, now=now) for item in covering(objectives, app)
    )
    return AlertsPage(app, judge, lines)


def _line(
    engine: Engine, app: str, item: Objective, judge: str, *, config: AlertsConfig, now: float
) -> ObjectiveLine:
    if not item.is_quality:
        return ObjectiveLine(item, None, "elsewhere", "a complete count: watched by Prometheus")
    since = now - 3600 * item.hours
    found = estimate(tallies.sums(engine, app=app, criterion=item.criterion, judge=judge, since=since))
    state, said = _state(found, item, config)
    return ObjectiveLine(item, figure(found), state, said)


def _state(found: Estimate | None, item: Objective, config: AlertsConfig) -> tuple[str, str]:
    judged = 0 if found is None else found.judged
    if found is None or judged < config.min_judged:
        return "blind", f"cannot be told: {judged} judged, {config.min_judged} are needed"
    if found.judged_share <= MIN_JUDGED_SHARE:
        return "blind", f"cannot be told: {1 - found.judged_share:.0%} of the traffic has no verdict"
    if found.score(item.objective) > item.z:
        return "missed", "missed, by more than chance explains"
    return "kept", "not seen to be missed"
