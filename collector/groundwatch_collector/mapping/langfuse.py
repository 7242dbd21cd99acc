"""Langfuse: observations with a type and JSON input and output. A reranker is known by its name only."""

from __future__ import annotations

from datetime import datetime

from groundwatch import names
from groundwatch_collector.mapping.reading import Reading, Role, last_of, messages, question_in
from groundwatch_collector.mapping.values import (
    MAX_COST_USD,
    Found,
    Notes,
    amount,
    count,
    documents,
    first_text,
    label,
    parse,
)
from groundwatch_collector.spans import Span

_ROLES: dict[str, Role] = {
    "retriever": "retrieval",
    "generation": "llm",
    "embedding": "embedding",
    "chain": "request",
    "agent": "request",
    "span": "request",
}
_STARTED = "langfuse.observation.completion_start_time"
_INPUT, _OUTPUT = "langfuse.observation.input", "langfuse.observation.output"


def read(span: Span, notes: Notes) -> Reading:
    reading = Reading(
        span=span,
        role=_role(span),
        input=first_text(span.attributes, (_INPUT,), notes),
        output=first_text(span.attributes, (_OUTPUT,), notes),
        session=label(span.attributes.get(names.SESSION), notes),
        user=label(span.attributes.get("user.id"), notes),
    )
    if reading.role in ("retrieval", "rerank"):
        reading.query = question_in(reading.input, notes)
        if reading.output is not None:
            reading.documents, reading.documents_attribute = documents(reading.output.value, notes), _OUTPUT
    if reading.role == "llm":
        _read_llm(reading, notes)
    return reading


def _role(span: Span) -> Role:
    kind = span.attributes.get("langfuse.observation.type")
    if "rerank" in span.name.lower() or span.name == "ContextualCompressionRetriever":
        return "rerank"
    return _ROLES.get(kind, "other") if isinstance(kind, str) else "other"


def _read_llm(reading: Reading, notes: Notes) -> None:
    sent = messages(reading.input.value, Notes()) if reading.input else []
    received = messages(reading.output.value, Notes()) if reading.output else []
    reading.prompt = "\n".join(body for _speaker, body in sent)
    spoken = last_of(received, "assistant", "ai", "user", "")
    reading.output = Found(spoken, _OUTPUT) if spoken else None
    reading.model = label(reading.span.attributes.get("langfuse.observation.model.name"), notes)
    usage = parse(reading.span.attributes.get("langfuse.observation.usage_details"), notes)
    if isinstance(usage, dict):
        reading.input_tokens = count(usage.get("input", usage.get("prompt_tokens")), notes)
        reading.output_tokens = count(usage.get("output", usage.get("completion_tokens")), notes)
    cost = parse(reading.span.attributes.get("langfuse.observation.cost_details"), notes)
    if isinstance(cost, dict):
        reading.cost_usd = amount(cost.get("total"), notes, MAX_COST_USD)
    reading.first_token_at = _first_token(reading.span.attributes.get(_STARTED))
    reading.streaming = reading.first_token_at is not None


def _first_token(value: object) -> float | None:
    """A moment in ISO 8601, in quotation marks; None when it is anything else."""
    try:
        moment = datetime.fromisoformat(str(value).strip('"'))
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo is not None else None
