"""Every alert that Groundwatch ships: its name, who is woken, and what it means in one line.

The rules, the runbooks (``docs/runbooks/NAME.md``) and the documentation are tested against this list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Severity = Literal["page", "ticket"]
"""``page`` wakes a person: users are hurt now. ``ticket`` waits for working hours."""


@dataclass(frozen=True, slots=True)
class AlertName:
    name: str
    severity: Severity  # quality alerts that page open only a ticket while their baseline is being learnt
    meaning: str
    about: Literal["application", "monitor"]


def _application(name: str, severity: Severity, meaning: str) -> AlertName:
    return AlertName(name, severity, meaning, "application")


def _monitor(name: str, severity: Severity, meaning: str) -> AlertName:
    return AlertName(name, severity, meaning, "monitor")


ALERTS = (
    _application("RagFailureRateAboveObjective", "page", "More answers fail a criterion than its objective allows"),
    _application(
        "RagWrongRefusals", "page", "Refusals are wrong more often than allowed: declined or answered amiss"
    ),
    _application("RagQualityChange", "page", "Answers fail more often than in the frozen baseline"),
    _application("RagVersionWorse", "page", "The newest version fails more often than the one before it"),
    _application("RagExecutionBudgetBurn", "page", "Errors or timeouts use up their budget within days"),
    _application("RagExecutionBudgetBurnSlow", "ticket", "Errors or timeouts use up their budget before its time"),
    _application("RagLatencyAboveObjective", "ticket", "Answers take longer than the objective"),
    _application(
        "RagFirstTokenAboveObjective", "ticket", "The first word of an answer comes later than the objective"
    ),
    _application("RagCostAboveObjective", "ticket", "An answer costs more than the objective"),
    _application(
        "RagRefusalShareChanged", "ticket", "The app refuses a clearly larger share of requests than last week"
    ),
    _application("RagRetrievalEmpty", "page", "Retrieval finds nothing for far more requests than last week"),
    _application("RagMixShift", "ticket", "The mix of traffic differs from last week, whatever its quality"),
    _application(
        "RagTrafficGone", "ticket", "No request was counted for an hour in which there are many on other days"
    ),
    _application("RagEstimateBlind", "ticket", "Too little is judged to say whether the objective is met"),
    _monitor("GroundwatchAbsent", "page", "The monitor sends no metrics: nobody would be told of bad answers"),
    _monitor("GroundwatchExportedTwice", "ticket", "Two processes export the same sums: figures count double"),
    _monitor("GroundwatchCollectorDropping", "ticket", "Traces are refused, lost or unreadable"),
    _monitor("GroundwatchLogLag", "ticket", "Received traces wait in the span log and are not counted yet"),
    _monitor("GroundwatchJudgeBacklogOld", "ticket", "Sampled traces wait long for their verdict"),
    _monitor("GroundwatchJudgeUnavailable", "ticket", "A judge gives no verdict for many traces"),
    _monitor("GroundwatchJudgeOverBudget", "ticket", "A judge stopped because its money for the day is spent"),
    _monitor("GroundwatchJudgeDrift", "ticket", "A judge agrees with people less than kappa 0.7"),
    _monitor("GroundwatchJudgeUnstable", "ticket", "A judge contradicts itself when it reads the same trace again"),
    _monitor("GroundwatchFeedbackBurst", "ticket", "Complaints come faster than people make them"),
    _monitor("GroundwatchFeedbackWithoutToken", "ticket", "Feedback is refused for its token"),
    _monitor("GroundwatchLabelOverflow", "ticket", "Label values share __other__: their figures are mixed"),
)

BY_NAME: Mapping[str, AlertName] = {alert.name: alert for alert in ALERTS}


def runbook(name: str) -> str:
    """Path of an alert's runbook in the documentation."""
    return f"runbooks/{name}.md"
