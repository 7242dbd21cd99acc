"""OpenTelemetry GenAI: an operation name, message lists as JSON, ``gen_ai.retrieval.documents``."""

from __future__ import annotations

from groundwatch import names
from groundwatch_collector.mapping.reading import Reading, Role, finish_reasons, last_of, messages
from groundwatch_collector.mapping.values import (
    MAX_SECONDS,
    Found,
    Notes,
    amount,
    count,
    documents,
    first_text,
    label,
    text,
)
from groundwatch_collector.spans import Span

_ROLES: dict[str, Role] = {
    "retrieval": "retrieval",
    "vector_db_retrieve": "retrieval",
    "rerank": "rerank",
    "chat": "llm",
    "text_completion": "llm",
    "generate_content": "llm",
    "embeddings": "embedding",
    "invoke_workflow": "request",
    "invoke_agent": "request",
}
_USERS = ("user.id", "enduser.id", "gen_ai.user.id")
_INPUT, _OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
_INPUT_TOKENS = (names.INPUT_TOKENS, "gen_ai.usage.prompt_tokens")
_OUTPUT_TOKENS = (names.OUTPUT_TOKENS, "gen_ai.usage.completion_tokens")
_STREAMING = ("gen_ai.request.stream", "gen_ai.is_streaming")
_VARIABLE = "gen_ai.prompt.variable."
_CONTEXT_VARIABLES = tuple(_VARIABLE + name for name in ("context", "context_str", "documents", "docs"))
_QUESTION_VARIABLES = tuple(_VARIABLE + name for name in ("question", "query", "q", "query_str", "input"))


def read(span: Span, notes: Notes) -> Reading:
    attributes = span.attributes
    operation = attributes.get(names.OPERATION)
    role = _ROLES.get(operation, "other") if isinstance(operation, str) else "other"
    reading = Reading(span=span, role=role, session=label(attributes.get(names.CONVERSATION), notes))
    reading.user = next((found for key in _USERS if (found := label(attributes.get(key), notes))), "")
    if role in ("retrieval", "rerank"):
        reading.query = first_text(attributes, (names.REWRITTEN_QUERY,), notes)
        reading.documents = documents(attributes.get(names.CANDIDATES), notes)
        reading.documents_attribute = names.CANDIDATES
    if role in ("llm", "request"):
        _read_messages(reading, notes)
    if role == "llm":
        read_call(reading, notes)
    return reading


def _read_messages(reading: Reading, notes: Notes) -> None:
    attributes = reading.span.attributes
    sent, received = messages(attributes.get(_INPUT), notes), messages(attributes.get(_OUTPUT), notes)
    asked, answered = last_of(sent, "user", "human", ""), last_of(received, "assistant", "ai", "model", "")
    reading.input = Found(asked, _INPUT) if asked else first_text(attributes, ("gen_ai.workflow.input",), notes)
    reading.output = (
        Found(answered, _OUTPUT) if answered else first_text(attributes, ("gen_ai.workflow.output",), notes)
    )
    reading.prompt = "\n".join(body for _role, body in sent)


def read_call(reading: Reading, notes: Notes) -> None:
    """Read what a model call tells beside its messages: model, tokens, reasons, prompt variables, first token."""
    attributes = reading.span.attributes
    reading.model = label(attributes.get(names.RESPONSE_MODEL, attributes.get(names.REQUEST_MODEL)), notes)
    reading.input_tokens = next(
        (n for key in _INPUT_TOKENS if (n := count(attributes.get(key), notes)) is not None), None
    )
    reading.output_tokens = next(
        (n for key in _OUTPUT_TOKENS if (n := count(attributes.get(key), notes)) is not None), None
    )
    reasons = attributes.get("gen_ai.response.finish_reasons")
    listed = reasons if isinstance(reasons, list) else [reasons]
    told = tuple(found for reason in listed if (found := label(reason, notes)))
    reading.finish_reasons = told or finish_reasons(attributes.get(_OUTPUT), Notes())
    reading.streaming = any(attributes.get(key) is True for key in _STREAMING)
    reading.context = first_text(attributes, _CONTEXT_VARIABLES, notes)
    reading.questions = tuple(
        Found(asked, key) for key in _QUESTION_VARIABLES if (asked := text(attributes.get(key), notes))
    )
    first_chunk = amount(attributes.get(names.FIRST_TOKEN), notes, MAX_SECONDS)
    if first_chunk is not None:
        reading.first_token_at = reading.span.start_unix_nano * 1e-9 + first_chunk
        reading.streaming = True
