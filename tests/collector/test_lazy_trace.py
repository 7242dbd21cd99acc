"""Most traces are counted and never stored: what only storing needs is not read for them."""

from __future__ import annotations

import dataclasses
import random

import pytest

from groundwatch import names
from groundwatch_collector import signals
from groundwatch_collector.lazy_trace import LazyTrace, changed, whole
from groundwatch_collector.mapping import to_lazy_trace, to_ragtrace
from groundwatch_collector.ragtrace import RagTrace, to_json


def test_a_field_is_read_once_and_only_when_it_is_asked_for():
    asked: list[str] = []

    def read(name: str) -> str:
        asked.append(name)
        return name.upper()

    trace = LazyTrace(read, trace_id="t")
    assert (trace.trace_id, asked) == ("t", [])
    assert (trace.model, trace.model, asked) == ("MODEL", "MODEL", ["model"])
    with pytest.raises(AttributeError):
        trace.colour  # noqa: B018
    with pytest.raises(AttributeError):
        trace.model = "other"  # type: ignore[misc]


def is_read(trace: RagTrace, name: str) -> bool:
    try:
        RagTrace.__dict__[name].__get__(trace)
    except AttributeError:
        return False
    return True


def test_sorting_a_trace_leaves_its_documents_and_notes_unread(make):
    trace = to_lazy_trace(make.request())
    assert trace is not None
    signals.measure(trace)
    assert is_read(trace, "answer")
    assert not [name for name in ("candidates", "context", "stages", "flags", "sources") if is_read(trace, name)]
    assert trace.candidates == (to_ragtrace(make.request()) or pytest.fail()).candidates


LISTS = {
    "as our SDK writes them": '[{"id": "a", "rank": 1, "score": 0.5, "content": "one"}]',
    "without a text": '[{"id": "kb-1", "rank": 1, "score": 2.5}]',
    "in another order": '[{"id": "a", "rank": 2, "score": 0.1, "content": "b"}, {"id": "c", "rank": 1}]',
    "with a rank twice": '[{"id": "a", "rank": 1, "content": "b"}, {"id": "c", "rank": 1, "content": "d"}]',
    "hidden": "__REDACTED__",
    "hidden inside": '[{"id": "a", "rank": 1, "score": 0.5, "content": "__REDACTED__"}]',
    "with an odd score": '[{"id": "a", "rank": 1, "score": "0.5", "content": "b"}]',
    "with a nul": '[{"id": "a", "rank": 1, "score": 0.5, "content": "b\\u0000c"}]',
    "empty": "[]",
    "not a list": "7",
}


@pytest.mark.parametrize("shown", LISTS)
@pytest.mark.parametrize("key", [names.CANDIDATES, names.RERANKED, names.CONTEXT])
def test_texts_and_scores_are_those_of_the_documents(make, shown, key):
    spans = [
        dataclasses.replace(span, attributes={**span.attributes, key: LISTS[shown]})
        if key in span.attributes
        else span
        for span in make.request()
    ]
    lazy, read = to_lazy_trace(spans), to_ragtrace(spans)
    assert lazy is not None and read is not None
    assert (lazy.shown_texts, lazy.ranking_scores) == (read.shown_texts, read.ranking_scores)
    assert signals.measure(lazy) == signals.measure(read)


@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_reading_changes_nothing(make, seed):
    shown = '[{"id": "kb-1"}, {"id": "kb-2", "content": "cut", "content_cut": 7}]'
    spans = make.request(root={names.COST_USD: "much", names.CITATIONS: "[1"}, documents=shown)
    expected = to_ragtrace(spans, flags=["noticed"])
    trace = to_lazy_trace(spans, flags=["noticed"])
    assert isinstance(trace, LazyTrace)
    assert expected is not None
    fields = list(RagTrace.__dataclass_fields__)
    random.Random(seed).shuffle(fields)
    for name in fields:
        assert getattr(trace, name) == getattr(expected, name), name
    assert to_json(whole(trace)) == to_json(expected)


def test_a_change_holds_and_leaves_the_rest_to_be_read(make):
    spans = make.request()
    once = changed(to_lazy_trace(spans) or pytest.fail(), started_at=5.0)
    twice = changed(once, adjusted_count=4.0)
    assert (twice.started_at, twice.adjusted_count) == (5.0, 4.0)
    assert whole(twice).candidates == (to_ragtrace(spans) or pytest.fail()).candidates
    assert changed(whole(twice), started_at=6.0).adjusted_count == 4.0
