"""Dify and Alibaba LoongSuite: a span kind of their own, documents under ``retrieval.document``."""

from __future__ import annotations

from groundwatch_collector.mapping import otel_genai
from groundwatch_collector.mapping.reading import Reading, Role
from groundwatch_collector.mapping.values import MAX_SECONDS, Notes, amount, documents, first_text
from groundwatch_collector.spans import Span

_ROLES: dict[str, Role] = {
    "RETRIEVER": "retrieval",
    "RERANKER": "rerank",
    "LLM": "llm",
    "EMBEDDING": "embedding",
    "CHAIN": "request",
    "WORKFLOW": "request",
    "AGENT": "request",
}
_DOCUMENTS = "retrieval.document"
_FIRST_TOKEN_NANO = "gen_ai.user.time_to_first_token"  # noqa: S105


def read(span: Span, notes: Notes) -> Reading:
    attributes = span.attributes
    reading = otel_genai.read(span, notes)
    kind = attributes.get("gen_ai.span.kind")
    reading.role = _ROLES.get(kind.upper(), "other") if isinstance(kind, str) else "other"
    reading.input = first_text(attributes, ("input.value",), notes) or reading.input
    reading.output = first_text(attributes, ("output.value",), notes) or reading.output
    if reading.role in ("retrieval", "rerank"):
        reading.query = first_text(attributes, ("retrieval.query", "input.value"), notes)
        reading.documents, reading.documents_attribute = documents(attributes.get(_DOCUMENTS), notes), _DOCUMENTS
    if reading.role == "llm":
        _read_llm(reading, notes)
    return reading


def _read_llm(reading: Reading, notes: Notes) -> None:
    otel_genai.read_call(reading, notes)
    reading.prompt = reading.prompt or (reading.input.value if reading.input is not None else "")
    nanoseconds = amount(reading.span.attributes.get(_FIRST_TOKEN_NANO), notes, MAX_SECONDS * 1e9)
    if nanoseconds is not None:
        reading.first_token_at = (reading.span.start_unix_nano + nanoseconds) * 1e-9
        reading.streaming = True
