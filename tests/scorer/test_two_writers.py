"""Several writers at once: each trace is claimed once, and no sum is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from queue_rows import queue_row
from sqlalchemy import Engine, insert, select

from groundwatch_collector.storage import add_to_tally, insert_ignore
from groundwatch_collector.tables import sampled_traces, traffic_tally
from groundwatch_scorer import queue

T0 = 1_700_000_010.0
WRITERS = 4


@pytest.fixture
def together() -> Callable[[Callable[[int], object]], list[object]]:
    """Run a function once for each writer, all starting at the same moment."""

    def run(act: Callable[[int], object]) -> list[object]:
        gate = threading.Barrier(WRITERS)

        def begin(number: int) -> object:
            gate.wait(10)
            return act(number)

        with ThreadPoolExecutor(WRITERS) as pool:
            return list(pool.map(begin, range(WRITERS)))

    return run


def row_of(number: int) -> dict[str, object]:
    return queue_row(f"t{number:03}", "yes", T0, queued_at=T0 + number)


def test_each_trace_is_claimed_by_one_worker(engine: Engine, together) -> None:
    with engine.begin() as connection:
        connection.execute(insert(sampled_traces), [row_of(number) for number in range(60)])

    def work(_writer: int) -> list[str]:
        mine: list[str] = []
        while claimed := queue.claim(engine, 5, 300, T0 + 100):
            mine += [sampled.trace.trace_id for sampled in claimed]
        return mine

    taken = [trace_id for mine in together(work) for trace_id in mine]
    assert sorted(taken) == [f"t{number:03}" for number in range(60)]


def test_sums_of_several_writers_add_up_whatever_the_order_of_their_rows(engine: Engine, together) -> None:
    """In opposite orders they would lock each other out, if the rows were not put in one order first."""
    rows = [
        {
            "bucket_start": bucket,
            "app": "shop",
            "version": "v1",
            "stratum": "normal_b0",
            "outcome": "answered",
            "traces": 1.0,
            "received": 1,
        }
        for bucket in range(0, 1200, 60)
    ]

    def work(writer: int) -> None:
        for _ in range(25):
            with engine.begin() as connection:
                add_to_tally(connection, traffic_tally, rows[:: -1 if writer % 2 else 1])

    together(work)
    with engine.connect() as connection:
        found = connection.execute(select(traffic_tally.c.received)).scalars().all()
    assert found == [WRITERS * 25] * len(rows)


def test_the_same_row_is_new_to_one_writer_only(engine: Engine, together) -> None:
    rows = [row_of(number) for number in range(20)]

    def work(_writer: int) -> int:
        with engine.begin() as connection:
            return insert_ignore(connection, sampled_traces, rows)

    assert sum(together(work)) == len(rows)
