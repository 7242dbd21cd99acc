"""Spans, logs and pipelines for the collector's tests: real log files, a real database, a clock that is moved."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import Engine, select

from groundwatch import names
from groundwatch_collector import otlp, tables
from groundwatch_collector.decision import DecideConfig
from groundwatch_collector.pipeline import Pipeline
from groundwatch_collector.spanlog import SpanLog
from groundwatch_collector.spans import Span, SpanEvent
from groundwatch_collector.storage import metadata, open_engine
from groundwatch_collector.traffic_metrics import TrafficMetrics

START = 1_780_000_000.0  # Unix seconds
SALT = b"a salt for tests"


def trace_id(number: int) -> str:
    return f"{number:032x}"


def span(span_id: str = "01", parent_id: str = "", attributes: dict[str, Any] | None = None, **changes: Any) -> Span:
    """One span of trace 1 that starts at START and takes a tenth of a second."""
    start = changes.pop("start", START)
    end = changes.pop("end", start + 0.1)
    defaults: dict[str, Any] = {
        "trace_id": trace_id(1),
        "span_id": span_id.rjust(16, "0"),
        "parent_id": parent_id.rjust(16, "0") if parent_id else "",
        "name": "span",
        "kind": 1,
        "start_unix_nano": round(start * 1e9),
        "end_unix_nano": round(end * 1e9),
        "status": "unset",
        "status_message": "",
        "attributes": attributes or {},
        "scope_name": names.SCOPE_NAME,
        "resource": {names.SERVICE_NAME: "shop", names.SERVICE_VERSION: "1.0"},
    }
    return Span(**{**defaults, **changes})


DOCUMENTS = [
    {"id": "kb-1", "rank": 1, "score": 0.9, "content": "Uploads up to 50 MB are allowed in the team edition."},
    {"id": "kb-2", "rank": 2, "score": 0.4, "content": "Files are kept for 30 days."},
]


def request(
    number: int = 1, *, start: float = START, root: dict[str, Any] | None = None, **changes: Any
) -> list[Span]:
    """The spans of one answered request as our SDK sends them, root last."""
    documents = changes.pop("documents", DOCUMENTS)
    listed = documents if isinstance(documents, str) else json.dumps(documents, ensure_ascii=False)
    common = {"trace_id": trace_id(number), **changes}
    attributes = {
        names.STAGE: "request",
        names.QUERY: "How large may an upload be?",
        names.ANSWER: "Up to 50 MB in the team edition [1].",
        names.OUTCOME: "answered",
        names.CITATIONS: '[{"id": "kb-1", "marker": "[1]"}]',
        **(root or {}),
    }
    attributes = {key: value for key, value in attributes.items() if value is not None}
    return [
        span("a1", "01", {names.STAGE: "rewrite", names.REWRITTEN_QUERY: "upload limit"}, start=start, **common),
        span("a2", "01", {names.STAGE: "candidates", names.CANDIDATES: listed}, start=start + 0.1, **common),
        span("a3", "01", {names.STAGE: "rerank", names.RERANKED: listed}, start=start + 0.2, **common),
        span("a4", "01", {names.STAGE: "context", names.CONTEXT: listed}, start=start + 0.3, **common),
        span("a5", "01", _answer_attributes(), start=start + 0.4, **common),
        span("01", "", attributes, start=start, end=start + 0.6, **common),
    ]


def _answer_attributes() -> dict[str, Any]:
    return {
        names.STAGE: "answer",
        names.RESPONSE_MODEL: "model-1",
        names.INPUT_TOKENS: 120,
        names.OUTPUT_TOKENS: 30,
        names.FIRST_TOKEN: 0.45,
    }


def otlp_json(spans: list[Span]) -> bytes:
    """The body that a sender of *spans* posts. Each span brings its own resource and scope."""
    return orjson.dumps({"resourceSpans": [_resource_spans(entry) for entry in spans]})


def _resource_spans(entry: Span) -> dict[str, Any]:
    return {
        "resource": {"attributes": _attributes(entry.resource)},
        "scopeSpans": [{"scope": {"name": entry.scope_name}, "spans": [_span(entry)]}],
    }


def _span(entry: Span) -> dict[str, Any]:
    return {
        "traceId": entry.trace_id,
        "spanId": entry.span_id,
        "parentSpanId": entry.parent_id,
        "name": entry.name,
        "kind": entry.kind,
        "startTimeUnixNano": str(entry.start_unix_nano),
        "endTimeUnixNano": str(entry.end_unix_nano),
        "attributes": _attributes(entry.attributes),
        "traceState": entry.trace_state,
        "status": {"code": {"unset": 0, "ok": 1, "error": 2}[entry.status], "message": entry.status_message},
        "events": [
            {"name": e.name, "timeUnixNano": str(e.time_unix_nano), "attributes": _attributes(e.attributes)}
            for e in entry.events
        ],
    }


def _attributes(found: Any) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in found.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(entry) for entry in value]}}
    return {"stringValue": value} if isinstance(value, str) else {}


def capture(path: Path) -> list[list[Span]]:
    """The traces in one recorded OTLP body."""
    traces: dict[str, list[Span]] = {}
    for entry in otlp.decode(path.read_bytes(), "protobuf").spans:
        traces.setdefault(entry.trace_id, []).append(entry)
    return list(traces.values())


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    """Builders of test data."""
    return SimpleNamespace(
        span=span,
        request=request,
        otlp_json=otlp_json,
        trace_id=trace_id,
        capture=capture,
        event=SpanEvent,
        START=START,
    )


class World:
    """A collector behind its receiver: a log to append to, a database, and a clock."""

    def __init__(self, directory: Path, url: str, name: str = "world") -> None:
        self.time = START
        self.log = SpanLog(directory / f"{name}-log", group_seconds=0.0, max_bytes=2**30, now=lambda: self.time)
        self.engine: Engine = open_engine(url)
        metadata.create_all(self.engine)
        self.config = DecideConfig(position_interval_seconds=0.0)
        self.start()

    def start(self, config: DecideConfig | None = None) -> Pipeline:
        """Begin again with what is on the disk, as a new process does."""
        self.registry = CollectorRegistry()
        self.config = config or self.config
        self.pipeline = Pipeline(
            self.log, self.engine, self.config, TrafficMetrics(self.registry), salt=SALT, now=lambda: self.time
        )
        return self.pipeline

    def send(self, *spans: Span) -> int:
        return self.log.append("otlp_json", otlp_json(list(spans))).result()

    def feedback(self, **fields: Any) -> int:
        return self.log.append("feedback", orjson.dumps(fields)).result()

    def settle(self, seconds: float = 0.0) -> None:
        """Read everything, move the clock, decide what is due by then."""
        while self.pipeline.step(0):
            pass
        self.time += seconds
        while self.pipeline.step(0):
            pass

    def rows(self, table: Any) -> list[Any]:
        with self.engine.connect() as connection:
            return list(connection.execute(select(table)))

    def ledger(self) -> dict[str, Any]:
        return {row.trace_id: row for row in self.rows(tables.ledger)}

    def value(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0

    def close(self) -> None:
        self.log.close()
        self.engine.dispose()


@pytest.fixture
def world(tmp_path: Path, database_url: str) -> Iterator[World]:
    made = World(tmp_path, database_url)
    yield made
    made.close()


@pytest.fixture
def new_world(tmp_path: Path, new_database: Callable[[str], str]) -> Iterator[Callable[[str], World]]:
    made: list[World] = []

    def build(name: str) -> World:
        made.append(World(tmp_path, new_database(name), name))
        return made[-1]

    yield build
    for each in made:
        each.close()
