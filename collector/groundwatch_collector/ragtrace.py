"""One answered request with its stages: the record that everything downstream reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Literal, TypeAlias

import orjson


class Outcome(StrEnum):
    """The state that the program recorded (closed set). Not a judgement of the text."""

    ANSWERED = "answered"
    PARTIAL = "partial"
    REFUSED = "refused"
    NO_RESULT = "no_result"
    ERROR = "error"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


COMPLETED = frozenset({Outcome.ANSWERED, Outcome.PARTIAL, Outcome.REFUSED, Outcome.NO_RESULT, Outcome.UNKNOWN})
"""Outcomes whose text can be judged. Failed executions and cancellations have other denominators."""

FAILED_EXECUTION = frozenset({Outcome.ERROR, Outcome.TIMEOUT})


@dataclass(frozen=True, slots=True)
class Document:
    id: str
    rank: int  # 1-based, in the order of its list
    score: float | None = None
    text: str | None = None  # None: not captured
    cut: int = 0  # characters that a cap removed from the end of text
    version: str | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Citation:
    document_id: str
    marker: str = ""  # as it stands in the answer, e.g. "[1]"


@dataclass(frozen=True, slots=True)
class Stage:
    name: str  # rewrite | candidates | rerank | context | answer | other
    span_id: str
    parent_id: str
    label: str  # the span's own name
    started_at: float  # Unix seconds
    duration_seconds: float
    status: Literal["unset", "ok", "error"] = "unset"
    error_class: str = ""
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class Usage:
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Feedback:
    id: str
    trace_id: str
    name: str  # "thumbs", "rating", "handoff" ...
    sentiment: Literal["positive", "negative", "neutral"]
    score: float | None = None
    label: str = ""
    comment: str = ""
    by: str = ""  # keyed hash of the subject, or "" when unknown
    received_at: float = 0.0  # Unix seconds


@dataclass(frozen=True, slots=True)
class RagTrace:
    """What is known of one request. ``None`` means *not known*; an empty tuple means *known to be empty*."""

    trace_id: str
    app: str
    version: str
    started_at: float  # Unix seconds
    duration_seconds: float
    outcome: Outcome
    outcome_source: Literal["recorded", "inferred"]
    outcome_reason: str = ""
    query: str | None = None
    rewritten_query: str | None = None
    candidates: tuple[Document, ...] | None = None
    reranked: tuple[Document, ...] | None = None
    context: tuple[Document, ...] | None = None
    answer: str | None = None
    citations: tuple[Citation, ...] = ()
    error_class: str = ""
    retries: int = 0
    stages: tuple[Stage, ...] = ()
    time_to_first_token_seconds: float | None = None
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    session: str = ""
    user_hash: str = ""
    feedback: tuple[Feedback, ...] = ()
    incomplete: bool = False
    flags: tuple[str, ...] = ()  # e.g. "missing_root", "documents_cut", "conflicting_spans"
    convention: str = "groundwatch"  # which mapping understood it
    sources: Mapping[str, str] = field(default_factory=dict)  # field -> attribute it was read from
    span_count: int = 0
    project: str = ""  # whose ingest key the root came with; "": no keys are configured
    adjusted_count: float = 1.0  # upstream head sampling: how many requests this one stands for

    @property
    def shown_texts(self) -> Sequence[str] | None:
        """Texts of the documents nearest to what the model read; None when no list of them is known."""
        return shown_texts(partial(getattr, self))

    @property
    def ranking_scores(self) -> Sequence[float | None] | None:
        """Scores in the last ranking, document by document; None when no ranking is known."""
        return ranking_scores(partial(getattr, self))


FieldReader: TypeAlias = Callable[[str], Any]  # the value of a field by its name


def shown_texts(read: FieldReader) -> Sequence[str] | None:
    """As the property, from no more lists than needed."""
    shown = _first_list(read, ("context", "reranked", "candidates"))
    return None if shown is None else [document.text or "" for document in shown]


def ranking_scores(read: FieldReader) -> Sequence[float | None] | None:
    """As the property, from no more lists than needed."""
    ranked = _first_list(read, ("reranked", "candidates"))
    return None if ranked is None else [document.score for document in ranked]


def _first_list(read: FieldReader, names: Iterable[str]) -> tuple[Document, ...] | None:
    for name in names:
        found: tuple[Document, ...] | None = read(name)
        if found is not None:
            return found
    return None


def to_json(trace: RagTrace) -> str:
    """Serialise *trace* losslessly to compact JSON."""
    return orjson.dumps(trace).decode()


def from_json(text: str | bytes) -> RagTrace:
    """Read what :func:`to_json` wrote. Raises ``ValueError``, ``KeyError`` or ``TypeError`` on anything else."""
    raw: dict[str, Any] = orjson.loads(text)
    return RagTrace(
        **{
            **raw,
            "outcome": Outcome(raw["outcome"]),
            "candidates": _documents(raw["candidates"]),
            "reranked": _documents(raw["reranked"]),
            "context": _documents(raw["context"]),
            "citations": tuple(Citation(**c) for c in raw["citations"]),
            "stages": tuple(Stage(**s) for s in raw["stages"]),
            "usage": Usage(**raw["usage"]),
            "feedback": tuple(Feedback(**f) for f in raw["feedback"]),
            "flags": tuple(raw["flags"]),
        }
    )


def _documents(raw: list[dict[str, Any]] | None) -> tuple[Document, ...] | None:
    return None if raw is None else tuple(Document(**d) for d in raw)
