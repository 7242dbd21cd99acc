"""The one-process monitor as its users meet it: real HTTP in, real pages and metrics out, restart in between."""

from __future__ import annotations

import gzip
import json
import time
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import torture

from groundwatch_collector.ledger import report
from groundwatch_collector.storage import reader
from groundwatch_deploy.cli import main
from groundwatch_deploy.serve import Monitor
from groundwatch_deploy.settings import load

PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}


def settings_in(folder: Path, **server):
    settings = load(None, data_directory=folder, ingest_port=0, console_port=0, metrics_port=0, **server)
    everything = dict.fromkeys(settings.decide.rates, 1.0)
    return replace(settings, decide=replace(settings.decide, rates=everything, grace_seconds=0.05, idle_seconds=0.2))


def send(url: str, count: int, seed: int = 0) -> list[str]:
    # Both halves become span ids, which must differ and not be zero.
    ids = [f"{seed + 1_000:016x}{number:016x}" for number in range(1, count + 1)]
    answer = httpx.post(f"{url}/v1/traces", content=torture.body(ids), headers=PROTOBUF).raise_for_status()
    assert answer.content == b""  # a partial success would say something
    return ids


def settle(monitor: Monitor, received: int, seconds: float = 30.0):
    """The account, once everything that was sent is decided and judged."""
    deadline = time.monotonic() + seconds
    while True:
        account = report(reader(monitor.engine), monitor.log)
        if (account.received >= received and account.waiting == 0) or time.monotonic() > deadline:
            return account
        time.sleep(0.05)


def test_from_one_request_to_metrics_pages_and_ledger(tmp_path, capsys):
    with Monitor(settings_in(tmp_path)) as monitor:
        addresses = monitor.start()
        ids = send(addresses.ingest, 12)
        account = settle(monitor, 12)
        assert (account.received, account.judged, account.adds_up, dict(account.lost)) == (12, 12, True, {})
        scraped = httpx.get(f"{addresses.metrics}/metrics").text
        assert 'rag_requests_total{app="torture",outcome="answered",version="1"} 12.0' in scraped
        overview = httpx.get(f"{addresses.console}/api/overview").json()
        assert json.dumps(overview).count("12") >= 1
        for path in ("/", "/traces", f"/traces/{ids[0]}", "/review", "/candidates"):
            assert httpx.get(f"{addresses.console}{path}").status_code == 200, path
        assert main(["ledger", "--data-dir", str(tmp_path), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["received"] == 12


def test_a_restart_goes_on_where_it_stopped(tmp_path):
    with Monitor(settings_in(tmp_path)) as monitor:
        send(monitor.start().ingest, 5)
        settle(monitor, 5)
    with Monitor(settings_in(tmp_path)) as monitor:
        addresses = monitor.start()
        send(addresses.ingest, 5)  # the same batch once more: a sender that did not see the answer
        send(addresses.ingest, 5, seed=1)
        account = settle(monitor, 10)
        assert (account.received, account.judged, account.doubled) == (10, 10, 0)
        scraped = httpx.get(f"{addresses.metrics}/metrics").text
    total = sum(
        float(line.rpartition(" ")[2]) for line in scraped.splitlines() if line.startswith("rag_traces_total{")
    )
    assert total == 10  # the committed sums continue; the duplicates are not in them


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"content-type": "text/plain"}, b"hello", 415),
        (JSON | {"content-encoding": "br"}, b"{}", 415),
        (PROTOBUF | {"content-encoding": "gzip"}, b"not gzip", 400),
        (PROTOBUF | {"content-encoding": "gzip"}, gzip.compress(b"x" * 100)[:20], 400),
        (PROTOBUF | {"content-encoding": "gzip"}, gzip.compress(bytes(64 * 1024 * 1024)), 413),
        (PROTOBUF, torture.body(["ab" * 16])[:-7], 400),
        (JSON, b"[" * 100_000, 400),
        (JSON, b'{"resourceSpans": 3}', 400),
        (JSON, '{"resourceSpans": [{"\ud800": 1}]}'.encode("utf-8", "surrogatepass"), 400),
        (JSON, b"", 400),
        (PROTOBUF, b"", 200),
    ],
    ids=[
        *("text", "brotli", "no gzip", "cut gzip", "gzip bomb", "cut protobuf", "deep", "wrong type", "surrogate"),
        *("empty JSON", "empty protobuf"),
    ],
)
def test_bad_input_is_answered_clearly_and_harms_nobody(shared_monitor, headers, body, status):
    _monitor, addresses = shared_monitor
    answer = httpx.post(f"{addresses.ingest}/v1/traces", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert httpx.get(f"{addresses.ingest}/readyz").status_code == 200


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"trace_id": "xyz", "name": "thumbs"}, "trace_id"),
        ({"trace_id": "ab" * 16, "name": "thumbs", "scroe": 1}, "score"),
        ({"trace_id": "ab" * 16, "name": "thumbs", "score": "NaN"}, "score"),
    ],
)
def test_bad_feedback_names_the_field(shared_monitor, body, says):
    _monitor, addresses = shared_monitor
    answer = httpx.post(f"{addresses.ingest}/v1/feedback", json=body)
    assert answer.status_code == 400
    assert says in answer.text


