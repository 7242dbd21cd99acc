"""The alerts on feedback, evaluated by Prometheus' own promtool."""

from __future__ import annotations

import importlib.resources
import json
import shutil
import subprocess
from pathlib import Path

import pytest

RULES = Path(str(importlib.resources.files("groundwatch_alerts") / "rules" / "feedback.yaml"))


def fires(alert: str, at: str, **labels: str) -> dict[str, object]:
    return {"eval_time": at, "alertname": alert, "exp_alerts": [{"exp_labels": {"severity": "ticket", **labels}}]}


def quiet(alert: str, at: str) -> dict[str, object]:
    return {"eval_time": at, "alertname": alert, "exp_alerts": []}


@pytest.mark.service("prometheus")
def test_a_burst_and_a_wrong_key_fire_and_calm_does_not(tmp_path):
    burst, token = "GroundwatchFeedbackBurst", "GroundwatchFeedbackWithoutToken"
    cases = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": 'groundwatch_feedback_quarantined_total{bound="subject"}', "values": "0x20 9000x40"},
                    {"series": 'groundwatch_feedback_quarantined_total{bound="app"}', "values": "0x60"},
                    {"series": 'groundwatch_rejected_requests_total{reason="feedback_token"}', "values": "0+5x60"},
                    {"series": 'groundwatch_rejected_requests_total{reason="busy"}', "values": "0+50x60"},
                ],
                "alert_rule_test": [
                    quiet(burst, "15m"), fires(burst, "25m", bound="subject"), quiet(burst, "40m"),
                    quiet(token, "8m"), fires(token, "40m"),
                ],
            }
        ],
    }  # fmt: skip
    for case in cases["tests"][0]["alert_rule_test"]:  # type: ignore[index]
        for expected in case["exp_alerts"]:
            expected["exp_annotations"] = {"summary": summary(case["alertname"])}
    path = tmp_path / "feedback.json"
    path.write_text(json.dumps(cases))
    done = subprocess.run(
        [shutil.which("promtool") or "promtool", "test", "rules", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def summary(alert: str) -> str:
    lines = RULES.read_text().split(f"- alert: {alert}\n")[1].splitlines()
    return next(line.split("summary: ", 1)[1] for line in lines if "summary: " in line)
