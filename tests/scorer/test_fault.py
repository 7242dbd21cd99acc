"""The layer that a failure points to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from groundwatch_collector.ragtrace import Document, Outcome, RagTrace
from groundwatch_scorer import fault
from groundwatch_scorer.judgement import (
    AnnotatorKind,
    Answerability,
    Assessment,
    ClaimVerdict,
    Evidence,
    FaultLayer,
    Refusal,
    Verdict,
)

GOOD = Document("good", 1, text="The passage that answers.")
BAD = Document("bad", 2, text="Something else.")
TRACE = RagTrace(
    trace_id="t",
    app="a",
    version="1",
    started_at=0.0,
    duration_seconds=1.0,
    outcome=Outcome.ANSWERED,
    outcome_source="recorded",
    query="how long are deleted files kept",
    candidates=(GOOD, BAD),
    reranked=(BAD,),
    context=(BAD,),
    answer="Something.",
)
READING = Assessment(
    "local-v1",
    AnnotatorKind.CODE,
    answerability=Answerability.PARTIAL,
    candidates_answerability=Answerability.FULL,
    answer_relevance=0.2,
    context_relevance=(0.2,),
    candidate_relevance=(0.9, 0.2),
)
IN_CANDIDATES = Evidence("good", 0, 11, "The passage", "candidates")


def _claim(
    verdict: Verdict = Verdict.NOT_MENTIONED, reason: str = "low_overlap", evidence: Sequence[Evidence] = ()
) -> ClaimVerdict:
    return ClaimVerdict("Something.", 0, 10, verdict, 0.9, reason, tuple(evidence))


@pytest.mark.parametrize(
    ("trace", "reading", "layer"),
    [
        (replace(TRACE, outcome=Outcome.TIMEOUT), {}, FaultLayer.EXECUTION),
        (TRACE, {"refusal": Refusal.FULL}, FaultLayer.RERANK),
        (replace(TRACE, reranked=(BAD, GOOD)), {"refusal": Refusal.FULL}, FaultLayer.CONTEXT),
        (replace(TRACE, reranked=None), {"refusal": Refusal.FULL}, FaultLayer.CONTEXT),
        (
            replace(TRACE, context=(GOOD,)),
            {"refusal": Refusal.FULL, "answerability": Answerability.FULL, "context_relevance": (0.9,)},
            FaultLayer.REFUSAL,
        ),
        (TRACE, {"answer_relevance": 0.3}, FaultLayer.RERANK),
        (replace(TRACE, reranked=(BAD, GOOD)), {"answer_relevance": 0.3}, FaultLayer.CONTEXT),
        (
            TRACE,
            {"candidate_relevance": (), "claims": (_claim(evidence=[IN_CANDIDATES]),)},
            FaultLayer.RERANK,
        ),
        (
            replace(TRACE, context=(GOOD,)),
            {
                "context_relevance": (0.9,),
                "answer_relevance": 0.9,
                "answerability": Answerability.FULL,
                "claims": (_claim(Verdict.CONTRADICTED, "number_conflict"),),
            },
            FaultLayer.GENERATION,
        ),
        (
            TRACE,
            {
                "candidate_relevance": (0.1, 0.1),
                "candidates_answerability": Answerability.NONE,
                "answerability": Answerability.NONE,
                "claims": (_claim(),),
            },
            FaultLayer.RETRIEVAL,
        ),
        (
            replace(TRACE, rewritten_query="weather tomorrow"),
            {"candidate_relevance": (0.1, 0.1), "answerability": Answerability.NONE, "claims": (_claim(),)},
            FaultLayer.REWRITE,
        ),
    ],
)
def test_layer(trace, reading, layer):
    finding = fault.find(trace, replace(READING, **reading))
    assert finding is not None
    assert finding.layer is layer
    assert finding.explanation.endswith(".")
    assert 0 < finding.confidence <= 1


@pytest.mark.parametrize(
    "reading",
    [
        {"answer_relevance": 0.9, "context_relevance": (0.9,)},
        {"refusal": Refusal.FULL, "candidate_relevance": (0.2, 0.1), "candidates_answerability": Answerability.NONE},
        {"answer_relevance": 0.9, "context_relevance": (0.9,), "claims": (_claim(Verdict.UNCERTAIN),)},
    ],
)
def test_no_failure_has_no_layer(reading):
    assert fault.find(TRACE, replace(READING, **reading)) is None


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("The passage that answers.", "The passage that answers."),
        ("retention " * 100, " retention"),  # ten letters a word: the bound falls into one
        ("administrator, " * 60, " administrator,"),
        ("已删除的文件保留三十天。" * 60, "已删除的文件保留三十天"),
        ("x" * 1_000, "x" * 300),  # nowhere to cut
    ],
)
def test_the_passage_of_a_finding_does_not_end_in_the_middle_of_a_word(text, ends):
    """People read it, and a candidate keeps it as the anchor that a right answer has to rest on."""
    finding = fault.find(
        replace(TRACE, candidates=(replace(GOOD, text=text), BAD)), replace(READING, refusal=Refusal.FULL)
    )
    assert finding is not None
    (passage,) = finding.evidence
    assert passage.quote == text[passage.start : passage.end]
    assert passage.quote.endswith(ends)
    assert len(passage.quote) <= 300
