"""What a judge says of a trace, and the judgement records that are kept of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol, runtime_checkable

from groundwatch_collector.ragtrace import RagTrace


class Verdict(StrEnum):
    """Verdict of one claim. UNCERTAIN is an abstention and never enters a rate."""

    SUPPORTED = "SUPPORTED"
    CONTRADICTED = "CONTRADICTED"
    NOT_MENTIONED = "NOT_MENTIONED"
    UNCERTAIN = "UNCERTAIN"


class Answerability(StrEnum):
    FULL = "FULL"
    PARTIAL = "PARTIAL"
    NONE = "NONE"


class Refusal(StrEnum):
    """Semantic refusal: whether the text declines, whatever the app's own detector recorded."""

    FULL = "full"
    PARTIAL = "partial"
    NONE = "none"


class AnnotatorKind(StrEnum):
    CODE = "CODE"
    LLM = "LLM"
    HUMAN = "HUMAN"


class Criterion(StrEnum):
    FAITHFULNESS = "faithfulness"
    REFUSAL = "refusal"
    ANSWER_RELEVANCE = "answer_relevance"
    CONTEXT_RELEVANCE = "context_relevance"
    CITATIONS = "citations"
    ANY_FAILURE = "any_failure"  # the headline: did this answer fail its user in any way


class FaultLayer(StrEnum):
    RETRIEVAL = "retrieval"
    RERANK = "rerank"
    CONTEXT = "context"
    GENERATION = "generation"
    REFUSAL = "refusal"
    REWRITE = "rewrite"
    EXECUTION = "execution"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A passage that a verdict rests on: a true substring of the document, by character offsets."""

    document_id: str
    start: int
    end: int
    quote: str
    where: Literal["context", "candidates"] = "context"


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    text: str
    start: int  # character offsets in the answer
    end: int
    verdict: Verdict
    unsupported_probability: float  # in [0, 1]
    reason: str = ""  # closed set per judge, e.g. "number_conflict", "low_overlap"
    evidence: tuple[Evidence, ...] = ()
    note: str = ""  # the judge's own words, where it has any: text of a model, to be shown as text only


@dataclass(frozen=True, slots=True)
class CitationVerdict:
    marker: str
    document_id: str
    supports: bool | None  # None: could not tell


@dataclass(frozen=True, slots=True)
class JudgeCall:
    """One question to a model as it was sent, after redaction, and its reply as it was read."""

    prompt: str  # the message that holds the trace; the rubric before it is named by the judge's identifier
    reply: str  # JSON


@dataclass(frozen=True, slots=True)
class Assessment:
    """One judge's reading of one trace. ``None`` means not applicable or not known, never zero."""

    identifier: str  # judge + prompt + model version; a change starts a new series
    annotator_kind: AnnotatorKind
    claims: tuple[ClaimVerdict, ...] = ()
    refusal: Refusal = Refusal.NONE
    answerability: Answerability | None = None  # from the context that was sent
    candidates_answerability: Answerability | None = None  # from everything that was retrieved
    answer_relevance: float | None = None  # in [0, 1]
    context_relevance: tuple[float | None, ...] = ()  # per context document, in [0, 1]
    candidate_relevance: tuple[float | None, ...] = ()  # per candidate document, in [0, 1]
    citations: tuple[CitationVerdict, ...] = ()
    explanation: str = ""
    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency_seconds: float = 0.0
    unscored_reason: str = ""  # set: this reading counts as missing, with this reason
    flags: tuple[str, ...] = ()  # e.g. "context_truncated", "injection_suspected"
    calls: tuple[JudgeCall, ...] = field(default=(), compare=False)  # of a model: a nonce differs each time


@dataclass(frozen=True, slots=True)
class FaultFinding:
    layer: FaultLayer
    confidence: float  # in [0, 1]
    explanation: str  # one sentence to a person
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """One verdict on one criterion. Appended, never edited; a person's has the same shape as a judge's."""

    trace_id: str
    criterion: Criterion
    label: str  # pass | fail | not_applicable | unscored
    score: float | None  # in [0, 1]; share supported, relevance ...
    explanation: str
    annotator_kind: AnnotatorKind
    identifier: str
    judged_at: float  # Unix seconds
    cost_usd: float | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)  # JSON: claims, evidence, fault finding
    calls: tuple[JudgeCall, ...] = field(default=(), compare=False)  # with the headline; kept in a table of their own

    @property
    def failed(self) -> bool | None:
        return {"pass": False, "fail": True}.get(self.label)


class Judge(Protocol):
    """Reads one trace and says what it sees. Must not raise for any trace: trouble becomes ``unscored_reason``."""

    @property
    def identifier(self) -> str: ...

    def assess(self, trace: RagTrace) -> Assessment: ...


@runtime_checkable
class Remembering(Protocol):
    """A judge that may answer from memory, and can be told not to."""

    def assess_again(self, trace: RagTrace) -> Assessment: ...


def read_again(judge: Judge, trace: RagTrace) -> Assessment:
    """A reading of *trace* that owes nothing to an earlier one."""
    return judge.assess_again(trace) if isinstance(judge, Remembering) else judge.assess(trace)
