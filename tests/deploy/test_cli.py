"""The command: results on stdout, the rest on stderr; 0 done, 1 failed, 2 misused."""

from __future__ import annotations

import json

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
        ('[server]\nconsole_host = "0.0.0.0"', "the console has no login yet"),
        ('[server]\ningest_key_sha256 = ["hunter2"]', "not a SHA-256 digest"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_refused_whole(capsys, tmp_path, text, message):
    (tmp_path / "groundwatch.toml").write_text(text)
    code, out, err = run(capsys, "serve", "--check", "--config", str(tmp_path / "groundwatch.toml"))
    assert (code, out) == (2, "")
    assert message in err


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
