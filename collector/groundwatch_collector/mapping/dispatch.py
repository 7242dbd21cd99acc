"""Which convention wrote a span: by instrumentation scope first, then by the attributes that it alone uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from groundwatch import names
from groundwatch_collector.lazy_trace import whole
from groundwatch_collector.mapping import (
    compose,
    dify,
    groundwatch,
    haystack,
    langfuse,
    langsmith,
    llamaindex,
    openinference,
    openlit,
    otel_genai,
    traceloop,
    tree,
)
from groundwatch_collector.mapping.reading import Reading
from groundwatch_collector.mapping.values import Notes
from groundwatch_collector.ragtrace import Feedback, RagTrace
from groundwatch_collector.spans import Span

Reader = Callable[[Span, Notes], Reading]

# First match. `gen_ai.operation.name` alone is not trusted to tell a convention: several write it in their own way.
_SCOPES: tuple[tuple[str, str, Reader], ...] = (
    ("openinference.", "openinference", openinference.read),
    ("traceloop.", "traceloop", traceloop.read),
    ("langfuse", "langfuse", langfuse.read),
    ("opentelemetry.instrumentation.genai.", "otel_genai", otel_genai.read),
    ("opentelemetry.instrumentation.openai_v2", "otel_genai", otel_genai.read),
    ("opentelemetry.util.genai", "otel_genai", otel_genai.read),
    ("openlit", "openlit", openlit.read),
    ("langsmith", "langsmith", langsmith.read),
    ("llamaindex.opentelemetry", "llamaindex", llamaindex.read),
)
_ATTRIBUTES: tuple[tuple[str, str, Reader], ...] = (
    (names.SPAN_KIND, "openinference", openinference.read),
    ("langfuse.observation.type", "langfuse", langfuse.read),
    ("traceloop.span.kind", "traceloop", traceloop.read),
    ("traceloop.workflow.name", "traceloop", traceloop.read),
    ("langsmith.span.kind", "langsmith", langsmith.read),
    (haystack.COMPONENT_TYPE, "haystack", haystack.read),
    (haystack.PIPELINE_INPUT, "haystack", haystack.read),
    ("gen_ai.span.kind", "dify", dify.read),
    (names.OPERATION, "otel_genai", otel_genai.read),
)


def to_ragtrace(
    spans: Sequence[Span], feedback: Sequence[Feedback] = (), *, incomplete: bool = False, flags: Iterable[str] = ()
) -> RagTrace | None:
    """As :func:`to_lazy_trace`, with every field read."""
    trace = to_lazy_trace(spans, feedback, incomplete=incomplete, flags=flags)
    return whole(trace) if trace is not None else None


def to_lazy_trace(
    spans: Sequence[Span], feedback: Sequence[Feedback] = (), *, incomplete: bool = False, flags: Iterable[str] = ()
) -> RagTrace | None:
    """Read *spans* of one trace as far as needed; None when it is not a question (index building, a health check).

    The order and the repetition of spans do not matter, except that of two different spans with one id the first
    wins. *flags* are what the caller noticed before. Never raises on what a sender wrote.
    """
    if not spans:
        return None
    notes = Notes(flags=set(flags))
    whole = tree.build(spans, notes)
    incomplete = incomplete or "missing_root" in notes.flags
    if any(groundwatch.is_ours(span) for span in whole.spans):
        return groundwatch.read(whole, feedback, notes, incomplete=incomplete)
    readings, conventions = _read_all(whole.spans, notes)
    convention = max(conventions, key=lambda name: conventions[name]) if conventions else "generic"
    return compose.compose(whole, readings, feedback, notes, incomplete=incomplete, convention=convention)


def _read_all(spans: Sequence[Span], notes: Notes) -> tuple[list[Reading], dict[str, int]]:
    readings: list[Reading] = []
    conventions: dict[str, int] = {}
    for span in spans:
        convention, reader = _convention(span)
        if convention:
            conventions[convention] = conventions.get(convention, 0) + 1
        readings.append(reader(span, notes))
    return readings, conventions


def _convention(span: Span) -> tuple[str, Reader]:
    for prefix, name, reader in _SCOPES:
        if span.scope_name.startswith(prefix):
            return name, reader
    for attribute, name, reader in _ATTRIBUTES:
        if attribute in span.attributes:
            return name, reader
    return "", lambda other, _notes: Reading(span=other)
