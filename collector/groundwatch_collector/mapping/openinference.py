"""OpenInference: a span kind, ``input.value`` / ``output.value``, and lists flattened into numbered attributes."""

from __future__ import annotations

import re
from typing import Any

from groundwatch import names
from groundwatch_collector.mapping.reading import Reading, Role
from groundwatch_collector.mapping.values import (
    HIDDEN,
    MAX_COST_USD,
    Found,
    Notes,
    amount,
    count,
    documents,
    first_text,
    label,
    make_document,
    parse,
    renumbered,
    text,
)
from groundwatch_collector.ragtrace import Document
from groundwatch_collector.spans import Span

_ROLES: dict[str, Role] = {
    "RETRIEVER": "retrieval",
    "RERANKER": "rerank",
    "LLM": "llm",
    "EMBEDDING": "embedding",
    "CHAIN": "request",
    "AGENT": "request",
}
_FIRST_TOKEN_EVENT = "First Token Stream Event"  # noqa: S105
_RERANKER_NAME = re.compile(r"rerank|_postprocess_nodes", re.IGNORECASE)
_NODE = re.compile(r"id_?=([^,)\s]+).*?score=(-?[0-9.]+(?:e-?\d+)?|None)")
_CONTEXT_VARIABLES = ("context", "context_str", "documents", "docs")
_QUESTION_VARIABLES = ("question", "query", "q", "query_str", "input")


def read(span: Span, notes: Notes) -> Reading:
    role = _role(span)
    reading = Reading(
        span=span,
        role=role,
        input=first_text(span.attributes, ("input.value",), notes),
        output=first_text(span.attributes, ("output.value",), notes),
        session=label(span.attributes.get(names.SESSION), notes),
        user=label(span.attributes.get("user.id"), notes),
    )
    if role in ("retrieval", "rerank"):
        _read_documents(reading, notes)
    if role == "llm":
        _read_llm(reading, notes)
    return reading


def _role(span: Span) -> Role:
    kind = span.attributes.get(names.SPAN_KIND)
    role = _ROLES.get(kind.upper(), "other") if isinstance(kind, str) else "other"
    return "rerank" if role == "request" and _RERANKER_NAME.search(span.name) else role


def _read_documents(reading: Reading, notes: Notes) -> None:
    attributes = reading.span.attributes
    prefix = "retrieval.documents" if reading.role == "retrieval" else "reranker.output_documents"
    reading.query = first_text(attributes, ("reranker.query", "input.value"), notes)
    reading.documents, reading.documents_attribute = _flattened(attributes, prefix, notes), prefix
    reading.input_documents = _flattened(attributes, "reranker.input_documents", notes)
    if reading.output is not None and not _have_ids(attributes, prefix):
        shown = _from_output(reading.output.value)
        if shown is not None and (reading.documents is None or len(shown) == len(reading.documents)):
            reading.documents, reading.documents_attribute = shown, "output.value"
    if reading.documents is None and _evidently_empty(reading):
        reading.documents = ()


def _have_ids(attributes: Any, prefix: str) -> bool:
    return f"{prefix}.0.document.id" in attributes


def _evidently_empty(reading: Reading) -> bool:
    """A retriever that shows its input, lost no attribute and lists nothing found nothing."""
    span = reading.span
    told_nothing = reading.output is None and span.status != "error" and not span.dropped_attributes
    return reading.role == "retrieval" and reading.input is not None and told_nothing


def _flattened(attributes: Any, prefix: str, notes: Notes) -> tuple[Document, ...] | None:
    if prefix in attributes:  # an empty list is written under the bare name
        return documents(attributes[prefix], notes)
    found: dict[int, dict[str, Any]] = {}
    pattern = prefix + "."
    for key, value in attributes.items():
        if key.startswith(pattern):
            index, _, rest = key[len(pattern) :].partition(".document.")
            if rest and index.isdecimal() and len(index) < 6:
                found.setdefault(int(index), {})[rest] = value
    if not found:
        return None
    if min(found) > 0 or max(found) >= len(found):
        notes.flags.add("documents_cut")  # the sender's attribute limit evicts the first ranks
    return renumbered(tuple(_document(index, found[index], notes) for index in sorted(found)), notes)


