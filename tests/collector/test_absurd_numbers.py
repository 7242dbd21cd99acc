"""Numbers that cannot be true: the trace is kept and flagged, and no sum is spoilt."""

from __future__ import annotations

import pytest

from groundwatch import names
from groundwatch_collector.mapping import to_ragtrace
from groundwatch_collector.ragtrace import RagTrace
from groundwatch_collector.spans import AttributeValue, Span

NOW = 1_790_000_000_000_000_000
YEARS = 2**64 - 1


def read(start: int = NOW, end: int = NOW + 10**9, parent: str = "", **attributes: AttributeValue) -> RagTrace:
    whole = {names.STAGE: "request", names.QUERY: "how long?", names.ANSWER: "30 days"}
    whole |= {getattr(names, name): value for name, value in attributes.items()}
    span = Span("a" * 32, "b" * 16, parent, "ask", 1, start, end, "ok", "", whole, scope_name=names.SCOPE_NAME)
    trace = to_ragtrace([span])
    assert trace is not None
    return trace


@pytest.mark.parametrize(("start", "end"), [(0, NOW), (NOW, YEARS), (NOW, NOW - 1), (YEARS, 0)])
def test_a_clock_that_was_never_set_gives_no_duration(start, end):
    trace = read(start, end)
    assert trace.duration_seconds == 0.0
    assert [stage.duration_seconds for stage in trace.stages if stage.duration_seconds] == []
    assert {"clock_skew", "span_not_ended"} & set(trace.flags)


def test_without_a_root_the_span_of_all_spans_is_bounded_too():
    trace = read(0, NOW, parent="c" * 16)
    assert (trace.duration_seconds, "clock_skew" in trace.flags) == (0.0, True)


@pytest.mark.parametrize("cost", [1e308, -3.0, 10_000.01])
def test_a_cost_that_no_request_has_is_not_known(cost):
    trace = read(COST_USD=cost)
    assert (trace.usage.cost_usd, "amount_out_of_range" in trace.flags) == (None, True)


@pytest.mark.parametrize("cost", [0.0, 0.004, 10_000.0])
def test_a_cost_that_can_be_is_kept(cost):
    trace = read(COST_USD=cost)
    assert (trace.usage.cost_usd, "amount_out_of_range" in trace.flags) == (cost, False)


@pytest.mark.parametrize("seconds", [1e300, -9.0])
def test_a_first_token_before_the_question_or_years_after_it_is_not_known(seconds):
    trace = read(FIRST_TOKEN=seconds)
    assert (trace.time_to_first_token_seconds, "amount_out_of_range" in trace.flags) == (None, True)
