"""Every alert has a runbook of one screen, and what a runbook names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from groundwatch_alerts.alert_names import ALERTS, runbook
from groundwatch_deploy.cli import _parser
from groundwatch_deploy.reference import every_metric, exposed_name

DOCS = Path(__file__).resolve().parents[2] / "docs"
FOLDER = DOCS / "runbooks"
HEADINGS = ["Meaning", "Impact", "Do now", "Diagnosis", "Mitigation"]
ONE_SCREEN = 62  # lines
PAGES = sorted(FOLDER.glob("*.md"))


def test_each_alert_has_one_page_and_no_page_is_left_over():
    wanted = {Path(runbook(alert.name)).name for alert in ALERTS} | {"README.md"}
    assert {page.name for page in PAGES} == wanted


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_a_page_has_its_headings_in_order_and_fits_one_screen(alert):
    text = (DOCS / runbook(alert.name)).read_text()
    assert text.startswith(f"# {alert.name}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
    sections = re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]
    assert all(section.strip() for section in sections)
    assert len(text.splitlines()) <= ONE_SCREEN
    assert re.search(r"^1\. ", sections[2], re.MULTILINE), "what to do now is a list of steps"


def test_the_index_says_of_each_alert_what_the_list_says():
    index = (FOLDER / "README.md").read_text()
    for alert in ALERTS:
        assert f"| [{alert.name}]({alert.name}.md) | {alert.severity} | {alert.meaning} |" in index


@pytest.mark.parametrize("name", ["RagFailureRateAboveObjective", "RagQualityChange", "RagVersionWorse"])
def test_quality_alerts_show_which_layer_to_look_at_first(name):
    rows = re.findall(r"^\s*\| (low|high) \| (low|high) \| (\w+)", (FOLDER / f"{name}.md").read_text(), re.MULTILINE)
    first = {(recall, faithful): layer for recall, faithful, layer in rows}
    assert first["low", "high"] == "retrieval"
    assert first["high", "low"] == "generation"
    assert first["low", "low"] == "retrieval"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_commands_and_metrics_of_a_page_exist(page):
    text = page.read_text()
    for target in re.findall(r"\]\((?!http)([^)#]+)", text):
        assert (page.parent / target).exists(), target
    commands = next(a.choices for a in _parser()._actions if a.choices)
    for command in re.findall(r"`groundwatch (\w+)", text):
        assert command in commands, command
    exposed = {exposed_name(family) for family, _labels in every_metric()} if "_" in text else set()
    for metric in re.findall(r"\b((?:rag|groundwatch)_[a-z_]+)\b(?!\.)", text):
        assert metric.removesuffix("_count") in exposed, metric
