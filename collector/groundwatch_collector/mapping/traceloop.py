"""OpenLLMetry / Traceloop: entity inputs and outputs as JSON text around OpenTelemetry GenAI model calls."""

from __future__ import annotations

import re

from groundwatch_collector.mapping import otel_genai
from groundwatch_collector.mapping.reading import Reading, Role, question_in
from groundwatch_collector.mapping.values import Notes, documents, first_text, label, parse
from groundwatch_collector.spans import Span

_RERANK = re.compile(r"rerank|ranker", re.IGNORECASE)
_RETRIEVE = re.compile(r"retriev|search", re.IGNORECASE)
_SESSION = "traceloop.association.properties.session_id"


def read(span: Span, notes: Notes) -> Reading:
    reading = otel_genai.read(span, notes)
    reading.session = reading.session or label(span.attributes.get(_SESSION), notes)
    if reading.role == "llm":
        return reading
    reading.role = _role(span, reading.role)
    reading.input = first_text(span.attributes, ("traceloop.entity.input",), notes) or reading.input
    reading.output = first_text(span.attributes, ("traceloop.entity.output",), notes) or reading.output
    if reading.role in ("retrieval", "rerank"):
        _read_documents(reading, notes)
    return reading


def _role(span: Span, by_operation: Role) -> Role:
    if span.attributes.get("traceloop.span.kind") == "workflow":
        return "request"
    name = str(span.attributes.get("traceloop.entity.name", span.name))
    if _RERANK.search(name):
        return "rerank"
    return "retrieval" if _RETRIEVE.search(name) else by_operation


def _read_documents(reading: Reading, notes: Notes) -> None:
    reading.query = question_in(reading.input, notes)
    if reading.documents is None and reading.output is not None:
        parsed = parse(reading.output.value, Notes())  # a task's output may be anything
        if isinstance(parsed, (list, dict)):
            reading.documents = documents(parsed, Notes() if isinstance(parsed, dict) else notes)
            reading.documents_attribute = "traceloop.entity.output"
