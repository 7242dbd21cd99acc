"""OpenLLMetry / Traceloop: entity inputs and outputs as JSON text around OpenTelemetry GenAI model calls."""

from __future__ import annotations

import re

from groundwatch_collector.mapping import otel_genai
from groundwatch_collector.mapping.haystack import read_reply
from groundwatch_collector.mapping.reading import Reading, Role, question_in
from groundwatch_collector.mapping.values import Notes, documents, first_text, label, looks_like_json, parse
from groundwatch_collector.spans import Span

_RERANK = re.compile(r"rerank|ranker", re.IGNORECASE)
_RETRIEVE = re.compile(r"retriev|search", re.IGNORECASE)
_SESSION = "traceloop.association.properties.session_id"
_USER = "traceloop.association.properties.user_id"
_NODES = ('["{\\"node\\"', '[{"node"')
_QUERIES = ('{"query_bundle"', '{"str_or_query_bundle"')
_CHUNK_EVENT = "gen_ai.content.completion.chunk"


def read(span: Span, notes: Notes) -> Reading:
    reading = otel_genai.read(span, notes)
    reading.session = reading.session or label(span.attributes.get(_SESSION), notes)
    reading.user = reading.user or label(span.attributes.get(_USER), notes)
    if reading.role == "llm":
        _read_first_chunk(reading)
        return reading
    reading.role = _role(span, reading.role)
    reading.input = first_text(span.attributes, ("traceloop.entity.input",), notes) or reading.input
    reading.output = first_text(span.attributes, ("traceloop.entity.output",), notes) or reading.output
    if reading.role in ("retrieval", "rerank"):
        _read_documents(reading, notes)
    if reading.role == "request" and reading.output is not None:
        read_reply(reading, reading.output.value, notes)
    return reading


def _read_first_chunk(reading: Reading) -> None:
    times = [event.time_unix_nano for event in reading.span.events if event.name == _CHUNK_EVENT]
    if times and reading.first_token_at is None:
        reading.first_token_at = min(times) * 1e-9
        reading.streaming = True


def _role(span: Span, by_operation: Role) -> Role:
    if span.attributes.get("traceloop.span.kind") == "workflow":
        return "request"
    name = str(span.attributes.get("traceloop.entity.name", span.name))
    if _RERANK.search(name):
        return "rerank"
    if _RETRIEVE.search(name):
        return "retrieval"
    return _role_by_nodes(span) or by_operation


def _role_by_nodes(span: Span) -> Role | None:
    """LlamaIndex names a task after its class, which may be called anything; what it returns are nodes."""
    output, sent = (span.attributes.get(f"traceloop.entity.{side}") for side in ("output", "input"))
    if output == "[]" and isinstance(sent, str) and sent.startswith(_QUERIES):
        return "retrieval"  # a list where an answer would be an object, and nothing in it
    if not isinstance(output, str) or not output.startswith(_NODES):
        return None
    return "rerank" if isinstance(sent, str) and sent.startswith('{"nodes"') else "retrieval"


def _read_documents(reading: Reading, notes: Notes) -> None:
    reading.query = question_in(reading.input, notes)
    if reading.documents is None and reading.output is not None:
        parsed = parse(reading.output.value, Notes())  # a task's output may be anything
        if isinstance(parsed, list):
            parsed = [_opened(entry) for entry in parsed]
        if isinstance(parsed, (list, dict)):
            reading.documents = documents(parsed, Notes() if isinstance(parsed, dict) else notes)
            reading.documents_attribute = "traceloop.entity.output"


def _opened(entry: object) -> object:
    """A node of LlamaIndex is JSON text inside the JSON list."""
    parsed = parse(entry, Notes()) if isinstance(entry, str) and looks_like_json(entry) else None
    return parsed if isinstance(parsed, dict) else entry
