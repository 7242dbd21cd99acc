"""Feedback joins its trace whenever it comes, and can bring back one that was not sampled - never into the sums."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson
import pytest
from sqlalchemy import insert

from groundwatch_collector import feedback, ledger, sampling, tables
from groundwatch_collector.decision import DEFAULT_RATES
from groundwatch_collector.limits import Rejected
from groundwatch_collector.ragtrace import Feedback, from_json
from groundwatch_collector.sampled import BLANK_PAYLOAD

SALT = b"a salt for tests"
TRACE = f"{1:032x}"
SELDOM = {**dict.fromkeys(DEFAULT_RATES, 1e-9), "feedback_neg": 1.0}


def test_a_complaint_before_the_decision_makes_the_stratum(world, make):
    world.send(*make.request(1))
    world.feedback(id="f1", trace_id=TRACE, name="thumbs", label="down", comment="wrong")
    world.settle(4)
    row = world.ledger()[TRACE]
    assert (row.stratum, row.verdict) == ("feedback_neg", "sampled")
    (sampled,) = world.rows(tables.sampled_traces)
    assert (sampled.family, sampled.reason) == ("fast", "hash")
    assert [given.comment for given in from_json(sampled.payload).feedback] == ["wrong"]
    assert world.value("rag_feedback_total", app="shop", sentiment="negative") == 1


def test_feedback_may_come_before_its_trace(world, make):
    world.feedback(id="f1", trace_id=TRACE, name="thumbs", label="踩")
    world.settle(5)
    assert len(world.rows(tables.feedback)) == 1
    assert world.value("rag_feedback_total", app="unknown", sentiment="negative") == 1
    world.send(*make.request(1))
    world.settle(4)
    assert world.ledger()[TRACE].stratum == "feedback_neg"


def test_a_late_complaint_brings_the_trace_back_from_the_log(world, make):
    world.start(dataclasses.replace(world.config, rates=SELDOM))
    *children, root = make.request(1)
    world.send(*children, *make.request(2))
    world.send(root)
    world.settle(4)
    before = world.ledger()[TRACE]
    tally = world.rows(tables.traffic_tally)
    assert before.verdict == "not_sampled"
    world.feedback(id="f1", trace_id=TRACE.upper(), name="rating", score=1)
    world.settle(1)
    (sampled,) = world.rows(tables.sampled_traces)
    after = world.ledger()[TRACE]
    assert (sampled.family, sampled.reason, sampled.stratum) == ("late", "late_feedback", "feedback_neg")
    assert sampled.inclusion_probability == 1.0
    trace = from_json(sampled.payload)
    assert (trace.span_count, trace.feedback[0].id) == (6, "f1")
    assert (after.verdict, after.reason, after.stratum, after.inclusion_probability) == (
        "sampled",
        "late_feedback",
        before.stratum,
        before.inclusion_probability,
    )
    assert world.rows(tables.traffic_tally) == tally
    assert world.value("groundwatch_late_feedback_total", result="queued") == 1
    report = ledger.report(world.engine, world.log)
    assert report.adds_up and (report.waiting_for_judge, report.late) == (1, 1)


def erase(world):
    with world.engine.begin() as connection:
        connection.execute(insert(tables.erased_traces).values(trace_id=TRACE, erased_at=0.0))


def test_a_trace_that_was_erased_is_not_read_again_for_a_late_complaint(world, make):
    world.start(dataclasses.replace(world.config, rates=SELDOM))
    world.send(*make.request(1))
    world.settle(4)
    erase(world)
    world.feedback(id="f1", trace_id=TRACE, name="rating", score=1)
    world.settle(1)
    assert world.rows(tables.sampled_traces) == []
    assert world.ledger()[TRACE].verdict == "not_sampled"
    assert world.value("groundwatch_late_feedback_total", result="payload_gone") == 1
    assert ledger.report(world.engine, world.log).adds_up


def test_a_trace_that_was_erased_before_its_decision_is_counted_without_its_text(world, make):
    world.start(dataclasses.replace(world.config, rates=dict.fromkeys(DEFAULT_RATES, 1.0)))
    world.send(*make.request(1))
    erase(world)
    world.settle(4)
    (sampled,) = world.rows(tables.sampled_traces)
    assert (sampled.payload, world.ledger()[TRACE].verdict) == (BLANK_PAYLOAD, "sampled")
    assert ledger.report(world.engine, world.log).adds_up


def test_late_feedback_is_chosen_by_the_same_random_number(world, make):
    rates = {**SELDOM, "feedback_neg": 0.5}
    world.start(dataclasses.replace(world.config, rates=rates))
    for number in range(1, 21):
        world.send(*make.request(number))
    world.settle(4)
    for number in range(1, 21):
        world.feedback(id=f"f{number}", trace_id=make.trace_id(number), name="thumbs", label="down")
    world.settle(1)
    chosen = {row.trace_id for row in world.rows(tables.sampled_traces)}
    expected = {t for n in range(1, 21) if sampling.included(sampling.u56(t := make.trace_id(n), SALT), 0.5)}
    assert chosen == expected
    assert 0 < len(chosen) < 20
    assert world.value("groundwatch_late_feedback_total", result="not_chosen") == 20 - len(chosen)


@pytest.mark.parametrize(
    ("rates", "label", "result"),
    [(dict.fromkeys(DEFAULT_RATES, 1.0), "down", "already_sampled"), (SELDOM, "up", "not_negative")],
)
def test_late_feedback_that_changes_nothing_is_stored_and_counted(world, make, rates, label, result):
    world.start(dataclasses.replace(world.config, rates=rates))
    world.send(*make.request(1))
    world.settle(4)
    queued = world.rows(tables.sampled_traces)
    world.feedback(id="f1", trace_id=TRACE, name="thumbs", label=label)
    world.settle(1)
    assert world.rows(tables.sampled_traces) == queued
    assert len(world.rows(tables.feedback)) == 1
    assert world.value("groundwatch_late_feedback_total", result=result) == 1


def test_feedback_is_idempotent_by_its_id(world, make):
    world.send(*make.request(1))
    for _ in range(3):
        world.feedback(id="f1", trace_id=TRACE, name="thumbs", label="down")
    world.feedback(id="f1", trace_id=TRACE, name="thumbs", label="up")
    world.settle(1)
    world.start()
    world.settle(4)
    (row,) = world.rows(tables.feedback)
    assert row.sentiment == "negative"
    assert world.value("rag_feedback_total", app="shop", sentiment="negative") == 0  # counted before the restart


def test_two_complaints_queue_a_trace_once(world, make):
    world.start(dataclasses.replace(world.config, rates=SELDOM))
    world.send(*make.request(1))
    world.settle(4)
    world.feedback(id="f1", trace_id=TRACE, name="thumbs", label="down", by="ann")
    world.feedback(id="f2", trace_id=TRACE, name="thumbs", label="down", by="bob")
    world.settle(1)
    assert len(world.rows(tables.sampled_traces)) == 1
    assert world.value("groundwatch_late_feedback_total", result="already_sampled") == 1


def read(**fields: Any) -> Feedback:
    return feedback.read(orjson.dumps({"trace_id": TRACE, **fields}), 5.0)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"label": "down"}, "negative"),
        ({"label": "Thumbs-Down"}, "negative"),
        ({"label": "赞"}, "positive"),
        ({"label": "差评"}, "negative"),
        ({"label": "👎"}, "negative"),
        ({"label": "purple"}, "neutral"),
        ({}, "neutral"),
        ({"score": 1}, "positive"),
        ({"score": 0}, "negative"),
        ({"score": -1}, "negative"),
        ({"score": 0.5}, "neutral"),
        ({"value": True}, "positive"),
        ({"value": "down"}, "negative"),
        ({"name": "rating", "score": 1}, "negative"),
        ({"name": "rating", "score": 3}, "neutral"),
        ({"name": "五星评分", "score": 5}, "positive"),
        ({"name": "handoff"}, "negative"),
        ({"name": "转人工", "label": "up"}, "negative"),
        ({"name": "Human-Handoff"}, "negative"),
        ({"name": "转接客服"}, "negative"),
        ({"name": "满意度", "score": 2}, "negative"),
        ({"name": "打分", "score": 4}, "positive"),
        ({"label": "up", "score": 0}, "positive"),
        ({"sentiment": "negative", "label": "up"}, "negative"),
        ({"sentiment": "furious", "label": "up"}, "positive"),
    ],
)
def test_sentiment(fields, expected):
    assert read(**fields).sentiment == expected


def test_the_same_report_without_an_id_is_one_report():
    assert read(label="down").id == read(label="down").id != read(label="up").id


@pytest.mark.parametrize("value", [None, 5, "", "xyz", "0" * 32, "1" * 31, "g" * 32])
def test_feedback_without_a_usable_trace_id_is_refused(value):
    with pytest.raises(Rejected, match="32 hexadecimal digits"):
        read(trace_id=value)


def test_a_trace_id_may_be_a_uuid():
    assert read(trace_id="0123ABCD-0123-abcd-0123-0123456789ab").trace_id == "0123abcd0123abcd01230123456789ab"


def test_long_fields_are_cut_to_what_the_table_holds():
    found = read(id="i" * 500, name="n" * 500, label="l" * 500, comment="c" * 100_000, by="b" * 500)
    assert [len(v) for v in (found.id, found.name, found.label, found.comment, found.by)] == [64, 64, 64, 16_384, 64]


def test_feedback_that_comes_again_is_counted_and_the_first_stays(world, make):
    for score in (1, 0, 0):
        world.feedback(id="f1", trace_id=TRACE, name="thumbs", score=score)
    world.settle(1)
    world.feedback(id="f1", trace_id=TRACE, name="thumbs", score=0)
    world.send(*make.request(1))
    world.settle(1)
    assert world.value("groundwatch_feedback_ignored_total", reason="duplicate") == 3
    assert [row.score for row in world.rows(tables.feedback)] == [1.0]
