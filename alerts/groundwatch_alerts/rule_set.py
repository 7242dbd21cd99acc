"""All rules of a deployment, made from its objectives."""

from __future__ import annotations

from collections.abc import Sequence

from groundwatch_alerts.alert_rules import application_groups
from groundwatch_alerts.estimate_rules import estimate_group
from groundwatch_alerts.monitor_rules import monitor_groups
from groundwatch_alerts.objectives import WINDOWS, AlertsConfig, Objective
from groundwatch_alerts.rule_files import Group, to_yaml
from groundwatch_alerts.traffic_rules import traffic_groups
from groundwatch_alerts.version_rules import version_group

FAST_WINDOWS, SETTLED_WINDOWS = ("6h", "24h"), ("24h",)
"""Windows that dashboards read; an objective adds its own to the fast ones."""
RECORDING_FILE, ALERTS_FILE = "groundwatch-recording.yaml", "groundwatch-alerts.yaml"
_HEADING = "Written by `groundwatch rules render`; change groundwatch.toml and render again.\n"
_ABOUT = {
    RECORDING_FILE: "Estimates of all traffic from judged traces, and shares of complete counts.",
    ALERTS_FILE: "Alerts on the watched applications and on Groundwatch itself.",
}


def recording_groups(objectives: Sequence[Objective]) -> list[Group]:
    """What alerts and dashboards read."""
    wanted = {*FAST_WINDOWS, *(item.window for item in objectives if item.is_quality)}
    fast = [estimate_group(window) for window in WINDOWS if window in wanted]
    return [*fast, *(estimate_group(window, "settled") for window in SETTLED_WINDOWS), *traffic_groups()]


def alert_groups(objectives: Sequence[Objective], config: AlertsConfig) -> list[Group]:
    """What people are told of."""
    return [*application_groups(objectives, config), version_group(config), *monitor_groups(config)]


def rule_files(objectives: Sequence[Objective], config: AlertsConfig) -> dict[str, str]:
    """Name and text of each rule file of this deployment."""
    groups = {RECORDING_FILE: recording_groups(objectives), ALERTS_FILE: alert_groups(objectives, config)}
    return {name: to_yaml(groups[name], _HEADING + _ABOUT[name]) for name in groups}
