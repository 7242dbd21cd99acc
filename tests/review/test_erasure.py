"""Erasure: no byte of what somebody wrote is left, and what is out of reach is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from exportable import NOW, add, make_trace
from sqlalchemy import Engine, insert, select, update

from groundwatch_collector import storage
from groundwatch_collector.tables import dead_letters, feedback, sampled_traces
from groundwatch_deploy import cli, migrations
from groundwatch_review.erasure import NOT_REACHED, erase, traces_of
from groundwatch_review.export import export
from groundwatch_review.tables import candidates
from groundwatch_scorer import criteria, queue
from groundwatch_scorer.local_judge import LocalJudge
from groundwatch_scorer.tables import judgements

WORDS = "zyxwv-canary words that nobody else writes"


def wrote(engine: Engine, number: int, user: str, question: str = WORDS) -> str:
    trace = make_trace(number, question, answer=f"{WORDS}.", user_hash=user)
    candidate_id = add(engine, trace)
    row = {"feedback_id": f"f{number}", "trace_id": trace.trace_id, "name": "thumbs", "sentiment": "negative"}
    with engine.begin() as connection:
        connection.execute(insert(feedback).values(**row, comment=WORDS, by=user, received_at=NOW, position=number))
    return candidate_id


def test_a_person_is_erased_from_candidates_and_the_next_export(engine: Engine, tmp_path: Path) -> None:
    first = wrote(engine, 1, "subject-1")
    kept = wrote(engine, 2, "subject-2", "What else is there to ask?")
    files = (tmp_path / "dev", tmp_path / "holdout")
    export(engine, files[0], NOW, holdout=files[1])
    done = erase(engine, traces_of(engine, "subject-1"), NOW)
    assert (done.traces, done.candidates, done.exported) == (1, 1, (first,))
    export(engine, files[0], NOW, holdout=files[1])
    left = "".join(path.read_text() for path in files)
    assert first not in left
    assert kept in left
    with engine.connect() as connection:
        assert list(connection.scalars(select(candidates.c.candidate_id))) == [kept]
        assert set(connection.scalars(select(feedback.c.by))) == {"", "subject-2"}


def test_erasing_again_and_erasing_nobody_changes_nothing(engine: Engine) -> None:
    wrote(engine, 1, "subject-1")
    assert erase(engine, [f"{1:032x}"], NOW).candidates == 1
    again = erase(engine, [f"{1:032x}"], NOW)
    assert (again.candidates, again.exported) == (0, ())
    assert traces_of(engine, "subject-1") == []
    assert traces_of(engine, "subject_%") == []
    assert erase(engine, ["f" * 32], NOW).traces == 0


def test_a_judge_that_holds_an_erased_trace_brings_no_word_of_it_back(engine: Engine) -> None:
    wrote(engine, 1, "subject-1")
    with engine.begin() as connection:
        connection.execute(update(sampled_traces).values(state="waiting", attempts=0, lease_until=0.0))
    [held] = queue.claim(engine, 1, 300, NOW)
    erase(engine, traces_of(engine, "subject-1"), NOW)
    found = criteria.judgements(held.trace, LocalJudge().assess(held.trace), NOW)
    assert any("zyxwv" in str(judgement.detail) for judgement in found)
    assert queue.finish(engine, held, found, bucket_seconds=60, now=NOW)
    with engine.connect() as connection:
        kept = connection.execute(select(judgements.c.label, judgements.c.explanation, judgements.c.detail)).all()
    assert len(kept) >= len(found)
    assert not any("zyxwv" in row.explanation + row.detail for row in kept)


@pytest.mark.parametrize("subject", ["用户四十二", 'o"neil\\x', "Zoë"])
def test_a_person_is_found_by_any_name(engine: Engine, subject: str) -> None:
    wrote(engine, 1, subject)
    with engine.begin() as connection:
        connection.execute(update(feedback).values(by=""))  # by the trace alone
    assert traces_of(engine, subject) == [f"{1:032x}"]


def test_a_subject_is_a_whole_value(engine: Engine) -> None:
    wrote(engine, 1, "subject-11")
    assert traces_of(engine, "subject-1") == []


def test_the_command_leaves_no_byte_in_the_database_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = storage.open_engine(f"sqlite:///{tmp_path / 'groundwatch.db'}")
    migrations.upgrade(engine)
    wrote(engine, 1, "subject-1")
    engine.dispose()
    assert any(WORDS.encode() in path.read_bytes() for path in tmp_path.iterdir())
    assert cli.main(["erase", "--subject", "subject-1", "--data-dir", str(tmp_path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["traces"], said["candidates"], tuple(said["not_reached"])) == (1, 1, NOT_REACHED)
    for path in tmp_path.iterdir():
        assert b"zyxwv" not in path.read_bytes(), path.name
        assert b"subject-1" not in path.read_bytes(), path.name
    (line,) = (tmp_path / "erasures.jsonl").read_text().splitlines()
    assert json.loads(line)["traces"] == 1
    assert (tmp_path / "erasures.jsonl").stat().st_mode & 0o077 == 0
    engine = storage.open_engine(f"sqlite:///{tmp_path / 'groundwatch.db'}")
    with engine.connect() as connection:
        assert connection.scalar(select(sampled_traces.c.state)) is not None  # the row is still counted
    engine.dispose()


def test_a_restored_backup_is_erased_again_from_the_ids_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = tmp_path / "groundwatch.db"
    engine = storage.open_engine(f"sqlite:///{database}")
    migrations.upgrade(engine)
    wrote(engine, 1, "subject-1")
    engine.dispose()
    backup = database.read_bytes()
    assert cli.main(["erase", "--trace", f"{1:032x}", "--data-dir", str(tmp_path)]) == 0
    database.write_bytes(backup)  # what was erased is back
    with (tmp_path / "erased_traces.txt").open("a") as file:
        file.write("deadbeef")  # a crash cut this line off
    capsys.readouterr()
    assert cli.main(["erase", "--again", "--data-dir", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["traces"] == 1
    assert b"zyxwv" not in database.read_bytes()
    assert (tmp_path / "erased_traces.txt").stat().st_mode & 0o077 == 0


def test_bodies_that_nobody_could_read_go_with_any_erasure(engine: Engine) -> None:
    """Whose they are cannot be told; their reason stays for whoever looks for the fault."""
    letter = {"received_at": NOW, "reason": "bad_json", "detail": "", "size_bytes": 9, "position": 1}
    with engine.begin() as connection:
        connection.execute(insert(dead_letters).values(**letter, body=WORDS.encode()))
    assert erase(engine, [], NOW).unreadable_bodies == 0
    assert erase(engine, ["f" * 32], NOW).unreadable_bodies == 1
    with engine.connect() as connection:
        assert connection.execute(select(dead_letters.c.reason, dead_letters.c.body)).all() == [("bad_json", None)]


@pytest.mark.parametrize(
    "arguments", [[], ["--again", "--subject", "a"], ["--trace", "xyz"], ["--trace", "0" * 32, "--subject", "a"]]
)
def test_what_is_no_trace_and_no_person_is_refused(arguments: list[str], tmp_path: Path) -> None:
    assert cli.main(["erase", *arguments, "--data-dir", str(tmp_path)]) == 2
