"""The redact hook for spans that are not ours: an exporter around an exporter.

Instrumentors write what they see into attributes, events, links, status texts and names, often as JSON in JSON with
escaped letters. Every string of a span goes through the hook, read as its reader would read it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, TraceState
from opentelemetry.trace.status import Status

from groundwatch.outgoing import Outgoing
from groundwatch.quiet import note_internal_error
from groundwatch.settings import Redact

_MAX_DEPTH = 8  # JSON in JSON; two levels are seen in practice
_ESCAPED = re.compile(r"\\u[0-9a-fA-F]{4}")
_PERCENT = re.compile(r"%[0-9a-fA-F]{2}")
_LEAST_DIGITS = 7  # a shorter number is a count, a port or a status, and names nobody
_MAX_KEYS = 4096  # names of attributes remembered with what the hook made of them


class _Dropped(Exception):
    """The hook failed on a string: what holds it does not leave."""


class RedactingExporter(SpanExporter):
    """Hands on copies of spans in which every string went through the hook. The spans themselves stay as they are."""

    def __init__(self, exporter: SpanExporter, redact: Redact) -> None:
        self._exporter = exporter
        self._redact = redact
        self._keys: dict[str, str] = {}
        self.redaction_failures = 0  # values that were dropped because the hook failed on them
        self.dropped_spans = 0  # spans that could not be copied

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        found = [copy for span in spans if (copy := self._copy(span)) is not None]
        return self._exporter.export(found) if found else SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)

    def _copy(self, span: ReadableSpan) -> ReadableSpan | None:
        out = Outgoing(self._redact, 0)
        try:
            return _Copier(out, self._keys).span(span)
        except Exception as error:  # what could not be looked through does not leave
            self.dropped_spans += 1
            note_internal_error("redacting", error)
            return None
        finally:
            self.redaction_failures += out.redaction_failures


class _Copy(ReadableSpan):
    """A span that knows what the original's limits had dropped."""

    def __init__(self, original: ReadableSpan, **changed: Any) -> None:
        super().__init__(
            context=changed.pop("context"),
            kind=original.kind,
            start_time=original.start_time,
            end_time=original.end_time,
            **changed,
        )
        self._lost_events, self._lost_links = original.dropped_events, original.dropped_links

    @property
    def dropped_events(self) -> int:
        return self._lost_events

    @property
    def dropped_links(self) -> int:
        return self._lost_links


class _Copier:
    def __init__(self, out: Outgoing, keys: dict[str, str]) -> None:
        self._out = out
        self._keys = keys

    def span(self, span: ReadableSpan) -> ReadableSpan:
        return _Copy(
            span,
            name=self._or_empty(span.name) or "span",
            context=self._context(span.context),
            parent=self._context(span.parent),
            resource=Resource(self._attributes(span.resource.attributes, 0), span.resource.schema_url),
            attributes=self._attributes(span.attributes, span.dropped_attributes),
            events=[self._event(event) for event in span.events],
            links=[self._link(link) for link in span.links],
            status=Status(span.status.status_code, self._or_none(span.status.description)),
            instrumentation_scope=self._scope(span.instrumentation_scope),
        )

    def _event(self, event: Event) -> Event:
        attributes = self._attributes(event.attributes, event.dropped_attributes)
        return Event(self._or_empty(event.name), attributes, event.timestamp)

    def _link(self, link: Link) -> Link:
        context = self._context(link.context)
        assert context is not None
        return Link(context, self._attributes(link.attributes, link.dropped_attributes))

    def _scope(self, scope: InstrumentationScope | None) -> InstrumentationScope | None:
        if scope is None:
            return None
        attributes = self._attributes(getattr(scope, "attributes", None), 0)
        return InstrumentationScope(self._or_empty(scope.name), scope.version, scope.schema_url, attributes)

    def _context(self, context: SpanContext | None) -> SpanContext | None:
        """The ids, and of the trace state the entries in which the hook finds nothing."""
        if context is None or not context.trace_state:
            return context
        clean = [pair for pair in context.trace_state.items() if self._or_empty(pair[1]) == pair[1]]
        return SpanContext(
            context.trace_id, context.span_id, context.is_remote, context.trace_flags, TraceState(clean)
        )

    def _attributes(self, attributes: Mapping[str, Any] | None, dropped: int) -> BoundedAttributes:
        found: dict[str, Any] = {}
        for key, value in (attributes or {}).items():
            try:
                found[self._key(key)] = self._value(value, 0)
            except (_Dropped, RecursionError):
                dropped += 1
        made = BoundedAttributes(attributes=found)
        made.dropped = dropped
        return made

    def _key(self, key: str) -> str:
        known = self._keys.get(key)
        if known is None:
            known = self._text(key, _MAX_DEPTH)
            if len(self._keys) < _MAX_KEYS:
                self._keys[key] = known
        return known

    def _or_none(self, value: str | None) -> str | None:
        return None if value is None else self._or_empty(value)

    def _or_empty(self, value: str) -> str:
        try:
            return self._text(value, 0)
        except (_Dropped, RecursionError):
            return ""

    # --- values

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value, depth)
        if isinstance(value, int) and not isinstance(value, bool):
            return self._number(value)
        if isinstance(value, bytes):
            shown = value.decode("utf-8", "replace")
            clean = self._text(shown, depth)
            return value if clean == shown else clean.encode()
        if isinstance(value, Mapping):
            return {self._text(str(key), depth): self._value(inner, depth) for key, inner in value.items()}
        if isinstance(value, Sequence):
            return [self._value(inner, depth) for inner in value]
        return value

    def _number(self, value: int) -> int | str:
        shown = str(value)
        if len(shown) < _LEAST_DIGITS:
            return value
        clean = self._hook(shown)
        return value if clean == shown else clean

    def _text(self, value: str, depth: int) -> str:
        parsed = _structure(value) if depth < _MAX_DEPTH else None
        if parsed is None:
            return self._plain(value)
        clean = self._value(parsed, depth + 1)
        if clean != parsed or "\\" in value:  # a letter may be hidden in an escape
            value = json.dumps(clean, ensure_ascii=False)
        return self._hook(value)

    def _plain(self, value: str) -> str:
        """Text, part of a JSON text, or an address: looked at with its escapes resolved, too."""
        for escape, resolve in ((_ESCAPED, _unescaped), (_PERCENT, unquote)):
            if escape.search(value):
                shown = resolve(value)
                clean = self._hook(shown)
                value = value if clean == shown else clean
        return self._hook(value)

    def _hook(self, value: str) -> str:
        clean = self._out.redacted(value)
        if clean is None:
            raise _Dropped
        return clean


def _structure(value: str) -> Any:
    """The object, list or string that *value* is the JSON of; None for anything else."""
    stripped = value.strip()
    if stripped[:1] not in ("{", "[", '"') or stripped[-1:] not in ("}", "]", '"'):
        return None
    try:
        return json.loads(stripped)
    except (ValueError, RecursionError):
        return None


def _unescaped(value: str) -> str:
    letters = _ESCAPED.sub(lambda found: chr(int(found[0][2:], 16)), value)
    return letters.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # two halves become one letter
