"""From a bad answer to the message that a person reads: monitor, real Prometheus, real Alertmanager, webhook.

Rules and configuration are those that `groundwatch rules render` writes. Only their time runs faster.
"""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import torture

from groundwatch_alerts.alertmanager import CONFIG_FILE, TEMPLATE_FILE, alertmanager_files
from groundwatch_alerts.objectives import AlertsConfig, Objective
from groundwatch_alerts.rule_set import rule_files
from groundwatch_deploy.serve import Monitor
from groundwatch_deploy.settings import load

pytestmark = [pytest.mark.service("prometheus"), pytest.mark.service("alertmanager")]

OBJECTIVE = Objective("good-answers", "any_failure", 0.05, app="torture", window="1h")
CONFIG = AlertsConfig(min_judged=10, runbook_url="https://wiki.example/runbooks")
FASTER = {
    "interval: 1m": "interval: 500ms",
    "interval: 5m": "interval: 500ms",
    "[1h]": "[8s]",
    "[6h]": "[8s]",
    "for: 5m": "for: 1s",
    "keep_firing_for: 1h": "keep_firing_for: 1s",
    "group_wait: 30s": "group_wait: 0s",
    "group_interval: 5m": "group_interval: 1s",
}


def faster(text: str) -> str:
    for usual, quick in FASTER.items():
        text = text.replace(usual, quick)
    return text


@contextmanager
def webhook() -> Iterator[tuple[str, queue.Queue[dict[str, Any]]]]:
    """Address of a receiver, and what it was sent."""
    messages: queue.Queue[dict[str, Any]] = queue.Queue()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            messages.put(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: what was sent is in the queue."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", messages
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def running(folder: Path, name: str, *options: str) -> Iterator[str]:
    """A program of Prometheus; yields its URL once it is ready."""
    port = torture.free_port()
    program = shutil.which(name) or shutil.which(name.removeprefix("prometheus-")) or name
    with (folder / f"{name}.log").open("wb") as log:
        command = [program, *options, f"--web.listen-address=127.0.0.1:{port}"]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        until(lambda: answers(f"{url}/-/ready"), 30)
        yield url
    finally:
        process.terminate()
        process.wait(10)


def answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False


def until(condition: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.1)


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
        for name, text in files.items():
            (tmp_path / name).write_text(faster(text).replace("http://127.0.0.1:9095", receiver))
        manager = (f"--config.file={tmp_path / CONFIG_FILE}", f"--storage.path={tmp_path / 'am'}")
        with running(tmp_path, "prometheus-alertmanager", *manager, "--cluster.listen-address=") as alertmanager:
            config = tmp_path / "prometheus.yml"
            config.write_text(prometheus_config(tmp_path, addresses.metrics, alertmanager))
            # Prometheus knows its Alertmanager only some seconds after its start: what fired before is sent again.
            options = (f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}")
            with running(tmp_path, "prometheus", *options, "--rules.alert.resend-delay=1s") as prometheus:
                query = {"query": 'sum(rag_judged_total{criterion="any_failure"})'}
                until(lambda: httpx.get(f"{prometheus}/api/v1/query", params=query).json()["data"]["result"], 20)
                for second in range(4):
                    ask_for_answers(addresses.ingest, 2_000 + second, bad=True)
                    time.sleep(0.5)
                firing, resolved = about_quality(messages, "firing"), about_quality(messages, "resolved")
    (alert,) = firing["alerts"]
    assert alert["labels"]["app"] == "torture" and alert["labels"]["severity"] == "ticket"  # no baseline yet
    assert alert["labels"]["version"] == "1" and alert["labels"]["fault_layer"] == "generation"
    title, text = (rendered(tmp_path, firing, f"groundwatch.{part}") for part in ("title", "text"))
    assert title.strip() == "torture: RagFailureRateAboveObjective"
    assert "of the answers of torture fail (any_failure); at most 5.0% may." in text
    assert "Do now: https://wiki.example/runbooks/RagFailureRateAboveObjective.md" in text
    assert "/traces?app=torture&window=24h&sort=worst&verdict=fail" in text
    assert "{{" not in text and "<no value>" not in text and len(text) < 500
    assert rendered(tmp_path, resolved, "groundwatch.title").startswith("Over: torture")


def prometheus_config(folder: Path, metrics: str, alertmanager: str) -> str:
    rules = "".join(f"  - {folder / name}\n" for name in rule_files([OBJECTIVE], CONFIG))
    target, manager = metrics.removeprefix("http://"), alertmanager.removeprefix("http://")
    return (
        "global: {scrape_interval: 500ms, evaluation_interval: 500ms}\n"
        f"rule_files:\n{rules}"
        f"scrape_configs:\n- job_name: groundwatch\n  static_configs: [{{targets: ['{target}']}}]\n"
        f"alerting:\n  alertmanagers:\n  - static_configs: [{{targets: ['{manager}']}}]\n"
    )


def about_quality(messages: queue.Queue[dict[str, Any]], status: str) -> dict[str, Any]:
    """The first message of this status about the objective."""
    deadline = time.monotonic() + 60
    while True:
        message = messages.get(timeout=max(0.1, deadline - time.monotonic()))
        names = {alert["labels"]["alertname"] for alert in message["alerts"]}
        if message["status"] == status and names == {"RagFailureRateAboveObjective"}:
            return message