@pytest.fixture(scope="module")
def shared_monitor(tmp_path_factory):
    with Monitor(settings_in(tmp_path_factory.mktemp("monitor"))) as monitor:
        yield monitor, monitor.start()


def test_a_second_monitor_on_the_same_data_is_refused(tmp_path, capsys):
    with Monitor(settings_in(tmp_path)):
        ports = ["--ingest-port", "0", "--console-port", "0", "--metrics-port", "0"]
        assert main(["serve", "--data-dir", str(tmp_path), *ports]) != 0
        assert "in use" in capsys.readouterr().err


def test_a_port_in_use_is_named(tmp_path, capsys):
    with Monitor(settings_in(tmp_path / "one")) as monitor:
        port = monitor.start().ingest.rpartition(":")[2]
        others = ["--console-port", "0", "--metrics-port", "0"]
        assert main(["serve", "--data-dir", str(tmp_path / "two"), "--ingest-port", port, *others]) == 2
        assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err


@pytest.mark.service("postgresql")
def test_the_same_on_postgresql(tmp_path, postgresql_url):
    with Monitor(settings_in(tmp_path, database_url=postgresql_url)) as monitor:
        addresses = monitor.start()
        send(addresses.ingest, 7)
        account = settle(monitor, 7)
        assert (account.received, account.judged, account.adds_up, account.doubled) == (7, 7, True, 0)
        for path in ("/", "/traces", "/review", "/candidates"):
            assert httpx.get(f"{addresses.console}{path}").status_code == 200, path


@pytest.mark.service("prometheus")
def test_a_real_prometheus_reads_what_the_monitor_exposes(tmp_path, prometheus):
    with Monitor(settings_in(tmp_path / "data")) as monitor:
        addresses = monitor.start()
        send(addresses.ingest, 9)
        settle(monitor, 9)
        url = prometheus(addresses.metrics.removeprefix("http://"))
        assert _query(url, "sum(rag_traces_total)") == 9
        assert _query(url, 'sum(rag_judged_weight_total{criterion="any_failure"})') == 9
        assert _query(url, "up") == 1


def _query(url: str, expression: str, seconds: float = 20.0) -> float:
    deadline = time.monotonic() + seconds
    while True:
        found = httpx.get(f"{url}/api/v1/query", params={"query": expression}).json()["data"]["result"]
        if found and float(found[0]["value"][1]) > 0:
            return float(found[0]["value"][1])
        assert time.monotonic() < deadline, f"{expression}: nothing after {seconds} s"
        time.sleep(0.2)
