"""From one judge's reading to a pass or fail per criterion, and the JSON that is kept beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from groundwatch_collector.ragtrace import COMPLETED, Outcome, RagTrace

from . import failures, fault
from .judgement import (
    AnnotatorKind,
    Answerability,
    Assessment,
    CitationVerdict,
    ClaimVerdict,
    Criterion,
    Evidence,
    FaultFinding,
    FaultLayer,
    Judgement,
    Refusal,
    Verdict,
)
from .measures import RELEVANT_FROM, context_precision, refusal_case


@dataclass(frozen=True, slots=True)
class _Label:
    label: str  # pass | fail | not_applicable | unscored
    score: float | None
    reasons: tuple[str, ...] = ()


def judgements(trace: RagTrace, assessment: Assessment, judged_at: float) -> list[Judgement]:
    """One judgement per criterion, the headline last. It alone carries the whole reading as its detail."""
    whole = _same_for_all(trace, assessment)
    finding = None if whole is not None else fault.find(trace, assessment)
    found: list[Judgement] = []
    for criterion, rule in _RULES.items():
        result = whole or rule(trace, assessment)
        headline = criterion is Criterion.ANY_FAILURE
        found.append(
            Judgement(
                trace_id=trace.trace_id,
                criterion=criterion,
                label=result.label,
                score=result.score,
                explanation=_explanation(result, finding if headline else None),
                annotator_kind=assessment.annotator_kind,
                identifier=assessment.identifier,
                judged_at=judged_at,
                cost_usd=assessment.cost_usd if headline else None,
                detail=detail(assessment, finding, result.reasons) if headline else {"reasons": list(result.reasons)},
                calls=assessment.calls if headline else (),
            )
        )
    return found


def _explanation(result: _Label, finding: FaultFinding | None) -> str:
    if finding is not None:
        return finding.explanation
    return "; ".join(reason.replace("_", " ") for reason in result.reasons)


def _same_for_all(trace: RagTrace, assessment: Assessment) -> _Label | None:
    """The label that holds whatever the criterion: failed executions, and text that is not there."""
    if trace.outcome not in COMPLETED:
        reason = "cancelled" if trace.outcome is Outcome.CANCELLED else "execution"
        return _Label("not_applicable", None, (reason,))
    if assessment.unscored_reason:
        return _Label("unscored", None, (assessment.unscored_reason,))
    if trace.answer is None:
        if trace.incomplete:  # the span that had the answer may be among those that did not arrive
            return _Label("unscored", None, ("content_lost",))
        return _Label("not_applicable", None, ("no_content",))
    return None


def _faithfulness(trace: RagTrace, assessment: Assessment) -> _Label:
    if assessment.refusal is Refusal.FULL:
        return _Label("not_applicable", None, ("refusal",))
    if not failures.context_is_known(trace):
        return _Label("not_applicable", None, ("no_content",))
    if not assessment.claims:
        return _Label("not_applicable", None, ("no_claims" if (trace.answer or "").strip() else "empty_answer",))
    decided = [claim for claim in assessment.claims if claim.verdict is not Verdict.UNCERTAIN]
    if not decided:
        return _Label("unscored", None, ("abstained",))
    score = sum(claim.verdict is Verdict.SUPPORTED for claim in decided) / len(decided)
    failing = tuple(dict.fromkeys(claim.reason or "unsupported" for claim in decided if failures.claim_fails(claim)))
    return _Label("fail" if failing else "pass", score, failing)


def _refusal(trace: RagTrace, assessment: Assessment) -> _Label:
    """Whether the answer declined rightly, or rightly did not."""
    if assessment.answerability is None and assessment.candidates_answerability is None:
        return _Label("not_applicable", None, ("no_content",))
    if assessment.refusal is not Refusal.FULL:
        return _Label("pass", 1.0)
    found = tuple(reason.value for reason in failures.reasons(trace, assessment))
    return _Label("fail", 0.0, found) if found else _Label("pass", 1.0, ("justified_refusal",))


def _answer_relevance(trace: RagTrace, assessment: Assessment) -> _Label:
    if assessment.refusal is Refusal.FULL or assessment.answer_relevance is None:
        return _Label("not_applicable", None, ("refusal" if assessment.refusal is Refusal.FULL else "no_content",))
    off = assessment.answer_relevance < failures.OFF_TOPIC_BELOW
    return _Label("fail" if off else "pass", assessment.answer_relevance, (failures.Reason.OFF_TOPIC.value,) * off)


def _context_relevance(trace: RagTrace, assessment: Assessment) -> _Label:
    known = [relevance for relevance in assessment.context_relevance if relevance is not None]
    if not known:
        empty = trace.context == ()
        return _Label("fail", 0.0, ("empty_context",)) if empty else _Label("not_applicable", None, ("no_content",))
    share = sum(relevance >= RELEVANT_FROM for relevance in known) / len(known)
    return _Label("pass", share) if share else _Label("fail", 0.0, ("no_relevant_passage",))


def _citations(trace: RagTrace, assessment: Assessment) -> _Label:
    known = [citation.supports for citation in assessment.citations if citation.supports is not None]
    if not known:
        return _Label("not_applicable", None, ("could_not_tell" if assessment.citations else "no_citations",))
    share = sum(known) / len(known)
    return _Label("pass", share) if all(known) else _Label("fail", share, ("citation_does_not_support",))


def _any_failure(trace: RagTrace, assessment: Assessment) -> _Label:
    found = tuple(reason.value for reason in failures.reasons(trace, assessment))
    if found:
        return _Label("fail", 1.0, found)
    if not failures.context_is_known(trace):
        return _Label("not_applicable", None, ("no_content",))
    claims = assessment.claims
    if claims and all(claim.verdict is Verdict.UNCERTAIN for claim in claims):
        return _Label("unscored", None, ("abstained",))
    return _Label("pass", 0.0)


_RULES: Mapping[Criterion, Callable[[RagTrace, Assessment], _Label]] = {
    Criterion.FAITHFULNESS: _faithfulness,
    Criterion.REFUSAL: _refusal,
    Criterion.ANSWER_RELEVANCE: _answer_relevance,
    Criterion.CONTEXT_RELEVANCE: _context_relevance,
    Criterion.CITATIONS: _citations,
    Criterion.ANY_FAILURE: _any_failure,
}


@dataclass(frozen=True, slots=True)
class Reading:
    """What :func:`read_detail` gives back: the judge's reading, the fault it points to, and why it failed."""

    assessment: Assessment
    finding: FaultFinding | None
    reasons: tuple[str, ...]


