"""The stored detail of a judgement reads back as it was written."""

from __future__ import annotations

import json

from groundwatch_scorer.criteria import detail, read_detail
from groundwatch_scorer.judgement import (
    AnnotatorKind,
    Answerability,
    Assessment,
    CitationVerdict,
    ClaimVerdict,
    Evidence,
    FaultFinding,
    FaultLayer,
    Refusal,
    Verdict,
)

PASSAGE = Evidence("d1", 3, 9, "10 MB.", "candidates")
READING = Assessment(
    identifier="local-v1",
    annotator_kind=AnnotatorKind.CODE,
    claims=(ClaimVerdict("上限 20 MB。", 0, 9, Verdict.NOT_MENTIONED, 0.9, "number_conflict", (PASSAGE,)),),
    refusal=Refusal.PARTIAL,
    answerability=Answerability.PARTIAL,
    candidates_answerability=Answerability.FULL,
    answer_relevance=0.7,
    context_relevance=(0.5, None),
    candidate_relevance=(1.0,),
    citations=(CitationVerdict("[1]", "d1", None),),
    flags=("injection_suspected",),
)
FINDING = FaultFinding(FaultLayer.RERANK, 0.9, "The reranker dropped the passage.", (PASSAGE,))


def test_detail_survives_json():
    stored = json.loads(json.dumps(detail(READING, FINDING, ["unsupported_claim"])))
    back = read_detail(stored, identifier="local-v1")
    assert back.assessment == READING
    assert back.finding == FINDING
    assert back.reasons == ("unsupported_claim",)


def test_detail_has_the_documented_keys():
    stored = detail(READING, None)
    assert set(stored) == {
        "claims",
        "refusal",
        "answerability",
        "candidates_answerability",
        "answer_relevance",
        "context_relevance",
        "candidate_relevance",
        "context_precision",
        "refusal_case",
        "citations",
        "fault",
        "reasons",
        "flags",
    }
    assert stored["fault"] is None


def test_an_empty_detail_reads_as_not_known():
    """A person's judgement carries no reading of a judge."""
    back = read_detail({})
    assert back.assessment.claims == ()
    assert back.assessment.answerability is None
    assert back.finding is None
