"""One vote a person, bursts held back, late complaints capped by a chance that is known before."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from groundwatch_collector import settling, tables
from groundwatch_collector.decision import DEFAULT_RATES
from groundwatch_collector.feedback_bursts import Bursts, Complaint
from groundwatch_collector.feedback_cap import EPOCH_SECONDS, FREE, LEAST, Caused, LateCap, late_chance
from groundwatch_collector.feedback_policy import DAY, HOUR, MINUTE, FeedbackPolicy
from groundwatch_collector.settling_tables import late_offers, settling_tally

TRACE = f"{1:032x}"
SELDOM = {**dict.fromkeys(DEFAULT_RATES, 1e-9), "feedback_neg": 1.0}


def vote(world: Any, identifier: str, label: str, **fields: Any) -> None:
    world.feedback(**{"id": identifier, "trace_id": TRACE, "name": "thumbs", "label": label, "by": "ann"} | fields)


def ignored(world: Any, reason: str) -> float:
    return float(world.value("groundwatch_feedback_ignored_total", reason=reason))


def test_a_later_vote_takes_the_place_of_the_one_before(world, make):
    vote(world, "f1", "down")
    vote(world, "f2", "up")
    world.send(*make.request(1))
    world.settle(4)
    (row,) = world.rows(tables.feedback)
    assert (row.feedback_id, row.sentiment) == ("f2", "positive")
    assert world.ledger()[TRACE].stratum != "feedback_neg"
    assert (ignored(world, "replaced"), ignored(world, "duplicate")) == (1, 0)
    assert world.value("rag_feedback_total", app="shop", sentiment="positive") == 0  # the vote was counted as it came


def test_saying_the_same_again_changes_nothing(world):
    for number in range(3):
        vote(world, f"f{number}", "down", comment="wrong")
    world.settle(0)
    assert [row.feedback_id for row in world.rows(tables.feedback)] == ["f0"]
    assert ignored(world, "duplicate") == 2


@pytest.mark.parametrize("changed", [{"by": "bob"}, {"name": "rating"}, {"trace_id": "ab" * 16}])
def test_other_people_other_names_and_other_traces_are_other_votes(world, changed):
    vote(world, "f1", "down")
    vote(world, "f2", "down", **changed)
    world.settle(0)
    assert len(world.rows(tables.feedback)) == 2
    assert ignored(world, "duplicate") == ignored(world, "replaced") == 0


def test_an_id_that_another_vote_has_stays_with_it(world):
    vote(world, "f1", "down")
    vote(world, "f1", "down", by="bob")
    world.settle(0)
    assert [row.by for row in world.rows(tables.feedback)] == ["ann"]
    assert ignored(world, "duplicate") == 1


def test_votes_are_the_same_whatever_is_read_again(new_world):
    """The same records, read once, and with a restart after each of them."""
    found = []
    for name, restarts in (("calm", False), ("shaken", True)):
        world = new_world(name)
        world.start(dataclasses.replace(world.config, batch_records=1))
        for number, label in enumerate(("down", "up", "up", "down", "up")):
            vote(world, f"f{number}", label)
            world.settle(0)
            if restarts:
                world.pipeline._cursor = 0  # what a crash before the position was written leaves
                world.settle(0)
        found.append([(row.feedback_id, row.sentiment, row.position) for row in world.rows(tables.feedback)])
    assert found[0] == found[1]
    assert found[0][0][:2] == ("f4", "positive")


def test_a_complaint_after_praise_brings_the_trace_back(world, make):
    world.start(dataclasses.replace(world.config, rates=SELDOM))
    world.send(*make.request(1))
    vote(world, "f1", "up")
    world.settle(4)
    vote(world, "f2", "down")
    world.settle(1)
    assert [row.stratum for row in world.rows(tables.sampled_traces)] == ["feedback_neg"]


# What a late complaint leaves behind for the settled family.


@pytest.mark.parametrize(("rate", "queued"), [(1.0, 1), (1e-9, 0)])
def test_a_late_complaint_is_an_offer_whether_it_is_chosen_or_not(world, make, rate, queued):
    world.start(dataclasses.replace(world.config, rates={**SELDOM, "feedback_neg": rate}))
    world.send(*make.request(1))
    world.settle(4)
    decided = world.ledger()[TRACE]
    for name in ("thumbs", "rating"):
        world.feedback(id=name, trace_id=TRACE, name=name, score=0, by=name)
        world.settle(1)
    (offer,) = world.rows(late_offers)
    assert (offer.from_stratum, offer.decided_probability, offer.u56) == (
        decided.stratum,
        decided.inclusion_probability,
        decided.u56,
    )
    assert (offer.stratum, offer.inclusion_probability, offer.reason) == ("feedback_neg", rate, "late_feedback")
    assert offer.settle_bucket == settling.bucket_of(decided.decided_at)
    assert len(world.rows(tables.sampled_traces)) == queued
    assert world.value("rag_late_feedback_total", **{"from": decided.stratum}) == 1
    assert [row.received for row in world.rows(settling_tally)] == [1]


def test_a_complaint_on_a_judged_trace_is_an_offer_as_well(world, make):
    world.start(dataclasses.replace(world.config, rates=dict.fromkeys(DEFAULT_RATES, 1.0)))
    world.send(*make.request(1))
    world.settle(4)
    vote(world, "f1", "down")
    world.settle(1)
    assert len(world.rows(late_offers)) == 1
    assert world.value("groundwatch_late_feedback_total", result="already_sampled") == 1


def test_after_the_horizon_a_complaint_is_for_people_only(world, make):
    world.start(dataclasses.replace(world.config, rates=SELDOM))
    world.send(*make.request(1))
    world.settle(4)
    world.time += DAY
    vote(world, "f1", "down")
    world.settle(1)
    assert world.rows(late_offers) == []
    assert [row.family for row in world.rows(tables.sampled_traces)] == ["late"]


# Bursts.


def bursts(past: Any = (), **changes: int) -> Bursts:
    bounds = {"subject_negatives_per_minute": 2, "subject_negatives_per_hour": 4, "app_negatives_per_minute": 5}
    return Bursts(FeedbackPolicy(**bounds | changes), past)  # type: ignore[arg-type]


def test_a_person_may_complain_up_to_the_bound():
    gate = bursts()
    at = [0.0, 1.0, 2.0, 70.0, 71.0, 72.0, HOUR + 200]
    found = [gate.admit(Complaint("ann", "shop", moment)) for moment in at]
    assert found == ["", "", "subject", "", "subject", "subject", ""]


def test_a_burst_is_over_when_it_pauses_not_when_its_minute_is():
    gate = bursts(subject_negatives_per_hour=1000)
    found = [gate.admit(Complaint("ann", "shop", moment * 10.0)) for moment in range(30)]
    assert found[:2] == ["", ""] and set(found[2:]) == {"subject"}
    assert gate.admit(Complaint("ann", "shop", 290.0 + MINUTE + 1)) == ""


def test_one_loud_person_does_not_close_the_app_for_others():
    gate = bursts()
    for moment in range(50):
        gate.admit(Complaint("ann", "shop", moment / 10))
    assert gate.admit(Complaint("bob", "shop", 6.0)) == ""


def test_many_people_at_once_are_bounded_for_their_app_only():
    gate = bursts()
    found = [gate.admit(Complaint(f"p{number}", "shop", 1.0)) for number in range(8)]
    assert found == [""] * 5 + ["app"] * 3
    assert gate.admit(Complaint("p1", "other", 1.0)) == ""
    assert gate.admit(Complaint("", "shop", 1.0)) == "app"


def test_nobody_known_is_bounded_by_the_app_alone():
    gate = bursts(app_negatives_per_minute=100)
    assert {gate.admit(Complaint("", "shop", 1.0)) for _ in range(50)} == {""}


def test_a_clock_that_is_set_back_keeps_the_bound():
    gate = bursts()
    assert [gate.admit(Complaint("ann", "shop", at)) for at in (100.0, 50.0, 60.0)] == ["", "", "subject"]


def test_a_restart_does_not_open_the_gate(world, make):
    world.send(*make.request(1))
    for number in range(8):
        vote(world, f"f{number}", "down", name=f"n{number}")
    world.settle(0)
    world.start()
    vote(world, "f9", "down", name="again")
    world.settle(4)
    assert world.value("groundwatch_feedback_quarantined_total", bound="subject") == 1
    quarantined = [row.feedback_id for row in world.rows(tables.feedback) if row.quarantined]
    assert quarantined == ["f5", "f6", "f7", "f9"]


def test_a_transaction_that_is_tried_again_weighs_nothing_twice(world, make):
    world.send(*make.request(1))
    for number in range(5):
        vote(world, f"f{number}", "down", name=f"n{number}")
    failures = ["database is locked"]

    def fail_once(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.startswith("INSERT INTO feedback") and failures:
            raise OperationalError(statement, {}, Exception(failures.pop()))

    event.listen(world.engine, "before_cursor_execute", fail_once)
    with pytest.raises(OperationalError):
        world.pipeline.step(0)
    world.settle(4)
    assert [row.quarantined for row in world.rows(tables.feedback)] == [False] * 5


def test_a_quarantined_complaint_moves_no_stratum_before_or_after_the_decision(world, make):
    world.start(dataclasses.replace(world.config, rates=SELDOM))
    for number in range(1, 9):
        world.feedback(id=f"f{number}", trace_id=make.trace_id(number), name="thumbs", label="down", by="ann")
        world.send(*make.request(number))
    world.settle(4)
    complained = [row.stratum for _, row in sorted(world.ledger().items())].count("feedback_neg")
    assert complained == 5
    vote(world, "late", "down", trace_id=make.trace_id(8), name="rating")
    world.settle(1)
    assert world.value("groundwatch_late_feedback_total", result="quarantined") == 1
    assert world.rows(late_offers) == []


# The share of late complaints.


def test_few_late_complaints_are_never_cut():
    assert late_chance(0.8, 0.2, Caused(complaints=1000, others=0, late=FREE)) == 0.8


def test_the_chance_is_the_largest_that_keeps_the_share():
    caused = Caused(complaints=50, others=950, late=10_000)
    chance = late_chance(1.0, 0.2, caused)
    late = chance * caused.late
    assert (caused.complaints + late) / (caused.complaints + caused.others + late) == pytest.approx(0.2)


def test_something_is_always_left_and_never_more_than_the_stratum_has():
    assert late_chance(0.5, 0.2, Caused(complaints=900, others=100, late=10_000)) == 0.5 * LEAST
    assert late_chance(0.5, 0.2, Caused(complaints=0, others=10_000, late=30)) == 0.5


def test_the_chance_of_an_epoch_depends_on_nothing_younger_than_two_epochs(world, make):
    world.start(dataclasses.replace(world.config, rates=SELDOM))
    cap = LateCap(world.engine, FeedbackPolicy())
    first = (int(world.time // EPOCH_SECONDS) + 1) * EPOCH_SECONDS
    world.time = float(first)
    people = FREE + 10
    for number in range(1, people + 1):
        world.send(*make.request(number, start=world.time))
    world.settle(4)
    for number in range(1, people + 1):
        world.feedback(id=f"f{number}", trace_id=make.trace_id(number), name="thumbs", label="down", by=f"p{number}")
    world.settle(1)
    assert len(world.rows(late_offers)) == people
    chances = [LateCap(world.engine, FeedbackPolicy()).chance(1.0, first + n * EPOCH_SECONDS)[0] for n in (0, 1, 2)]
    assert chances == [1.0, 1.0, LEAST]
    assert cap.chance(1.0, first + 2 * EPOCH_SECONDS) == (LEAST, f"late-{first // EPOCH_SECONDS + 2}")


@pytest.mark.parametrize(
    "wrong",
    [
        {"late_share": 0.0},
        {"late_share": 1.0},
        {"subject_negatives_per_minute": 0},
        {"app_negatives_per_minute": 0},
        {"settle_after_seconds": 60.0},
        {"settle_after_seconds": 8 * DAY},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_name(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}: found .*accepted"):
        FeedbackPolicy(**wrong)
