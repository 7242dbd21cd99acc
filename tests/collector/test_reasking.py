"""Asking nearly the same again: noticed inside a session and a time, bounded, and a weak sign only."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundwatch import names
from groundwatch_collector import tables
from groundwatch_collector.decision import DEFAULT_RATES, DecideConfig
from groundwatch_collector.ragtrace import Outcome, RagTrace
from groundwatch_collector.reasking import Reask, Reasking, ReaskSettings, content_keys, similarity

PASSWORD = "how do I reset my password?"
SELDOM = {**dict.fromkeys(DEFAULT_RATES, 1e-9), "feedback_neg": 1.0}


def asked(number: int, query: str | None, at: float = 0.0, **changes: Any) -> RagTrace:
    plain = RagTrace(
        trace_id=f"{number:032x}",
        app="shop",
        version="1",
        started_at=at,
        duration_seconds=2.0,
        outcome=Outcome.ANSWERED,
        outcome_source="recorded",
        query=query,
        session="s-1",
    )
    return dataclasses.replace(plain, **changes)


@pytest.mark.parametrize(
    ("first", "second", "near"),
    [
        (PASSWORD, "How to reset password please", True),
        ("怎么重置密码", "请问如何重置我的密码？", True),
        ("what is the refund policy", "I asked about the refund policy!", True),
        (PASSWORD, "how do I change my e-mail?", False),
        ("怎么重置密码", "怎么修改邮箱", False),
        ("what is it?", "what is it?", True),  # nothing but common words: compared whole
        (PASSWORD, "", False),
    ],
)
def test_how_near_two_questions_are_in_both_languages(first, second, near):
    assert (similarity(content_keys(first), content_keys(second)) >= 0.5) is near


def test_the_same_question_soon_after_its_answer_is_asking_again():
    sessions = Reasking(ReaskSettings())
    assert sessions.see(asked(1, PASSWORD)) is None
    assert sessions.see(asked(2, PASSWORD, at=30.0)) == Reask(f"{1:032x}", 1.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"session": "s-2"},
        {"app": "other"},
        {"session": ""},
        {"started_at": 603.0},  # too late
        {"started_at": 1.0},  # the first answer was still being written: a double click
        {"query": "which regions can store our data"},
        {"query": None},
        {"query": "..."},
        {"trace_id": f"{1:032x}"},
    ],
)
def test_what_is_not_asking_again(changes):
    sessions = Reasking(ReaskSettings())
    sessions.see(asked(1, PASSWORD))
    assert sessions.see(dataclasses.replace(asked(2, PASSWORD, at=30.0), **changes)) is None


def test_the_nearest_of_the_last_questions_counts():
    sessions = Reasking(ReaskSettings())
    sessions.see(asked(1, "reset the password of a guest", 0.0))
    sessions.see(asked(2, "which regions store data", 10.0))
    found = sessions.see(asked(3, "resetting the password of a guest", 20.0))
    assert found is not None
    assert found.earlier_trace_id == f"{1:032x}"


@given(st.lists(st.tuples(st.text(max_size=400), st.sampled_from("abcdef"), st.floats(0, 1e6)), max_size=40))
@settings(max_examples=100, deadline=None)
def test_the_memory_is_bounded_whatever_is_asked(stream):
    sessions = Reasking(ReaskSettings(sessions=3, per_session=2))
    for number, (text, session, at) in enumerate(stream):
        found = sessions.see(asked(number, text, at, session=session))
        assert found is None or 0.5 <= found.similarity <= 1.0
        assert len(sessions) <= 3


@pytest.mark.parametrize("changes", [{"similarity": 0.0}, {"similarity": 1.1}, {"seconds": -1.0}, {"sessions": 0}])
def test_settings_that_make_no_sense_are_refused(changes):
    with pytest.raises(ValueError, match="accepted"):
        ReaskSettings(**changes)


# In the pipeline.


def ask_twice(world: Any, make: Any) -> None:
    for number in (1, 2):
        root = {names.QUERY: "How large may an upload be?", names.SESSION: "s-1"}
        world.send(*make.request(number, start=world.time, root=root))
        world.settle(5)
    world.settle(5)


def test_asking_again_is_kept_as_neutral_feedback_of_the_earlier_trace_and_judges_nothing(world, make):
    world.start(DecideConfig(position_interval_seconds=0.0, rates=SELDOM))
    ask_twice(world, make)
    (row,) = world.rows(tables.feedback)
    assert (row.trace_id, row.feedback_id) == (make.trace_id(1), f"reask-{make.trace_id(2)}")
    assert (row.name, row.sentiment, row.by, row.score) == ("reask", "neutral", "collector", 1.0)
    assert world.rows(tables.sampled_traces) == []
    assert world.value("rag_reasked_requests_total", app="shop") == 1
    assert world.value("rag_feedback_total", app="shop", sentiment="neutral") == 0  # no user said anything


def test_asking_again_raises_the_score_of_the_later_trace(world, make):
    """A threshold between the two scores shows it: the same answer, asked for the second time."""
    rates = dict.fromkeys(DEFAULT_RATES, 1.0)
    world.start(DecideConfig(position_interval_seconds=0.0, rates=rates, cut_1=0.15))
    ask_twice(world, make)
    assert [world.ledger()[make.trace_id(n)].stratum for n in (1, 2)] == ["normal_b0", "normal_b1"]


def test_where_it_is_configured_as_negative_the_earlier_trace_comes_back_to_be_judged(world, make):
    world.start(DecideConfig(position_interval_seconds=0.0, rates=SELDOM, reask_sentiment="negative"))
    ask_twice(world, make)
    (sampled,) = world.rows(tables.sampled_traces)
    assert (sampled.trace_id, sampled.family, sampled.stratum) == (make.trace_id(1), "late", "feedback_neg")
    assert world.value("groundwatch_late_feedback_total", result="queued") == 1
    assert world.ledger()[make.trace_id(2)].verdict == "not_sampled"


def test_it_is_stored_once_when_the_log_is_read_again(world, make):
    world.start(DecideConfig(rates=SELDOM, position_interval_seconds=1e9))  # the position lags behind
    ask_twice(world, make)
    world.start()
    world.settle(60)
    assert len(world.rows(tables.feedback)) == 1


def test_it_can_be_switched_off_and_a_wrong_sentiment_is_refused(world, make):
    world.start(DecideConfig(position_interval_seconds=0.0, rates=SELDOM, reask_seconds=0.0))
    ask_twice(world, make)
    assert world.rows(tables.feedback) == []
    with pytest.raises(ValueError, match="reask_sentiment: found 'bad'"):
        DecideConfig(reask_sentiment="bad")
