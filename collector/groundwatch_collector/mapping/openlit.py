"""OpenLIT: near to OpenTelemetry GenAI, with the number of documents beside the list, and tokens of its own count."""

from __future__ import annotations

from groundwatch_collector.mapping import otel_genai
from groundwatch_collector.mapping.reading import Reading
from groundwatch_collector.mapping.values import MAX_COST_USD, MAX_SECONDS, Notes, amount, count, first_text
from groundwatch_collector.spans import Span

_COUNTS = ("gen_ai.retrieval.document_count", "gen_ai.framework.documents.count")
_PIPELINE_INPUT = "gen_ai.framework.pipeline.input_data"  # of Haystack
_DURATION = "gen_ai.client.operation.duration"  # of calls that ended; the instrumentor of OpenAI leaves it out
_FIRST_TOKEN = "gen_ai.server.time_to_first_token"  # noqa: S105 (the whole duration, where nothing was streamed)


def read(span: Span, notes: Notes) -> Reading:
    reading = otel_genai.read(span, notes)
    if reading.role in ("retrieval", "rerank"):
        _read_counts(reading, notes)
    elif reading.role == "request":
        reading.input = first_text(span.attributes, (_PIPELINE_INPUT,), notes) or reading.input
    elif reading.role == "llm":
        _read_call(reading, notes)
    return reading


def _read_counts(reading: Reading, notes: Notes) -> None:
    """It lists the first three documents at most, and none where there is none; the number is right."""
    attributes = reading.span.attributes
    told = next(((key, n) for key in _COUNTS if (n := count(attributes.get(key), notes)) is not None), None)
    if told is None:
        return
    if told[1] == 0:
        reading.documents, reading.documents_attribute = (), told[0]
    elif reading.documents is not None and len(reading.documents) < told[1]:
        notes.flags.add("documents_cut")


def _read_call(reading: Reading, notes: Notes) -> None:
    attributes = reading.span.attributes
    reading.cost_usd = amount(attributes.get("gen_ai.usage.cost"), notes, MAX_COST_USD) or None  # 0: it has no price
    if reading.streaming:
        if reading.output_tokens is not None:
            notes.flags.add("tokens_of_stream_estimated")  # it counts them itself where the stream does not tell
        seconds = amount(attributes.get(_FIRST_TOKEN), notes, MAX_SECONDS)
        if seconds is not None:
            reading.first_token_at = reading.span.start_unix_nano * 1e-9 + seconds
    # It writes all it knows of a call when that ends; of a stream that its reader left, only what was asked for.
    never_ended = _DURATION not in attributes and not reading.finish_reasons and reading.span.status == "unset"
    reading.streaming = reading.streaming or never_ended
