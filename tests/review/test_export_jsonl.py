"""The export: only what people released, byte for byte the same, and every other candidate counted by reason."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from exportable import DAY, NOW, POLICY, REVIEWER, add, make_trace, questions
from sqlalchemy import Engine, select, update

from groundwatch_collector.ragtrace import Citation, Document, Feedback, Stage
from groundwatch_review import candidates, desk, erasure, queries
from groundwatch_review import export as export_module
from groundwatch_review.candidates import CandidatePolicy
from groundwatch_review.console.candidatepage import candidate_page
from groundwatch_review.export import HELD, OWN, canonical, export, export_jsonl, manifest_path
from groundwatch_review.formats import FORMATS
from groundwatch_review.schema import problems
from groundwatch_review.tables import candidates as table


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().decode().split("\n") if line]


def test_only_what_a_person_released_is_written_and_the_rest_is_counted(engine: Engine, tmp_path: Path) -> None:
    q = iter(questions("DEV", 20))
    released = add(engine, make_trace(1, next(q)))
    add(engine, make_trace(2, next(q)), confirm=False)
    add(engine, make_trace(3, next(q)), policy=CandidatePolicy())
    rejected = add(engine, make_trace(4, next(q)))
    candidates.reject(engine, rejected, REVIEWER, NOW)
    add(engine, make_trace(5, next(q), answer="The code is 73628194."), confirm=False)
    add(engine, make_trace(6, next(q)))
    desk.reject(engine, f"{6:032x}", "", "", REVIEWER, NOW)
    add(engine, make_trace(7, next(q)), policy=CandidatePolicy(consent="CONTRACT", expires_after_days=0))

    path = tmp_path / "out.jsonl"
    report = export_jsonl(engine, path, NOW)
    assert [line["candidate_id"] for line in lines(path)] == [released]
    assert report.written == 1
    assert report.held == {
        "blocked": 1,
        "consent_unknown": 1,
        "expired": 1,
        "failure_not_confirmed": 1,
        "rejected": 1,
        "unconfirmed": 1,
    }
    assert set(report.held) <= set(HELD)


def test_lines_are_valid_canonical_and_carry_their_digest(engine: Engine, tmp_path: Path) -> None:
    for number, question in enumerate(questions("DEV", 3)):
        add(engine, make_trace(number, question, answer='"quoted" \u2028 line\u0085 {{x}} file:///etc 中文'))
    path = tmp_path / "out.jsonl"
    export_jsonl(engine, path, NOW)
    raw = path.read_bytes()
    assert len(raw.decode().splitlines()) == 3  # str.splitlines also breaks at U+2028: none is left raw
    assert "中文".encode() in raw
    found = lines(path)
    assert [d["candidate_id"] for d in found] == sorted(d["candidate_id"] for d in found)
    for document in found:
        assert problems(document) == ()
        assert document["answer"]["observed"] == '"quoted" \u2028 line\u0085 {{x}} file:///etc 中文'
        digest = document["provenance"].pop("content_sha256")
        assert digest == hashlib.sha256(canonical(document)).hexdigest()


def test_the_manifest_describes_the_file(engine: Engine, tmp_path: Path) -> None:
    candidate_id = add(engine, make_trace(1, questions("DEV", 1)[0]))
    path = tmp_path / "out.jsonl"
    export_jsonl(engine, path, NOW)
    manifest = json.loads(manifest_path(path).read_text())
    assert manifest["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (manifest["lines"], manifest["candidates"]) == (1, [candidate_id])


def test_exporting_again_gives_the_same_bytes(engine: Engine, tmp_path: Path) -> None:
    for number, question in enumerate(questions("DEV", 4)):
        add(engine, make_trace(number, question))
    first, second = tmp_path / "out.jsonl", tmp_path / "again" / "out.jsonl"
    second.parent.mkdir()
    report = export_jsonl(engine, first, NOW)
    assert export_jsonl(engine, first, NOW + DAY) == report
    export_jsonl(engine, second, NOW + 2 * DAY)
    assert first.read_bytes() == second.read_bytes()
    assert manifest_path(first).read_bytes() == manifest_path(second).read_bytes()
    with engine.connect() as connection:
        assert set(connection.scalars(select(table.c.exported_at))) == {NOW}


def test_one_line_stands_for_a_family(engine: Engine, tmp_path: Path) -> None:
    question = questions("DEV", 1)[0]
    oldest = add(engine, make_trace(9, question))
    for number in range(3):
        add(engine, make_trace(number, question.upper()), at=NOW + 1 + number)
    path = tmp_path / "out.jsonl"
    report = export_jsonl(engine, path, NOW + 60)
    (line,) = lines(path)
    assert (line["candidate_id"], line["family"]["support"]) == (oldest, 4)
    assert report.held == {"merged_into_family": 3}


def test_the_hold_out_set_needs_a_file_of_its_own(engine: Engine, tmp_path: Path) -> None:
    add(engine, make_trace(1, questions("DEV", 1)[0]))
    hidden = add(engine, make_trace(2, questions("HOLDOUT", 1)[0]))
    path, holdout = tmp_path / "dev.jsonl", tmp_path / "holdout.jsonl"
    assert export_jsonl(engine, path, NOW).held == {"holdout": 1}
    assert hidden.encode() not in path.read_bytes()
    report = export_jsonl(engine, path, NOW, holdout=holdout)
    assert (report.written, report.holdout_written, report.held) == (1, 1, {})
    assert [line["candidate_id"] for line in lines(holdout)] == [hidden]
    assert holdout.stat().st_mode & 0o077 == 0


def test_a_policy_at_export_fills_in_what_was_not_known(engine: Engine, tmp_path: Path) -> None:
    add(engine, make_trace(1, questions("DEV", 1)[0]), policy=CandidatePolicy())
    path = tmp_path / "out.jsonl"
    assert export_jsonl(engine, path, NOW, policy=POLICY).written == 1
    assert lines(path)[0]["governance"]["consent"] == "NOT_PERSONAL"


def test_what_left_under_the_rights_of_the_policy_says_so_here_too(engine: Engine, tmp_path: Path) -> None:
    candidate_id = add(engine, make_trace(1, questions("DEV", 1)[0]), policy=CandidatePolicy())

    def said() -> tuple[str, str]:
        with engine.connect() as connection:
            row = queries.candidate(connection, candidate_id)
        assert row is not None
        page = candidate_page(row)
        return page.held, page.held_words

    assert said()[0] == "consent_unknown"
    export_jsonl(engine, tmp_path / "out.jsonl", NOW, policy=POLICY)
    assert said() == ("", "ready to leave again")


def test_a_crash_before_the_file_is_there_does_not_hide_that_it_may_have_left(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An erasure names what is marked: too much rather than too little."""
    candidate_id = add(engine, make_trace(1, questions("DEV", 1)[0]))

    def power_cut(_path: Path, _body: bytes) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(export_module, "_write", power_cut)
        export_jsonl(engine, tmp_path / "out.jsonl", NOW)
    assert erasure.erase(engine, [f"{1:032x}"], NOW + 1).exported == (candidate_id,)


