"""From a bad answer to the message that a person reads: monitor, real Prometheus, real Alertmanager, webhook.

Rules and configuration are those that `groundwatch rules render` writes. Only their time runs faster.
"""

from __future__ import annotations

import json
import queue
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import torture
from alerting import until, watching, webhook

from groundwatch_alerts.alertmanager import TEMPLATE_FILE, alertmanager_files
from groundwatch_alerts.objectives import AlertsConfig, Objective
from groundwatch_alerts.rule_set import rule_files
from groundwatch_deploy.serve import Monitor
from groundwatch_deploy.settings import load

pytestmark = [pytest.mark.service("prometheus"), pytest.mark.service("alertmanager")]

OBJECTIVE = Objective("good-answers", "any_failure", 0.05, app="torture", window="1h")
CONFIG = AlertsConfig(min_judged=10, runbook_url="https://wiki.example/runbooks")


def ask_for_answers(url: str, first: int, bad: bool) -> None:
    ids = [f"{first:016x}{number:016x}" for number in range(1, 41)]
    body = torture.body(ids)
    if bad:  # the document says 30
        body = body.replace(b"kept for 30 days [1]", b"kept for 90 days [1]")
    httpx.post(
        f"{url}/v1/traces", content=body, headers={"content-type": "application/x-protobuf"}
    ).raise_for_status()


def rendered(folder: Path, message: dict[str, Any], template: str) -> str:
    data = folder / "message.json"
    data.write_text(json.dumps(message))
    words = ["amtool", "template", "render", f"--template.glob={folder / TEMPLATE_FILE}", f"--template.data={data}"]
    text = f'{{{{ template "{template}" . }}}}'
    return subprocess.run([*words, f"--template.text={text}"], capture_output=True, text=True, check=True).stdout


def test_bad_answers_reach_a_person_and_their_end_does_too(tmp_path):
    settings = load(None, data_directory=tmp_path / "data", ingest_port=0, console_port=0, metrics_port=0)
    everything = dict.fromkeys(settings.decide.rates, 1.0)
    decide = replace(settings.decide, rates=everything, grace_seconds=0.05, idle_seconds=0.2)
    settings = replace(settings, decide=decide, objectives=(OBJECTIVE,), alerts=CONFIG)
    with webhook() as (receiver, messages), Monitor(settings) as monitor:
        addresses = monitor.start()
        ask_for_answers(addresses.ingest, 1_000, bad=False)
        files = {**rule_files([OBJECTIVE], CONFIG), **alertmanager_files()}
        slow = {"window": "12s", "scrape": "2s"}  # on a busy machine a scrape takes more than half a second
        with watching(tmp_path, files, [addresses.metrics], receiver, **slow) as (prometheus, _alertmanager):
            query = {"query": 'sum(rag_judged_total{criterion="any_failure"})'}
            until(lambda: httpx.get(f"{prometheus}/api/v1/query", params=query).json()["data"]["result"], 60)
            for second in range(4):
                ask_for_answers(addresses.ingest, 2_000 + second, bad=True)
                time.sleep(0.5)
            firing, resolved = about_quality(messages, "firing"), about_quality(messages, "resolved")
    (alert,) = firing["alerts"]
    assert alert["labels"]["app"] == "torture" and alert["labels"]["severity"] == "ticket"  # no baseline yet
    assert alert["labels"]["version"] == "1" and alert["labels"]["fault_layer"] == "generation"
    title, text = (rendered(tmp_path, firing, f"groundwatch.{part}") for part in ("title", "text"))
    assert title.strip() == "torture: RagFailureRateAboveObjective"
    assert "of the answers of torture fail (any_failure); at most 5% may." in text and "\nSince " in text
    assert "Do now: https://wiki.example/runbooks/RagFailureRateAboveObjective.md" in text
    assert "/traces?app=torture&window=24h&sort=worst&verdict=fail&criterion=any_failure" in text
    assert "{{" not in text and "<no value>" not in text and len(text) < 500
    assert rendered(tmp_path, resolved, "groundwatch.title").startswith("Over: torture")


def about_quality(messages: queue.Queue[dict[str, Any]], status: str) -> dict[str, Any]:
    """The first message of this status about the objective."""
    deadline = time.monotonic() + 60
    while True:
        message = messages.get(timeout=max(0.1, deadline - time.monotonic()))
        names = {alert["labels"]["alertname"] for alert in message["alerts"]}
        if message["status"] == status and names == {"RagFailureRateAboveObjective"}:
            return message
