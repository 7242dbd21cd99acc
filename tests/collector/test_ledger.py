"""The audit finds what is lost, doubled or waiting, because it counts on its own."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from sqlalchemy import delete, update

from groundwatch_collector import ledger, tables
from groundwatch_collector.decision import DEFAULT_RATES

ALL = dict.fromkeys(DEFAULT_RATES, 1.0)


@pytest.fixture
def decided(world, make):
    """Six requests, one trace that is no question, one that is still waiting for its root."""
    world.start(dataclasses.replace(world.config, rates=ALL))
    for number in range(1, 7):
        world.send(*make.request(number))
    world.send(make.span(trace_id=make.trace_id(7), attributes={"http.route": "/"}, scope_name="http"))
    world.settle(4)
    world.send(*make.request(8)[:1])
    world.settle(0)
    return world


def change(world: Any, statement: Any) -> None:
    with world.engine.begin() as connection:
        connection.execute(statement)


def test_every_trace_is_somewhere(decided):
    change(
        decided,
        update(tables.sampled_traces).where(tables.sampled_traces.c.trace_id < f"{3:032x}").values(state="judged"),
    )
    change(
        decided,
        update(tables.sampled_traces).where(tables.sampled_traces.c.trace_id == f"{3:032x}").values(state="unscored"),
    )
    report = ledger.report(decided.engine, decided.log)
    assert (report.received, report.judged, report.unscored, report.not_sampled) == (8, 2, 1, 0)
    assert (report.skipped, report.undecided, report.waiting_for_judge) == ({"not_a_question": 1}, 1, 3)
    assert (report.lost, report.doubled, report.adds_up) == ({}, 0, True)


def test_a_trace_that_vanished_from_the_ledger_is_lost(decided):
    change(decided, delete(tables.ledger).where(tables.ledger.c.trace_id == f"{2:032x}"))
    report = ledger.report(decided.engine, decided.log)
    assert (report.lost, list(report.lost_examples)) == ({"not_in_ledger": 1}, [f"{2:032x}"])
    assert not report.adds_up  # the tallies still count it


def test_a_sampled_trace_that_was_never_queued_is_lost(decided):
    change(decided, delete(tables.sampled_traces).where(tables.sampled_traces.c.trace_id == f"{2:032x}"))
    report = ledger.report(decided.engine, decided.log)
    assert report.lost == {"not_queued": 1}


def test_a_tally_that_counts_twice_is_found(decided):
    change(decided, update(tables.traffic_tally).values(received=tables.traffic_tally.c.received * 2))
    report = ledger.report(decided.engine, decided.log)
    assert (report.doubled, report.adds_up) == (6, False)


def test_a_tally_that_counts_too_little_is_found(decided):
    change(decided, update(tables.traffic_tally).values(received=tables.traffic_tally.c.received - 1))
    report = ledger.report(decided.engine, decided.log)
    assert report.doubled == 0 and not report.adds_up


def test_dead_letters_are_told_by_reason(decided):
    decided.log.append("otlp_json", b"{").result()
    decided.settle(1)
    report = ledger.report(decided.engine, decided.log)
    assert report.dead_letters == {"malformed": 1}
    assert report.adds_up


def test_an_empty_monitor_adds_up(world):
    report = ledger.report(world.engine, world.log)
    assert (report.received, report.adds_up) == (0, True)
