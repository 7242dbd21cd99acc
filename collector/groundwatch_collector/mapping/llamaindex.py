"""LlamaIndex's own tracing: spans without attributes; what happened is in span events named after their classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groundwatch_collector.mapping.reading import Reading, Role
from groundwatch_collector.mapping.values import Found, Notes, count, documents, first_text, label, parse
from groundwatch_collector.spans import Attributes, Span

_ROLES: dict[str, Role] = {
    "RetrievalEndEvent": "retrieval",
    "RetrievalStartEvent": "retrieval",
    "ReRankEndEvent": "rerank",
    "ReRankStartEvent": "rerank",
    "LLMChatStartEvent": "llm",
    "LLMCompletionStartEvent": "llm",
    "EmbeddingStartEvent": "embedding",
    "QueryStartEvent": "request",
    "StreamChatStartEvent": "request",
}
_FAILED_EVENTS = ("ExceptionEvent", "StreamChatErrorEvent")


def read(span: Span, notes: Notes) -> Reading:
    events = {event.name: event.attributes for event in span.events}
    role: Role = next((_ROLES[name] for name in events if name in _ROLES), "other")
    reading = Reading(span=span, role=role)
    if role == "request":
        reading.input = _found(events, "QueryStartEvent", ("query.query_str", "query"), notes)
        reading.output = _found(events, "QueryEndEvent", ("response.response", "response"), notes)
    elif role == "retrieval":
        reading.query = _found(events, "RetrievalStartEvent", _QUERY, notes)
        reading.documents, reading.documents_attribute = _nodes(events, "RetrievalEndEvent", notes)
    elif role == "rerank":
        reading.query = _found(events, "ReRankStartEvent", _QUERY, notes)
        reading.input_documents, _attribute = _nodes(events, "ReRankStartEvent", notes)
        reading.documents, reading.documents_attribute = _nodes(events, "ReRankEndEvent", notes)
    elif role == "llm":
        _read_llm(reading, events, notes)
    return reading


_QUERY = ("str_or_query_bundle.query_str", "str_or_query_bundle", "query.query_str", "query")


def _found(events: Mapping[str, Attributes], event: str, keys: tuple[str, ...], notes: Notes) -> Found | None:
    found = first_text(events.get(event, {}), keys, notes)
    return Found(found.value, f"{event}.{found.attribute}") if found is not None else None


def _nodes(events: Mapping[str, Attributes], event: str, notes: Notes) -> tuple[Any, str]:
    return documents(events.get(event, {}).get("nodes"), notes), f"{event}.nodes"


def _read_llm(reading: Reading, events: Mapping[str, Attributes], notes: Notes) -> None:
    started = {**events.get("LLMCompletionStartEvent", {}), **events.get("LLMChatStartEvent", {})}
    sent = parse(started.get("messages", started.get("prompt")), Notes())
    reading.prompt = "\n".join(_texts(sent)) or (sent if isinstance(sent, str) else "")
    reading.model = label(started.get("model_dict.model", started.get("model_dict.model_name")), notes)
    ended = {**events.get("LLMCompletionEndEvent", {}), **events.get("LLMChatEndEvent", {})}
    choices = parse(ended.get("response.raw.choices"), Notes())
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
    message = choice.get("message")
    spoken = message.get("content") if isinstance(message, Mapping) else None
    spoken = (
        spoken if isinstance(spoken, str) else "\n".join(_texts(parse(ended.get("response.message.blocks"), Notes())))
    )
    reading.output = Found(spoken, "LLMChatEndEvent.response") if spoken else None
    reading.finish_reasons = tuple(filter(None, [label(choice.get("finish_reason"), notes)]))
    reading.model = label(ended.get("response.raw.model"), notes) or reading.model
    reading.input_tokens = count(ended.get("response.raw.usage.prompt_tokens"), notes)
    reading.output_tokens = count(ended.get("response.raw.usage.completion_tokens"), notes)


def _texts(value: Any) -> list[str]:
    """The texts of the blocks of messages."""
    if isinstance(value, list):
        return [found for entry in value for found in _texts(entry)]
    if not isinstance(value, Mapping):
        return []
    if isinstance(value.get("text"), str):
        return [value["text"]]
    return _texts(value.get("blocks"))
