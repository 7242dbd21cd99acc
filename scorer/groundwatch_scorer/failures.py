"""What in a judge's reading counts as a failure of the answer towards its user. One rule for every judge."""

from __future__ import annotations

from enum import StrEnum

from groundwatch_collector.ragtrace import FAILED_EXECUTION, RagTrace

from .judgement import Answerability, Assessment, ClaimVerdict, Refusal, Verdict

FAIL_FROM = 0.7  # probability that a claim is unsupported, from which it counts as a failure
OFF_TOPIC_BELOW = 0.15  # answer relevance
MISSED_FROM = 0.6  # relevance of a passage that was left out, from which leaving it out is a miss
MISSED_BY = 0.25  # how much more relevant it must be than what the answer rests on
MISSED_BY_REFUSING = 0.1  # and than the best of the context, to be what a refusal missed


class Reason(StrEnum):
    """Why an answer failed (closed set)."""

    EXECUTION = "execution"
    CONTRADICTED_CLAIM = "contradicted_claim"
    UNSUPPORTED_CLAIM = "unsupported_claim"
    UNJUSTIFIED_REFUSAL = "unjustified_refusal"  # the context answers
    REFUSED_WITH_CANDIDATES = "refused_with_candidates"  # what was retrieved answers, the context does not
    MISSED_EVIDENCE = "missed_evidence"  # answered from the wrong passage while a far better one was retrieved
    UNGROUNDED_ANSWER = "ungrounded_answer"  # the context has no answer, and there is one
    OFF_TOPIC = "off_topic"


def claim_fails(claim: ClaimVerdict) -> bool:
    """Whether *claim* alone makes its answer a failure. An abstention never does."""
    if claim.verdict is Verdict.CONTRADICTED:
        return True
    return claim.verdict is Verdict.NOT_MENTIONED and claim.unsupported_probability >= FAIL_FROM


def reasons(trace: RagTrace, assessment: Assessment) -> tuple[Reason, ...]:
    """Every reason why the answer of *trace* failed, the weightiest first. Empty: no failure was found."""
    if trace.outcome in FAILED_EXECUTION:
        return (Reason.EXECUTION,)
    if not context_is_known(trace):
        return ()
    if assessment.refusal is Refusal.FULL:
        return _refusal_reasons(trace, assessment)
    found: list[Reason] = []
    failing = [claim for claim in assessment.claims if claim_fails(claim)]
    if any(claim.verdict is Verdict.CONTRADICTED for claim in failing):
        found.append(Reason.CONTRADICTED_CLAIM)
    if any(claim.verdict is not Verdict.CONTRADICTED for claim in failing):
        found.append(Reason.UNSUPPORTED_CLAIM)
    if trace.answer and assessment.refusal is Refusal.NONE:
        found.extend(_answer_reasons(trace, assessment, bool(failing)))
    return tuple(found)


def context_is_known(trace: RagTrace) -> bool:
    """Whether the text that the answer was made from is there. An empty context is known to be empty."""
    return trace.context is not None and (not trace.context or any(d.text for d in trace.context))


def _refusal_reasons(trace: RagTrace, assessment: Assessment) -> tuple[Reason, ...]:
    in_context = assessment.answerability is Answerability.FULL
    if _left_out_is_better(trace, assessment, _best_context(assessment), MISSED_BY_REFUSING):
        in_candidates = assessment.candidates_answerability is Answerability.FULL
        return (Reason.REFUSED_WITH_CANDIDATES,) if in_candidates or in_context else ()
    if in_context:
        return (Reason.UNJUSTIFIED_REFUSAL,)
    return (Reason.REFUSED_WITH_CANDIDATES,) if assessment.candidates_answerability is Answerability.FULL else ()


def _answer_reasons(trace: RagTrace, assessment: Assessment, has_failing_claim: bool) -> list[Reason]:
    relevance = assessment.answer_relevance
    if evidence_was_left_out(trace, assessment):
        return [Reason.MISSED_EVIDENCE]
    if assessment.answerability is Answerability.NONE and (
        has_failing_claim or (relevance is not None and relevance < OFF_TOPIC_BELOW)
    ):
        return [Reason.UNGROUNDED_ANSWER]
    if relevance is not None and relevance < OFF_TOPIC_BELOW:
        return [Reason.OFF_TOPIC]
    return []


def evidence_was_left_out(trace: RagTrace, assessment: Assessment) -> bool:
    """Whether a retrieved passage outside the context fits the question far better than what the answer rests on."""
    context = _best_context(assessment)
    used = context if assessment.answer_relevance is None else assessment.answer_relevance
    return _left_out_is_better(trace, assessment, used, MISSED_BY) and _left_out_is_better(
        trace, assessment, context, 0.0
    )


def left_out_fits_better(trace: RagTrace, assessment: Assessment) -> bool:
    """Whether a retrieved passage outside the context fits the question far better than any inside it."""
    return _left_out_is_better(trace, assessment, _best_context(assessment), MISSED_BY)


def _left_out_is_better(trace: RagTrace, assessment: Assessment, used: float, margin: float) -> bool:
    index = best_left_out(trace, assessment)
    relevance = None if index is None else assessment.candidate_relevance[index]
    return relevance is not None and relevance >= MISSED_FROM and relevance > used + margin


def _best_context(assessment: Assessment) -> float:
    return max((r for r in assessment.context_relevance if r is not None), default=0.0)


def best_left_out(trace: RagTrace, assessment: Assessment) -> int | None:
    """Index of the most relevant candidate that is not in the context. None: there is none, or it is not known."""
    if trace.context is None or not trace.candidates or len(assessment.candidate_relevance) != len(trace.candidates):
        return None
    sent = {document.id for document in trace.context}
    texts = {document.text for document in trace.context if document.text}
    rated = [
        (relevance, -index)
        for index, (document, relevance) in enumerate(
            zip(trace.candidates, assessment.candidate_relevance, strict=True)
        )
        if relevance is not None and document.id not in sent and document.text not in texts
    ]
    return -max(rated)[1] if rated else None
