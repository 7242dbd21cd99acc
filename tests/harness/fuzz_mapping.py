"""Damage recorded spans in every way that senders are known to, by a seed, and read them: nothing may raise.

    python tests/harness/fuzz_mapping.py [--seed 1] [--runs 20000] [--more FOLDER]

Each run takes a recording, keeps some of its spans, mixes in spans of another convention, damages attributes, events,
times, parents and scopes, and maps the result, which must also survive being stored. A run that fails is printed with
its number: ``--seed S --only N`` repeats it. FOLDER may hold more recordings, ``*.pb``.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import random
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from groundwatch_collector import otlp
from groundwatch_collector.limits import Rejected
from groundwatch_collector.mapping import to_ragtrace
from groundwatch_collector.ragtrace import Outcome, RagTrace, from_json, to_json
from groundwatch_collector.spans import Span

DATA = Path(__file__).parents[1] / "collector" / "data"
Spans = list[Span]

_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, 1e308, float("nan"), float("inf"), "", " ", "{", "[", '["', "[]", "{}", "null",
    "[null]",
    '{"documents": [{}]}', '{"documents": {"a": 1}}', '[{"node": 1}]', '[{"role": 1, "content": [null]}]', "[" * 2000,
    "__REDACTED__", "\x00", "\ud800", "\u202e", "-1", "NaN", b"", b"\xff\xfe", [], [None], [[[]]], {},
    {"a": {"b": []}},
    "GeneratorExit", "length", "content_filter", "x" * 70_000, "滤网" * 50,
)  # fmt: skip


def recordings(more: Path | None = None) -> dict[str, Spans]:
    """The spans of each recording; of those that hold several traces, all of them as one."""
    found = {path.name: gzip.decompress(path.read_bytes()) for path in sorted(DATA.glob("*.pb.gz"))}
    for path in sorted(more.glob("*.pb")) if more is not None else ():
        if not path.name.endswith((".logs.pb", ".metrics.pb")):
            found[path.name] = path.read_bytes()
    return {name: list(otlp.decode(body, "protobuf").spans) for name, body in found.items()}


def damaged(known: Sequence[Spans], draw: random.Random) -> Spans:
    """One trace as a broken sender would report it."""
    spans = [copied(span) for span in draw.choice(known)]
    if draw.random() < 0.2:  # two conventions in one trace
        spans += [copied(span) for span in draw.choice(known)[:3]]
    if draw.random() < 0.5:  # the root among what is lost
        spans = [span for span in spans if draw.random() < 0.8] or spans[:1]
    for span in spans:
        for _ in range(draw.choice((0, 0, 1, 1, 2, 5))):
            draw.choice(DAMAGES)(span, draw)
    draw.shuffle(spans)
    return [dataclasses.replace(span, trace_id="1" * 32) for span in spans]


def copied(span: Span) -> Span:
    return dataclasses.replace(span, attributes=dict(span.attributes))


def _attribute(span: Span, draw: random.Random) -> None:
    key = draw.choice(sorted(span.attributes) or ["a"])
    span.attributes = {**span.attributes, key: draw.choice(_VALUES)}


def _cut_text(span: Span, draw: random.Random) -> None:
    """JSON that a length limit went through."""
    texts = sorted((key, value) for key, value in span.attributes.items() if isinstance(value, str) and value)
    if texts:
        key, text = draw.choice(texts)
        span.attributes = {**span.attributes, key: text[: draw.randrange(len(text))]}


def _structured(span: Span, draw: random.Random) -> None:
    """A wrong type where another sender writes text, or text where a list is written."""
    key = draw.choice(sorted(span.attributes) or ["a"])
    value = span.attributes.get(key)
    span.attributes = {**span.attributes, key: str(value) if not isinstance(value, str) else [value, {"k": value}]}


def _dropped(span: Span, draw: random.Random) -> None:
    """The sender's attribute limit."""
    kept = [key for key in span.attributes if draw.random() < 0.7]
    lost = len(span.attributes) - len(kept)
    span.attributes = {key: span.attributes[key] for key in kept}
    span.dropped_attributes += lost


def _foreign_key(span: Span, draw: random.Random) -> None:
    """A name of another version or convention."""
    key = draw.choice(KEYS)
    span.attributes = {**span.attributes, key: draw.choice((*_VALUES, *span.attributes.values()))}


