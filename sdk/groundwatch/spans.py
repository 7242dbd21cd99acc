"""Turn the record of a request into OpenTelemetry spans. Pure; runs on the background worker."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from groundwatch import documents as docs
from groundwatch import names
from groundwatch.outgoing import Outgoing, keyed_hash
from groundwatch.records import ErrorRecord, RequestRecord, StageRecord
from groundwatch.settings import Settings

Attributes = dict[str, Any]

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_LISTS = {"candidates": names.CANDIDATES, "rerank": names.RERANKED, "context": names.CONTEXT}
_OPERATIONS = {"candidates": "retrieval", "rerank": "rerank", "answer": "chat", "rewrite": "chat"}
_SHOWN_DOCUMENTS, _SHOWN_CHARS = 10, 40  # of a list, where it is shown for people
_KINDS = {"candidates": "RETRIEVER", "rerank": "RERANKER", "answer": "LLM"}


@dataclass(frozen=True, slots=True)
class Encoded:
    spans: tuple[ReadableSpan, ...]
    size: int  # bytes of text in them, near enough to split batches by
    redaction_failures: int


class SpanBuilder:
    """Builds the spans of requests with the settings of one process."""

    def __init__(self, settings: Settings, sdk_version: str) -> None:
        self._settings = settings
        self._text = settings.capture_content == "text"
        self._ids = settings.capture_content != "none"
        self._sdk_version = sdk_version
        self._scope = InstrumentationScope(names.SCOPE_NAME, sdk_version)

    @cached_property
    def _resource(self) -> Resource:
        """Made when first needed, on the worker's thread: the redact hook is asked for it."""
        return Resource(_resource(self._settings, self._sdk_version))

    def build(self, record: RequestRecord, dropped: int) -> Encoded:
        """Root first, then the stages in the order they were recorded. *dropped*: requests lost until now."""
        retried = _retries_by_stage(record)
        answering = next((stage for stage in reversed(record.stages) if stage.name == "answer"), None)
        out = self._outgoing()
        whole = self._root_attributes(record, dropped, out)
        spans = [self._root(record, whole, out)]
        size, failures = _size(whole), out.redaction_failures
        for stage in record.stages:
            out = self._outgoing()
            attributes = self._stage_attributes(record, stage, retried.get(stage.name, 0), out)
            _show(attributes, stage.name, whole, answered=stage is answering)
            spans.append(self._span(record, stage, attributes, out))
            size += _size(attributes)
            failures += out.redaction_failures
        return Encoded(tuple(spans), size, failures)

    def _outgoing(self) -> Outgoing:
        return Outgoing(self._settings.redact, self._settings.max_text_chars)

    # --- root

    def _root(self, record: RequestRecord, attributes: Attributes, out: Outgoing) -> ReadableSpan:
        events = [self._error_event(record, record.error, out)] if record.error is not None else []
        events += [self._retry_event(record, *retry, out) for retry in record.retries]
        self._mark(attributes, record.flags, out)
        return ReadableSpan(
            name=f"invoke_workflow {attributes[names.WORKFLOW]}",
            context=_context(record, record.span_id),
            parent=record.parent,
            resource=self._resource,
            attributes=attributes,
            events=events,
            links=[Link(record.link)] if record.link is not None else [],
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR) if record.outcome in ("error", "timeout") else Status(StatusCode.UNSET),
            start_time=record.started_at_ns,
            end_time=record.epoch_ns(record.end),
            instrumentation_scope=self._scope,
        )

    def _root_attributes(self, record: RequestRecord, dropped: int, out: Outgoing) -> Attributes:
        attributes = self._base("request", "CHAIN")
        attributes[names.OPERATION] = "invoke_workflow"
        attributes[names.WORKFLOW] = out.name(record.name, "name") or self._settings.service
        attributes[names.OUTCOME] = record.outcome
        _put(attributes, names.COST_USD, record.cost_usd)
        _put(attributes, names.RESPONSE_MODEL, out.name(record.model, "model"))
        _put(attributes, names.INPUT_TOKENS, record.input_tokens)
        _put(attributes, names.OUTPUT_TOKENS, record.output_tokens)
        if record.first_token is not None:
            attributes[names.FIRST_TOKEN] = (record.first_token - record.start) / 1e9
        if record.retries:
            attributes[names.RETRIES] = len(record.retries)
        if record.error is not None:
            attributes[names.ERROR_TYPE] = record.error.type_name
        if dropped:
            attributes[names.DROPPED_BY_SDK] = dropped
        self._identity(attributes, record, out)
        if self._text:
            _put(attributes, names.QUERY, out.text(record.query, "query"))
            _put(attributes, names.ANSWER, out.text(record.answer, "answer", record.answer_cut))
            if names.ANSWER in attributes:  # else Phoenix takes it for JSON where a model is named
                attributes[names.OUTPUT_TYPE] = "text/plain"
        return attributes

    def _identity(self, attributes: Attributes, record: RequestRecord, out: Outgoing) -> None:
        if not self._ids:
            return
        session = out.name(record.session, "session")
        _put(attributes, names.SESSION, session)
        _put(attributes, names.CONVERSATION, session)
        if record.user is not None:
            attributes[names.USER_HASH] = keyed_hash(self._settings.user_hash_key, record.user)
        _put(attributes, names.OUTCOME_REASON, out.name(record.outcome_reason, "outcome_reason"))
        if record.citations is not None:
            attributes[names.CITATIONS] = _json([self._citation(c, out) for c in record.citations])

    def _citation(self, citation: Any, out: Outgoing) -> dict[str, str]:
        marker = None
        if isinstance(citation, tuple):
            citation, marker = (*citation, None, None)[:2]
        elif isinstance(citation, dict):
            marker = citation.get("marker")
        fields = docs.read(citation if not isinstance(citation, str) else {"id": citation})
        cleaned = {"id": out.name(fields.id, "citation") or ""}
        if (shown := out.name(marker, "citation")) is not None:
            cleaned["marker"] = shown
        return cleaned

    # --- stages

    def _span(self, record: RequestRecord, stage: StageRecord, attributes: Attributes, out: Outgoing) -> ReadableSpan:
        events = [self._error_event(record, stage.error, out)] if stage.error is not None else []
        failed = stage.error is not None and stage.error.kind != "cancelled"
        self._mark(attributes, set(), out)
        return ReadableSpan(
            name=_stage_name(stage, attributes),
            context=_context(record, stage.open_span_id()),
            parent=_context(record, stage.parent_id),
            resource=self._resource,
            attributes=attributes,
            events=events,
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR) if failed else Status(StatusCode.UNSET),
            start_time=record.epoch_ns(stage.start),
            end_time=record.epoch_ns(max(stage.end, stage.start)),
            instrumentation_scope=self._scope,
        )

    def _stage_attributes(self, record: RequestRecord, stage: StageRecord, retries: int, out: Outgoing) -> Attributes:
        known = stage.name in names.STAGES
        attributes = self._base(stage.name if known else names.OTHER_STAGE, _kind(stage))
        _put(attributes, names.OPERATION, _operation(stage))
        if not known:
            attributes["name"] = (
                out.name(stage.name, "name") or names.OTHER_STAGE
            )  # taken out again for the span's name
        model = out.name(stage.model, "model")
        _put(attributes, names.REQUEST_MODEL, model)
        _put(attributes, names.DATA_SOURCE, out.name(stage.source, "source"))
        _put(attributes, names.INPUT_TOKENS, stage.input_tokens)
        _put(attributes, names.OUTPUT_TOKENS, stage.output_tokens)
        if retries:
            attributes[names.RETRIES] = retries
        if stage.error is not None:
            attributes[names.ERROR_TYPE] = stage.error.type_name
        if self._text and stage.name in ("rewrite", "candidates"):
            rewritten = stage.text if stage.name == "rewrite" else _rewritten(record)
            _put(attributes, names.REWRITTEN_QUERY, out.text(rewritten, "rewritten_query"))
        if stage.documents is not None:
            key = _LISTS.get(stage.name, names.CANDIDATES if _kind(stage) == "RETRIEVER" else names.CONTEXT)
            listed = self._document_list(stage.documents, out)
            attributes[key] = _json(listed)
            if self._ids:
                attributes[names.OUTPUT] = _listing(listed, stage.documents.total)
                if stage.name == "rerank":
                    attributes.update(_numbered(listed))
        return attributes

    def _document_list(self, found: docs.Snapshot, out: Outgoing) -> list[dict[str, Any]]:
        listed = [self._document(raw, rank, out) for rank, raw in enumerate(found.items, start=1)]
        if found.total > len(listed):
            out.truncated.append(f"documents:{len(listed)}_of_{found.total}")
        _fit(listed, self._settings.max_span_bytes, out)
        return listed

    def _document(self, raw: Any, rank: int, out: Outgoing) -> dict[str, Any]:
        fields = docs.read(raw)
        document: dict[str, Any] = {}
        if self._ids:
            document[names.DOC_ID] = self._document_id(fields, out)
        document[names.DOC_RANK] = rank
        if fields.score is not None:
            document[names.DOC_SCORE] = docs.number(fields.score)
            if document[names.DOC_SCORE] is None:
                out.flags.add("bad_score")
        if self._ids:
            _put(document, names.DOC_VERSION, out.name(fields.version, f"document:{rank}"))
        if self._text:
            _put(document, names.DOC_TITLE, out.name(fields.title, f"document:{rank}"))
            self._document_text(document, fields.text, rank, out)
        return document

    def _document_id(self, fields: docs.Fields, out: Outgoing) -> str:
        if fields.id is None and fields.text is not None:
            out.flags.add("derived_document_id")
            return docs.derived_id(fields.text)
        return out.name(fields.id, "document_id") or ""

    def _document_text(self, document: dict[str, Any], text: Any, rank: int, out: Outgoing) -> None:
        if text is None:
            return
        if rank > self._settings.max_documents:
            document[names.DOC_CUT] = len(text) if isinstance(text, (str, bytes)) else 0
            out.truncated.append(f"document:{rank}")
            return
        cleaned, cut = out.measured(text)
        _put(document, names.DOC_TEXT, cleaned)
        if cut:
            document[names.DOC_CUT] = cut
            out.truncated.append(f"document:{rank}")

    # --- shared

    def _base(self, stage: str, kind: str) -> Attributes:
        return {
            names.SCHEMA: names.SCHEMA_VERSION,
            names.STAGE: stage,
            names.SPAN_KIND: kind,
            names.CONTENT_MODE: self._settings.capture_content,
        }

    def _mark(self, attributes: Attributes, flags: set[str], out: Outgoing) -> None:
        all_flags = {*tuple(flags), *out.flags}
        if all_flags:
            attributes[names.FLAGS] = _json(sorted(all_flags))
        if out.truncated:
            attributes[names.TRUNCATED] = _json(list(dict.fromkeys(out.truncated)))

    def _error_event(self, record: RequestRecord, error: ErrorRecord, out: Outgoing) -> Event:
        return Event(names.EXCEPTION_EVENT, self._error_attributes(error, out), record.epoch_ns(error.at))

    def _error_attributes(self, error: ErrorRecord, out: Outgoing) -> Attributes:
        attributes: Attributes = {names.EXCEPTION_TYPE: error.type_name}
        if self._text and error.message:
            _put(attributes, names.EXCEPTION_MESSAGE, out.text(error.message, "exception"))
        return attributes

    def _retry_event(
        self, record: RequestRecord, stage: str, error: ErrorRecord | None, at: int, out: Outgoing
    ) -> Event:
        attributes = self._error_attributes(error, out) if error is not None else {}
        attributes[names.STAGE] = out.name(stage, "retry") or ""
        return Event(names.RETRY_EVENT, attributes, record.epoch_ns(at))


