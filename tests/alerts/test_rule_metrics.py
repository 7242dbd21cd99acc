"""A rule on a metric that nobody sends is silent for ever: every name in a rule must be exposed or recorded."""

from __future__ import annotations

import re

import pytest
from prometheus_client.metrics_core import Metric

from groundwatch_alerts.objectives import CRITERIA, AlertsConfig, Objective
from groundwatch_alerts.rule_files import Alert, Recording
from groundwatch_alerts.rule_set import alert_groups, recording_groups
from groundwatch_deploy.reference import every_metric, exposed_name

OBJECTIVES = [Objective(f"o{i}", criterion, 0.05) for i, criterion in enumerate(CRITERIA)]
GROUPS = [*recording_groups(OBJECTIVES), *alert_groups(OBJECTIVES, AlertsConfig())]
RULES = [rule for group in GROUPS for rule in group.rules]
RECORDED = {rule.record for rule in RULES if isinstance(rule, Recording)}
NAME = re.compile(r"\b(?:rag|groundwatch)[a-z_]*(?::\w+)*")


def series(family: Metric) -> set[str]:
    name = exposed_name(family)
    return {name, *(name + end for end in ("_bucket", "_count", "_sum"))} if family.type == "histogram" else {name}


EXPOSED = set().union(*(series(family) for family, _labels in every_metric()))


def names_in(expr: str) -> set[str]:
    return set(NAME.findall(re.sub(r'"[^"]*"', '""', expr)))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.alert if isinstance(rule, Alert) else rule.record)
def test_what_a_rule_reads_is_exposed_or_recorded(rule: Alert | Recording) -> None:
    assert names_in(rule.expr) <= EXPOSED | RECORDED


def test_the_names_of_an_expression_are_found() -> None:
    found = names_in('sum(rate(rag_x_total{app="groundwatch_y"}[1h])) / rag:fail:6h > groundwatch_judge_kappa')
    assert found == {"rag_x_total", "rag:fail:6h", "groundwatch_judge_kappa"}