def _scope(span: Span, draw: random.Random) -> None:
    span.scope_name = draw.choice(SCOPES)


def _parent(span: Span, draw: random.Random) -> None:
    span.parent_id = draw.choice(("", span.span_id, "f" * 16, span.parent_id))


def _times(span: Span, draw: random.Random) -> None:
    span.start_unix_nano, span.end_unix_nano = draw.choice(
        (
            (0, 0),
            (span.end_unix_nano, span.start_unix_nano),
            (2**64 - 1, 0),
            (1, 2**64 - 1),
            (span.start_unix_nano, 0),
        )
    )


def _events(span: Span, draw: random.Random) -> None:
    span.events = tuple(
        dataclasses.replace(event, attributes={**event.attributes, key: draw.choice(_VALUES)})
        for event in span.events
        for key in [draw.choice(sorted(event.attributes) or ["exception.type"])]
    )


def _status(span: Span, draw: random.Random) -> None:
    span.status = draw.choice(("unset", "ok", "error"))
    span.status_message = draw.choice(("", "abandoned stream", "\ud800", "x" * 5000))


DAMAGES: tuple[Callable[[Span, random.Random], None], ...] = (
    _attribute, _attribute, _cut_text, _cut_text, _structured, _dropped, _foreign_key, _foreign_key, _scope, _parent,
    _times, _events, _status,
)  # fmt: skip
SCOPES = (
    "", "groundwatch", "openinference.instrumentation.langchain", "traceloop.tracer", "langfuse-sdk", "langsmith",
    "opentelemetry.instrumentation.genai.openai", "openlit.x", "haystack", "llamaindex.opentelemetry.tracer",
)  # fmt: skip
KEYS = (
    "openinference.span.kind", "gen_ai.operation.name", "gen_ai.retrieval.documents", "gen_ai.input.messages",
    "gen_ai.output.messages", "gen_ai.usage.prompt_tokens", "gen_ai.response.finish_reasons", "input.value",
    "output.value", "retrieval.documents", "retrieval.documents.0.document.id",
    "retrieval.documents.99999.document.id",
    "reranker.output_documents.1.document.score", "llm.prompt_template.variables", "llm.invocation_parameters",
    "traceloop.entity.input", "traceloop.entity.output", "traceloop.span.kind", "langfuse.observation.type",
    "langfuse.observation.output", "langfuse.observation.usage_details", "langfuse.observation.completion_start_time",
    "langsmith.span.kind", "haystack.component.type", "haystack.component.output", "haystack.pipeline.input_data",
    "gen_ai.span.kind", "retrieval.document", "groundwatch.stage", "groundwatch.outcome", "groundwatch.citations",
    "session.id", "user.id", "error.type",
)  # fmt: skip


def check(spans: Spans) -> RagTrace | None:
    """Map *spans*; raises when they cannot be mapped or what was read breaks a promise of the record."""
    trace = to_ragtrace(spans)
    if trace is None:
        return None
    assert from_json(to_json(trace)) == trace, "it cannot be stored"
    assert trace.duration_seconds >= 0, "it took less than no time"
    assert trace.outcome in tuple(Outcome), "an outcome outside the closed set"
    assert "\x00" not in (trace.answer or "") + (trace.query or ""), "a NUL in a text"
    for found in (trace.candidates, trace.reranked, trace.context):
        ranks = [document.rank for document in found or ()]
        assert ranks == sorted(set(ranks)), "ranks that do not rise"
    assert trace.span_count <= len(spans)
    return trace


def run(seed: int, number: int, known: Sequence[Spans]) -> RagTrace | None:
    return check(damaged(known, random.Random(f"{seed}:{number}")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--only", type=int)
    parser.add_argument("--more", type=Path)
    args = parser.parse_args()
    known = list(recordings(args.more).values())
    failed = understood = 0
    numbers = range(args.runs) if args.only is None else [args.only]
    for number in numbers:
        try:
            understood += run(args.seed, number, known) is not None
        except (Exception, Rejected):
            failed += 1
            print(f"run {number}:\n{traceback.format_exc(limit=-4)}", file=sys.stderr)
    print(f"{len(numbers)} runs with seed {args.seed}: {understood} read as a request, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
