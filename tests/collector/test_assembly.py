"""A trace is handed over whole, once; what is held is bounded; the order of arrival does not matter."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundwatch_collector.assembly import Assembler, AssemblyConfig, Pending, size_of
from groundwatch_collector.decision import DecideConfig, Decider
from groundwatch_collector.spans import Span

SALT = b"a salt for tests"


def assembler(**changes: Any) -> Assembler:
    return Assembler(AssemblyConfig(**changes))


def test_a_root_makes_a_trace_due_after_the_grace(make):
    held = assembler()
    held.add(make.request(1), 0, 100.0)
    assert held.due(102.9) == []
    (pending,) = held.due(103.0)
    assert (pending.trace_id, len(pending.spans), pending.incomplete) == (make.trace_id(1), 6, False)
    assert len(held) == held.pending_bytes == held.pending_spans == 0


def test_a_late_root_shortens_the_wait(make):
    held = assembler()
    *children, root = make.request(1)
    held.add(children, 0, 100.0)
    held.add([root], 5, 120.0)
    assert held.due(122.9) == []
    assert len(held.due(123.0)) == 1


def test_without_a_root_silence_ends_the_wait(make):
    held = assembler()
    for second in range(3):
        held.add([make.request(1)[second]], second, 100.0 + 20 * second)
    assert held.due(169.9) == []
    (pending,) = held.due(170.0)
    assert pending.incomplete


def test_a_trace_that_never_falls_silent_is_decided_at_its_maximal_age(make):
    held = assembler(max_age_seconds=60)
    for second in range(0, 60, 10):
        held.add([make.span(f"{second:x}", "ff")], second, 100.0 + second)
        assert held.due(100.0 + second) == []
    assert len(held.due(160.0)) == 1


def test_one_foreign_top_span_whose_parent_is_elsewhere_is_not_incomplete(make):
    held = assembler()
    held.add([make.span("01", "99", {"openinference.span.kind": "CHAIN"}, scope_name="openinference.x")], 0, 100.0)
    (pending,) = held.due(130.0)
    assert not pending.incomplete


def test_one_stage_of_ours_without_its_request_is_incomplete(make):
    held = assembler()
    held.add(make.request(1)[:1], 0, 100.0)
    assert held.due(130.0)[0].incomplete


def test_repeated_spans_are_counted_and_different_ones_flagged(make):
    held = assembler()
    spans = make.request(1)
    assert held.add(spans, 0, 100.0) == 0
    assert held.add(spans, 1, 100.0) == 6
    assert held.add([dataclasses.replace(spans[0], name="changed")], 2, 100.0) == 1
    (pending,) = held.due(200.0)
    assert (pending.duplicates, pending.flags, pending.spans[spans[0].span_id].name) == (
        7,
        {"conflicting_spans"},
        "span",
    )


def test_spans_beyond_the_bound_of_a_trace_are_counted_but_its_root_is_kept(make):
    held = assembler(max_spans_per_trace=3)
    spans = make.request(1)
    held.add(spans, 0, 100.0)
    (pending,) = held.due(200.0)
    assert (len(pending.spans), pending.excess_spans, pending.flags) == (4, 2, {"spans_cut"})
    assert spans[-1].span_id in pending.spans


def test_bytes_of_one_trace_are_bounded(make):
    held = assembler(max_bytes_per_trace=100_000)
    held.add([make.span(f"{n:x}", "ff", {"text": "x" * 30_000}) for n in range(1, 9)], 0, 100.0)
    (pending,) = held.due(200.0)
    assert pending.size_bytes <= 100_000 and pending.excess_spans == 5


@pytest.mark.parametrize("changes", [{"max_pending_spans": 10}, {"max_pending_bytes": 8_000}])
def test_pressure_decides_the_oldest_before_their_time(make, changes):
    held = assembler(**changes)
    for number in range(1, 6):
        held.add(make.request(number)[:5], number, 100.0)
    assert held.pressed
    early = held.due(100.0)
    assert [pending.trace_id for pending in early] == [make.trace_id(n) for n in range(1, len(early) + 1)]
    assert all(pending.early and pending.incomplete for pending in early)
    assert not held.pressed


def test_the_low_position_is_that_of_the_oldest_undecided_trace(make):
    held = assembler()
    assert held.low_position is None
    held.add(make.request(1)[:1], 10, 100.0)
    held.add(make.request(2), 20, 100.0)
    assert held.low_position == 10
    held.due(110.0)
    assert held.low_position == 10
    held.due(140.0)
    assert held.low_position is None


_EVENTS = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 5), st.floats(0, 40)), max_size=60)


@given(_EVENTS)
def test_whatever_comes_nothing_stays_behind_and_nothing_is_handed_over_twice(make, events):
    held = assembler(max_pending_spans=9, max_spans_per_trace=4)
    spans = {number: make.request(number) for number in range(1, 7)}
    now = 0.0
    given_out: list[Pending] = []
    added: set[str] = set()
    for position, (number, index, wait) in enumerate(events):
        now += wait
        if make.trace_id(number) not in {pending.trace_id for pending in given_out}:
            held.add([spans[number][index]], position, now)
            added.add(make.trace_id(number))
        given_out += held.due(now)
        low = held.low_position
        assert low is None or low <= position
    given_out += held.drain()
    assert sorted(pending.trace_id for pending in given_out) == sorted(added)
    assert held.pending_bytes == held.pending_spans == len(held) == 0
    assert all(pending.first_position <= pending.last_position for pending in given_out)


@settings(max_examples=60)
@given(st.data())
def test_order_repetition_and_splitting_of_spans_change_no_decision(make, data):
    spans = [one for number in range(1, 4) for one in make.request(number)]
    sent = data.draw(st.permutations(spans + data.draw(st.lists(st.sampled_from(spans), max_size=8))))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(sent)), max_size=6)))
    batches = [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    decider = Decider(DecideConfig(), SALT)

    def decisions(parts: list[list[Span]]) -> dict[str, Any]:
        held = assembler()
        for position, part in enumerate(parts):
            held.add(part, position, 100.0)
        found = [decider.decide(pending, ()) for pending in held.due(200.0)]
        return {d.pending.trace_id: (d.trace, d.stratum, d.u56, d.verdict) for d in found}

    assert decisions(batches) == decisions([spans])


def test_size_grows_with_the_text(make):
    assert size_of(make.span(attributes={"a": "x" * 10_000})) - size_of(make.span(attributes={"a": ""})) == 10_000
