"""The measures, with the definitions and worked figures that evaluation tools share."""

from __future__ import annotations

import pytest

from groundwatch_collector.ragtrace import Outcome
from groundwatch_scorer.judgement import AnnotatorKind, Answerability, Assessment, Refusal
from groundwatch_scorer.measures import (
    RefusalCase,
    average_precision,
    context_precision,
    refusal_case,
    refusal_confusion,
)


def _reading(*relevance: float | None) -> Assessment:
    return Assessment("j", AnnotatorKind.CODE, context_relevance=relevance)


@pytest.mark.parametrize(
    ("relevant", "expected"),
    [((1, 0, 1, 0), 0.8333), ((1, 1, 0, 0), 1.0), ((0, 0, 1, 1), 0.4167), ((0, 0), 0.0), ((), 0.0)],
)
def test_average_precision(relevant, expected):
    assert average_precision([bool(r) for r in relevant]) == pytest.approx(expected, abs=1e-4)


def test_context_precision_reads_the_order_of_the_context():
    assert context_precision(_reading(0.9, 0.1, 0.8, 0.0)) == pytest.approx(5 / 6)
    assert context_precision(_reading(0.1, 0.0, 0.8, 0.9)) == pytest.approx(5 / 12)


@pytest.mark.parametrize("relevance", [(), (None,), (0.9, None)])
def test_an_unknown_passage_makes_the_order_unknown(relevance):
    assert context_precision(_reading(*relevance)) is None


@pytest.mark.parametrize(
    ("refusal", "answerability", "case"),
    [
        (Refusal.FULL, Answerability.FULL, RefusalCase.UNJUSTIFIED_REFUSAL),
        (Refusal.FULL, Answerability.NONE, RefusalCase.JUSTIFIED_REFUSAL),
        (Refusal.NONE, Answerability.NONE, RefusalCase.UNGROUNDED_ANSWER),
        (Refusal.PARTIAL, Answerability.FULL, RefusalCase.ANSWERED),
        (Refusal.FULL, Answerability.PARTIAL, RefusalCase.PARTLY),
        (Refusal.FULL, None, RefusalCase.UNKNOWN),
    ],
)
def test_refusal_cases(refusal, answerability, case):
    assert refusal_case(refusal, answerability) is case


def test_every_rate_of_the_confusion_has_its_own_denominator():
    found = refusal_confusion(
        [
            (Outcome.ANSWERED, Refusal.FULL, Answerability.FULL),
            (Outcome.REFUSED, Refusal.FULL, Answerability.NONE),
            (Outcome.ANSWERED, Refusal.NONE, Answerability.FULL),
            (Outcome.ANSWERED, Refusal.NONE, Answerability.FULL),
            (Outcome.ANSWERED, Refusal.NONE, Answerability.NONE),
            (Outcome.ANSWERED, Refusal.NONE, None),
            (Outcome.ERROR, Refusal.NONE, Answerability.NONE),
            (Outcome.UNKNOWN, Refusal.FULL, Answerability.NONE),
            (Outcome.CANCELLED, Refusal.FULL, Answerability.FULL),
        ]
    )
    assert found["unjustified_refusals"] == (1, 3)
    assert found["justified_refusals"] == (2, 3)
    assert found["ungrounded_answers"] == (1, 3)
    assert found["refusals_not_recorded_as_such"] == (1, 2)
    assert sum(found["cells"].values()) == 9
