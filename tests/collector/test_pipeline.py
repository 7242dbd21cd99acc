"""From the span log to the tables: every trace once, with a known chance, whatever happens in between."""

from __future__ import annotations

import dataclasses
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.exc import DBAPIError

from groundwatch import names
from groundwatch_collector import ledger, sampling, tables
from groundwatch_collector.assembly import Assembler, AssemblyConfig, Pending
from groundwatch_collector.decision import DEFAULT_RATES, DecideConfig
from groundwatch_collector.ragtrace import Feedback, from_json
from groundwatch_collector.spans import Span

SALT = b"a salt for tests"
ALL = dict.fromkeys(DEFAULT_RATES, 1.0)


def settings(world: Any, **changes: Any) -> DecideConfig:
    changed: DecideConfig = dataclasses.replace(world.config, **changes)
    return changed


def test_a_request_is_decided_after_its_root_and_the_grace(world, make):
    world.send(*make.request(1))
    world.settle(2.9)
    assert world.ledger() == {}
    assert world.value("groundwatch_pending_traces") == 1
    world.settle(0.2)
    row = world.ledger()[make.trace_id(1)]
    assert (row.app, row.version, row.outcome, row.started_at) == ("shop", "1.0", "answered", make.START)
    assert row.u56 == sampling.u56(make.trace_id(1), SALT)
    assert row.verdict == ("sampled" if sampling.included(row.u56, row.inclusion_probability) else "not_sampled")
    assert world.value("rag_requests_total", app="shop", version="1.0", outcome="answered") == 1
    assert world.value("groundwatch_pending_bytes") == 0


def test_a_sampled_trace_is_queued_whole(world, make):
    world.start(settings(world, rates=ALL))
    world.send(*make.request(1))
    world.settle(4)
    (row,) = world.rows(tables.sampled_traces)
    trace = from_json(row.payload)
    assert (row.family, row.state, row.reason, row.inclusion_probability) == ("fast", "waiting", "hash", 1.0)
    assert trace.answer == "Up to 50 MB in the team edition [1]."
    assert row.epoch == world.ledger()[trace.trace_id].epoch


def test_children_that_come_within_the_grace_are_part_of_the_trace(world, make):
    world.start(settings(world, rates=ALL))
    *children, root = make.request(1)
    world.send(root)
    world.settle(2)
    world.send(*children)
    world.settle(2)
    assert from_json(world.rows(tables.sampled_traces)[0].payload).span_count == 6


def test_a_root_after_the_decision_is_not_decided_on_its_own(world, make):
    *children, root = make.request(1)
    world.send(*children)
    world.settle(40)
    before, tally = world.ledger(), world.rows(tables.traffic_tally)
    assert [row.stratum for row in before.values()] == ["incomplete"]
    world.send(root)
    world.settle(40)
    assert (world.ledger(), world.rows(tables.traffic_tally)) == (before, tally)
    assert world.value("groundwatch_late_spans_total") == 1
    assert world.value("groundwatch_pending_traces") == 0


def test_spans_after_the_decision_are_counted_and_change_nothing(world, make):
    first, *others = make.request(1)
    world.send(*others)
    world.settle(4)
    before = world.ledger()
    world.send(first)
    world.settle(40)
    assert world.ledger() == before
    assert world.value("groundwatch_late_spans_total") == 1


def test_a_trace_without_its_root_is_decided_as_incomplete(world, make):
    world.send(*make.request(1)[:2])
    world.settle(29)
    assert world.ledger() == {}
    world.settle(2)
    assert world.ledger()[make.trace_id(1)].stratum == "incomplete"


def test_what_is_no_question_is_skipped_with_a_reason_and_is_no_traffic(world, make):
    world.send(make.span(attributes={"http.route": "/healthz"}, scope_name="http"))
    world.settle(4)
    row = world.ledger()[make.trace_id(1)]
    assert (row.verdict, row.reason) == ("skipped", "not_a_question")
    assert world.rows(tables.traffic_tally) == []
    assert ledger.report(world.engine, world.log).skipped == {"not_a_question": 1}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("otlp_protobuf", b"\xff\xff\xff"),
        ("otlp_json", b"{"),
        ("otlp_json", b"[" * 5000),
        ("feedback", b"[]"),
        ("feedback", b"{}"),
    ],
)
def test_a_record_that_cannot_be_read_is_kept_aside_once(world, make, kind, body):
    world.log.append(kind, body).result()
    world.send(*make.request(1))
    world.settle(1)
    world.start()  # reads the same record again
    world.settle(4)
    (letter,) = world.rows(tables.dead_letters)
    assert (letter.size_bytes, letter.position) == (len(body), 0)
    assert len(world.ledger()) == 1


