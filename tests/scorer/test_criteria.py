"""Labels per criterion: what passes, what fails, and what is not applicable rather than a number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groundwatch_collector.ragtrace import Document, Outcome, RagTrace
from groundwatch_scorer.criteria import judgements, read_detail
from groundwatch_scorer.judgement import (
    AnnotatorKind,
    Assessment,
    ClaimVerdict,
    Criterion,
    Judgement,
    Refusal,
    Verdict,
)
from groundwatch_scorer.local_judge import LocalJudge

TEXT = "Deleted files are kept for 14 days. The trash counts towards the quota."
TRACE = RagTrace(
    trace_id="t",
    app="a",
    version="1",
    started_at=0.0,
    duration_seconds=1.0,
    outcome=Outcome.ANSWERED,
    outcome_source="recorded",
    query="how long are deleted files kept",
    context=(Document("d", 1, text=TEXT),),
    answer="Deleted files are kept for 14 days.",
)


def _labels(trace: RagTrace, assessment: Assessment | None = None) -> dict[Criterion, Judgement]:
    return {j.criterion: j for j in judgements(trace, assessment or LocalJudge().assess(trace), 5.0)}


def test_one_judgement_per_criterion():
    found = judgements(TRACE, LocalJudge().assess(TRACE), 5.0)
    assert [j.criterion for j in found] == list(Criterion)
    assert {j.identifier for j in found} == {"local-v1"}
    assert {j.judged_at for j in found} == {5.0}


def test_a_good_answer_passes():
    labels = _labels(TRACE)
    assert labels[Criterion.ANY_FAILURE].label == "pass"
    assert labels[Criterion.FAITHFULNESS].score == 1.0


def test_the_headline_carries_the_reading_and_the_fault():
    headline = _labels(replace(TRACE, answer="Deleted files are kept for 90 days."))[Criterion.ANY_FAILURE]
    assert (headline.label, headline.failed) == ("fail", True)
    back = read_detail(headline.detail, identifier="local-v1")
    assert back.finding is not None
    assert back.finding.layer.value == "generation"
    assert back.reasons == ("contradicted_claim",)
    assert back.assessment.claims[0].evidence[0].quote in TEXT


@pytest.mark.parametrize("outcome", [Outcome.ERROR, Outcome.TIMEOUT, Outcome.CANCELLED])
def test_failed_executions_and_cancellations_are_not_applicable(outcome):
    assert {j.label for j in _labels(replace(TRACE, outcome=outcome)).values()} == {"not_applicable"}


def test_text_that_was_never_captured_is_not_applicable_and_lost_text_is_unscored():
    bare = replace(TRACE, answer=None, context=None, query=None)
    never, lost = _labels(bare), _labels(replace(bare, incomplete=True))
    assert {(j.label, j.detail["reasons"][0]) for j in never.values()} == {("not_applicable", "no_content")}
    assert {j.label for j in lost.values()} == {"unscored"}


def test_without_the_context_nothing_is_said_of_the_answer():
    """An application that does not report its context does not fail for it."""
    for context in (None, (Document("d", 1),)):
        labels = _labels(replace(TRACE, context=context, answer="The moon is made of cheese."))
        assert labels[Criterion.ANY_FAILURE].label == "not_applicable"
        assert labels[Criterion.FAITHFULNESS].label == "not_applicable"


def test_a_judge_in_trouble_counts_as_missing():
    trouble = Assessment("llm", AnnotatorKind.LLM, unscored_reason="timeout")
    assert {(j.label, j.explanation) for j in _labels(TRACE, trouble).values()} == {("unscored", "timeout")}


@pytest.mark.parametrize(
    ("answer", "reason"), [("", "empty_answer"), ("Yes.", "no_claims"), ("I don't know.", "refusal")]
)
def test_no_claims_are_never_a_perfect_score(answer, reason):
    found = _labels(replace(TRACE, answer=answer))[Criterion.FAITHFULNESS]
    assert (found.label, found.score, found.detail["reasons"]) == ("not_applicable", None, [reason])


def test_a_refusal_fails_only_where_the_context_answers():
    refused = replace(TRACE, answer="I could not find this in the documentation.")
    unjustified = _labels(refused)
    assert unjustified[Criterion.REFUSAL].label == "fail"
    assert unjustified[Criterion.ANY_FAILURE].label == "fail"
    justified = _labels(replace(refused, query="who founded the company and where"))
    assert justified[Criterion.REFUSAL].label == "pass"
    assert justified[Criterion.ANY_FAILURE].label == "pass"


def test_the_recorded_outcome_does_not_decide_what_a_refusal_is():
    refused = replace(TRACE, answer="I could not find this in the documentation.", outcome=Outcome.ANSWERED)
    assert _labels(refused)[Criterion.ANY_FAILURE].detail["refusal"] == Refusal.FULL


def test_only_abstentions_are_unscored():
    claim = ClaimVerdict("x", 0, 1, Verdict.UNCERTAIN, 0.5)
    unsure = Assessment("j", AnnotatorKind.CODE, claims=(claim,), answer_relevance=1.0)
    labels = _labels(TRACE, unsure)
    assert labels[Criterion.FAITHFULNESS].label == "unscored"
    assert labels[Criterion.ANY_FAILURE].label == "unscored"
    mixed = replace(unsure, claims=(claim, replace(claim, verdict=Verdict.SUPPORTED, unsupported_probability=0.1)))
    assert _labels(TRACE, mixed)[Criterion.ANY_FAILURE].label == "pass"


def test_context_without_a_relevant_passage_fails_context_relevance():
    off = replace(TRACE, query="which football club does the firm sponsor")
    assert _labels(off)[Criterion.CONTEXT_RELEVANCE].label == "fail"
    assert _labels(TRACE)[Criterion.CONTEXT_RELEVANCE].label == "pass"
