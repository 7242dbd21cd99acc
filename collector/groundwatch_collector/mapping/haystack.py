"""Haystack's own tracing: one span per component, contents as JSON in tags, the type of the component as the hint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from groundwatch_collector.mapping.reading import Reading, Role, answer_in, question_in
from groundwatch_collector.mapping.values import Notes, count, documents, first_text, label, parse
from groundwatch_collector.spans import Span

PIPELINE_INPUT, PIPELINE_OUTPUT = "haystack.pipeline.input_data", "haystack.pipeline.output_data"
COMPONENT_INPUT, COMPONENT_OUTPUT = "haystack.component.input", "haystack.component.output"
COMPONENT_TYPE = "haystack.component.type"
_TYPES: tuple[tuple[re.Pattern[str], Role], ...] = (
    (re.compile(r"Retriever|WebSearch"), "retrieval"),
    (re.compile(r"Ranker"), "rerank"),
    (re.compile(r"Generator"), "llm"),
    (re.compile(r"Embedder"), "embedding"),
)
_MAX_DEPTH = 8  # replies sit at most six levels deep in what a pipeline returns


def read(span: Span, notes: Notes) -> Reading:
    attributes = span.attributes
    reading = Reading(
        span=span,
        role=_role(span),
        input=first_text(attributes, (PIPELINE_INPUT, COMPONENT_INPUT), notes),
        output=first_text(attributes, (PIPELINE_OUTPUT, COMPONENT_OUTPUT), notes),
    )
    if reading.role in ("retrieval", "rerank"):
        _read_documents(reading)
    if reading.output is not None and reading.role in ("llm", "request"):
        read_reply(reading, reading.output.value, notes)
    if reading.role == "llm":
        reading.prompt = "\n".join(_texts(parse(reading.input.value, Notes()))) if reading.input else ""
        reading.output = answer_in(reading.output, notes)
    return reading


def _role(span: Span) -> Role:
    if span.name in ("haystack.pipeline.run", "haystack.async_pipeline.run"):
        return "request"
    kind = span.attributes.get(COMPONENT_TYPE)
    found = (role for pattern, role in _TYPES if isinstance(kind, str) and pattern.search(kind))
    return next(found, "other")


def _read_documents(reading: Reading) -> None:
    reading.query = question_in(reading.input, Notes())
    sent = parse(reading.input.value, Notes()) if reading.input else None
    shown = parse(reading.output.value, Notes()) if reading.output else None
    if isinstance(sent, dict) and "documents" in sent:
        reading.input_documents = documents(sent, Notes())
    if isinstance(shown, dict) and "documents" in shown:
        reading.documents, reading.documents_attribute = documents(shown, Notes()), COMPONENT_OUTPUT


def read_reply(reading: Reading, output: str, notes: Notes) -> None:
    """Model, tokens and finish reason out of the ``meta`` that a Haystack reply carries."""
    meta = _meta(parse(output, Notes()), 0)
    if meta is None:
        return
    reading.model = reading.model or label(meta.get("model"), notes)
    reading.finish_reasons = reading.finish_reasons or tuple(filter(None, [label(meta.get("finish_reason"), notes)]))
    usage = meta.get("usage")
    if isinstance(usage, Mapping) and reading.output_tokens is None:
        reading.input_tokens = count(usage.get("prompt_tokens"), notes)
        reading.output_tokens = count(usage.get("completion_tokens"), notes)


def _meta(value: Any, depth: int) -> Mapping[str, Any] | None:
    if depth > _MAX_DEPTH or not isinstance(value, (Mapping, list)):
        return None
    entries = value if isinstance(value, list) else list(value.values())
    for key in ("meta", "_meta"):
        if isinstance(value, Mapping) and isinstance(value.get(key), Mapping) and "finish_reason" in value[key]:
            meta: Mapping[str, Any] = value[key]
            return meta
    return next((found for entry in entries if (found := _meta(entry, depth + 1)) is not None), None)


def _texts(value: Any, depth: int = 0) -> list[str]:
    """Every text of the messages of *value*, in order."""
    if depth > _MAX_DEPTH:
        return []
    if isinstance(value, list):
        return [found for entry in value for found in _texts(entry, depth + 1)]
    if not isinstance(value, Mapping):
        return []
    own = [value["text"]] if isinstance(value.get("text"), str) else []
    return own + [
        found for entry in value.values() if not isinstance(entry, str) for found in _texts(entry, depth + 1)
    ]
