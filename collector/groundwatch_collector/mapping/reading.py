"""What one span of a foreign convention says, in one shape, so that one composer serves them all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from groundwatch_collector.mapping.values import Found, Notes, label, looks_like_json, parse, text
from groundwatch_collector.ragtrace import Document
from groundwatch_collector.spans import Span

Role = Literal["request", "retrieval", "rerank", "llm", "embedding", "other"]

_QUESTION_KEYS = (
    "question",
    "query",
    "q",
    "query_str",
    "str_or_query_bundle",
    "user_input",
    "input",
    "prompt",
    "text",
)
_NESTED_KEYS = ("query_bundle", "args", "kwargs", "inputs", "data")
_ANSWER_KEYS = ("response", "answer", "output", "outputs", "result", "text", "content", "_content", "replies")
_REPR = re.compile(r"\s*(<[^>]*(object|generator)[^>]*>|[A-Za-z_][\w.]*\(.*\))\s*", re.DOTALL)
_MAX_DEPTH = 6  # JSON in JSON in arguments; deeper is not a question


@dataclass(slots=True)
class Reading:
    span: Span
    role: Role = "other"
    input: Found | None = None  # plain or JSON text, as it was sent
    output: Found | None = None
    query: Found | None = None  # what was sent to a retriever or reranker
    documents: tuple[Document, ...] | None = None
    input_documents: tuple[Document, ...] | None = None
    documents_attribute: str = ""
    prompt: str = ""  # the text of every message that went into a model
    context: Found | None = None  # a prompt variable that held the context
    finish_reasons: tuple[str, ...] = ()
    streaming: bool = False
    refusal: bool = False
    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    first_token_at: float | None = None  # Unix seconds
    session: str = ""
    user: str = ""  # as it was sent; hashed before it is kept
    questions: tuple[Found, ...] = field(default=())  # prompt variables that held the question


def is_repr(value: str) -> bool:
    """Whether *value* is Python's way to print an object, not something that a user saw."""
    return _REPR.fullmatch(value) is not None


def question_in(found: Found | None, notes: Notes) -> Found | None:
    """The question inside *found*: plain text, or the usual keys of the usual JSON wrappings."""
    return _inside(found, _QUESTION_KEYS, notes)


def answer_in(found: Found | None, notes: Notes) -> Found | None:
    return _inside(found, _ANSWER_KEYS, notes)


def _inside(found: Found | None, keys: tuple[str, ...], notes: Notes) -> Found | None:
    if found is None or not found.value:
        return None
    if not looks_like_json(found.value):
        return None if is_repr(found.value) else found
    parsed = parse(found.value, Notes())  # text may begin and end with a bracket without being JSON
    if parsed is None:
        return found
    value = _search(parsed, keys, 0)
    value = text(value, notes) if value else None
    return Found(value, found.attribute) if value and not is_repr(value) else None


def _search(value: Any, keys: tuple[str, ...], depth: int) -> str | None:
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, str):
        return value or None
    if isinstance(value, list):
        return _search(value[0], keys, depth + 1) if value else None
    if isinstance(value, Mapping):
        return _search_mapping(value, keys, depth)
    return None


def _search_mapping(value: Mapping[str, Any], keys: tuple[str, ...], depth: int) -> str | None:
    for key in (*keys, *_NESTED_KEYS):
        if value.get(key) and (found := _search(value[key], keys, depth + 1)):
            return found
    nested = [entry for entry in value.values() if isinstance(entry, Mapping)]
    return (
        next((found for entry in nested if (found := _search_mapping(entry, keys, depth + 1))), None)
        if depth < 3
        else None
    )


def messages(value: object, notes: Notes) -> list[tuple[str, str]]:
    """(role, text) of each message of an OpenTelemetry, OpenAI or LangChain message list."""
    raw = parse(value, notes)
    if isinstance(raw, dict):
        raw = raw.get("messages", [raw])
    if not isinstance(raw, list):
        return [] if raw is None else [("user", str(raw))]
    return [(str(entry.get("role", "")), _message_text(entry, notes)) for entry in raw if isinstance(entry, dict)]


def _message_text(entry: Mapping[str, Any], notes: Notes) -> str:
    content = entry.get("parts", entry.get("content"))
    if isinstance(content, list):
        parts = [part.get("content", part.get("text")) for part in content if isinstance(part, dict)]
        return "\n".join(found for part in parts if isinstance(part, str) and (found := text(part, notes)))
    return text(content, notes) or "" if isinstance(content, str) else ""


def finish_reasons(value: object, notes: Notes) -> tuple[str, ...]:
    """Why the messages of *value* end, as far as they say; an empty reason is none."""
    raw = parse(value, notes)
    entries = raw if isinstance(raw, list) else []
    found = (label(entry.get("finish_reason"), notes) for entry in entries if isinstance(entry, dict))
    return tuple(reason for reason in found if reason)


def last_of(found: list[tuple[str, str]], *roles: str) -> str:
    """Text of the last message of one of *roles*; "" when there is none."""
    return next((body for role, body in reversed(found) if role in roles and body), "")
