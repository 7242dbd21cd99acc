"""`groundwatch inspect`: what was understood of a trace, field by field, and what that switches off."""

from __future__ import annotations

import argparse
import dataclasses
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import select

from groundwatch_collector import otlp, tables
from groundwatch_collector.limits import Limits, Rejected
from groundwatch_collector.mapping import to_ragtrace
from groundwatch_collector.ragtrace import RagTrace, from_json
from groundwatch_collector.spanlog import SpanLog
from groundwatch_collector.spans import Span
from groundwatch_collector.storage import open_engine, reader
from groundwatch_collector.understood import Field, fields
from groundwatch_deploy.cli import Failed, Misused, emit, say
from groundwatch_deploy.config import ConfigError
from groundwatch_deploy.data_trouble import explained
from groundwatch_deploy.desk_database import ACTOR, opened
from groundwatch_deploy.recordings import Unreadable, read
from groundwatch_deploy.settings import Settings, load
from groundwatch_review.audit import Action
from groundwatch_scorer.criteria import judgements
from groundwatch_scorer.judgement import Judgement
from groundwatch_scorer.local_judge import LocalJudge

_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_NO_QUESTION = "no question: neither a query nor a retrieval nor a model call was recognised in its {} spans ({})"


@dataclass(frozen=True, slots=True)
class _Inspected:
    trace_id: str
    trace: RagTrace | None  # None: not a question
    spans: list[Span]  # empty when only the stored record was at hand


def command(arguments: argparse.Namespace) -> int:
    """Print each trace of a file, or the one of that id; exit 1 when there is none to print."""
    try:
        settings = load(arguments.config, data_directory=arguments.data_dir)
    except ConfigError as error:
        raise Misused(str(error)) from error
    if Path(arguments.what).exists():
        found = _from_file(Path(arguments.what), settings.limits)
    elif _TRACE_ID.fullmatch(arguments.what.lower()):
        found = _from_deployment(arguments.what.lower(), settings)
    else:
        raise Misused(f"{arguments.what}: neither a file nor a trace id (32 hexadecimal digits)")
    if not found:
        raise Failed(f"{arguments.what}: no trace found")
    if not Path(arguments.what).exists() and settings.server.has_database:
        _note(arguments, found)
    result = [_as_dict(inspected) for inspected in found]
    emit(result, arguments.json, lambda: "\n\n".join(_as_text(entry) for entry in result))
    return 0


def _note(arguments: argparse.Namespace, found: Sequence[_Inspected]) -> None:
    """Write into the trail who reads what somebody asked, before it is printed. Without an entry, no text."""
    with opened(arguments) as desk:
        for inspected in found:
            desk.trail.append(ACTOR, Action.RAW_VIEW, inspected.trace_id, "inspect")


def _from_file(path: Path, limits: Limits) -> list[_Inspected]:
    spans: dict[str, list[Span]] = {}
    try:
        for item in read(path, limits.max_decompressed_bytes):
            for span in _decoded(item.body, item.encoding, limits, item.where):
                spans.setdefault(span.trace_id, []).append(span)
    except Unreadable as error:
        raise Misused(str(error)) from error
    return [_inspected(trace_id, found) for trace_id, found in spans.items()]


def _decoded(body: bytes, encoding: otlp.Encoding, limits: Limits, where: str) -> list[Span]:
    try:
        decoded = otlp.decode(body, encoding, limits)
    except Rejected as rejected:
        say(f"{where}: refused, {rejected.message}")
        return []
    if decoded.rejected_spans:
        say(f"{where}: {decoded.rejection_message}")
    return decoded.spans


def _inspected(trace_id: str, spans: list[Span]) -> _Inspected:
    return _Inspected(trace_id, to_ragtrace(spans), spans)


def _from_deployment(trace_id: str, settings: Settings) -> list[_Inspected]:
    """The spans in the log, while they are there; else the record in the database, if the trace was sampled."""
    with explained(settings.server):
        spans = list(_logged(trace_id, settings))
        if spans:
            return [_inspected(trace_id, spans)]
        stored = _stored(trace_id, settings)
    return [_Inspected(trace_id, stored, [])] if stored is not None else []


def _logged(trace_id: str, settings: Settings) -> Iterator[Span]:
    folder = settings.server.data_directory / "spanlog"
    if settings.kafka.bootstrap_servers or not folder.is_dir():
        return
    with SpanLog.open_read_only(folder) as log:
        for record in log.records():
            if record.kind == "feedback":
                continue
            encoding: otlp.Encoding = "json" if record.kind == "otlp_json" else "protobuf"
            found = _decoded(record.body, encoding, settings.limits, f"span log at {record.position}")
            yield from (span for span in found if span.trace_id == trace_id)


def _stored(trace_id: str, settings: Settings) -> RagTrace | None:
    if not settings.server.has_database:
        return None
    engine = open_engine(settings.server.url)
    try:
        with reader(engine).connect() as connection:
            payload = select(tables.sampled_traces.c.payload).where(tables.sampled_traces.c.trace_id == trace_id)
            found = connection.execute(payload).scalar()
    finally:
        engine.dispose()
    return from_json(found) if found else None


def _as_dict(inspected: _Inspected) -> dict[str, Any]:
    scopes = sorted({f"{span.scope_name} {span.scope_version}".strip() for span in inspected.spans} - {""})
    trace = inspected.trace
    if trace is None:
        names = sorted({span.name for span in inspected.spans})[:5]
        note = _NO_QUESTION.format(len(inspected.spans), ", ".join(names))
        return {"trace_id": inspected.trace_id, "is_question": False, "note": note, "scopes": scopes}
    judged = judgements(trace, LocalJudge().assess(trace), time.time())
    return {
        "trace_id": trace.trace_id,
        "is_question": True,
        "app": trace.app,
        "convention": trace.convention,
        "scopes": scopes,
        "spans": trace.span_count,
        "fields": [dataclasses.asdict(field) for field in fields(trace)],
        "answer_call": trace.sources.get("answer_call", ""),
        "stages": [f"{stage.name}: {stage.label} ({stage.duration_seconds:.3f} s)" for stage in trace.stages],
        "flags": list(trace.flags),
        "criteria": {str(entry.criterion): _verdict(entry) for entry in judged},
    }


def _verdict(judgement: Judgement) -> str:
    reasons = ", ".join(judgement.detail.get("reasons", ())) if judgement.detail else ""
    return f"{judgement.label} ({reasons})" if reasons else str(judgement.label)


def _as_text(entry: dict[str, Any]) -> str:
    head = f"trace {entry['trace_id']}"
    if not entry["is_question"]:
        return f"{head}\n  {entry['note']}\n  scopes: {', '.join(entry['scopes']) or 'none'}"
    lines = [
        f"{head} of {entry['app']}: {entry['spans']} spans, read as {entry['convention']}",
        f"  scopes: {', '.join(entry['scopes']) or 'not at hand: the spans are no longer in the log'}",
        "",
        *(_line(Field(**field)) for field in entry["fields"]),
        "",
        *(f"  {name:<20} {verdict}" for name, verdict in entry["criteria"].items()),
        "",
        f"  answer given by: {entry['answer_call'] or 'no model call was recognised'}",
        f"  flags: {', '.join(entry['flags']) or 'none'}",
    ]
    return "\n".join(lines)


def _line(field: Field) -> str:
    if field.state == "unknown":
        return f"  {field.name:<20} unknown    without it: {field.without}"
    source = f"  <- {field.source}" if field.source else ""
    return f"  {field.name:<20} {field.state:<9}  {field.value}{source}"
