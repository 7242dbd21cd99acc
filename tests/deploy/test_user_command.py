"""`groundwatch user` and `groundwatch audit` on a real database, as somebody on the machine runs them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from groundwatch_collector.storage import open_engine
from groundwatch_deploy import migrations
from groundwatch_deploy.cli import DONE, FAILED, MISUSED, main
from groundwatch_review import accounts, passwords

Run = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command on a deployment in this test's folder; its JSON, or what it said on stderr."""
    engine = open_engine(f"sqlite:///{tmp_path / 'groundwatch.db'}")
    migrations.upgrade(engine)
    engine.dispose()

    def command(*words: str, expect: int = DONE, stdin: str = "") -> Any:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        assert main([*words, "--json", "--data-dir", str(tmp_path)]) == expect
        out, error = capsys.readouterr()
        return json.loads(out) if out else error

    return command


def change(tmp_path: Path, *statements: str) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'groundwatch.db'}")
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


def test_a_user_is_made_changed_and_removed_and_the_trail_tells_it(run, tmp_path):
    made = run("user", "add", "anna", "--role", "admin")
    other = run(
        "user", "add", "bo", "--role", "exporter", "--holdout", "--password-stdin", stdin="a long enough one\n"
    )
    assert "password" not in other
    assert [(u["name"], u["roles"], u["holdout"]) for u in run("user", "list")] == [
        ("anna", ["admin"], False),
        ("bo", ["exporter"], True),
    ]
    engine = open_engine(f"sqlite:///{tmp_path / 'groundwatch.db'}")
    assert accounts.check(engine, "anna", made["password"])[0] is not None
    assert accounts.check(engine, "bo", "a long enough one")[0] is not None
    run("user", "change", "bo", "--role", "viewer", "--no-holdout")
    again = run("user", "password", "bo")
    assert accounts.check(engine, "bo", again["password"])[0] is not None
    engine.dispose()
    run("user", "remove", "bo")
    entries = run("audit", "list")
    assert [(e["action"], e["actor"], e["detail"]) for e in entries] == [
        ("user_added", "command", "admin"),
        ("user_added", "command", "exporter"),
        ("user_changed", "command", "viewer"),
        ("user_changed", "command", "password"),
        ("user_removed", "command", ""),
    ]
    assert [e["seq"] for e in run("audit", "list", "--about", other["user_id"])] == [2, 3, 4, 5]
    assert "anna" not in json.dumps(entries)
    assert made["password"] not in json.dumps(entries)


def test_a_password_is_never_taken_from_the_command_line(run):
    with pytest.raises(SystemExit):
        run("user", "add", "anna", "--role", "admin", "--password", "a long enough one")


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        (("add", "Anna", "--role", "admin"), "", "small letters"),
        (("add", "bo"), "", "no role; accepted: viewer, reviewer, exporter, admin"),
        (("add", "bo", "--role", "viewer"), "", "the first user has to be an admin"),
        (("add", "bo", "--role", "admin", "--password-stdin"), "short", "5 characters; accepted: 12 to 256"),
        (("change", "bo"), "", "give --role, --holdout or --no-holdout"),
        (("password", "bo"), "", "there is no user 'bo'"),
        (("remove", "bo"), "", "there is no user 'bo'"),
    ],
)
def test_what_cannot_be_done_is_refused_with_what_is_accepted(run, words, stdin, said):
    assert said in run("user", *words, expect=MISUSED, stdin=stdin)
    assert run("user", "list") == []


def test_the_last_admin_stays_unless_it_is_meant(run):
    run("user", "add", "anna", "--role", "admin")
    assert "last admin" in run("user", "remove", "anna", expect=MISUSED)
    assert run("user", "remove", "anna", "--last")["users_left"] is False


def test_a_broken_chain_is_named_by_its_first_broken_link(run, tmp_path):
    run("user", "add", "anna", "--role", "admin")
    for name in ("bo", "cy"):
        run("user", "add", name, "--role", "viewer")
    found = run("audit", "verify")
    assert (found["entries"], found["broken"]) == (3, None)
    noted = f"{found['entries']}:{found['head']}"
    assert run("audit", "verify", "--noted", noted)["broken"] is None
    change(
        tmp_path,
        "DROP TRIGGER audit_log_no_update",
        "UPDATE audit_log SET detail = 'admin' WHERE seq = 2",
    )
    broken = run("audit", "verify", expect=FAILED)
    assert (broken["entries"], broken["broken"]) == (1, 2)
    assert "NUMBER:DIGEST" in run("audit", "verify", "--noted", "x", expect=MISUSED)


def test_without_a_database_the_command_says_so(tmp_path, capsys):
    assert main(["user", "list", "--data-dir", str(tmp_path / "nothing")]) == MISUSED
    assert "no database here" in capsys.readouterr().err


def test_a_random_password_is_long_and_fit():
    made = {passwords.new_password() for _time in range(50)}
    assert len(made) == 50
    for password in made:
        passwords.check_fit(password, "anna")


def test_exports_on_the_machine_are_in_the_trail(run, tmp_path):
    run("export", str(tmp_path / "out.jsonl"), "--holdout", str(tmp_path / "holdout.jsonl"))
    assert [(e["action"], e["actor"], e["detail"]) for e in run("audit", "list")] == [
        ("export", "command", "jsonl"),
        ("export_holdout", "command", "jsonl"),
    ]


def test_erasures_on_the_machine_are_in_the_trail(run):
    trace = "0" * 31 + "7"
    run("erase", "--trace", trace)
    run("erase", "--subject", "mia.canary@personal.example")
    run("erase", "--again")
    found = run("audit", "list")
    assert [(e["action"], e["actor"], e["detail"]) for e in found] == [
        ("erasure", "command", "by trace"),
        ("erasure", "command", "by person"),
        ("erasure", "command", "again, after a restore"),
    ]
    assert [e["seq"] for e in run("audit", "list", "--about", trace)] == [1]
    assert trace not in json.dumps(found)
    assert "canary" not in json.dumps(found)


def test_what_is_sent_elsewhere_is_in_the_trail_before_it_leaves(run, monkeypatch):
    """Nobody answers at either address: the entry is there all the same."""
    nowhere = "http://127.0.0.1:9"
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk")
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk")
    run("send", "langfuse", "--url", nowhere, "--holdout")
    run("evaluations", "--endpoint", nowhere)  # labels and scores only: no export of text
    run("evaluations", "--endpoint", nowhere, "--with-explanations")
    assert [(e["action"], e["detail"]) for e in run("audit", "list")] == [
        ("export", "langfuse"),
        ("export_holdout", "langfuse"),
        ("export", "evaluations with explanations"),
    ]
