"""Pure parts of the console: sentences that claim only what the intervals carry, steps, charts, numbers."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwatch_collector.ragtrace import Document, Outcome, RagTrace
from groundwatch_review.console import ConsoleConfig, charts, formats, overview
from groundwatch_review.console.overview import Figure, Layer, Step, VersionLine, bucket_seconds, quantile, steps_for
from groundwatch_review.console.rankflow import MAX_ROWS, rank_flow
from groundwatch_review.console.sentences import summary


def figure(low: float, rate: float, high: float, judged: int = 100) -> Figure:
    return Figure(rate, low, high, judged, int(rate * judged), 1000.0, min(1.0, 2 * rate), 1.0, 0.0, 50.0)


def version(name: str, found: Figure | None, layers: tuple[Layer, ...] = (), judged: int = 100) -> VersionLine:
    return VersionLine(name, 0.0, 1000.0, judged, found, None, layers)


RERANK = (Layer("rerank", 0.8, 12), Layer("generation", 0.2, 3))
CALM, BAD = figure(0.03, 0.05, 0.07), figure(0.26, 0.31, 0.37)


@pytest.mark.parametrize(
    ("versions", "tone", "said"),
    [
        (
            [version("1.4.2", CALM), version("1.5.0", BAD, RERANK)],
            "bad",
            "Since version 1.5.0 about 31 % (26–37 %) of answers fail, 5.0 % (3.0–7.0 %) before; "
            "most often at the rerank layer.",
        ),
        ([version("1.5.0", BAD), version("1.5.1", CALM)], "good", "only about 5.0 %"),
        ([version("1", CALM), version("2", figure(0.05, 0.09, 0.14))], "calm", "is not told apart from 1"),
        ([version("1", CALM)], "calm", "About 31 % (26–37 %) of answers fail."),
        ([version("1", CALM), version("2", BAD, judged=8)], "calm", "Version 2 has only 8 verdicts so far."),
        ([version("1", CALM), version("2", BAD, judged=1)], "calm", "Version 2 has only 1 verdict so far."),
        ([version("1", CALM, judged=3)], "unknown", "Not enough judged yet"),
        ([], "unknown", "Not enough judged yet"),
    ],
)
def test_the_sentence_claims_what_the_intervals_carry(versions, tone, said):
    found, shown_tone = summary(versions, BAD, "any_failure", 30)
    assert said in found
    assert shown_tone == tone


def test_intervals_that_touch_are_not_a_difference():
    _sentence, tone = summary([version("1", CALM), version("2", figure(0.07, 0.1, 0.2))], BAD, "any_failure", 30)
    assert tone == "calm"


def test_a_layer_is_not_named_on_a_handful_of_failures():
    few = (Layer("rerank", 1.0, 4),)
    sentence, _tone = summary([version("1", CALM), version("2", BAD, few)], BAD, "any_failure", 30)
    assert "rerank" not in sentence


def test_without_any_figure_nothing_is_claimed():
    assert summary([version("1", None)], None, "any_failure", 30)[1] == "unknown"


@given(
    st.integers(0, 2_000_000_000),
    st.integers(0, 90 * 1440),
    st.integers(0, 100_000),
    st.sampled_from([5, 10, 60, 300]),
)
def test_steps_are_whole_buckets_and_never_more_than_the_chart_holds(first, buckets, judged, bucket):
    first -= first % bucket
    last = first + buckets * bucket
    origin, width = steps_for((first, last, judged), bucket)
    assert width % bucket == 0
    assert origin <= first < origin + width
    assert (last - origin) / width <= overview.MAX_STEPS + 1


def test_the_width_of_a_bucket_is_seen_in_where_buckets_start():
    assert bucket_seconds([600, 610, 650]) == 10
    assert bucket_seconds([600]) == bucket_seconds([]) == 60


def overview_of(steps: list[Step], versions: tuple[VersionLine, ...] = ()) -> Any:
    empty = {field.name: None for field in dataclasses.fields(overview.Overview)}
    return overview.Overview(**{**empty, "steps": tuple(steps), "versions": versions})  # type: ignore[arg-type]


def test_a_line_is_not_drawn_across_a_gap():
    steps = [Step(t, t + 60, 10, 5, CALM) for t in (0, 60, 300, 360)]
    chart = charts.rate_chart(overview_of(steps), 800, 260)
    assert chart is not None
    assert len(chart.lines) == len(chart.bands) == 2


def test_a_version_that_was_there_before_the_chart_is_not_marked():
    steps = [Step(t, t + 60, 10, 5, CALM) for t in (600, 660, 720)]
    versions = (version("old", CALM), dataclasses.replace(version("new", CALM), first_seen=660))
    chart = charts.rate_chart(overview_of(steps, versions), 800, 260)
    assert chart is not None
    assert [mark.label for mark in chart.marks] == ["new"]


def test_no_figure_no_chart():
    assert charts.rate_chart(overview_of([Step(0, 60, 10, 0, None)]), 800, 260) is None


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30))
def test_everything_drawn_stays_inside_the_frame(rates):
    steps = [Step(60 * n, 60 * n + 60, 10, 5, figure(*sorted(r))) for n, r in enumerate(rates)]
    chart = charts.rate_chart(overview_of(steps), 400, 240)
    assert chart is not None
    assert all(chart.left <= p.x <= chart.right and chart.top <= p.y <= chart.bottom for p in chart.points)
    assert all(chart.top <= tick.at <= chart.bottom for tick in chart.y_ticks)
    assert len({tick.label for tick in chart.y_ticks}) == len(chart.y_ticks)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_strip_holds_its_interval(a, b, c, raw):
    low, rate, high = sorted((a, b, c))
    strip = charts.strip(low, rate, high, raw)
    assert 0 <= strip.low <= strip.rate <= 1000
    assert strip.raw is not None
    assert 0 <= strip.raw <= 1000


def test_quantiles_are_of_the_weight():
    assert quantile([(1.0, 1.0), (2.0, 1.0), (9.0, 8.0)], 0.5) == 9.0
    assert quantile([(1.0, 1.0), (2.0, 1.0), (3.0, 1.0)], 0.5) == 2.0
    assert quantile([], 0.5) is None


def test_proportions_of_nothing_have_no_share():
    assert {row.share for row in overview.proportions({})} == {None}


def documents(*names: str) -> tuple[Document, ...]:
    return tuple(Document(name, rank) for rank, name in enumerate(names, 1))


def trace(**lists: Any) -> RagTrace:
    return RagTrace("0" * 32, "a", "1", 0.0, 1.0, Outcome.ANSWERED, "recorded", **lists)


def test_rank_flow_joins_the_same_document_and_shows_where_one_is_dropped():
    flow = rank_flow(trace(candidates=documents("a", "b"), reranked=documents("b"), context=documents("b")), {"a"})
    assert flow is not None
    first, second, third = flow.columns
    assert [(row.kept, row.evidence) for row in first.rows] == [(False, True), (True, False)]
    assert [line.bend for line in first.lines] == ["M0 51.0 C50 51.0 50 17.0 100 17.0"]
    assert len(second.lines) == 1
    assert third.lines == ()


def test_rank_flow_leaves_out_a_list_that_was_not_recorded_but_keeps_an_empty_one():
    flow = rank_flow(trace(candidates=documents("a"), reranked=None, context=()), set())
    assert flow is not None
    assert [column.title for column in flow.columns] == ["Candidates", "Context"]
    assert rank_flow(trace(), set()) is None


def test_rank_flow_of_a_long_list_says_how_many_more_there_are():
    names = [f"d{n}" for n in range(MAX_ROWS + 12)]
    flow = rank_flow(trace(candidates=documents(*names), context=documents(names[-1])), set())
    assert flow is not None
    assert (len(flow.columns[0].rows), flow.columns[0].hidden) == (MAX_ROWS, 12)
    assert flow.columns[0].lines == ()


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (formats.percent(0.004), "0.4 %"),
        (formats.percent(0.314), "31 %"),
        (formats.percent(0.0), "0 %"),
        (formats.percent(None), "–"),
        (formats.percent_range(0.26, 0.371), "26–37 %"),
        (formats.percent_range(0.5, 0.5), "all judged"),
        (formats.points_range(0.281, 0.337), "+28.1 to +33.7 pp"),
        (formats.points_range(0.31, 0.31), "all judged"),
        (formats.points(-0.031), "−3.1 pp"),
        (formats.seconds(0.0421), "42 ms"),
        (formats.seconds(7.5), "7.50 s"),
        (formats.step(60), "1 min"),
        (formats.step(10), "10 s"),
        (formats.step(7200), "2 h"),
        (formats.ago(0, 7300), "2 h ago"),
        (formats.moment(float("inf")), "1970-01-01 00:00:00"),
        (formats.probability(0.04), "0.04"),
        (formats.probability(1.0), "1"),
    ],
)
def test_figures_are_written_for_people(shown, expected):
    assert shown == expected


@pytest.mark.parametrize("wrong", [{"default_window": "2w"}, {"page_size": 0}, {"queue_limit": -1}])
def test_a_wrong_setting_is_refused_by_name(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ConsoleConfig(**wrong)