def test_a_document_that_was_edited_in_the_database_does_not_leave(engine: Engine, tmp_path: Path) -> None:
    candidate_id = add(engine, make_trace(1, questions("DEV", 1)[0]))
    document = candidates.load(engine, candidate_id)
    document["fault"]["reason"] = "ask canary@example.com"
    with engine.begin() as connection:
        connection.execute(update(table).values(document=orjson.dumps(document).decode()))
    path = tmp_path / "out.jsonl"
    assert export_jsonl(engine, path, NOW).held == {"rescan": 1}
    assert path.read_bytes() == b""
    document["stray"] = "canary@example.com"
    with engine.begin() as connection:
        connection.execute(update(table).values(document=orjson.dumps(document).decode()))
    assert export_jsonl(engine, path, NOW).held == {"schema": 1}


CANARIES = {
    "email": "canary.one@example.com",
    "phone": "13812340987",
    "cn_id": "11010519491231002X",
    "card": "4000056655665556",
    "key": "ghp_q1W2e3R4t5Y6u7I8o9P0aSdFgHjKlZxCvBnM",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTYifQ.c2lnbmF0dXJl",
    "iban": "DE89370400440532013000",
}


@pytest.mark.parametrize("name", CANARIES)
@pytest.mark.parametrize("frame", ["{}", "请联系{}谢谢", "😀{}😀", '{{"v":"{}"}}'])
def test_a_canary_in_every_field_is_in_no_exported_byte(
    engine: Engine, tmp_path: Path, name: str, frame: str
) -> None:
    """Held or masked, but never out: question, rewrite, answer, documents, titles, ids, versions, notes, comments."""
    canary = CANARIES[name]
    text = frame.format(canary)
    documents = (Document(text, 1, 0.5, text, version=text, title=text),)
    trace = make_trace(
        1,
        f"{questions('DEV', 1)[0]} {text}",
        rewritten_query=text,
        answer=text,
        candidates=documents,
        reranked=documents,
        context=documents,
        citations=(Citation(text, text),),
        model=text,
        version=text,
        session=text,
        outcome_reason=text,
        error_class=text,
        stages=(Stage("answer", "00f067aa0ba902b7", "", text, NOW, 1.0, error_class=text),),
        feedback=(Feedback("f", f"{1:032x}", "thumbs", "negative", comment=text, by=text),),
    )
    candidate_id = add(engine, trace, confirm=False)
    with engine.begin() as connection:
        stored = str(connection.scalar(select(table.c.document)))
    assert canary not in stored
    if candidates.load(engine, candidate_id)["redaction"]["status"] != "BLOCKED":
        candidates.confirm(engine, candidate_id, REVIEWER, NOW)
    folder = tmp_path / "exports"
    folder.mkdir()
    for layout in (OWN, *FORMATS):
        paths = (folder / f"{layout}.out", folder / f"{layout}.holdout")
        report = export(engine, paths[0], NOW, layout=layout, holdout=paths[1])
        assert report.written + report.holdout_written + sum(report.held.values()) == 1
    exported = b"".join(path.read_bytes() for path in folder.iterdir())
    for secret in (canary, trace.trace_id):
        assert secret.encode() not in exported
        assert json.dumps(secret)[1:-1].encode() not in exported


def test_links_and_odd_paths_are_refused_and_nothing_is_written(engine: Engine, tmp_path: Path) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("keep")
    link = tmp_path / "link.jsonl"
    link.symlink_to(victim)
    aside = tmp_path / "aside.jsonl"
    manifest_path(aside).symlink_to(victim)
    for path in (link, aside, tmp_path, tmp_path / "no" / "x.jsonl", tmp_path / ".." / "x.jsonl", Path("a\0b")):
        with pytest.raises(desk.Refused):
            export_jsonl(engine, path, NOW)
    assert victim.read_text() == "keep"
    assert not aside.exists()


def test_a_write_that_fails_leaves_the_old_file_and_no_rest(engine: Engine, tmp_path: Path) -> None:
    add(engine, make_trace(1, questions("DEV", 1)[0]))
    folder = tmp_path / "out"
    folder.mkdir()
    path = folder / "a.jsonl"
    export_jsonl(engine, path, NOW)
    before = path.read_bytes()
    with pytest.raises(OSError, match="File name too long"):
        export_jsonl(engine, folder / f"{'x' * 250}.jsonl", NOW)
    assert sorted(p.name for p in folder.iterdir()) == ["a.jsonl", "a.jsonl.manifest.json"]
    assert path.read_bytes() == before
