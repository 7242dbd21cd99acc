"""A known share is read blind and twice; where two readings differ nothing is confirmed until somebody settles it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from exportable import KEY, NOW, POLICY, REVIEWER, add, make_trace
from sqlalchemy import Engine, select

from groundwatch_review import candidates, desk, readings
from groundwatch_review.desk import Decided
from groundwatch_review.export import export
from groundwatch_review.labels import Label
from groundwatch_review.rereading import REPEAT, SECOND, Rereading, RereadingConfig
from groundwatch_review.tables import reviews
from groundwatch_scorer.tables import second_looks

OTHER = "rv_fedcba9876543210"
FAILED, RIGHT = Label("confirmed", "generation"), Label("rejected")
TRACE_ID = f"{1:032x}"
DRAW = Rereading(b"k" * 32, RereadingConfig(second_reader_share=0.2, repeat_share=0.1))


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """One kind is enough: rows of text, read by their key."""
    return f"sqlite:///{tmp_path / 'groundwatch.db'}"


def decide(engine: Engine, label: Label, reviewer: str, at: float = 1.0, **options: Any) -> Decided:
    return desk.decide(engine, TRACE_ID, label, reviewer, NOW + at, **options)


def decision(engine: Engine) -> str:
    with engine.connect() as connection:
        return str(connection.scalar(select(reviews.c.decision)))


def test_the_same_key_draws_the_same_share_again_and_another_key_another() -> None:
    ids = [f"{number:032x}" for number in range(5000)]
    drawn = [(look.asked, look.chance, look.chosen) for name in ids for look in DRAW.looks(name)]
    again = Rereading(b"k" * 32, RereadingConfig(second_reader_share=0.2, repeat_share=0.1))
    assert drawn == [(look.asked, look.chance, look.chosen) for name in ids for look in again.looks(name)]
    counts = {name: sum(chosen for asked, _chance, chosen in drawn if asked == name) for name in (SECOND, REPEAT)}
    assert abs(counts[SECOND] - 1000) < 4 * (5000 * 0.2 * 0.8) ** 0.5
    assert abs(counts[REPEAT] - 500) < 4 * (5000 * 0.1 * 0.9) ** 0.5
    other = Rereading(b"x" * 32, RereadingConfig(second_reader_share=0.2, repeat_share=0.1))
    assert [look for name in ids for look in other.looks(name)] != [look for name in ids for look in DRAW.looks(name)]


def test_without_a_key_or_a_share_nothing_is_drawn() -> None:
    assert Rereading(b"", RereadingConfig()).looks(TRACE_ID) == []
    assert Rereading(b"k" * 32, RereadingConfig(0.0, 0.0)).looks(TRACE_ID) == []


@pytest.mark.parametrize("changes", [{"second_reader_share": 1.5}, {"repeat_share": -0.1}, {"repeat_after_days": -1}])
def test_a_share_that_is_none_is_refused(changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        RereadingConfig(**changes)


def test_the_first_label_keeps_both_draws_chosen_or_not(engine: Engine) -> None:
    add(engine, make_trace(1, "How large?"), confirm=False)
    decide(engine, FAILED, REVIEWER, rereading=DRAW)
    decide(engine, FAILED, REVIEWER, at=2.0, rereading=DRAW)
    with engine.connect() as connection:
        kept = {row.asked: (row.chance, row.chosen) for row in connection.execute(select(second_looks))}
    assert kept == {look.asked: (look.chance, look.chosen) for look in DRAW.looks(TRACE_ID)}


def test_a_blind_second_reading_that_agrees_changes_nothing_but_who_has_read(engine: Engine) -> None:
    candidate_id = add(engine, make_trace(1, "How large?"))
    assert decide(engine, FAILED, OTHER, blind=True) == Decided("second", agrees=True)
    candidates.note_readers(engine, TRACE_ID, NOW + 1)
    document = candidates.load(engine, candidate_id)
    assert decision(engine) == "confirmed"
    assert document["review"]["reviewers"] == [REVIEWER, OTHER]
    assert document["review"]["agreement"] == 1.0
    assert (document["review"]["status"], document["revision"]) == ("REVIEWED", 1)


def test_two_readings_that_differ_hold_the_candidate_until_somebody_settles(engine: Engine, tmp_path: Path) -> None:
    add(engine, make_trace(1, "How large?"))
    assert decide(engine, RIGHT, OTHER, blind=True) == Decided("second", agrees=False)
    assert decision(engine) == "disputed"
    report = export(engine, tmp_path / "set", NOW + 2, policy=POLICY, holdout=tmp_path / "holdout")
    assert report.held == {"failure_not_confirmed": 1}
    assert decide(engine, FAILED, "rv_00000000", at=3.0) == Decided("settled")
    assert decision(engine) == "confirmed"
    candidates.create(engine, TRACE_ID, KEY, NOW + 3, policy=POLICY, verdict=lambda _trace: "fail")
    candidates.note_readers(engine, TRACE_ID, NOW + 3)
    report = export(engine, tmp_path / "set", NOW + 4, policy=POLICY, holdout=tmp_path / "holdout")
    assert (report.written + report.holdout_written, report.held) == (1, {})
    with engine.connect() as connection:
        said = readings.of_trace(connection, TRACE_ID)
    assert [(reading.kind, reading.label, reading.blind) for reading in said] == [
        ("first", "fail", False),
        ("second", "pass", True),
        ("settled", "fail", False),
    ]
    assert readings.share_agreeing(said, "confirmed") == pytest.approx(2 / 3)


def test_a_repeat_measures_the_same_person_and_a_change_of_mind_in_sight_is_none(engine: Engine) -> None:
    add(engine, make_trace(1, "How large?"), confirm=False)
    assert decide(engine, FAILED, REVIEWER, blind=True) == Decided("repeat", agrees=True)
    assert decide(engine, RIGHT, REVIEWER, at=2.0) == Decided("again")
    assert decision(engine) == "rejected"