def _resource(settings: Settings, sdk_version: str) -> dict[str, str]:
    from opentelemetry.sdk.version import __version__ as otel_version  # noqa: PLC0415

    out = Outgoing(settings.redact, settings.max_text_chars)
    found = {
        # Of the platform, which may name people; what configure() was given is the program's own identity.
        **{key: clean for key, value in settings.resource.items() if (clean := out.name(value, key))},
        names.SERVICE_NAME: settings.service,
        names.SERVICE_VERSION: settings.version,
        names.DEPLOYMENT_ENVIRONMENT: settings.environment,
        "telemetry.sdk.name": "opentelemetry",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.version": otel_version,
        "telemetry.distro.name": names.SCOPE_NAME,
        "telemetry.distro.version": sdk_version,
    }
    return {key: value.encode("utf-8", "replace").decode() for key, value in found.items() if value}


def _context(record: RequestRecord, span_id: int) -> SpanContext:
    return SpanContext(record.trace_id, span_id, is_remote=False, trace_flags=_SAMPLED)


def _put(target: dict[str, Any], key: str, value: Any) -> None:
    if value is not None:
        target[key] = value


def _json(value: Sequence[Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _kind(stage: StageRecord) -> str:
    if stage.name == "rewrite" and stage.model:
        return "LLM"
    return _KINDS.get(stage.name, "CHAIN")


def _operation(stage: StageRecord) -> str | None:
    if stage.name == "rewrite" and not stage.model:
        return None  # a rule rewrote it, no model was asked
    return _OPERATIONS.get(stage.name)


def _stage_name(stage: StageRecord, attributes: Attributes) -> str:
    own = attributes.pop("name", None)
    if own is not None:
        return str(own)
    subject = attributes.get(names.DATA_SOURCE if stage.name == "candidates" else names.REQUEST_MODEL)
    return " ".join(filter(None, (attributes.get(names.OPERATION, stage.name), subject)))


def _show(attributes: Attributes, stage: str, whole: Attributes, *, answered: bool) -> None:
    """Say what a stage was asked and gave by OpenInference's names too: viewers know those, and not ours."""
    rewritten = attributes.get(names.REWRITTEN_QUERY)
    if stage == "rewrite":
        _put(attributes, names.INPUT, whole.get(names.QUERY))
        _put(attributes, names.OUTPUT, rewritten)
    elif stage == "candidates":
        _put(attributes, names.INPUT, rewritten or whole.get(names.QUERY))
    elif stage == "rerank":
        _put(attributes, names.RERANKER_QUERY, whole.get(names.QUERY))
        _put(attributes, names.RERANKER_MODEL, attributes.get(names.REQUEST_MODEL))
        attributes[names.LANGFUSE_TYPE] = "span"
    elif answered:
        _put(attributes, names.OUTPUT, whole.get(names.ANSWER))


def _listing(listed: list[dict[str, Any]], total: int) -> str:
    """A list of documents for people: a line each, without the texts."""
    lines = [_line(document) for document in listed[:_SHOWN_DOCUMENTS]]
    return "\n".join([*lines, *([f"... {total} in all"] if total > len(lines) else [])]) or "no documents"


def _line(document: dict[str, Any]) -> str:
    score = document.get(names.DOC_SCORE)
    rank, ident = f"{document[names.DOC_RANK]}.", document[names.DOC_ID]
    return " ".join(filter(None, (rank, ident, f"({score:g})" if score is not None else "", _beginning(document))))


def _beginning(document: dict[str, Any]) -> str:
    """The title, or how the text begins."""
    text: str = document.get(names.DOC_TITLE) or document.get(names.DOC_TEXT, "")
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


def _numbered(listed: list[dict[str, Any]]) -> Attributes:
    """A reranked list in OpenInference's spelling, without the texts: there is no other that viewers know."""
    found: Attributes = {}
    for at, document in enumerate(listed[:_SHOWN_DOCUMENTS]):
        prefix = f"{names.RERANKER_DOCUMENTS}.{at}.document"
        found[f"{prefix}.id"] = document[names.DOC_ID]
        _put(found, f"{prefix}.score", document.get(names.DOC_SCORE))
        _put(found, f"{prefix}.content", _beginning(document) or None)
    return found


def _rewritten(record: RequestRecord) -> str | None:
    return next((s.text for s in reversed(record.stages) if s.name == "rewrite" and s.text), None)


def _retries_by_stage(record: RequestRecord) -> dict[str, int]:
    counts: dict[str, int] = {}
    for stage, _error, _at in record.retries:
        counts[stage] = counts.get(stage, 0) + 1
    return counts


def _size(attributes: Attributes) -> int:
    return 300 + sum(docs.estimated_bytes(v) if isinstance(v, str) else 16 for v in attributes.values())


def _fit(listed: list[dict[str, Any]], max_bytes: int, out: Outgoing) -> None:
    """Shorten the longest texts until the list fits. Ids, ranks and scores stay whole."""
    sizes = {i: docs.estimated_bytes(d[names.DOC_TEXT]) for i, d in enumerate(listed) if names.DOC_TEXT in d}
    room = max_bytes - 150 * len(listed)
    if sum(sizes.values()) <= room:
        return
    level = _water_level(sorted(sizes.values()), max(room, 0))
    for i, size in sizes.items():
        if size > level:
            _shorten(listed[i], level, size, out)


def _water_level(sizes: list[int], room: int) -> int:
    """The cap at which texts of these *sizes* (ascending) fill *room*: short ones whole, long ones equal."""
    for done, size in enumerate(sizes):
        share = room // (len(sizes) - done)
        if size > share:
            return share
        room -= size
    return sizes[-1] if sizes else 0


def _shorten(document: dict[str, Any], level: int, size: int, out: Outgoing) -> None:
    text = document[names.DOC_TEXT]
    kept = text[: int(len(text) * level / size)]
    document[names.DOC_TEXT] = kept
    document[names.DOC_CUT] = document.get(names.DOC_CUT, 0) + len(text) - len(kept)
    out.truncated.append(f"document:{document[names.DOC_RANK]}")
