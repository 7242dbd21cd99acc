"""`groundwatch doctor` against real monitors, running and stopped, well and ill."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import shutil
import socket
import sqlite3
import threading
import time
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

import pytest

from groundwatch_deploy import doctor_network
from groundwatch_deploy.cli import main
from groundwatch_deploy.config import JudgeConfig
from groundwatch_deploy.doctor import check_instrumentors
from groundwatch_deploy.doctor_here import check_judge
from groundwatch_deploy.serve import Monitor
from groundwatch_deploy.settings import load

KEY = "gwk_for-the-doctor"
KEY_LINE = f"shop:{hashlib.sha256(KEY.encode()).hexdigest()}"


@pytest.fixture(autouse=True)
def _no_keys_from_outside(monkeypatch):
    for name in ("GROUNDWATCH_INGEST_KEY", "GROUNDWATCH_LLM_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def run(capsys, *arguments: str) -> tuple[int, dict[str, dict[str, str]], str]:
    capsys.readouterr()
    code = main(["doctor", "--json", *arguments])
    out, err = capsys.readouterr()
    report = json.loads(out)
    found = {finding["check"]: finding for finding in report["checks"]}
    for finding in found.values():
        assert (finding["advice"] == "") == (finding["status"] == "ok"), finding
    worst = "fail" if code else report["status"]
    assert report["status"] == worst
    return code, found, out + err


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deployment")
    config = folder / "groundwatch.toml"
    config.write_text(f'[server]\ningest_keys = ["{KEY_LINE}"]\n')
    settings = load(config, data_directory=folder / "data", ingest_port=0, console_port=0, metrics_port=0)
    with Monitor(settings) as monitor:
        addresses = monitor.start().as_dict()
        options = ["--config", str(config), "--data-dir", str(folder / "data")]
        for name, url in addresses.items():
            options += [f"--{name}-port", url.rpartition(":")[2]]
        yield options, addresses, monitor


def test_a_running_deployment_is_well(running, capsys, monkeypatch):
    monkeypatch.setenv("GROUNDWATCH_INGEST_KEY", KEY)
    options, _addresses, monitor = running
    code, found, said = run(capsys, *options)
    assert code == 0, said
    expected = {
        *(
            "sdk",
            "instrumentors",
            "monitor",
            "endpoint",
            "key",
            "clock",
            "console",
            "metrics",
            "span log",
            "pipeline",
        ),
        *("disk", "retention", "key files", "data files", "database", "judge"),
    }
    assert set(found) == expected
    assert found["key"]["found"] == "the key is accepted and a wrong one is refused"
    assert "runs" in found["monitor"]["found"]
    assert KEY not in said
    assert list(monitor.log.records()) == []  # the probe left nothing behind


def test_a_missing_and_a_wrong_key_are_told_apart(running, capsys, monkeypatch):
    options, addresses, _monitor = running
    assert run(capsys, *options)[1]["key"]["status"] == "warn"
    monkeypatch.setenv("GROUNDWATCH_INGEST_KEY", "wrong-key-canary")
    code, found, said = run(capsys, "--endpoint", addresses["ingest"])
    assert (code, found["key"]["status"], found["endpoint"]["status"]) == (1, "fail", "ok")
    assert set(found) == {"sdk", "instrumentors", "endpoint", "key", "clock"}  # as a sender sees it
    assert "wrong-key-canary" not in said


def test_the_text_for_people_says_what_to_do(running, capsys):
    options, _addresses, _monitor = running
    assert main(["doctor", *options]) == 0
    out = capsys.readouterr().out
    assert "warn key             a key is asked for, none was tried\n" in out
    assert "-> set GROUNDWATCH_INGEST_KEY and run this again" in out


@pytest.fixture
def stopped(tmp_path) -> list[str]:
    settings = load(None, data_directory=tmp_path / "data", ingest_port=0, console_port=0, metrics_port=0)
    with Monitor(settings) as monitor:
        monitor.start()
    return ["--data-dir", str(tmp_path / "data")]


def test_a_folder_of_another_user_is_named_with_whose_it_should_be(stopped, capsys, monkeypatch):
    folder = Path(stopped[1])
    closed = {folder, folder / "candidate.key"}
    # Root may use everything, and tests often run as root: the system's answer is the one thing that is replaced.
    monkeypatch.setattr(os, "access", lambda path, _mode: path not in closed)
    code, found, _said = run(capsys, *stopped)
    assert (code, found["access"]["status"]) == (1, "fail")
    assert f"cannot use {folder / 'candidate.key'} {folder}" in found["access"]["found"]
    assert "chown -R" in found["access"]["advice"]


def test_a_stopped_data_directory_is_checked_without_the_network(stopped, capsys):
    code, found, _said = run(capsys, *stopped)
    assert code == 0
    assert "does not run" in found["monitor"]["found"]
    assert found["endpoint"]["advice"] == "start it with `groundwatch serve`"
    assert {name for name, finding in found.items() if finding["status"] == "ok"} >= {
        *("disk", "retention", "key files", "data files", "database", "span log", "pipeline", "judge"),
    }


def test_nothing_of_a_missing_directory_is_made(tmp_path, capsys):
    code, found, _said = run(capsys, "--data-dir", str(tmp_path / "nowhere"))
    assert (code, found["data directory"]["status"]) == (1, "fail")
    assert not (tmp_path / "nowhere").exists()


def test_keys_and_data_that_others_can_read_are_named(stopped, capsys):
    data = Path(stopped[1])
    (data / "candidate.key").chmod(0o644)
    data.chmod(0o755)
    code, found, _said = run(capsys, *stopped)
    assert (code, found["key files"]["status"], found["data files"]["status"]) == (1, "fail", "warn")
    assert found["key files"]["advice"] == f"run: chmod 600 {data / 'candidate.key'}"


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda database: database.unlink(), "does not exist"),
        (lambda database: database.write_bytes(b"not a database" * 400), "not a database"),
        (lambda database: _execute(database, "UPDATE alembic_version SET version_num='9999'"), "newer version"),
        (lambda database: _execute(database, "DELETE FROM alembic_version"), "not all migrations"),
    ],
    ids=["gone", "damaged", "newer", "older"],
)
def test_a_database_that_cannot_be_used_is_a_failure(stopped, capsys, harm, says):
    database = Path(stopped[1]) / "groundwatch.db"
    harm(database)
    code, found, _said = run(capsys, *stopped)
    assert (code, found["database"]["status"]) == (1, "fail")
    assert says in found["database"]["found"]


def _execute(database: Path, statement: str) -> None:
    connection = sqlite3.connect(database)
    with connection:
        connection.execute(statement)
    connection.close()


def test_the_probe_of_the_database_leaves_no_table(stopped, capsys):
    run(capsys, *stopped)
    connection = sqlite3.connect(Path(stopped[1]) / "groundwatch.db")
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    assert "groundwatch_doctor_probe" not in names


def test_too_short_a_retention_and_too_small_a_disk_are_said(stopped, capsys, tmp_path):
    free = shutil.disk_usage(tmp_path).free
    config = tmp_path / "groundwatch.toml"
    config.write_text(f"[server]\nlog_max_age_seconds = 3600.0\nlog_max_bytes = {free + 2**30}\n")
    code, found, _said = run(capsys, *stopped, "--config", str(config))
    assert (code, found["retention"]["status"], found["disk"]["status"]) == (1, "fail", "warn")
    assert "log_max_age_seconds" in found["retention"]["advice"]


def test_a_bad_configuration_is_a_finding(capsys, tmp_path):
    (tmp_path / "groundwatch.toml").write_text("[sevrer]\n")
    code, found, _said = run(capsys, "--config", str(tmp_path / "groundwatch.toml"))
    assert (code, found["configuration"]["status"]) == (1, "fail")
    assert "did you mean 'server'?" in found["configuration"]["found"]


# Servers that are not a healthy Groundwatch.


@contextmanager
def answering(status: int, body: bytes = b"", ahead: float = 0.0):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response_only(status)
            self.send_header("Date", formatdate(time.time() + ahead, usegmt=True))
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self):
            self.do_GET()

        def log_message(self, format, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    ("ahead", "status"), [(0, "ok"), (1, "ok"), (10, "warn"), (-10, "warn"), (600, "fail"), (-600, "fail")]
)
def test_clocks_that_differ_are_noticed(capsys, ahead, status):
    with answering(200, ahead=ahead) as url:
        code, found, _said = run(capsys, "--endpoint", url)
    assert found["clock"]["status"] == status, found["clock"]
    assert code == (1 if status == "fail" else 0)


@pytest.mark.parametrize(
    ("status", "says"), [(404, "check that this is"), (503, "/readyz"), (302, "check that this is")]
)
def test_an_endpoint_that_is_not_ours_or_not_well_is_a_failure(capsys, status, says):
    with answering(status) as url:
        code, found, _said = run(capsys, "--endpoint", f"{url}/v1/traces/")
    assert (code, found["endpoint"]["status"]) == (1, "fail")
    assert says in found["endpoint"]["advice"]


def test_nothing_listening_is_a_failure(capsys):
    with answering(200) as url:
        pass
    code, found, _said = run(capsys, "--endpoint", url)
    assert (code, found["endpoint"]["status"]) == (1, "fail")


def test_an_address_of_another_kind_is_misuse(capsys):
    assert main(["doctor", "--endpoint", "file:///etc/passwd"]) == 2
    assert "accepted: http://HOST:PORT" in capsys.readouterr().err


def test_a_log_in_trouble_and_a_backlog_are_read_from_the_metrics():
    text = (
        "groundwatch_log_bytes 10.0\ngroundwatch_log_bytes_max 100.0\ngroundwatch_log_in_trouble 1.0\n"
        'groundwatch_pipeline_backlog_bytes 1e+09\ngroundwatch_pipeline_failures_total{kind="other"} 2.0\n'
    )
    with answering(200, text.encode()) as url:
        found = {finding.check: finding for finding in doctor_network.check_metrics(url)}
    assert (found["span log"].status, found["pipeline"].status) == ("fail", "warn")
    well = text.replace("trouble 1.0", "trouble 0.0").replace("1e+09", "0.0").replace(" 2.0", " 0.0")
    with answering(200, well.encode()) as url:
        assert [finding.status for finding in doctor_network.check_metrics(url)] == ["ok", "ok", "ok"]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, ("ok", "ok")),
        ({"groundwatch_kafka_in_trouble": 1}, ("fail", "ok")),
        ({"groundwatch_kafka_lost_records_total": 3}, ("fail", "ok")),
        ({"groundwatch_kafka_lag_records": 50_000}, ("ok", "warn")),
    ],
)
def test_a_topic_in_trouble_and_its_lag_are_read_from_the_metrics(changed, expected):
    names = ("in_trouble", "lost_records_total", "lag_records")
    values = {f"groundwatch_kafka_{name}": 0 for name in names} | changed
    text = "".join(f"{name} {float(value)}\n" for name, value in values.items())
    with answering(200, text.encode()) as url:
        found = {finding.check: finding.status for finding in doctor_network.check_metrics(url)}
    assert (found["span log"], found["pipeline"]) == expected


def test_over_kafka_the_broker_is_asked_for_and_no_log_is_missed(stopped, capsys, tmp_path):
    shutil.rmtree(Path(stopped[1]) / "spanlog")
    config = tmp_path / "groundwatch.toml"
    unused = ["--ingest-port", "1"]  # nothing listens there: the monitor does not run
    with socket.create_server(("127.0.0.1", 0)) as broker:
        config.write_text(f'[kafka]\nbootstrap_servers = "127.0.0.1:1, 127.0.0.1:{broker.getsockname()[1]}"\n')
        code, found, said = run(capsys, *stopped, *unused, "--config", str(config))
    assert (code, found["kafka"]["status"]) == (0, "ok"), said
    assert "span log" not in found
    config.write_text('[kafka]\nbootstrap_servers = "127.0.0.1:1"\n')
    code, found, _said = run(capsys, *stopped, *unused, "--config", str(config))
    assert (code, found["kafka"]["status"]) == (1, "fail")
    assert found["kafka"]["advice"] == "start the broker, or correct [kafka] bootstrap_servers"


@pytest.mark.parametrize(
    ("status", "models", "expected"),
    [(200, ["judge-1"], "ok"), (200, ["other"], "warn"), (401, [], "fail"), (404, [], "warn")],
)
def test_the_configured_model_is_asked_for(status, models, expected):
    body = json.dumps({"object": "list", "data": [{"id": name, "object": "model"} for name in models]}).encode()
    with answering(status, body) as url:
        (finding,) = check_judge(JudgeConfig(llm_model="judge-1", llm_base_url=f"{url}/v1"), b"key-canary")
    assert finding.status == expected
    assert "key-canary" not in str(finding)


def test_a_model_that_is_not_there_or_not_allowed_is_a_failure():
    with answering(200) as url:
        pass
    for base_url in (url, "http://169.254.169.254/v1", ""):
        (finding,) = check_judge(JudgeConfig(llm_model="judge-1", llm_base_url=base_url), b"")
        assert finding.status == "fail", base_url


OI, OTEL = "openinference-instrumentation-", "opentelemetry-instrumentation-"


@pytest.mark.parametrize(
    ("installed", "status"),
    [
        ([], "ok"),
        ([f"{OI}openai", f"{OTEL}requests"], "ok"),
        ([f"{OI}openai", f"{OTEL}openai-v2"], "warn"),
        ([f"{OTEL}langchain", f"{OTEL}genai-langchain"], "warn"),
        ([f"{OI}llama-index", f"{OTEL}llamaindex"], "warn"),
    ],
)
def test_two_instrumentors_of_one_library_are_noticed(installed, status):
    assert check_instrumentors([(name.rpartition("-")[2], name) for name in installed]).status == status


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_database_that_cannot_be_written_is_a_failure(stopped, capsys):
    (Path(stopped[1]) / "groundwatch.db").chmod(0o400)
    assert run(capsys, *stopped)[1]["database"]["status"] == "fail"
