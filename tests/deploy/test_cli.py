"""The command: results on stdout, the rest on stderr; 0 done, 1 failed, 2 misused."""

from __future__ import annotations

import importlib.util
import json
import sys

import pytest

from groundwatch_deploy.cli import main


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    try:
        code = main(arguments)
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "COMMAND"),
        (("sreve",), "invalid choice: 'sreve'"),
        (("demo", "--incident", "fire"), "'fire' is not known; accepted: rerank-cut, invented-numbers, over-refusal"),
        (("demo", "--healthy-requests", "0"), "take 1 or more"),
        (("redact",), "give one FILE to redact, or --evaluate FILE"),
        (("serve", "--ingest-port", "70000"), "70000 is not a port; accepted: 0 (any free one) to 65535"),
    ],
)
def test_misuse_ends_with_two_and_says_what_is_accepted(capsys, arguments, message):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_a_good_configuration_is_said_to_be_good(capsys, tmp_path):
    (tmp_path / "groundwatch.toml").write_text('[decide]\ngrace_seconds = 5\n[console]\ndefault_window = "6h"\n')
    code, out, _ = run(capsys, "serve", "--check", "--json", "--config", str(tmp_path / "groundwatch.toml"))
    assert (code, json.loads(out)) == (0, {"configuration": "ok"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[decide]\ngrace_secnds = 5", r"[decide]: unknown key 'grace_secnds'; did you mean 'grace_seconds'?"),
        ("[sevrer]", "unknown key 'sevrer'; did you mean 'server'?"),
        ("server = 3", "'server' must be a table, written as [server]"),
        ("[decide.rates]\nrefusal = 0", "rates"),
        ('[console]\ndefault_window = "2h"', "default_window is '2h'; accepted: 15m"),
        ('[server]\ningest_host = "0.0.0.0"', "no ingest key is configured"),
        ('[server]\nconsole_host = "0.0.0.0"', "passwords would travel"),
        ('[server]\ningest_key_sha256 = ["hunter2"]', "not a SHA-256 digest"),
        ('[server]\ningest_keys = ["shop:hunter2"]', "server.ingest_keys: not a SHA-256 digest"),
        ('[server]\ntls_certificate = "cert.pem"', "tls_certificate and server.tls_key: one is missing"),
        ('[server]\ntls_client_ca = "ca.pem"', "tls_client_ca: needs tls_certificate"),
        ("[server]\ngrpc_port = 70000", "grpc_port: 70000 is not a port"),
        ('[server]\nroles = "scorer"', '[server].roles: expected list, like ["a", "b"], found str'),
        ("ingest_port = 4318", "before any section: 'ingest_port' is a key of [server]"),
        ("[server]\nraw_days = 3", "[server]: 'raw_days' is a key of [retention]"),
        (
            '[server]\ndatabase_url = "postgres://u:hunter2@h/db"',
            "begins with 'postgres', accepted: postgresql+psycopg",
        ),
        ("[server]\nlog_max_bytes = -1", "log_max_bytes: found -1, accepted: more than 0"),
        ("[decide]\ngrace_seconds = nan", "[decide].grace_seconds: found nan, accepted: a number"),
        ("[decide]\nbudget_judged_per_day = -5", "budget_judged_per_day: found -5.0, accepted: 0 or more"),
        ("[judge]\nbatch = 0", "[judge] batch: found 0, accepted: 1 or more"),
        ('[judge]\nllm_model = "m"\nllm_base_url = "localhost:8000"', "[judge] llm_base_url: "),
        ("[judge]\ncascade = true\ncascade_unsure_chance = 3", "[judge] cascade: "),
        ('[judge]\nown_judges = ["nowhere"]', "own_judges: 'nowhere' cannot be loaded"),
        ("[console]\nrefresh_seconds = -3", "refresh_seconds is -3.0; accepted: 0 or more"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_refused_whole(capsys, tmp_path, text, message):
    (tmp_path / "groundwatch.toml").write_text(text)
    code, out, err = run(capsys, "serve", "--check", "--config", str(tmp_path / "groundwatch.toml"))
    assert (code, out) == (2, "")
    assert message in err and "hunter2@" not in err


@pytest.mark.parametrize("command", ["serve", "estimate", "doctor"])
def test_a_database_whose_driver_is_not_installed_names_the_extra(capsys, tmp_path, monkeypatch, command):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.setenv("GROUNDWATCH_SAMPLING_SALT", "11" * 32)
    config = tmp_path / "groundwatch.toml"
    config.write_text(f"""[server]
database_url = "postgresql+psycopg://u@127.0.0.1/x"
data_directory = "{tmp_path}"
ingest_port = 0
console_port = 0
metrics_port = 0
""")
    code, out, err = run(capsys, command, "--config", str(config))
    assert code == 1
    said = " ".join((out + err).split())
    assert "psycopg is not installed" in said and 'run: pip install "groundwatch[postgres]"' in said


def test_a_ledger_without_a_monitor_is_misuse(capsys, tmp_path):
    code, _, err = run(capsys, "ledger", "--data-dir", str(tmp_path))
    assert code == 2
    assert "no span log here" in err


def test_redacting_a_file_prints_the_text_alone_on_stdout(capsys, tmp_path):
    (tmp_path / "note.txt").write_text("Write to jane.doe@example.com about order 17.")
    code, out, err = run(capsys, "redact", str(tmp_path / "note.txt"))
    assert code == 0
    assert "jane.doe@example.com" not in out + err
    assert "[[EMAIL_1]]" in out
    assert "a person still has to read it" in err


@pytest.mark.parametrize(
    ("arguments", "body", "message"),
    [
        (("redact",), "Call 138 0013 8000".encode("utf-16"), "not text; accepted: UTF-8"),
        (("redact",), b"caf\xe9, jane@example.com", "can't decode"),
        (("redact", "--evaluate"), b"", "no labelled rows in it"),
        (("redact", "--evaluate"), b'{"text": "x"}', "line 1: expected an object with id, text, lang, kind; no id"),
    ],
)
def test_a_file_that_redaction_cannot_read_is_not_called_clean(capsys, tmp_path, arguments, body, message):
    (tmp_path / "file").write_bytes(body)
    code, out, err = run(capsys, *arguments, str(tmp_path / "file"))
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize("body", [b"", b'{"a": 1}\n', b'{"resourceSpans": []}\n'])
def test_a_recording_without_a_span_is_a_failure(capsys, tmp_path, body):
    (tmp_path / "traces.jsonl").write_bytes(body)
    code, _, err = run(capsys, "replay", str(tmp_path / "traces.jsonl"))
    assert code == 1
    assert "nothing in these files could be read as OTLP traces" in err


@pytest.mark.parametrize("command", [("serve",), ("demo", "--headless")])
def test_a_file_in_place_of_the_data_directory_is_named(capsys, tmp_path, command):
    (tmp_path / "data").write_text("")
    code, _, err = run(capsys, *command, "--data-dir", str(tmp_path / "data"))
    assert code == 1
    assert f"groundwatch: {tmp_path / 'data'}: File exists" in err
    assert "Traceback" not in err


def test_what_users_asked_is_readable_to_the_owner_alone(capsys, tmp_path):
    (tmp_path / "traces.jsonl").write_text(json.dumps({"resourceSpans": []}))
    data = tmp_path / "new" / "data"
    run(capsys, "replay", "--data-dir", str(data), str(tmp_path / "traces.jsonl"))
    assert data.stat().st_mode & 0o777 == 0o700
    assert (data / "groundwatch.db").stat().st_mode & 0o777 == 0o600


def test_grpc_that_is_not_installed_is_said_at_the_check(capsys, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "grpc" else find(name, *more)
    )
    (tmp_path / "groundwatch.toml").write_text("[server]\ngrpc_port = 4317\n")
    code, _, err = run(capsys, "serve", "--check", "--config", str(tmp_path / "groundwatch.toml"))
    assert code == 2
    assert 'pip install "groundwatch[grpc]", or set it to 0' in err


def test_a_new_key_opens_the_door_that_its_printed_line_configures(capsys, tmp_path):
    code, out, _ = run(capsys, "key", "shop", "--json")
    made = json.loads(out)
    assert (code, made["project"]) == (0, "shop")
    assert made["key"] not in made["ingest_keys"][0]
    lines = json.dumps(made["ingest_keys"])
    (tmp_path / "groundwatch.toml").write_text(f'[server]\ningest_host = "0.0.0.0"\ningest_keys = {lines}\n')
    assert run(capsys, "serve", "--check", "--config", str(tmp_path / "groundwatch.toml"))[0] == 0
    text = run(capsys, "key", "shop")[1]
    assert text.splitlines()[0].startswith("gwk_")
    assert 'ingest_keys = ["shop:' in text


def test_a_project_name_that_cannot_be_used_is_refused(capsys):
    code, out, err = run(capsys, "key", "my shop")
    assert (code, out) == (2, "")
    assert "not a project name; accepted: 1 to 64 letters" in err
