"""Which objectives are missed, and which nobody can speak of: what the alerts say, without Prometheus.

The conditions are those of the rendered rules: the same estimate, the same score, the same verdicts that are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Engine

from groundwatch_alerts import tallies
from groundwatch_alerts.alert_names import ALERTS, AlertName
from groundwatch_alerts.alert_rules import MIN_JUDGED_SHARE
from groundwatch_alerts.estimator import Estimate, estimate
from groundwatch_alerts.objectives import AlertsConfig, Objective, covering

from .formats import percent
from .overview import Figure, figure

_OF_OBJECTIVES = {
    "RagFailureRateAboveObjective",
    "RagWrongRefusals",
    "RagEstimateBlind",
    "RagExecutionBudgetBurn",
    "RagExecutionBudgetBurnSlow",
    "RagLatencyAboveObjective",
    "RagFirstTokenAboveObjective",
    "RagCostAboveObjective",
}


@dataclass(frozen=True, slots=True)
class ObjectiveLine:
    objective: Objective
    figure: Figure | None
    state: str  # missed | blind | kept | elsewhere
    said: str

    @property
    def limit(self) -> str:
        """What the objective allows, in its own unit."""
        if self.objective.criterion in ("latency", "first_token"):
            return f"{self.objective.objective:g} s at {self.objective.quantile:.0%}"
        return (
            f"${self.objective.objective:g}"
            if self.objective.criterion == "cost"
            else percent(self.objective.objective)
        )


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
            beside = f"; {self._elsewhere} watched by Prometheus alone" if self._elsewhere else ""
            return f"No objective is set for judged answers{beside}.", "unknown"
        if counts["missed"]:
            return f"{_number(counts['missed'])} missed, {counts['blind']} cannot be told.", "bad"
        if counts["blind"]:
            return (
                f"No objective is seen to be missed, but {_number(counts['blind']).lower()} cannot be told.",
                "unknown",
            )
        beside = f" {self._elsewhere} watched by Prometheus alone and not told here." if self._elsewhere else ""
        return f"No objective on judged answers is seen to be missed.{beside}", "good"

    @property
    def _elsewhere(self) -> str:
        count = sum(line.state == "elsewhere" for line in self.lines)
        return f"{_number(count)} {'is' if count == 1 else 'are'}" if count else ""

    @property
    def only_prometheus(self) -> tuple[AlertName, ...]:
        """Alerts that need no objective, which this page does not evaluate."""
        return tuple(alert for alert in ALERTS if alert.name not in _OF_OBJECTIVES)


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
        return ObjectiveLine(item, None, "elsewhere", "not told here: watched by Prometheus alone")
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
    if found.score(item.objective) > item.z(found.judged):
        return "missed", "missed, by more than chance explains"
    return "kept", "not seen to be missed"
