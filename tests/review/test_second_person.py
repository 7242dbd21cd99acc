"""Four eyes for the hold-out set: it leaves when two people have released it, and one cannot be two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from console_people import Console, send
from exportable import NOW, POLICY, REVIEWER, add, make_trace, questions
from sqlalchemy import Engine, insert, select, update

from groundwatch_review import accounts, candidates
from groundwatch_review.erasure import erase
from groundwatch_review.export import export_jsonl
from groundwatch_review.tables import candidates as table
from groundwatch_review.tables import console_users, holdout_ticks

SECOND_REVIEWER, THIRD_REVIEWER = "rv_fedcba9876543210", "rv_00000000aaaaaaaa"


def make_users(engine: Engine) -> None:
    """An admin, and the reviewers of these tests."""
    Console(engine).user("root", "admin")
    with engine.begin() as connection:
        for user_id in (REVIEWER, SECOND_REVIEWER, THIRD_REVIEWER):
            row = {"user_id": user_id, "name": user_id, "roles": "reviewer", "holdout": False, "password": ""}
            connection.execute(insert(console_users).values(**row, created_at=NOW, updated_at=NOW))


@pytest.fixture
def hidden(engine: Engine) -> str:
    make_users(engine)
    return add(engine, make_trace(1, questions("HOLDOUT", 1)[0]), confirm=False)


def leaves(engine: Engine, folder: Path) -> Any:
    report = export_jsonl(engine, folder / "dev.jsonl", NOW + 5, policy=POLICY, holdout=folder / "holdout.jsonl")
    return report.holdout_written, dict(report.held)


def revise(engine: Engine, candidate_id: str) -> None:
    document = {**candidates.load(engine, candidate_id), "revision": 2}
    with engine.begin() as connection:
        connection.execute(update(table).values(document=candidates.dump(document)))


def test_the_hold_out_set_leaves_when_two_people_have_released_it(engine, tmp_path, hidden):
    assert leaves(engine, tmp_path) == (0, {"unconfirmed": 1})
    for _twice in range(2):
        candidates.confirm(engine, hidden, REVIEWER, NOW)
        assert leaves(engine, tmp_path) == (0, {"second_person": 1})
    candidates.confirm(engine, hidden, SECOND_REVIEWER, NOW)
    assert leaves(engine, tmp_path) == (1, {})


def test_where_nobody_logs_in_two_browsers_are_not_two_people(engine, tmp_path):
    candidate_id = add(engine, make_trace(1, questions("HOLDOUT", 1)[0]), confirm=False)
    for browser in ("rv_1111111111111111", "rv_2222222222222222"):
        candidates.confirm(engine, candidate_id, browser, NOW)
    assert leaves(engine, tmp_path) == (1, {})
    make_users(engine)  # from now on people can be told apart
    for reviewer in (REVIEWER, SECOND_REVIEWER):
        assert leaves(engine, tmp_path) == (0, {"second_person": 1})
        candidates.confirm(engine, candidate_id, reviewer, NOW)
    assert leaves(engine, tmp_path) == (1, {})


def test_whoever_is_removed_and_comes_back_is_not_two_people(engine, tmp_path, hidden):
    """Single sign-on makes a new user of somebody who was removed here and still has a role there."""
    candidates.confirm(engine, hidden, REVIEWER, NOW)
    accounts.remove(engine, REVIEWER)
    candidates.confirm(engine, hidden, SECOND_REVIEWER, NOW)
    assert leaves(engine, tmp_path) == (0, {"second_person": 1})
    candidates.confirm(engine, hidden, THIRD_REVIEWER, NOW)
    assert leaves(engine, tmp_path) == (1, {})


def test_the_other_set_needs_one(engine, tmp_path):
    Console(engine).user("root", "admin")
    candidate_id = add(engine, make_trace(1, questions("DEV", 1)[0]), confirm=False)
    candidates.confirm(engine, candidate_id, REVIEWER, NOW)
    assert export_jsonl(engine, tmp_path / "dev.jsonl", NOW + 5).written == 1


def test_a_rejection_takes_back_what_was_released(engine, tmp_path, hidden):
    for reviewer in (REVIEWER, SECOND_REVIEWER):
        candidates.confirm(engine, hidden, reviewer, NOW)
    candidates.reject(engine, hidden, THIRD_REVIEWER, NOW)
    assert leaves(engine, tmp_path) == (0, {"rejected": 1})
    candidates.confirm(engine, hidden, REVIEWER, NOW)
    assert leaves(engine, tmp_path) == (0, {"second_person": 1})


def test_an_erased_candidate_takes_along_who_released_it(engine, hidden):
    candidates.confirm(engine, hidden, REVIEWER, NOW)
    with engine.connect() as connection:
        assert connection.execute(select(holdout_ticks)).all()
    erase(engine, [f"{1:032x}"], NOW)
    with engine.connect() as connection:
        assert connection.execute(select(holdout_ticks)).all() == []


def test_another_text_is_released_anew_by_both(engine, tmp_path, hidden):
    """The first released what is not there any more."""
    candidates.confirm(engine, hidden, REVIEWER, NOW)
    revise(engine, hidden)
    candidates.confirm(engine, hidden, SECOND_REVIEWER, NOW)
    assert leaves(engine, tmp_path) == (0, {"second_person": 1})
    candidates.confirm(engine, hidden, REVIEWER, NOW)
    assert leaves(engine, tmp_path) == (1, {})


@pytest.mark.parametrize("new_database", ["sqlite"], indirect=True)
def test_a_text_that_changed_under_the_reader_is_not_released(engine, hidden):
    anna = Console(engine).logged_in("anna", "reviewer")
    path = f"/candidates/{hidden}"
    assert '<input type="hidden" name="revision" value="1">' in anna.get(path).text
    revise(engine, hidden)
    for read in ("1", "", "x"):
        told = send(anna, f"{path}/decision", decision="confirm", read="yes", revision=read)
        assert told.status_code == 400 and "changed since you opened it" in told.text
    assert "Nobody has yet." in anna.get(path).text
    assert send(anna, f"{path}/decision", decision="confirm", read="yes", revision="2").status_code == 303


@pytest.mark.parametrize("new_database", ["sqlite"], indirect=True)
def test_the_page_says_who_is_still_missing(engine, hidden):
    console = Console(engine)
    anna, bert = console.logged_in("anna", "reviewer"), console.logged_in("bert", "reviewer")
    path = f"/candidates/{hidden}"
    assert "Nobody has yet." in anna.get(path).text
    for _twice in range(2):
        send(anna, f"{path}/decision", decision="confirm", read="yes", revision="1")
    assert "it waits for somebody else" in anna.get(path).text
    page = bert.get(path).text
    assert "you may be the second" in page
    assert 'data-key="t" checked' not in page  # the first one's tick is not the second one's
    assert "waits for a second person" in bert.get("/candidates").text
    send(bert, f"{path}/decision", decision="confirm", read="yes", revision="1")
    assert "Two have." in anna.get(path).text
