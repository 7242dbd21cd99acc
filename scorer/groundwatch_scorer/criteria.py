"""From one judge's reading to a pass or fail per criterion, and the JSON that is kept beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .judgement import (
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


@dataclass(frozen=True, slots=True)
class Reading:
    """What :func:`read_detail` gives back: the judge's reading, the fault it points to, and why it failed."""

    assessment: Assessment
    finding: FaultFinding | None
    reasons: tuple[str, ...]


def detail(assessment: Assessment, finding: FaultFinding | None, reasons: Sequence[str] = ()) -> dict[str, Any]:
    """JSON-ready detail of the headline judgement. The keys are part of the stored format: see docs/judging.md."""
    return {
        "claims": [asdict(claim) for claim in assessment.claims],
        "refusal": assessment.refusal.value,
        "answerability": assessment.answerability,
        "candidates_answerability": assessment.candidates_answerability,
        "answer_relevance": assessment.answer_relevance,
        "context_relevance": list(assessment.context_relevance),
        "candidate_relevance": list(assessment.candidate_relevance),
        "citations": [asdict(citation) for citation in assessment.citations],
        "fault": None if finding is None else asdict(finding),
        "reasons": list(reasons),
        "flags": list(assessment.flags),
    }


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
