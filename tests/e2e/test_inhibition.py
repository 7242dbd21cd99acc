"""The rendered Alertmanager configuration in a real Alertmanager: what is held back, and that it comes afterwards."""

from __future__ import annotations

import queue
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email import message_from_string, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import httpx
import pytest
from alerting import faster, mailbox, running, until, webhook

from groundwatch_alerts.alertmanager import CONFIG_FILE, alertmanager_files
from groundwatch_alerts.objectives import AlertsConfig, Objective
from groundwatch_alerts.rule_files import Alert
from groundwatch_alerts.rule_set import alert_groups

pytestmark = pytest.mark.service("alertmanager")

OBJECTIVES = [Objective("good", "any_failure", 0.05), Objective("up", "execution", 0.01)]
BURN, QUALITY, CHANGE = "RagExecutionBudgetBurn", "RagFailureRateAboveObjective", "RagQualityChange"
NEVER = '{times: [{start_time: "02:00", end_time: "02:01"}], days_of_month: ["31"], months: ["february"]}'
ALWAYS = '{times: [{start_time: "00:00", end_time: "24:00"}]}'


def labels(name: str, app: str, severity: str) -> dict[str, str]:
    """Those of the rendered rule; what a template fills in is filled in."""
    rules = [rule for group in alert_groups(OBJECTIVES, AlertsConfig()) for rule in group.rules]
    (rule,) = [r for r in rules if isinstance(r, Alert) and (r.alert, r.severity) == (name, severity)]
    fixed = {key: "generation" if "{{" in text else text for key, text in rule.labels.items()}
    return {**fixed, "alertname": name, "app": app, "severity": severity}


@contextmanager
def alertmanager(
    folder: Path, plan: str = NEVER, config: str | None = None
) -> Iterator[tuple[str, queue.Queue[dict[str, Any]]]]:
    """A real one with the rendered files, or another *config*; *plan* are the hours of maintenance."""
    with webhook() as (receiver, messages):
        files = alertmanager_files()
        for name, text in (files if config is None else files | {CONFIG_FILE: config}).items():
            assert name != CONFIG_FILE or NEVER in text
            quick = faster(text, "8s").replace("http://127.0.0.1:9095", receiver)
            (folder / name).write_text(quick.replace(NEVER, plan))
        options = (f"--config.file={folder / CONFIG_FILE}", f"--storage.path={folder / 'am'}")
        with running(folder, "prometheus-alertmanager", *options, "--cluster.listen-address=") as url:
            yield url, messages


def say(url: str, alert: dict[str, str], over: bool = False, **words: str) -> None:
    """Tell Alertmanager of an alert as Prometheus does, and wait until it knows."""
    now = datetime.now(UTC)
    ends = now if over else now + timedelta(minutes=5)
    times = {"startsAt": (now - timedelta(minutes=1)).isoformat(), "endsAt": ends.isoformat()}
    body = [{"labels": alert, "annotations": words, **times}]
    httpx.post(f"{url}/api/v2/alerts", json=body).raise_for_status()
    until(lambda: over != known(url, alert), 10)


def known(url: str, alert: dict[str, str]) -> bool:
    """Whether exactly this alert fires."""
    query = {"filter": [f'{key}="{value}"' for key, value in alert.items()]}
    return bool(httpx.get(f"{url}/api/v2/alerts", params=query).json())


def state(url: str, name: str, app: str, severity: str = ".+") -> dict[str, Any]:
    """What Alertmanager makes of an alert; empty where it does not fire."""
    query = {"filter": [f'alertname="{name}"', f'app="{app}"', f'severity=~"{severity}"']}
    return next((row["status"] for row in httpx.get(f"{url}/api/v2/alerts", params=query).json()), {})


def told(messages: queue.Queue[dict[str, Any]], wanted: set[tuple[str, str]], seconds: float = 20) -> set[Any]:
    """(alert, app) of what people are sent, until all of *wanted* has come."""
    seen: set[tuple[str, str]] = set()

    def arrived() -> bool:
        while not messages.empty():
            message = messages.get()
            firing = [a["labels"] for a in message["alerts"] if a["status"] == "firing"]
            seen.update((a["alertname"], a["app"]) for a in firing)
        return wanted <= seen

    until(arrived, seconds)
    return seen


def test_while_requests_fail_to_be_answered_nobody_is_told_of_their_quality(tmp_path):
    with alertmanager(tmp_path) as (url, messages):
        say(url, labels(BURN, "shop", "page"))
        for app in ("shop", "other"):
            say(url, labels(QUALITY, app, "page"))
            say(url, labels(CHANGE, app, "page"))
        seen = told(messages, {(BURN, "shop"), (QUALITY, "other"), (CHANGE, "other")})
        assert (QUALITY, "shop") not in seen and (CHANGE, "shop") not in seen
        for name in (QUALITY, CHANGE):
            assert state(url, name, "shop")["inhibitedBy"] and not state(url, name, "other")["inhibitedBy"]
        say(url, labels(BURN, "shop", "page"), over=True)
        told(messages, {(QUALITY, "shop"), (CHANGE, "shop")})  # what still holds is told then


