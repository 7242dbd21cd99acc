"""The committed dashboards are those of the code, their schema holds, and each names what exists."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from groundwatch_alerts.alert_names import BY_NAME
from groundwatch_alerts.dashboards.grafana import FOLDER, json_of
from groundwatch_alerts.dashboards.panels import BOARDS
from groundwatch_alerts.objectives import CRITERIA, AlertsConfig, Objective
from groundwatch_alerts.rule_files import Alert, Group, Recording, to_yaml
from groundwatch_alerts.rule_set import alert_groups, recording_groups
from groundwatch_deploy.reference import every_metric, exposed_name

PANELS = [(board.uid, panel) for board in BOARDS for panel in board.panels]
IDS = [f"{uid}: {panel.title}" for uid, panel in PANELS]


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_the_committed_file_is_what_the_code_makes(board):
    assert (FOLDER / f"{board.uid}.json").read_text() == json_of(board), (
        "run: python -m groundwatch_alerts.dashboards.grafana"
    )


def test_no_file_is_left_over():
    assert {path.stem for path in FOLDER.glob("*.json")} == {board.uid for board in BOARDS}


def _keys(value: object, path: str = "") -> set[str]:
    if isinstance(value, dict):
        return {f"{path}/{k}" for k in value}.union(*(_keys(v, f"{path}/{k}") for k, v in value.items()))
    if isinstance(value, list):
        return set().union(*(_keys(v, path) for v in value))
    return set()


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_the_schema_knows_every_key(board):
    written = json.loads((FOLDER / f"{board.uid}.json").read_text())
    read = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(written)))
    assert _keys(written) - _keys(read) == set()


def test_the_schema_test_finds_a_key_that_grafana_does_not_know():
    written = json.loads((FOLDER / "groundwatch-cost.json").read_text())
    written["panels"][0]["fieldConfig"]["defaults"]["unti"] = "s"
    read = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(written)))
    assert _keys(written) - _keys(read) == {"/panels/fieldConfig/defaults/unti"}


@pytest.mark.parametrize(("uid", "panel"), PANELS, ids=IDS)
def test_a_panel_says_what_to_do_and_leads_on(uid, panel):
    assert panel.title[0].isupper()
    assert len(panel.description) > 25 and panel.description.endswith(".")
    assert panel.runbook == "" or panel.runbook in BY_NAME
    assert panel.page.startswith("/")
    assert len({query.legend for query in panel.every_query}) == len(panel.every_query)


def test_every_metric_of_a_panel_is_exposed_or_recorded():
    recorded = {rule.record for group in recording_groups([]) for rule in group.rules if isinstance(rule, Recording)}
    exposed = {exposed_name(family) for family, _labels in every_metric()}
    for _uid, panel in PANELS:
        for query in panel.every_query:
            for name in re.findall(r"\b(?:rag|groundwatch)_[a-z_]+\b(?!:)|\brag:\w+:\w+", query.expr):
                assert name in recorded or name.removesuffix("_bucket") in exposed, (panel.title, name)


def test_alerts_link_to_dashboards_that_exist():
    uids = {board.uid for board in BOARDS}
    config = AlertsConfig(dashboard_url="https://grafana.example")
    targets = {"latency": 4.0, "first_token": 1.0, "cost": 0.02}
    promises = [Objective(name, name, targets.get(name, 0.05), app="shop") for name in CRITERIA]
    for group in alert_groups(promises, config):
        for rule in group.rules:
            if isinstance(rule, Alert):
                about_application = BY_NAME[rule.alert].about == "application"
                link = urlsplit(rule.annotations["dashboard_url"])
                assert link.path.removeprefix("/d/") in uids, rule.alert
                assert link.query == ("var-app={{ $labels.app | urlquery }}" if about_application else ""), rule.alert
                assert ("traces_url" in rule.annotations) == about_application, rule.alert


@pytest.mark.service("prometheus")
def test_prometheus_parses_every_query(tmp_path):
    rules = [
        Recording(f"panel:q{index}:x", plain(query.expr))
        for index, query in enumerate(query for _uid, panel in PANELS for query in panel.every_query)
    ]
    path: Path = tmp_path / "rules.yaml"
    path.write_text(to_yaml([Group("panels", rules)]))
    promtool = shutil.which("promtool")
    assert promtool is not None
    done = subprocess.run([promtool, "check", "rules", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def plain(expr: str) -> str:
    """The query with Grafana's variables filled in: every value, and five minutes."""
    return re.sub(r"\$(app|criterion|judge)\b", ".*", expr.replace("$__rate_interval", "5m"))
