"""A row that the database never takes stops nobody else; it is written down as lost, with the reason."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, StatementError

from groundwatch import names
from groundwatch_collector import ledger, refused, tables
from groundwatch_collector.decision import DEFAULT_RATES
from groundwatch_collector.limits import Limits
from groundwatch_collector.pipeline import Pipeline
from groundwatch_collector.settling_tables import late_offers
from groundwatch_collector.traffic_metrics import TrafficMetrics


def refuse_a_second_row_of(world: Any, app: str) -> None:
    with world.engine.begin() as connection:
        connection.execute(text(f"CREATE UNIQUE INDEX one_{app} ON ledger (app) WHERE app = '{app}'"))


def step_until_done(world: Any) -> int:
    """Steps that were refused before one went through."""
    for refusals in range(refused.TRIES + 1):
        try:
            world.pipeline.step(0)
        except DBAPIError:
            continue
        return refusals
    pytest.fail("it is refused for ever")


def test_one_trace_is_given_up_and_all_others_are_decided(world, make):
    refuse_a_second_row_of(world, "poison")
    resource = {names.SERVICE_NAME: "poison", names.SERVICE_VERSION: "1.0"}
    for number in range(1, 12):
        world.send(*make.request(number, **({"resource": resource} if number in (3, 7) else {})))
    world.feedback(trace_id=make.trace_id(5), name="thumbs", sentiment="negative", id="f1")
    while world.log.end_position > world.pipeline._cursor:
        world.pipeline.step(0)
    world.time += 4
    assert step_until_done(world) == refused.TRIES - 1
    rows = world.ledger()
    assert rows.keys() == {make.trace_id(number) for number in range(1, 12)}
    given_up = [row for row in rows.values() if row.reason == refused.REASON]
    assert [(row.trace_id, row.app, row.verdict) for row in given_up] == [
        (make.trace_id(7), "unknown_service", "skipped")
    ]
    assert rows[make.trace_id(5)].stratum == "feedback_neg"
    assert world.value("groundwatch_decided_traces_total", verdict="skipped", reason=refused.REASON) == 1
    report = ledger.report(world.engine, world.log)
    assert (report.received, dict(report.lost), report.adds_up) == (11, {refused.REASON: 1}, True)
    assert report.skipped == {}
    world.start()
    world.settle(40)
    assert world.ledger() == rows
    assert world.pipeline.committed_position == world.log.end_position


def test_feedback_that_is_refused_is_kept_aside(world, make):
    with world.engine.begin() as connection:
        connection.execute(text("CREATE UNIQUE INDEX one_label ON feedback (label) WHERE label = 'poison'"))
    for number in (1, 2):
        world.feedback(
            trace_id=make.trace_id(number), name="rating", sentiment="neutral", label="poison", id=f"f{number}"
        )
    world.send(*make.request(3))
    assert step_until_done(world) == refused.TRIES - 1
    (letter,) = world.rows(tables.dead_letters)
    assert (letter.reason, letter.body) == (refused.REASON, b"")
    assert [row.feedback_id for row in world.rows(tables.feedback)] == ["f1"]
    world.settle(4)
    assert len(world.ledger()) == 1


def test_what_is_about_no_row_is_waited_for():
    assert refused.is_refusal(IntegrityError("insert", {}, Exception()))
    assert not refused.is_refusal(OperationalError("insert", {}, Exception()))
    assert not refused.is_refusal(OSError())


def test_what_a_driver_cannot_write_is_told_as_refused_and_the_same_error_of_ours_as_ours(engine):
    with engine.connect() as connection, pytest.raises((UnicodeError, StatementError)) as raised:
        connection.execute(tables.ledger.select().where(tables.ledger.c.app == "\ud800")).all()
    assert refused.reason(raised.value) == refused.REASON
    with pytest.raises(UnicodeError) as ours:
        "\ud800".encode()
    assert refused.reason(ours.value) == refused.OURS


@pytest.mark.parametrize(
    "defect", [KeyError, AttributeError, RecursionError, NameError, AssertionError, NotImplementedError]
)
def test_each_kind_of_defect_is_told_as_ours(defect):
    assert refused.reason(defect()) == refused.OURS


@pytest.mark.parametrize("trouble", [MemoryError, RuntimeError("can't start new thread"), OSError, TimeoutError])
def test_trouble_of_the_machine_is_no_fault_of_a_trace(trouble):
    assert refused.reason(trouble if isinstance(trouble, Exception) else trouble()) is None


def test_a_fault_of_ours_on_one_trace_is_told_as_ours_and_stops_no_other(world, make, monkeypatch):
    decide = type(world.pipeline._decider).decide

    def fail_on_the_second(self: Any, pending: Any, *args: Any, **kwargs: Any) -> Any:
        if pending.trace_id == make.trace_id(2):
            raise KeyError("a defect")
        return decide(self, pending, *args, **kwargs)

    monkeypatch.setattr(type(world.pipeline._decider), "decide", fail_on_the_second)
    for number in (1, 2, 3):
        world.send(*make.request(number))
    world.time += 4
    for _ in range(refused.TRIES + 2):
        try:
            world.pipeline.step(0)
        except KeyError:
            continue
    rows = world.ledger()
    assert rows.keys() == {make.trace_id(number) for number in (1, 2, 3)}
    assert (rows[make.trace_id(2)].verdict, rows[make.trace_id(2)].reason) == ("skipped", refused.OURS)
    assert dict(ledger.report(world.engine, world.log).lost) == {refused.OURS: 1}


class Stop:
    """Ends a run once nothing is left to do, or it waited too often. Waiting moves the clock."""

    def __init__(self, world: Any, waits: int) -> None:
        self.world, self.waits = world, waits

    def is_set(self) -> bool:
        return self.waits <= 0 or self.world.pipeline.committed_position == self.world.log.end_position

    def wait(self, seconds: float) -> None:
        self.world.time += seconds
        self.waits -= 1


def test_a_fault_of_ours_behind_much_that_waits_is_not_tried_for_ever(world, make, monkeypatch):
    """Between what is committed and the trace lies more than one transaction reads."""
    world.start(dataclasses.replace(world.config, batch_records=4))
    decide = type(world.pipeline._decider).decide

    def fail_on_one(self: Any, pending: Any, *args: Any, **kwargs: Any) -> Any:
        if pending.trace_id == make.trace_id(10):
            raise KeyError("a defect")
        return decide(self, pending, *args, **kwargs)

    monkeypatch.setattr(type(world.pipeline._decider), "decide", fail_on_one)
    for number in range(1, 21):
        world.time += 0.2
        world.send(*make.request(number))
    world.time += 4
    world.pipeline.run(Stop(world, 10), timeout=0)
    assert {row.reason: row.trace_id for row in world.ledger().values()}[refused.OURS] == make.trace_id(10)
    assert len(world.ledger()) == 20
    assert world.value("groundwatch_pipeline_failures_total", kind="refused") == refused.TRIES - 1


def test_a_late_error_beside_a_row_that_is_refused_moves_its_trace_all_the_same(world, make):
    world.start(dataclasses.replace(world.config, rates={**dict.fromkeys(DEFAULT_RATES, 1e-9), "error_timeout": 1.0}))
    spans = make.request(1, root={names.OUTCOME: None})
    world.send(*spans)
    world.settle(4)
    refuse_a_second_row_of(world, "poison")
    resource = {names.SERVICE_NAME: "poison", names.SERVICE_VERSION: "1.0"}
    for number in (2, 3):
        world.send(*make.request(number, resource=resource))
    world.pipeline.step(0)
    world.time += 4
    world.send(dataclasses.replace(spans[4], span_id="f" * 16, status="error"))
    step_until_done(world)
    assert [row.trace_id for row in world.rows(late_offers)] == [make.trace_id(1)]
    assert [row.reason for row in world.rows(tables.ledger)].count(refused.REASON) == 1


def test_asking_again_that_cannot_be_weighed_stops_nothing_and_takes_nothing_along(world, make, monkeypatch):
    config = {"reask_sentiment": "negative", "rates": {**dict.fromkeys(DEFAULT_RATES, 1e-9), "feedback_neg": 1.0}}
    world.start(dataclasses.replace(world.config, **config))
    for number in (1, 2):
        world.send(*make.request(number, start=make.START + 5 * number, root={names.SESSION: "s"}))
    for number in (3, 4):
        world.send(*make.request(number))

    def defect(*given: Any, **named: Any) -> Any:
        raise KeyError("a defect")

    monkeypatch.setattr(type(world.pipeline._decider), "read", defect)
    world.time += 12
    for _ in range(refused.TRIES + 4):
        with contextlib.suppress(KeyError):
            world.pipeline.step(0)
    world.send(*make.request(5))
    world.settle(4)
    assert {row.reason for row in world.ledger().values()} == {"hash"}
    assert len(world.ledger()) == 5
    assert world.value("groundwatch_late_feedback_total", result="refused") == 1


def test_a_database_that_goes_away_while_a_transaction_is_parted_loses_nothing_more(world, make, monkeypatch):
    with world.engine.begin() as connection:
        connection.execute(text("CREATE UNIQUE INDEX one_label ON feedback (label) WHERE label = 'poison'"))
    for number, label in enumerate(("a", "b", "poison", "poison"), 1):
        world.feedback(
            trace_id=make.trace_id(number), name="rating", sentiment="neutral", label=label, id=f"f{number}"
        )
    transact, calls = type(world.pipeline)._transact, []

    def away_once(self: Any, batch: Any) -> int:
        calls.append(batch)
        if calls[:-1] and "b" in stored() and "away" not in calls:
            calls.append("away")
            raise OperationalError("insert", {}, Exception())
        return int(transact(self, batch))

    def stored() -> set[str]:
        return {row.label for row in world.rows(tables.feedback)}

    monkeypatch.setattr(type(world.pipeline), "_transact", away_once)
    for _ in range(2 * refused.TRIES + 2):
        with contextlib.suppress(DBAPIError):
            world.pipeline.step(0)
    assert "away" in calls
    assert {row.feedback_id for row in world.rows(tables.feedback)} == {"f1", "f2", "f3"}
    assert len(world.rows(tables.dead_letters)) == 1


def test_spans_that_lowered_limits_refuse_are_counted_when_the_log_is_read_again(world, make):
    small = make.request(1)
    large = dataclasses.replace(small[0], span_id="f" * 16, attributes={str(n): n for n in range(60)})
    world.send(*small, large)
    world.send(dataclasses.replace(large, trace_id=make.trace_id(2)))
    world.registry = CollectorRegistry()
    world.pipeline = Pipeline(
        world.log,
        world.engine,
        world.config,
        TrafficMetrics(world.registry),
        salt=b"a salt for tests",
        now=lambda: world.time,
        limits=Limits(max_attributes_per_span=50),
    )
    world.settle(40)
    assert world.value("groundwatch_replay_rejected_spans_total", reason="too_many_attributes") == 1
    assert world.ledger().keys() == {make.trace_id(1)}
    (letter,) = world.rows(tables.dead_letters)
    assert letter.reason == "too_many_attributes"