def test_a_crash_at_any_moment_leaves_every_trace_in_the_ledger_once(new_world, make):
    """The same records, cut by restarts at random places, give the same ledger as without any."""
    rng = random.Random(7)
    calm, shaken = new_world("calm"), new_world("shaken")
    for world in (calm, shaken):
        world.start(settings(world, batch_records=3))
    pieces = [[one] for number in range(40) for one in make.request(number + 1, start=make.START + number / 10)]
    rng.shuffle(pieces)
    for index, piece in enumerate(pieces):
        for world in (calm, shaken):
            world.send(*piece)
            world.time += 0.01
            if index % 5 == 0:
                world.pipeline.step(0)
        if rng.random() < 0.2:
            shaken.start()
    for world in (calm, shaken):
        world.settle(1)
    shaken.start()
    for world in (calm, shaken):
        world.settle(40)
        assert sorted(world.ledger()) == [make.trace_id(n) for n in range(1, 41)]
    report = ledger.report(shaken.engine, shaken.log)
    assert report.adds_up
    assert (report.received, dict(report.lost), report.doubled) == (40, {}, 0)
    chosen = [{t for t, row in world.ledger().items() if row.verdict == "sampled"} for world in (calm, shaken)]
    assert chosen[0] == chosen[1]


def test_a_failing_database_loses_nothing(world, make):
    """The transaction is rolled back as a whole and tried again."""
    world.send(*make.request(1))
    world.settle(1)
    with world.engine.begin() as connection:
        connection.execute(text("ALTER TABLE traffic_tally RENAME TO away"))
    world.time += 4
    with pytest.raises(DBAPIError):
        world.pipeline.step(0)
    assert world.ledger() == {}
    assert world.value("rag_requests_total", app="shop", version="1.0", outcome="answered") == 0
    with world.engine.begin() as connection:
        connection.execute(text("ALTER TABLE away RENAME TO traffic_tally"))
    world.settle()
    assert len(world.ledger()) == len(world.rows(tables.traffic_tally)) == 1
    assert world.value("rag_requests_total", app="shop", version="1.0", outcome="answered") == 1


def test_the_loop_survives_a_failing_database(world, make):
    world.send(*make.request(1))
    world.time += 10
    with world.engine.begin() as connection:
        connection.execute(text("ALTER TABLE ledger RENAME TO away"))
    stop = threading.Event()
    thread = threading.Thread(target=world.pipeline.run, args=(stop, 0.01))
    thread.start()
    _until(lambda: world.value("groundwatch_pipeline_failures_total", kind="database") >= 1)
    with world.engine.begin() as connection:
        connection.execute(text("ALTER TABLE away RENAME TO ledger"))
    world.time += 10
    _until(lambda: len(world.ledger()) == 1)
    stop.set()
    thread.join(10)
    assert not thread.is_alive()


def _until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    wait, waited = threading.Event(), 0.0
    while not condition():
        assert waited < seconds, "it did not happen"
        wait.wait(0.02)
        waited += 0.02


def test_reading_a_backlog_uses_the_time_of_the_records(new_world, make):
    """After a long pause the children of a root that lie further back in the log are not late."""
    world = new_world("backlog")
    world.start(settings(world, batch_records=1, rates=ALL))
    *children, root = make.request(1)
    world.send(root)
    for child in children:
        world.send(child)
    world.time += 3600
    world.settle()
    assert from_json(world.rows(tables.sampled_traces)[0].payload).span_count == 6
    assert world.value("groundwatch_late_spans_total") == 0


