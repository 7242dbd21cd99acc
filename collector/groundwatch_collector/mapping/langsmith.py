"""LangSmith's OpenTelemetry export: a span kind, and the inputs and outputs of a run as JSON.

Its ``gen_ai.operation.name`` is not read: a retriever says ``embeddings`` there, and a prompt template ``chat``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from groundwatch import names
from groundwatch_collector.mapping.reading import Reading, Role, question_in
from groundwatch_collector.mapping.values import Found, Notes, count, documents, first_text, label, parse, text
from groundwatch_collector.spans import Span

_ROLES: dict[str, Role] = {"chain": "request", "llm": "llm", "retriever": "retrieval", "embedding": "embedding"}
_INPUT, _OUTPUT = "gen_ai.prompt", "gen_ai.completion"
_SESSION, _USER = "langsmith.metadata.session_id", "langsmith.metadata.user_id"
_USAGE = "langsmith.metadata.usage_metadata"
_REASON = re.compile(r'"finish_reason"\s*:\s*"([a-z_]+)"')
_MAX_DEPTH = 8  # a message sits at most five levels deep in what a model call returns


def read(span: Span, notes: Notes) -> Reading:
    attributes = span.attributes
    reading = Reading(
        span=span,
        role=_role(span),
        input=first_text(attributes, (_INPUT,), notes),
        output=first_text(attributes, (_OUTPUT,), notes),
        session=label(attributes.get(_SESSION), notes),
        user=label(attributes.get(_USER), notes),
    )
    if reading.role in ("retrieval", "rerank"):
        reading.query = question_in(reading.input, notes)
        if reading.output is not None:
            reading.documents, reading.documents_attribute = documents(reading.output.value, Notes()), _OUTPUT
    if reading.role == "llm":
        _read_llm(reading, notes)
    return reading


def _role(span: Span) -> Role:
    if "rerank" in span.name.lower() or span.name == "ContextualCompressionRetriever":
        return "rerank"
    kind = span.attributes.get("langsmith.span.kind")
    return _ROLES.get(kind, "other") if isinstance(kind, str) else "other"


def _read_llm(reading: Reading, notes: Notes) -> None:
    attributes = reading.span.attributes
    sent = _contents(parse(reading.input.value, Notes())) if reading.input else []
    received = _contents(parse(reading.output.value, Notes())) if reading.output else []
    reading.prompt = "\n".join(sent)
    reading.finish_reasons = tuple(dict.fromkeys(_REASON.findall(reading.output.value))) if reading.output else ()
    spoken = text(received[-1], notes) if received else None
    reading.output = Found(spoken, _OUTPUT) if spoken else None
    reading.model = label(attributes.get(names.RESPONSE_MODEL, attributes.get(names.REQUEST_MODEL)), notes)
    usage = parse(attributes.get(_USAGE), Notes())
    told = usage if isinstance(usage, Mapping) else {}
    reading.input_tokens = count(attributes.get(names.INPUT_TOKENS, told.get("input_tokens")), notes)
    reading.output_tokens = count(attributes.get(names.OUTPUT_TOKENS, told.get("output_tokens")), notes)


def _contents(value: Any, depth: int = 0) -> list[str]:
    """The ``content`` of every message in *value*, in order."""
    if depth > _MAX_DEPTH:
        return []
    if isinstance(value, list):
        return [found for entry in value for found in _contents(entry, depth + 1)]
    if not isinstance(value, Mapping):
        return []
    content = value.get("content")
    if isinstance(content, str):
        return [content] if content else []
    return [found for entry in value.values() for found in _contents(entry, depth + 1)]
