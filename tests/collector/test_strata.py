"""Each trace has one stratum: the first that matches, and never by its random number."""

from __future__ import annotations

import dataclasses
import gzip
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwatch_collector import signals, strata
from groundwatch_collector.ragtrace import Document, Feedback, Outcome, RagTrace
from groundwatch_collector.signals import Signals
from groundwatch_collector.strata import STRATA, Cuts, classify, declines

CUTS = Cuts("1", 0.32, 0.58, 0.77)
COMPLAINT = Feedback("f", "1" * 32, "thumbs", "negative")
PRAISE = Feedback("g", "1" * 32, "thumbs", "positive")


def trace(**changes: Any) -> RagTrace:
    plain = RagTrace(
        trace_id="1" * 32,
        app="shop",
        version="1",
        started_at=0.0,
        duration_seconds=1.0,
        outcome=Outcome.ANSWERED,
        outcome_source="recorded",
        query="How large may an upload be?",
        context=(Document("kb-1", 1, text="Uploads up to 50 MB are allowed in the team edition."),),
        answer="Uploads of up to 50 MB are allowed in the team edition [1].",
    )
    return dataclasses.replace(plain, **changes)


def stratum(**changes: Any) -> str:
    one = trace(**changes)
    return classify(one, signals.measure(one), CUTS)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "normal_b0"),
        ({"incomplete": True, "outcome": Outcome.ERROR, "feedback": (COMPLAINT,)}, "incomplete"),
        ({"outcome": Outcome.ERROR, "feedback": (COMPLAINT,)}, "error_timeout"),
        ({"outcome": Outcome.TIMEOUT}, "error_timeout"),
        ({"outcome": Outcome.CANCELLED, "feedback": (COMPLAINT,)}, "cancelled"),
        ({"outcome": Outcome.REFUSED, "feedback": (PRAISE, COMPLAINT)}, "feedback_neg"),
        ({"feedback": (PRAISE,)}, "normal_b0"),
        ({"outcome": Outcome.REFUSED}, "refusal"),
        ({"outcome": Outcome.NO_RESULT}, "refusal"),
        ({"answer": "I'm sorry, but the manual does not say."}, "refusal"),
        ({"answer": "抱歉，手册中没有相关内容。"}, "refusal"),
        ({"answer": "Nothing of this kind exists; 9000 penguins march northwards tomorrow."}, "normal_b3"),
        ({"outcome": Outcome.PARTIAL}, "normal_b0"),
        ({"outcome": Outcome.UNKNOWN, "answer": None, "context": None}, "normal_b0"),
    ],
)
def test_first_match_wins(changes, expected):
    assert stratum(**changes) == expected


def test_every_stratum_can_be_reached_by_its_order():
    assert STRATA[:5] == ("incomplete", "error_timeout", "cancelled", "feedback_neg", "refusal")
    assert len(set(STRATA)) == len(STRATA) <= 16


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("I do not know: no documents were found for this question.", True),
        ("The provided context does not contain that.", True),
        ("根据资料，无法确定保留期限。", True),
        ("Files are kept for 30 days.", False),
        ("文件保留 30 天。", False),
        ("", False),
        (None, False),
    ],
)
def test_an_opening_that_declines_is_noticed_in_both_languages(answer, expected):
    assert declines(answer) is expected


@given(st.from_regex(strata._DECLINES), st.sampled_from([str, str.upper, str.lower, str.swapcase]))
def test_looking_for_hints_first_misses_no_refusal(answer, spelled):
    answer = spelled(answer)
    assert declines(answer) is (strata._DECLINES.search(answer[:240]) is not None)


@pytest.mark.parametrize("cuts", [(0.5, 0.4, 0.6), (0.0, 0.4, 0.6), (0.1, 0.2, 1.0), (0.2, 0.2, 0.3)])
def test_cuts_must_rise(cuts):
    with pytest.raises(ValueError, match="rising"):
        Cuts("1", *cuts)


@pytest.mark.parametrize(
    ("changes", "name", "value"),
    [
        ({"answer": "Uploads of up to 70 MB are allowed."}, "unsupported_numbers", 1.0),
        ({"answer": "团队版允许上传五十兆。"}, "unsupported_terms", 1.0),
        ({"context": ()}, "unsupported_terms", 1.0),
        ({"context": (Document("ids only", 1),)}, "unsupported_terms", 0.0),
        ({"context": None, "reranked": (Document("a", 1, text="of uploads only"),)}, "unsupported_terms", 3 / 4),
        ({"answer": "Uploads are allowed."}, "missing_citation", 1.0),
        ({"answer": "Yes."}, "short_answer", 1.0),
        ({"retries": 1}, "retries", 0.5),
        ({"reranked": ()}, "weak_retrieval", 1.0),
        ({"reranked": (Document("a", 1, 0.1),)}, "weak_retrieval", 0.8),
        ({"reranked": (Document("a", 1, 17.0),)}, "weak_retrieval", 0.0),
        ({"query": "上传限制是多少？"}, "language_mismatch", 1.0),
    ],
)
def test_each_hint_answers_to_its_cause(changes, name, value):
    assert getattr(signals.measure(trace(**changes)), name) == pytest.approx(value)


def test_a_good_answer_raises_no_hint_and_nothing_known_is_no_hint():
    assert signals.measure(trace()) == Signals()
    assert signals.measure(trace(answer=None, context=None, query=None)) == Signals()


def test_the_score_is_between_zero_and_one_and_rises_with_every_hint():
    worst = Signals(**{field.name: 1.0 for field in dataclasses.fields(Signals)})
    assert 0 < signals.score(Signals()) < CUTS.b1 < CUTS.b3 < signals.score(worst) < 1
    for field in dataclasses.fields(Signals):
        assert signals.score(Signals(**{field.name: 1.0})) > signals.score(Signals())


def test_the_largest_trace_is_measured_in_about_a_millisecond():
    """The median of 20, so that a busy machine does not decide it; the bound is five times what was measured."""
    text = "retention of uploaded files is regulated by edition 文件保留期限按版本规定 " * 4000
    large = trace(answer=text, context=tuple(Document(str(n), n, text=text) for n in range(1, 20)))
    times = []
    for _ in range(20):
        started = time.perf_counter()
        signals.score(signals.measure(large))
        times.append(time.perf_counter() - started)
    assert sorted(times)[10] < 0.005


@pytest.mark.shared_data
def test_the_score_ranks_unfaithful_answers_higher_in_public_data(shared_data):
    """Area under the ROC curve on 1,128 labelled answers; 0.5 would be no better than chance."""
    with gzip.open(shared_data / "judge_dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    scores: dict[bool, list[float]] = {True: [], False: []}
    for row in rows:
        if row["faithful"] is not None and row["contexts"] and row["answer"]:
            documents = tuple(Document(str(n), n, text=text) for n, text in enumerate(row["contexts"], start=1))
            one = trace(query=row["question"], context=documents, answer=row["answer"])
            scores[bool(row["faithful"])].append(signals.score(signals.measure(one)))
    pairs = [(bad > good) + 0.5 * (bad == good) for bad in scores[False] for good in scores[True]]
    assert sum(pairs) / len(pairs) > 0.70
