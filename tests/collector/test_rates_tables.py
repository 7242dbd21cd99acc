"""Rate tables are written once, before they are used, and are the same for every replica and after every restart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import Engine, insert, select, text
from sqlalchemy.exc import OperationalError

from groundwatch_collector import rates, tables
from groundwatch_collector.rate_table_store import KEPT_SECONDS
from groundwatch_collector.rate_tables import NothingJudged, PlanConfig, RatePlanner
from groundwatch_collector.storage import metadata, open_engine
from groundwatch_collector.strata import STRATA

MIDNIGHT = 1_780_012_800
EPOCH = 300
NOW = MIDNIGHT + 7200.0
CONFIG = PlanConfig(rates.Budget(300), STRATA, 1, "1")


class Judged:
    """A judge's work, given."""

    def __init__(self, *found: rates.Verdicts, usd: float | None = None) -> None:
        self._found, self._usd = found, usd

    def verdicts(self, since: float, until: float) -> Sequence[rates.Verdicts]:
        return [v for v in self._found if since <= v.at < until]

    def usd_per_trace(self) -> float | None:
        return self._usd


@pytest.fixture
def new_engine(tmp_path: Path) -> Iterator[Callable[[], Engine]]:
    made: list[Engine] = []

    def build() -> Engine:
        made.append(open_engine(f"sqlite:///{tmp_path / f'{len(made)}.db'}"))
        metadata.create_all(made[-1])
        return made[-1]

    yield build
    for engine in made:
        engine.dispose()


@pytest.fixture
def engine(new_engine: Callable[[], Engine]) -> Engine:
    return new_engine()


def traffic(engine: Engine, stratum: str, start: float, end: float, each: int) -> None:
    rows = [
        {"bucket_start": at, "app": "shop", "version": "1", "stratum": stratum, "outcome": "answered", "traces": each}
        for at in range(int(start), int(end), 60)
    ]
    with engine.begin() as connection:
        connection.execute(insert(tables.traffic_tally), [{**row, "received": each} for row in rows])


def planner(engine: Engine, judged: Any = None, **changes: Any) -> RatePlanner:
    made = RatePlanner(engine, replace(CONFIG, **changes), judged or NothingJudged())
    made.prepare(NOW)
    return made


def written(engine: Engine) -> list[Any]:
    with engine.connect() as connection:
        return list(connection.execute(select(tables.rate_tables).order_by(tables.rate_tables.c.start)))


def test_a_table_is_durable_before_it_is_used_and_says_why(engine):
    traffic(engine, "normal_b0", MIDNIGHT, NOW, 20)
    table = planner(engine).table(NOW)
    (row,) = written(engine)
    assert (row.epoch, row.start, row.planned_at) == (table.epoch, NOW, NOW)
    assert orjson.loads(row.rates) == dict(table.rates)
    why = orjson.loads(row.why)
    assert why["traffic_a_day"] == pytest.approx(28_800, rel=0.01)
    assert why["budget_per_day"] == 300


def test_the_first_writer_wins_so_replicas_agree_to_the_last_bit(engine):
    first = planner(engine, Judged(rates.Verdicts(NOW - 5000, "refusal", 90, 80)))
    traffic(engine, "refusal", MIDNIGHT, NOW, 500)
    second = planner(engine, budget=rates.Budget(5))
    assert second.current == first.current
    assert second.why == first.why
    assert len(written(engine)) == 1


def test_a_restart_changes_no_table(engine):
    traffic(engine, "normal_b0", MIDNIGHT, NOW, 20)
    before = planner(engine)
    for epoch in range(1, 4):
        before.prepare(NOW + epoch * EPOCH)
    after = RatePlanner(engine, CONFIG, NothingJudged())
    after.prepare(NOW + 3 * EPOCH + 10)
    starts = [NOW + epoch * EPOCH + 1 for epoch in range(4)]
    assert [after.table(at) for at in starts] == [before.table(at) for at in starts]
    assert len(written(engine)) == 4


def test_nothing_younger_than_two_epochs_before_enters_a_plan(new_engine):
    """An epoch's rates know nothing of its own traces, nor of those of the epoch before it."""
    plain, later = new_engine(), new_engine()
    for engine in (plain, later):
        traffic(engine, "normal_b0", MIDNIGHT, NOW - EPOCH, 20)
    traffic(later, "refusal", NOW - EPOCH, NOW + EPOCH, 900)
    young = Judged(rates.Verdicts(NOW - EPOCH, "refusal", 500, 250), rates.Verdicts(NOW, "normal_b0", 500, 250))
    assert planner(plain).current == planner(later, young).current


