"""The alert on a new version that fails more often than the one before it."""

from __future__ import annotations

import math

from groundwatch_alerts.alert_names import BY_NAME
from groundwatch_alerts.alert_rules import Wording
from groundwatch_alerts.objectives import AlertsConfig
from groundwatch_alerts.rule_files import Alert, Group
from groundwatch_alerts.version_comparison import ALPHA
from groundwatch_alerts.version_metrics import CRITERIA

ENOUGH_EVIDENCE = round(math.log(len(CRITERIA) / ALPHA), 4)
"""All criteria of one deploy together call equal versions different at most once in 1 / ALPHA deploys."""
_PAIR = "and on (app, criterion, version, against) max by (app, criterion, version, against)"


def version_group(config: AlertsConfig) -> Group:
    name = "RagVersionWorse"
    query = {"app": "app", "a": "against", "b": "version"}
    page = "/versions?" + "&".join(f"{key}={{{{ $labels.{label} | urlquery }}}}" for key, label in query.items())
    return Group(
        "groundwatch-versions",
        [
            Alert(
                name,
                "max by (app, criterion, version, against) (rag_version_difference)\n"
                f"{_PAIR} (rag_version_log_e) > {ENOUGH_EVIDENCE}\n{_PAIR} (rag_version_difference_low) > 0\n"
                "and on (app, version, against) rag_version_served == 1",
                BY_NAME[name].severity,
                summary=(
                    "Version {{ $labels.version }} of {{ $labels.app }} fails more often than {{ $labels.against }} "
                    "({{ $labels.criterion }})."
                ),
                description=(
                    "By {{ $value | humanizePercentage }} of all its answers, estimated from judged traces; sure "
                    "enough to act, however often it was looked at. Stop the rollout or roll back, then compare "
                    "the worst traces of both. Two hours after a rollback the alert ends."
                ),
                pending="5m",
                keep_firing="30m",
                annotations=Wording(config).links(name, page, "groundwatch-versions"),
            )
        ],
    )