def test_a_page_holds_back_the_ticket_of_the_same_alert_and_no_other(tmp_path):
    with alertmanager(tmp_path) as (url, messages):
        say(url, labels(QUALITY, "shop", "page"))
        told(messages, {(QUALITY, "shop")})
        say(url, labels(QUALITY, "shop", "ticket"))
        assert state(url, QUALITY, "shop", "ticket")["inhibitedBy"]
        say(url, labels("RagEstimateBlind", "shop", "ticket"))
        assert told(messages, {("RagEstimateBlind", "shop")}) == {("RagEstimateBlind", "shop")}


def test_a_page_on_one_criterion_leaves_the_ticket_on_another(tmp_path):
    with alertmanager(tmp_path) as (url, _messages):
        say(url, labels(QUALITY, "shop", "page") | {"criterion": "faithfulness"})
        say(url, labels(QUALITY, "shop", "ticket") | {"criterion": "citations"})
        say(url, labels(QUALITY, "shop", "ticket") | {"criterion": "faithfulness"})
        tickets = httpx.get(f"{url}/api/v2/alerts", params={"filter": 'severity="ticket"'}).json()
        held_back = {row["labels"]["criterion"]: bool(row["status"]["inhibitedBy"]) for row in tickets}
        assert held_back == {"faithfulness": True, "citations": False}


def test_what_the_monitor_does_not_count_is_not_called_gone(tmp_path):
    gone = "RagTrafficGone"
    with alertmanager(tmp_path) as (url, _messages):
        say(url, {"alertname": "GroundwatchLogLag", "severity": "ticket"})
        say(url, labels(gone, "shop", "ticket"))
        assert state(url, gone, "shop")["inhibitedBy"]


def mailing(config: str, smarthost: str) -> str:
    """The receiver by mail as the comment in the configuration has it, put to use."""
    words = "".join(f"  {line}\n" for line in re.findall(r"^  # (  (?:email_configs:|  .+))$", config, re.MULTILINE))
    settings = f'smtp_smarthost: "{smarthost}", smtp_from: "groundwatch@shop.example", smtp_require_tls: false'
    return f"global: {{{settings}}}\n" + config.replace("  - name: pages\n", f"  - name: pages\n{words}")


def test_a_mail_says_what_has_ended_and_what_has_not(tmp_path):
    one, other = (labels(QUALITY, "客服", "page") | {"criterion": name} for name in ("faithfulness", "citations"))
    with mailbox() as (smarthost, mails):
        config = mailing(alertmanager_files()[CONFIG_FILE], smarthost)
        with alertmanager(tmp_path, config=config) as (url, _messages):
            say(url, one, summary="7% of the answers of 客服 fail (faithfulness); at most 5% may.")
            say(url, other, summary="9% of the answers of 客服 fail (citations); at most 5% may.")
            until(lambda: mails.qsize() >= 2, 20)
            say(url, one, over=True, summary="7% of the answers of 客服 fail (faithfulness); at most 5% may.")
            last = mail_with(mails, "Over:")
    assert last["Subject"] == "客服: RagFailureRateAboveObjective"  # one still fires
    text = last.get_content().replace("\r\n", "\n")
    assert re.search(
        r"^Over: 7% .+\nSince \w+ \d+ \d\d:\d\d UTC, until \w+ \d+ \d\d:\d\d\nLayer: gen", text, re.MULTILINE
    )
    assert re.search(r"^9% of .+\nSince \w+ \d+ \d\d:\d\d UTC\nLayer: generation\nVersion: ", text, re.MULTILINE)


def mail_with(mails: queue.Queue[str], words: str) -> EmailMessage:
    deadline = time.monotonic() + 20
    while True:
        mail = message_from_string(mails.get(timeout=max(0.1, deadline - time.monotonic())), policy=policy.default)
        assert isinstance(mail, EmailMessage)
        body = mail.get_body(("plain",))
        assert isinstance(body, EmailMessage)
        if words in body.get_content():
            body["Subject"] = str(mail["Subject"])
            return body


def test_in_hours_of_maintenance_tickets_are_sent_and_pages_are_not(tmp_path):
    with alertmanager(tmp_path, ALWAYS) as (url, messages):
        say(url, labels(BURN, "shop", "page"))
        say(url, labels("RagEstimateBlind", "other", "ticket"))
        assert told(messages, {("RagEstimateBlind", "other")}) == {("RagEstimateBlind", "other")}
        until(lambda: state(url, BURN, "shop").get("state") == "active", 10)
        log = (tmp_path / "prometheus-alertmanager.log").read_text()
        assert "err" not in log.replace("err=nil", "")