def test_what_is_older_does(new_engine):
    plain, known = new_engine(), new_engine()
    old = Judged(rates.Verdicts(NOW - EPOCH - 1, "normal_b0", 500, 2))
    assert planner(plain).table(NOW).rates["normal_b0"] > planner(known, old).table(NOW).rates["normal_b0"]


def test_what_was_sampled_today_is_spent(engine):
    traffic(engine, "normal_b0", MIDNIGHT, NOW, 20)
    sampled = {
        "family": "fast",
        "payload": "{}",
        "app": "shop",
        "version": "1",
        "stratum": "normal_b0",
        "inclusion_probability": 0.1,
        "reason": "hash",
        "epoch": "e",
        "state": "judged",
        "queued_at": NOW,
    }
    times = [MIDNIGHT - 1.0, *(MIDNIGHT + n for n in range(40)), NOW - EPOCH, NOW]
    with engine.begin() as connection:
        rows = [{**sampled, "trace_id": str(n), "started_at": at} for n, at in enumerate(times)]
        connection.execute(insert(tables.sampled_traces), rows)
    made = planner(engine)
    assert (made.why["sampled_today"], made.why["left"]) == (40, 260)
    assert RatePlanner(engine, CONFIG, NothingJudged()).prepare(NOW) == (NOW, 300, 260, 42)


def test_a_late_trace_has_its_epochs_table_else_the_nearest_older_else_the_first(engine):
    made = planner(engine)
    for epoch in (1, 4):
        made.prepare(NOW + epoch * EPOCH)
    starts = {row.epoch: row.start - NOW for row in written(engine)}

    def used(at: float) -> float:
        return starts[made.table(at).epoch] / EPOCH

    assert [used(NOW + n * EPOCH + 1) for n in range(5)] == [0, 1, 1, 1, 4]
    assert used(NOW - 86_400) == 0
    assert used(NOW + 3600) == 4  # a clock that is ahead


def test_an_epoch_is_planned_once_also_when_the_clock_is_set_back(engine):
    made = planner(engine)
    assert made.prepare(NOW + EPOCH) is not None
    before = written(engine)
    assert made.prepare(NOW + EPOCH + 299) is None
    assert made.prepare(NOW + 1) is not None
    assert made.table(NOW + 5 * EPOCH).epoch == CONFIG.epoch_id(int(NOW))
    assert made.prepare(NOW + EPOCH + 1) is not None
    assert written(engine) == before


def test_tables_are_kept_for_a_month(engine):
    made = planner(engine)
    made.prepare(NOW + KEPT_SECONDS)
    assert len(written(engine)) == 2
    made.prepare(NOW + KEPT_SECONDS + EPOCH)
    assert [row.start for row in written(engine)] == [NOW + KEPT_SECONDS, NOW + KEPT_SECONDS + EPOCH]
    assert made.table(NOW).epoch == CONFIG.epoch_id(int(NOW + KEPT_SECONDS))


def test_another_salt_other_cuts_or_other_strata_have_tables_of_their_own(engine):
    changed: tuple[dict[str, Any], ...] = (
        {},
        {"salt_version": 2},
        {"cuts_version": "2" * 32},
        {"epoch_seconds": 600},
    )
    ids = {planner(engine, **changes).table(NOW).epoch for changes in changed}
    ids.add(replace(CONFIG, names=(*STRATA, "one more")).epoch_id(int(NOW)))
    assert len(ids) == 5
    assert all(len(name) <= 64 for name in ids)


def test_a_failing_database_leaves_no_table_that_is_not_durable(engine):
    made = RatePlanner(engine, CONFIG, NothingJudged())
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE rate_tables RENAME TO away"))
    with pytest.raises(OperationalError):
        made.prepare(NOW)
    with pytest.raises(RuntimeError, match="prepare"):
        made.table(NOW)
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE away RENAME TO rate_tables"))
    assert made.prepare(NOW) is not None


@pytest.mark.parametrize(
    ("configured", "measured", "budget", "set_by"),
    [
        (None, 0.02, 100, "money"),
        (0.01, 0.02, 200, "money"),
        (None, None, 300, "traces_price_unknown"),
    ],
)
def test_a_budget_in_money_takes_the_configured_price_or_the_measured(engine, configured, measured, budget, set_by):
    made = planner(engine, Judged(usd=measured), budget=rates.Budget(300, 2.0), usd_per_judged_trace=configured)
    assert (made.why["budget_per_day"], made.why["budget_set_by"]) == (pytest.approx(budget), set_by)
