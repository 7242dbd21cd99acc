"""The sample is the same set, whatever happens on the way: duplicates, other orders, replays, replicas, moves.

A plan of trouble is drawn; the same traces go through real pipelines under it, and the ledger is compared with that
of one pipeline which got everything once and in order.
"""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from partition_loop import MemoryPartition, complaint, root
from prometheus_client import CollectorRegistry
from sqlalchemy import func, select

from groundwatch_collector import tables
from groundwatch_collector.decision import DEFAULT_RATES, DecideConfig
from groundwatch_collector.kafka_partition import Fenced, OwnedPlace
from groundwatch_collector.pipeline import Pipeline
from groundwatch_collector.spans import Span
from groundwatch_collector.storage import metadata, open_engine
from groundwatch_collector.traffic_metrics import TrafficMetrics

START = 1_780_000_000.0
TRACES = 40
CONFIG = DecideConfig(
    position_interval_seconds=0.0,
    rates=dict.fromkeys(DEFAULT_RATES, 0.4) | {"refusal": 0.7},
    novel_budget=0.0,  # what is new depends on what came before, and is stored with the decision for that reason
    reask_seconds=0.0,
)
Decided = dict[str, tuple[str, float, int, str]]


@dataclass(frozen=True)
class Trouble:
    partitions: int
    shuffled: int  # seed of the order; 0: as they were made
    repeated: int  # of ten records, how many come again, half of them after the decision
    crashes: int  # the processes begin again so often, from the committed position
    moves: bool  # partitions change their owner while it has traces in hand


def spans(number: int) -> list[Span]:
    trace_id = f"{number:032x}"
    top = root(
        trace_id, START + number * 1e-3, "I'm sorry, I cannot find that." if number % 5 == 0 else "30 days [1]."
    )
    return [replace(top, span_id=f"{number:015x}{n}", parent_id=top.span_id, attributes={}) for n in (1, 2)] + [top]


class Place:
    """A database, its partitions, and a process for each of them."""

    def __init__(self, trouble: Trouble, folder: Path) -> None:
        self.time, self._lives, self._trouble = START, 0, trouble
        self.engine = open_engine(f"sqlite:///{folder / 'same.db'}")
        metadata.create_all(self.engine)
        self.logs: list[MemoryPartition] = []
        self.logs.extend(MemoryPartition(number, self.logs) for number in range(trouble.partitions))
        self.pipelines = [self.open(number) for number in range(trouble.partitions)]

    def open(self, number: int) -> Pipeline:
        self._lives += 1
        place = OwnedPlace("same", number, f"life {self._lives}", 0, len(self.logs[number]))
        metrics = TrafficMetrics(CollectorRegistry())
        return Pipeline(
            self.logs[number],
            self.engine,
            CONFIG,
            metrics,
            salt=b"a salt for tests",
            now=lambda: self.time,
            place=place,
        )

    def deliver(self, records: list[tuple[str, Span | None]]) -> None:
        rng = random.Random(self._trouble.shuffled)
        for trace_id, span in records:
            log = self.logs[int(trace_id, 16) % len(self.logs)]
            kind, body = ("otlp_protobuf", b"") if span is not None else ("feedback", complaint(trace_id))
            log.append(kind, body, self.time, [span] if span is not None else None)
            if rng.random() < self._trouble.crashes / len(records):
                self.begin_again()

    def begin_again(self) -> None:
        for number, before in enumerate(self.pipelines):
            before.step(0)  # it has traces in hand, and they are lost with it
            self.pipelines[number] = self.open(number)

    def move(self) -> None:
        for number, before in enumerate(self.pipelines):
            before.step(0)
            self.pipelines[number] = self.open(number)
            self.time += CONFIG.grace_seconds / 10
            try:
                before.step(0)
            except Fenced:
                continue

    def finish(self) -> None:
        self.read()
        self.time += CONFIG.grace_seconds + 1
        self.read()

    def read(self) -> None:
        for pipeline in self.pipelines:
            while pipeline.step(0):
                pass


def decided(trouble: Trouble) -> tuple[Decided, int]:
    """What the ledger says of each trace, and how many traces the traffic sums hold."""
    records: list[tuple[str, Span | None]] = [(s.trace_id, s) for n in range(1, TRACES + 1) for s in spans(n)]
    records += [(f"{number:032x}", None) for number in range(7, TRACES, 7)]
    rng = random.Random(trouble.shuffled)
    again = [record for record in records if rng.random() < trouble.repeated / 10]
    early, late = again[::2], again[1::2]
    records += early
    if trouble.shuffled:
        rng.shuffle(records)
    with tempfile.TemporaryDirectory() as folder:
        place = Place(trouble, Path(folder))
        place.deliver(records)
        if trouble.moves:
            place.move()
        place.finish()
        place.deliver(late)
        place.finish()
        with place.engine.connect() as connection:
            rows = connection.execute(select(tables.ledger)).all()
            counted = connection.scalar(select(func.sum(tables.traffic_tally.c.received)))
        place.engine.dispose()
    return {r.trace_id: (r.stratum, r.inclusion_probability, r.u56, r.verdict) for r in rows}, int(counted or 0)


@cache
def undisturbed() -> Decided:
    return decided(Trouble(1, 0, 0, 0, moves=False))[0]


TROUBLES = st.builds(
    Trouble, st.integers(1, 4), st.integers(0, 10**6), st.integers(0, 10), st.integers(0, 6), moves=st.booleans()
)


@settings(max_examples=12, deadline=None)
@given(TROUBLES)
def test_the_sample_is_the_same_under_duplicates_reordering_replay_replicas_and_rebalance(trouble):
    found, counted = decided(trouble)
    assert found == undisturbed()
    assert counted == TRACES


def test_the_undisturbed_sample_has_every_kind_of_trace():
    kinds = {(stratum, verdict) for stratum, _, _, verdict in undisturbed().values()}
    assert {stratum for stratum, _ in kinds} == {"feedback_neg", "normal_b0", "refusal"}
    assert {verdict for _, verdict in kinds} == {"sampled", "not_sampled"}