def detail(assessment: Assessment, finding: FaultFinding | None, reasons: Sequence[str] = ()) -> dict[str, Any]:
    """JSON-ready detail of the headline judgement. The keys are part of the stored format: see docs/judging.md."""
    return {
        "claims": [_claim_detail(claim) for claim in assessment.claims],
        "refusal": assessment.refusal.value,
        "answerability": assessment.answerability,
        "candidates_answerability": assessment.candidates_answerability,
        "answer_relevance": assessment.answer_relevance,
        "context_relevance": list(assessment.context_relevance),
        "context_precision": context_precision(assessment),
        "refusal_case": refusal_case(assessment.refusal, assessment.answerability).value,
        "candidate_relevance": list(assessment.candidate_relevance),
        "citations": [asdict(citation) for citation in assessment.citations],
        "fault": None if finding is None else asdict(finding),
        "reasons": list(reasons),
        "flags": list(assessment.flags),
    }


def _claim_detail(claim: ClaimVerdict) -> dict[str, Any]:
    """As ``asdict``, without the copies that it makes of every value: there may be many claims."""
    return _fields(claim) | {"evidence": tuple(_fields(passage) for passage in claim.evidence)}


def _fields(record: ClaimVerdict | Evidence) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}


def read_detail(
    stored: Mapping[str, Any], *, identifier: str = "", annotator_kind: AnnotatorKind = AnnotatorKind.CODE
) -> Reading:
    """Read what :func:`detail` wrote. Keys that are absent (a person's judgement, an older row) read as not known."""
    assessment = Assessment(
        identifier=identifier,
        annotator_kind=annotator_kind,
        claims=tuple(_claim(raw) for raw in stored.get("claims", ())),
        refusal=Refusal(stored.get("refusal", Refusal.NONE)),
        answerability=_answerability(stored.get("answerability")),
        candidates_answerability=_answerability(stored.get("candidates_answerability")),
        answer_relevance=stored.get("answer_relevance"),
        context_relevance=tuple(stored.get("context_relevance", ())),
        candidate_relevance=tuple(stored.get("candidate_relevance", ())),
        citations=tuple(CitationVerdict(**raw) for raw in stored.get("citations", ())),
        flags=tuple(stored.get("flags", ())),
    )
    fault = stored.get("fault")
    finding = None if fault is None else _finding(fault)
    return Reading(assessment, finding, tuple(stored.get("reasons", ())))


def _answerability(raw: str | None) -> Answerability | None:
    return None if raw is None else Answerability(raw)


def _evidence(raw: Sequence[Mapping[str, Any]]) -> tuple[Evidence, ...]:
    return tuple(Evidence(**passage) for passage in raw)


def _claim(raw: Mapping[str, Any]) -> ClaimVerdict:
    return ClaimVerdict(**{**raw, "verdict": Verdict(raw["verdict"]), "evidence": _evidence(raw["evidence"])})


def _finding(raw: Mapping[str, Any]) -> FaultFinding:
    return FaultFinding(**{**raw, "layer": FaultLayer(raw["layer"]), "evidence": _evidence(raw["evidence"])})