def test_memory_pressure_decides_the_oldest_early_and_drops_nothing(world, make):
    world.start(settings(world, max_pending_spans=12, batch_records=50))
    for number in range(1, 6):
        world.send(*make.request(number)[:5])
    world.settle()
    assert world.value("groundwatch_pending_spans") <= 12
    world.settle(60)
    rows = world.ledger()
    assert sorted(rows) == [make.trace_id(n) for n in range(1, 6)]
    assert {row.stratum for row in rows.values()} == {"incomplete"}
    assert world.value("groundwatch_early_traces_total") == 3


def test_drain_decides_everything_now(world, make):
    world.send(*make.request(1))
    world.send(*make.request(2)[:1])
    world.pipeline.drain()
    strata = {trace_id: row.stratum for trace_id, row in world.ledger().items()}
    assert strata[make.trace_id(1)] != "incomplete"
    assert strata[make.trace_id(2)] == "incomplete"
    assert world.value("groundwatch_pending_bytes") == 0
    assert ledger.report(world.engine, world.log).undecided == 0


def test_the_tally_counts_every_trace_in_the_minute_of_its_start(world, make):
    for number in range(1, 5):
        world.send(*make.request(number, start=make.START + 30 * number))
    world.settle(4)
    with world.engine.connect() as connection:
        tally = tables.traffic_tally.c
        found = dict(
            connection.execute(
                select(tally.bucket_start, func.sum(tally.received)).group_by(tally.bucket_start)
            ).all()
        )
    assert sum(found.values()) == 4
    assert all(bucket % 60 == 0 for bucket in found)


@pytest.mark.parametrize("start", [5.0, 4_000_000_000.0])
def test_a_start_that_cannot_be_true_is_replaced_by_the_time_of_receipt(world, make, start):
    world.start(settings(world, rates=ALL))
    world.send(*make.request(1, start=start))
    world.settle(4)
    assert world.ledger()[make.trace_id(1)].started_at == make.START
    assert "start_time_replaced" in from_json(world.rows(tables.sampled_traces)[0].payload).flags


def test_upstream_head_sampling_is_undone_in_the_sums_but_not_in_what_was_received(world, make):
    world.start(settings(world, rates=ALL))
    world.send(*make.request(1, trace_state="vendor=x,ot=rv:1;th:c"))  # three in four were rejected
    world.settle(4)
    (tally,) = world.rows(tables.traffic_tally)
    assert (tally.traces, tally.received) == (4.0, 1)
    assert from_json(world.rows(tables.sampled_traces)[0].payload).adjusted_count == 4.0
    assert world.value("rag_requests_total", app="shop", version="1.0", outcome="answered") == 4


def test_when_nothing_is_undecided_the_position_is_the_end_of_the_log(world, make):
    world.send(*make.request(1))
    world.settle(4)
    assert world.rows(tables.positions)[0].position == world.log.end_position


@pytest.mark.parametrize(
    "root",
    [
        {names.OUTCOME: "splendid"},
        {names.ANSWER: "\ud800"},
        {names.QUERY: 5},
        {names.CITATIONS: "{"},
        {names.RETRIES: "many"},
        {names.COST_USD: float("1e308")},
        {names.INPUT_TOKENS: 2**70},
    ],
)
def test_absurd_values_reach_the_ledger_as_a_flagged_trace(world, make, root):
    spans = make.request(1, root=root, documents='[{"id": 1, "score": NaN, "content": "\\ud800"}, 7, null]')
    world.start(settings(world, rates=ALL))
    decision = world.pipeline._decider.decide(_pending(spans), ())
    assert decision.trace is not None
    assert decision.trace.flags
    assert decision.verdict == "sampled"


def test_a_trace_that_no_json_can_hold_is_skipped_alone_where_it_would_be_stored(world, make):
    world.start(settings(world, rates=ALL))
    decider, pending = world.pipeline._decider, _pending(make.request(1))
    unstorable = Feedback("f", pending.trace_id, "thumbs", "positive", comment="\ud800")
    decision = decider.decide(pending, (unstorable,))
    assert (decision.verdict, decision.reason, decision.sampled) == ("skipped", "unreadable", None)
    assert decider.read(pending, (unstorable,)) is None
    assert decider.read(pending, ()) is not None


def _pending(spans: list[Span]) -> Pending:
    assembler = Assembler(AssemblyConfig())
    assembler.add(spans, 0, 1_780_000_000.0)
    return assembler.drain()[0]
