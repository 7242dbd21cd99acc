"""Every panel shows something: its query, asked of a real Prometheus that scrapes a real monitor with traffic."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from functools import partial

import httpx
import pytest
import torture
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from groundwatch import names
from groundwatch_alerts.dashboards.panels import BOARDS
from groundwatch_alerts.objectives import Objective
from groundwatch_alerts.rule_files import to_yaml
from groundwatch_alerts.rule_set import recording_groups
from groundwatch_collector.ledger import report
from groundwatch_collector.storage import reader
from groundwatch_deploy.serve import Monitor
from groundwatch_deploy.settings import load

PROTOBUF = {"content-type": "application/x-protobuf"}
OUTCOMES = ("answered", "answered", "answered", "refused", "no_result", "error")


def body(ids: list[str], version: str) -> bytes:
    """The harness's traces, with the outcomes, tokens and costs that a real application reports."""
    request = ExportTraceServiceRequest.FromString(torture.body(ids))
    resource = request.resource_spans[0]
    next(a for a in resource.resource.attributes if a.key == names.SERVICE_VERSION).value.string_value = version
    roots = [span for span in resource.scope_spans[0].spans if not span.parent_span_id]
    for number, root in enumerate(roots):
        outcome = OUTCOMES[number % len(OUTCOMES)]
        next(a for a in root.attributes if a.key == names.OUTCOME).value.string_value = outcome
        for key, value in ((names.COST_USD, 0.002), (names.FIRST_TOKEN, 0.02)):
            root.attributes.add(key=key).value.double_value = value
        for key, count in ((names.INPUT_TOKENS, 800), (names.OUTPUT_TOKENS, 90)):
            root.attributes.add(key=key).value.int_value = count
        if outcome == "error":
            root.attributes.add(key=names.ERROR_TYPE).value.string_value = "ConnectionError"
            root.status.code = Status.STATUS_CODE_ERROR
        if number % 7 == 0:  # an answer that its passage contradicts
            answer = next(a for a in root.attributes if a.key == names.ANSWER)
            answer.value.string_value = "Files are kept for 90 days [1]."
    return request.SerializeToString()


def send(monitor: Monitor, url: str, seed: int, count: int, version: str) -> None:
    before = report(reader(monitor.engine), monitor.log).received
    ids = [f"{seed + 1_000:016x}{number:016x}" for number in range(1, count + 1)]
    httpx.post(f"{url}/v1/traces", content=body(ids, version), headers=PROTOBUF).raise_for_status()
    until(lambda: settled(monitor, before + count), "the traces are judged")


def settled(monitor: Monitor, received: int) -> bool:
    account = report(reader(monitor.engine), monitor.log)
    return account.received >= received and account.waiting == 0


def until(condition, what: str, seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.1)


def plain(expr: str) -> str:
    return re.sub(r"\$(app|criterion|judge)\b", ".*", expr.replace("$__rate_interval", "5m"))


def ask(url: str, expr: str) -> list[dict[str, object]]:
    answer = httpx.get(f"{url}/api/v1/query", params={"query": plain(expr)}, timeout=30).json()
    assert answer["status"] == "success", answer
    return [row for row in answer["data"]["result"] if row["value"][1] != "NaN"]


@pytest.mark.service("prometheus")
def test_every_panel_of_every_dashboard_shows_something(tmp_path, prometheus):
    settings = load(None, data_directory=tmp_path / "data", ingest_port=0, console_port=0, metrics_port=0)
    everything = dict.fromkeys(settings.decide.rates, 1.0)
    decide = replace(settings.decide, rates=everything, grace_seconds=0.05, idle_seconds=0.2)
    rules = tmp_path / "rules.yaml"
    rules.write_text(to_yaml(replace(group, interval="1s") for group in recording_groups([])))
    promised = (Objective("good", "any_failure", 0.05), Objective("up", "execution", 0.01))
    with Monitor(replace(settings, decide=decide, objectives=promised)) as monitor:
        addresses = monitor.start()
        send(monitor, addresses.ingest, 0, 90, "v1")
        send(monitor, addresses.ingest, 1_000, 90, "v2")
        # A scrape may take as long as the interval: on a busy machine more than a second.
        url = prometheus(addresses.metrics.removeprefix("http://"), (rules,), scrape="3s")
        until(lambda: ask(url, "rag_traces_total"), "the first scrape")
        send(monitor, addresses.ingest, 2_000, 12, "v1")
        send(monitor, addresses.ingest, 3_000, 12, "v2")
        check_exemplars(addresses.console, url)
        queries = {(p.title, q.expr) for board in BOARDS for p in board.panels for q in p.every_query}
        missing = {key for key in queries if not ask(url, key[1])}
        until(partial(_all_answer, url, missing), f"{len(missing)} queries: {sorted(missing)[:3]}")


def _all_answer(url: str, missing: set[tuple[str, str]]) -> bool:
    missing -= {key for key in missing if ask(url, key[1])}
    return not missing


def check_exemplars(console: str, url: str) -> None:
    """Points of latency and of failures carry the id of a trace that the console has."""
    for metric in ("rag_request_duration_seconds_bucket", "rag_execution_errors_total"):
        query = {"query": metric, "start": str(time.time() - 600), "end": str(time.time() + 60)}
        until(lambda query=query: exemplars(url, query), f"exemplars of {query['query']}")
        found = exemplars(url, query)
        assert len(found) <= 2 * 20  # of each bucket the newest at a scrape, not one a request
        for trace_id in found:
            page = httpx.get(f"{console}/traces/{trace_id}", timeout=30)
            assert page.status_code == 200, trace_id


def exemplars(url: str, query: dict[str, str]) -> set[str]:
    data = httpx.get(f"{url}/api/v1/query_exemplars", params=query).json()["data"]
    return {point["labels"]["trace_id"] for series in data for point in series["exemplars"]}
