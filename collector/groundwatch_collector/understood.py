"""What was understood of one trace, field by field: its value in short, its source, what its absence costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from groundwatch_collector.ragtrace import Document, RagTrace

State = Literal["recorded", "inferred", "empty", "unknown"]

_INFERRED_CONTEXT = "context_from_prompt"
_SHORT = 100  # characters of a text that are shown
_EVERYTHING = "every criterion"


@dataclass(frozen=True, slots=True)
class Field:
    """*value* is for people; *without* says what cannot be judged while the field is unknown."""

    name: str
    state: State
    value: str
    source: str
    without: str = ""


def fields(trace: RagTrace) -> list[Field]:
    """Every field that a judgement or a metric uses, in the order of a request."""
    return [_field(trace, name, *how) for name, how in _FIELDS.items()]


def _field(trace: RagTrace, name: str, show: Callable[[RagTrace], str | None], without: str) -> Field:
    value = show(trace)
    source = trace.sources.get(name, "")
    if value is None:
        return Field(name, "unknown", "", "", without)
    if value == "":
        return Field(name, "empty", "none", source)
    return Field(name, "inferred" if _is_inferred(trace, name, source) else "recorded", value, source)


def _is_inferred(trace: RagTrace, name: str, source: str) -> bool:
    if name == "outcome":
        return trace.outcome_source == "inferred"
    return source.startswith("rule:") or (name == "context" and _INFERRED_CONTEXT in trace.flags)


def _text(value: str | None) -> str | None:
    if value is None:
        return None
    line = " ".join(value.split())
    return line if len(line) <= _SHORT else line[: _SHORT - 1] + "…"


def _documents(found: tuple[Document, ...] | None) -> str | None:
    if not found:
        return None if found is None else ""
    texts = sum(document.text is not None for document in found)
    scores = sum(document.score is not None for document in found)
    listed = ", ".join(document.id for document in found[:6]) + (", …" if len(found) > 6 else "")
    return f"{len(found)} ({listed}); with text {texts}, with score {scores}"


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f} s"


def _tokens(trace: RagTrace) -> str | None:
    told = (trace.usage.input_tokens, trace.usage.output_tokens)
    return None if told == (None, None) else f"{told[0]} in, {told[1]} out"


def _cost(trace: RagTrace) -> str | None:
    return None if trace.usage.cost_usd is None else f"{trace.usage.cost_usd:.6f} USD"


def _citations(trace: RagTrace) -> str | None:
    return ", ".join(citation.document_id for citation in trace.citations) or None


_FIELDS: dict[str, tuple[Callable[[RagTrace], str | None], str]] = {
    "query": (lambda trace: _text(trace.query), "answer_relevance, context_relevance, refusal; kinds of question"),
    "rewritten_query": (lambda trace: _text(trace.rewritten_query), "nothing; most requests have none"),
    "candidates": (lambda trace: _documents(trace.candidates), "whether retrieval or reranking was at fault"),
    "reranked": (lambda trace: _documents(trace.reranked), "whether reranking was at fault"),
    "context": (lambda trace: _documents(trace.context), "faithfulness, context_relevance, citations, any_failure"),
    "answer": (lambda trace: _text(trace.answer), _EVERYTHING),
    "citations": (_citations, "citations"),
    "outcome": (
        lambda trace: None if trace.outcome == "unknown" else str(trace.outcome),
        "rates of errors and refusals",
    ),
    "usage": (_tokens, "tokens"),
    "cost": (_cost, "cost"),
    "model": (lambda trace: trace.model or None, "comparison of models"),
    "version": (lambda trace: trace.version or None, "comparison of versions: set service.version"),
    "session": (lambda trace: trace.session or None, "repeated questions in a session"),
    "user_hash": (lambda trace: trace.user_hash or None, "one vote a person"),
    "time_to_first_token": (lambda trace: _seconds(trace.time_to_first_token_seconds), "time to first token"),
}