def _document(index: int, raw: dict[str, Any], notes: Notes) -> Document:
    hidden = raw.get("metadata") in (None, HIDDEN)
    metadata = None if hidden else parse(raw.get("metadata"), notes)
    known = metadata if isinstance(metadata, dict) else {}
    return make_document(
        notes,
        identifier=raw.get("id", known.get("id", known.get("source"))),
        rank=index + 1,
        score=raw.get("score", known.get("relevance_score")),
        content=raw.get("content"),
        version=known.get("version"),
        title=known.get("title"),
    )


def _from_output(value: str) -> tuple[Document, ...] | None:
    """Documents of an output that is JSON, or a list of Python reprs, of which only ids and scores are taken."""
    notes = Notes()  # an output that is not a list of documents is not a fault of the sender
    parsed = parse(value, notes)
    if isinstance(parsed, dict):
        parsed = parsed.get("documents")
    if not isinstance(parsed, list):
        return None
    if parsed and all(isinstance(entry, str) for entry in parsed):
        nodes = [match for entry in parsed if (match := _NODE.search(entry))]
        return tuple(_node(rank, match, notes) for rank, match in enumerate(nodes, start=1)) or None
    return documents(parsed, notes)


def _node(rank: int, match: re.Match[str], notes: Notes) -> Document:
    score = None if match[2] == "None" else match[2]
    return make_document(notes, identifier=match[1], rank=rank, score=score)


def _read_llm(reading: Reading, notes: Notes) -> None:
    attributes = reading.span.attributes
    answer = _messages(attributes, "llm.output_messages", notes)
    spoken = [body for _role_name, body in answer if body]
    reading.output = Found(spoken[-1], "llm.output_messages") if spoken else _plain_output(reading)
    prompts = _messages(attributes, "llm.input_messages", notes)
    reading.prompt = "\n".join(body for _role_name, body in prompts)
    reading.model = label(attributes.get("llm.model_name"), notes)
    reading.input_tokens = count(attributes.get("llm.token_count.prompt"), notes)
    reading.output_tokens = count(attributes.get("llm.token_count.completion"), notes)
    reading.cost_usd = amount(attributes.get("llm.cost.total"), notes, MAX_COST_USD)
    reading.finish_reasons = tuple(filter(None, [label(attributes.get("llm.finish_reason"), notes)]))
    parameters = parse(attributes.get("llm.invocation_parameters"), Notes())
    reading.streaming = isinstance(parameters, dict) and parameters.get("stream") is True
    _read_variables(reading, notes)
    _read_first_token(reading)


def _plain_output(reading: Reading) -> Found | None:
    """``output.value`` counts as the answer of a model only where it is text, not a dumped response object."""
    output = reading.output
    return None if output is None or output.value[:1] in ("{", "[") else output


def _messages(attributes: Any, prefix: str, notes: Notes) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for index in range(200):
        content = attributes.get(f"{prefix}.{index}.message.content")
        role = attributes.get(f"{prefix}.{index}.message.role")
        if content is None and role is None:
            break
        found.append((str(role or ""), text(content, notes) or ""))
    return found


def _read_variables(reading: Reading, notes: Notes) -> None:
    key = "llm.prompt_template.variables"
    variables = parse(reading.span.attributes.get(key), Notes())
    if not isinstance(variables, dict):
        return
    reading.context = first_text(
        {k: v for k, v in variables.items() if isinstance(v, str)}, _CONTEXT_VARIABLES, notes
    )
    asked = (variables.get(name) for name in _QUESTION_VARIABLES)
    reading.questions = tuple(Found(value, key) for value in asked if isinstance(value, str) and value)


def _read_first_token(reading: Reading) -> None:
    times = [event.time_unix_nano for event in reading.span.events if event.name == _FIRST_TOKEN_EVENT]
    if times:
        reading.first_token_at = min(times) * 1e-9
        reading.streaming = True
