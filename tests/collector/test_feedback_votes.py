"""One vote a person, bursts held back, late complaints capped by a chance that is known before."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from groundwatch_collector import settling, tables
from groundwatch_collector.capped_rates import UNPLANNED
from groundwatch_collector.decision import DEFAULT_RATES
from groundwatch_collector.feedback_bursts import Bursts, Complaint
from groundwatch_collector.feedback_cap import EPOCH_SECONDS, FREE, LEAST, Caused, ComplaintCap, largest_chance
from groundwatch_collector.feedback_policy import DAY, HOUR, MINUTE, FeedbackPolicy
from groundwatch_collector.settling_tables import late_offers, settling_tally
from groundwatch_collector.tables import rate_tables

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


# The share of complaints.


def test_few_complaints_are_never_cut():
    assert largest_chance(0.2, Caused(complaints=1000, others=0, asked=FREE, asked_lately=500)) == 1.0
    assert largest_chance(0.2, Caused(complaints=0, others=0, asked=FREE + 1, asked_lately=FREE + 1)) < 1.0


def test_what_is_left_lasts_for_what_is_asked_lately():
    caused = Caused(complaints=50, others=950, asked=10_000, asked_lately=5_000)
    spent = caused.complaints + largest_chance(0.2, caused) * caused.asked_lately
    assert spent / (spent + caused.others) == pytest.approx(0.2)
    assert largest_chance(0.2, caused._replace(asked_lately=10)) == 1.0


def test_something_is_always_left():
    assert largest_chance(0.2, Caused(complaints=900, others=100, asked=10_000, asked_lately=9_000)) == LEAST
    assert largest_chance(0.2, Caused(complaints=0, others=1, asked=10**7, asked_lately=10**7)) == LEAST


def test_the_chance_of_an_epoch_depends_on_nothing_younger_than_two_epochs(world, make):
    world.start(dataclasses.replace(world.config, rates=SELDOM))
    cap = ComplaintCap(world.engine, FeedbackPolicy())
    first = (int(world.time // EPOCH_SECONDS) + 1) * EPOCH_SECONDS
    world.time = float(first)
    people = FREE + 10
    for number in range(1, people + 1):
        world.send(*make.request(number, start=world.time))
    world.settle(4)
    for number in range(1, people + 1):
        world.feedback(id=f"f{number}", trace_id=make.trace_id(number), name="thumbs", label="down", by=f"p{number}")
    world.settle(1)
    assert len(world.rows(late_offers)) == people  # all of them judged: more than the share, of which nothing is left
    at = [first + n * EPOCH_SECONDS for n in (0, 1, 2)]
    assert [ComplaintCap(world.engine, FeedbackPolicy()).chance(t)[0] for t in at] == [1.0, 1.0, LEAST]
    assert cap.chance(at[2]) == (LEAST, first // EPOCH_SECONDS + 2)


@pytest.fixture
def flooded(world, make):
    """Without a budget, every trace of twenty minutes was complained of at once, and judged for it."""
    world.start(dataclasses.replace(world.config, rates=SELDOM))
    world.time = float((int(world.time // EPOCH_SECONDS) + 1) * EPOCH_SECONDS)
    for number in range(1, FREE + 11):
        complained(world, make, number)
    return world


def complained(world, make, number):
    world.send(*make.request(number, start=world.time))
    world.feedback(id=f"f{number}", trace_id=make.trace_id(number), name="thumbs", label="down", by=f"p{number}")
    world.settle(4)
    return world.ledger()[make.trace_id(number)]


def test_complaints_before_the_decision_are_capped_where_rates_are_fixed(flooded, make):
    world, usual = flooded, flooded.config.rate_table()
    world.time += 2 * EPOCH_SECONDS
    row = complained(world, make, 100)
    start = int(world.time // EPOCH_SECONDS) * EPOCH_SECONDS
    assert (row.stratum, row.inclusion_probability, row.epoch) == ("feedback_neg", LEAST, f"e{start}-{usual.epoch}")
    assert world.pipeline.chances() == {**usual.rates, "feedback_neg": LEAST}
    # A restart reads the table, and what started before keeps the usual one.
    written = world.rows(rate_tables)
    world.start()
    assert complained(world, make, 101).epoch == row.epoch
    assert world.rows(rate_tables) == written
    world.send(*make.request(102, start=world.time - EPOCH_SECONDS))
    world.settle(4)
    assert world.ledger()[make.trace_id(102)].epoch == usual.epoch
    # And it recovers when the flood is a day behind.
    world.time += DAY + EPOCH_SECONDS
    row = complained(world, make, 103)
    assert (row.inclusion_probability, row.epoch) == (1.0, usual.epoch)


def test_a_table_without_a_plan_does_not_disturb_the_planner(flooded, make):
    world = flooded
    world.time += 2 * EPOCH_SECONDS
    complained(world, make, 100)
    assert [row.cuts_version for row in world.rows(rate_tables)] == [UNPLANNED]
    world.start(dataclasses.replace(world.config, budget_judged_per_day=100.0))
    assert "cuts-1" in complained(world, make, 101).epoch


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
