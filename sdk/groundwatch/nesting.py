"""The OpenTelemetry context of an open request or stage, so that other instrumentation nests under it."""

from __future__ import annotations

from typing import Any

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, INVALID_SPAN_CONTEXT, NonRecordingSpan, SpanContext, TraceFlags

_SCOPE = context.create_key("groundwatch-scope")
# Where OpenTelemetry keeps the current span. Asked once, so that both values go in with one copy of the context.
_SPAN = next(iter(trace.set_span_in_context(INVALID_SPAN, Context())))
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class OpenSpan(NonRecordingSpan):
    """Stands for one of our spans while it is open.

    Once its request has ended it gives the span around the request instead: a context that leaked out of a
    generator must not collect the spans of whatever runs next.
    """

    def __init__(self, record: Any, span_id: int) -> None:  # a RequestRecord; no super(): the context is made lazily
        self._record = record
        self._span_id = span_id
        self._made: SpanContext | None = None

    def get_span_context(self) -> SpanContext:
        record = self._record
        if record.end:
            return record.parent or record.link or INVALID_SPAN_CONTEXT
        if self._made is None:
            parent = record.parent or record.link
            self._made = SpanContext(
                record.trace_id,
                self._span_id,
                is_remote=False,
                trace_flags=parent.trace_flags if parent is not None else _SAMPLED,
                trace_state=parent.trace_state if parent is not None else None,
            )
        return self._made

    def __repr__(self) -> str:
        return f"OpenSpan({self.get_span_context()!r})"


def surroundings() -> tuple[SpanContext | None, Any]:
    """The valid span that runs now, ours or another tracer's, and our innermost open request or stage."""
    around = context.get_current()
    if _SPAN not in around:
        return None, around.get(_SCOPE)
    found = trace.get_current_span(around).get_span_context()
    return found if found.is_valid else None, around.get(_SCOPE)


def calling_span(traceparent: str) -> SpanContext | None:
    """The span that a W3C ``traceparent`` header names, of a caller in another process; None when it names none."""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    found = trace.get_current_span(TraceContextTextMapPropagator().extract({"traceparent": traceparent}, Context()))
    return found.get_span_context() if found.get_span_context().is_valid else None


def current_scope() -> Any:
    """The innermost open request or stage of this execution context, or None."""
    return context.get_value(_SCOPE)


def context_for(scope: Any, span: OpenSpan) -> Context:
    """The current context with *scope* in it, and *span* as the parent of what starts next."""
    return Context(context.get_current(), **{_SCOPE: scope, _SPAN: span})


class Attachment:
    """A context that is attached until :meth:`restore`.

    The token that OpenTelemetry returns is not used: it may only be given back in the context it came from, and
    generators and tasks are closed elsewhere. Putting the former context back works everywhere.
    """

    __slots__ = ("_attached", "_former")

    def __init__(self, attached: Context) -> None:
        self._attached = attached
        self._former = context.get_current()
        context.attach(attached)

    def restore(self) -> None:
        if context.get_current() is self._attached:
            context.attach(self._former)
