"""Which layer an answer's failure points to: the first stage after which the evidence was gone or misused."""

from __future__ import annotations

from collections.abc import Sequence

from groundwatch_collector.ragtrace import Document, RagTrace

from . import failures
from .answerability import rewrite_lost
from .failures import Reason
from .judgement import Answerability, Assessment, Evidence, FaultFinding, FaultLayer

_QUOTE_CHARACTERS = 300


def find(trace: RagTrace, assessment: Assessment) -> FaultFinding | None:
    """The layer that the failure of *trace* points to. None: nothing failed, as far as *assessment* sees."""
    found = failures.reasons(trace, assessment)
    if not found:
        return None
    if Reason.EXECUTION in found:
        named = f" ({trace.error_class})" if trace.error_class else ""
        return FaultFinding(FaultLayer.EXECUTION, 1.0, f"The request ended in {trace.outcome.value}{named}.")
    if Reason.UNJUSTIFIED_REFUSAL in found:
        return FaultFinding(
            FaultLayer.REFUSAL,
            0.8,
            "The context covers the question, and the answer declines.",
            _best_context(trace, assessment),
        )
    lost = _lost_evidence(trace, assessment, found)
    if lost is not None:
        return lost
    if found[0] in (Reason.CONTRADICTED_CLAIM, Reason.UNSUPPORTED_CLAIM):
        return _claim_fault(trace, assessment, found[0])
    return _unanswered(trace, assessment)


def _lost_evidence(trace: RagTrace, assessment: Assessment, found: Sequence[Reason]) -> FaultFinding | None:
    """Evidence that was retrieved and did not reach the answer: which stage lost it."""
    passage = _left_out_passage(trace, assessment, found)
    if passage is None:
        return None
    if _has(trace.reranked, passage.document_id):
        layer, said = (
            FaultLayer.CONTEXT,
            "The reranker kept the passage that fits best, and the context leaves it out.",
        )
    elif trace.reranked is None:
        layer, said = FaultLayer.CONTEXT, "The passage that fits best was retrieved, and the context leaves it out."
    else:
        layer, said = FaultLayer.RERANK, "The passage that fits best was retrieved, and the reranker dropped it."
    if trace.reranked is not None and not _has(trace.reranked, passage.document_id):
        layer = FaultLayer.RERANK
    sure = Reason.MISSED_EVIDENCE in found or Reason.REFUSED_WITH_CANDIDATES in found
    return FaultFinding(layer, 0.8 if sure else 0.6, said, (passage,))


def _left_out_passage(trace: RagTrace, assessment: Assessment, found: Sequence[Reason]) -> Evidence | None:
    for claim in assessment.claims:
        if failures.claim_fails(claim) and claim.reason != "number_conflict":
            for passage in claim.evidence:
                if passage.where == "candidates" and not _has(trace.context, passage.document_id):
                    return passage
    missed = {Reason.MISSED_EVIDENCE, Reason.REFUSED_WITH_CANDIDATES} & set(found)
    if not missed and not (Reason.UNSUPPORTED_CLAIM in found and failures.left_out_fits_better(trace, assessment)):
        return None
    index = failures.best_left_out(trace, assessment)
    return None if index is None or trace.candidates is None else _passage(trace.candidates[index], "candidates")


def _claim_fault(trace: RagTrace, assessment: Assessment, reason: Reason) -> FaultFinding:
    claim = max(
        (c for c in assessment.claims if failures.claim_fails(c)), key=lambda c: (c.unsupported_probability, -c.start)
    )
    if _lost_words(trace) and assessment.answerability is not Answerability.FULL:
        return _rewrite_fault(0.6)
    if _nothing_found(trace, assessment):
        return FaultFinding(
            FaultLayer.RETRIEVAL,
            0.6,
            "No retrieved passage covers the question, and the answer states it all the same.",
        )
    said = "contradicts the context" if reason is Reason.CONTRADICTED_CLAIM else "is not supported by the context"
    return FaultFinding(
        FaultLayer.GENERATION,
        round(0.5 + 0.5 * claim.unsupported_probability, 3) if claim.reason == "number_conflict" else 0.6,
        f"A statement of the answer {said} ({claim.reason.replace('_', ' ')}).",
        claim.evidence,
    )


def _unanswered(trace: RagTrace, assessment: Assessment) -> FaultFinding:
    """Nothing that was stated is wrong, and yet it does not answer."""
    if _lost_words(trace):
        return _rewrite_fault(0.6)
    if assessment.answerability is Answerability.FULL:
        return FaultFinding(
            FaultLayer.GENERATION,
            0.5,
            "The context covers the question, and the answer is about something else.",
            _best_context(trace, assessment),
        )
    if assessment.answerability is Answerability.NONE:
        if _nothing_found(trace, assessment):
            return FaultFinding(
                FaultLayer.RETRIEVAL, 0.5, "No retrieved passage covers the question, and yet it was answered."
            )
        return FaultFinding(
            FaultLayer.REFUSAL,
            0.4,
            "The context does not cover the question, and it was answered instead of declined.",
        )
    return FaultFinding(FaultLayer.RETRIEVAL, 0.4, "The retrieved passages cover the question only in part.")


def _rewrite_fault(confidence: float) -> FaultFinding:
    return FaultFinding(FaultLayer.REWRITE, confidence, "The rewritten query lost the words of the question.")


def _nothing_found(trace: RagTrace, assessment: Assessment) -> bool:
    known = assessment.candidates_answerability if trace.candidates is not None else assessment.answerability
    return known is Answerability.NONE


def _lost_words(trace: RagTrace) -> bool:
    return rewrite_lost(trace.query, trace.rewritten_query)


def _has(documents: Sequence[Document] | None, document_id: str) -> bool:
    return any(document.id == document_id for document in documents or ())


def _best_context(trace: RagTrace, assessment: Assessment) -> tuple[Evidence, ...]:
    rated = [
        (relevance, -index)
        for index, relevance in enumerate(assessment.context_relevance)
        if relevance is not None and index < len(trace.context or ())
    ]
    if not rated or trace.context is None:
        return ()
    passage = _passage(trace.context[-max(rated)[1]], "context")
    return () if passage is None else (passage,)


def _passage(document: Document, where: str) -> Evidence | None:
    if not document.text:
        return None
    quote = _opening(document.text)
    return Evidence(document.id, 0, len(quote), quote, "candidates" if where == "candidates" else "context")


def _opening(text: str) -> str:
    """The beginning of *text*, without half a word at its end: people read it, and a candidate keeps it."""
    if len(text) <= _QUOTE_CHARACTERS:
        return text
    end = max(text.rfind(mark, 0, _QUOTE_CHARACTERS + 1) for mark in (" ", "\n", "，", "。"))
    return text[: end if end > _QUOTE_CHARACTERS // 2 else _QUOTE_CHARACTERS]
