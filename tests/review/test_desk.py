"""Decisions of people: appended as judgements, one current review, and never part of the estimate."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, Table, select

from groundwatch_review import desk
from groundwatch_review.tables import reviews
from groundwatch_scorer.tables import judgements, verdict_tally

REVIEWER = "rv_0123456789abcdef"
NOW = 1_790_000_000.0


def rows(engine: Engine, table: Table) -> list[dict[str, Any]]:
    with engine.connect() as connection:
        return [dict(row._mapping) for row in connection.execute(select(table))]


def by_people(engine: Engine) -> list[dict[str, Any]]:
    return [row for row in rows(engine, judgements) if row["annotator_kind"] == "HUMAN"]


def test_a_confirmed_failure_is_a_judgement_of_a_person_and_a_review(engine, add_trace):
    trace_id = add_trace()
    desk.confirm(engine, trace_id, "rerank", "cut off", REVIEWER, NOW)
    (judgement,) = by_people(engine)
    assert (judgement["criterion"], judgement["label"]) == ("any_failure", "fail")
    assert judgement["identifier"] == f"reviewer:{REVIEWER}"
    assert '"rerank"' in judgement["detail"]
    (review,) = rows(engine, reviews)
    expected = {"decision": "confirmed", "fault_layer": "rerank", "note": "cut off", "reviewer": REVIEWER}
    assert review == {"trace_id": trace_id, **expected, "reviewed_at": NOW}


def test_deciding_again_replaces_the_review_and_keeps_both_judgements(engine, add_trace):
    trace_id = add_trace()
    desk.confirm(engine, trace_id, "rerank", "", REVIEWER, NOW)
    desk.reject(engine, trace_id, "", "was right", REVIEWER, NOW + 1)
    assert [row["label"] for row in by_people(engine)] == ["fail", "pass"]
    (review,) = rows(engine, reviews)
    assert (review["decision"], review["fault_layer"]) == ("rejected", "")


def test_a_person_never_moves_the_sums_behind_the_estimate(engine, world):
    before = rows(engine, verdict_tally)
    desk.confirm(engine, world.sampled[0], "generation", "", REVIEWER, NOW)
    assert rows(engine, verdict_tally) == before


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"fault_layer": "weather"}, "weather"),
        ({"note": "n" * 4001}, "4001"),
        ({"reviewer": "alice"}, "rv_"),
        ({"trace_id": "f" * 32}, "not sampled"),
    ],
)
def test_what_cannot_be_recorded_is_refused_by_name_and_changes_nothing(engine, add_trace, changes, names):
    asked = {
        "trace_id": add_trace(),
        "fault_layer": "rerank",
        "note": "",
        "reviewer": REVIEWER,
        "now": NOW,
        **changes,
    }
    with pytest.raises(desk.Refused, match=names):
        desk.confirm(engine, **asked)
    assert by_people(engine) == []
    assert rows(engine, reviews) == []


def test_new_reviewers_are_random_and_accepted():
    first, second = desk.new_reviewer(), desk.new_reviewer()
    assert first != second
    assert desk.is_reviewer(first)
    assert not desk.is_reviewer("rv_ABC\n")
