"""Planned rates inside the pipeline: each trace under its epoch's table, the same after any restart."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson
import pytest
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from groundwatch_collector import sampling, tables
from groundwatch_collector.decision import DecideConfig

SALT = b"a salt for tests"
EPOCH = 300
PLANNED = {"budget_judged_per_day": 2000.0, "expected_traces_per_day": 4000.0}


def planned(world: Any, **changes: Any) -> DecideConfig:
    made: DecideConfig = dataclasses.replace(world.config, **(PLANNED | changes))
    return made


def traffic(world: Any, make: Any, first: int, epochs: int, restart: bool = False) -> None:
    """Eight requests an epoch."""
    for epoch in range(epochs):
        for number in range(8):
            world.send(*make.request(first + epoch * 8 + number, start=world.time))
        if restart:
            world.start()
        world.settle(4)
        world.settle(EPOCH - 4)


def tables_of(world: Any) -> dict[str, Any]:
    return {row.epoch: row for row in world.rows(tables.rate_tables)}


def test_without_a_budget_the_fixed_table_holds_and_nothing_is_planned(world, make):
    traffic(world, make, 1, 2)
    assert world.rows(tables.rate_tables) == []
    assert {row.epoch for row in world.ledger().values()} == {world.config.rate_table().epoch}


def test_each_trace_is_decided_under_the_table_of_its_epoch(world, make):
    world.start(planned(world))
    traffic(world, make, 1, 5)
    known = tables_of(world)
    for row in world.ledger().values():
        table = known[row.epoch]
        assert table.start == row.started_at // EPOCH * EPOCH
        assert row.inclusion_probability == orjson.loads(table.rates)[row.stratum]
        assert (row.verdict == "sampled") == sampling.included(row.u56, row.inclusion_probability)
    assert len({row.epoch for row in world.ledger().values()}) == 5


def test_a_restart_at_any_time_changes_no_table_and_no_decision(new_world, make):
    calm, shaken = new_world("calm"), new_world("shaken")
    for world, restart in ((calm, False), (shaken, True)):
        world.start(planned(world))
        traffic(world, make, 1, 6, restart)

    def rows(world: Any) -> list[Any]:
        return sorted((r.trace_id, r.epoch, r.inclusion_probability, r.verdict) for r in world.ledger().values())

    assert rows(calm) == rows(shaken)
    assert {e: r.rates for e, r in tables_of(calm).items()} == {e: r.rates for e, r in tables_of(shaken).items()}


def test_a_database_that_cannot_take_the_table_decides_nothing(world, make):
    world.start(planned(world))
    world.send(*make.request(1))
    with world.engine.begin() as connection:
        connection.execute(text("ALTER TABLE rate_tables RENAME TO away"))
    with pytest.raises(SQLAlchemyError):
        world.settle(4)
    assert world.ledger() == {}
    with world.engine.begin() as connection:
        connection.execute(text("ALTER TABLE away RENAME TO rate_tables"))
    world.settle(4)
    assert len(world.ledger()) == 1


def test_target_spent_and_left_are_gauges_and_the_chances_can_be_read(world, make):
    world.start(planned(world))
    assert world.pipeline.chances() == {}
    traffic(world, make, 1, 3)
    world.pipeline.step(0)
    assert world.value("groundwatch_budget_judged_per_day") == 2000
    assert world.value("groundwatch_rates_epoch_start_seconds") == world.time // EPOCH * EPOCH
    sampled = sum(row.verdict == "sampled" for row in world.ledger().values())
    assert world.value("groundwatch_budget_sampled_today") == sampled
    assert 0 < world.value("groundwatch_budget_left_today") <= 2000
    assert set(world.pipeline.chances()) == set(world.config.rates)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"epoch_seconds": 70}, "epoch_seconds"),
        ({"epoch_seconds": 90}, "epoch_seconds"),
        ({"epoch_seconds": 0}, "epoch_seconds"),
        ({"budget_feedback_share": 0.0}, "budget_feedback_share"),
        ({"expected_traces_per_day": 0.0}, "expected_traces_per_day"),
        ({"budget_judged_per_day": 0.0, "budget_usd_per_day": 5.0}, "usd_per_judged_trace"),
        ({"rates": {"refussal": 0.5}}, "did you mean 'refusal'"),
    ],
)
def test_a_plan_that_cannot_be_kept_is_refused_at_start(changes, named):
    with pytest.raises(ValueError, match=named):
        DecideConfig(**(PLANNED | changes))
