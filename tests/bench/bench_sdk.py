"""What one request costs the thread that answers it: the SDK against raw OpenTelemetry, in the same run.

Both record the same request: a root and five stages, three lists of documents (10, 10 and 5 of 1 KB) and an
answer of 1 KB. "raw" writes each list as one JSON attribute with a TracerProvider and a BatchSpanProcessor, as a
careful author would by hand. Both send OTLP/HTTP to the same loopback receiver. Rounds alternate.

    python tests/bench/bench_sdk.py [--rounds 9] [--requests 500]
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import groundwatch
from groundwatch import names

TEXT = "The upload limit of the team edition is two gigabytes a file and fifty a day. " * 13
DOCUMENTS = [{"id": f"doc-{n}", "content": TEXT[:1024], "score": 1.0 / (n + 1)} for n in range(10)]
ANSWER = TEXT[:1000]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


def bare() -> None:
    """The same calls without any recording: what the loop itself costs."""
    for documents in (DOCUMENTS, DOCUMENTS, DOCUMENTS[:5]):
        list(documents)


def with_groundwatch() -> None:
    with groundwatch.request("How large may an upload be?", session="s-1") as r:
        r.rewrite("upload limit team edition")
        r.candidates(DOCUMENTS, source="manual")
        r.rerank(DOCUMENTS, model="ranker")
        r.context(DOCUMENTS[:5])
        r.answer(ANSWER, citations=["doc-0"], usage={"input_tokens": 900, "output_tokens": 80}, model="m")
        r.outcome("answered")


def with_groundwatch_stages() -> None:
    """The same with each stage timed by a context manager, so that other instrumentation nests under it."""
    with groundwatch.request("How large may an upload be?", session="s-1") as r:
        with r.stage("rewrite") as s:
            s.text("upload limit team edition")
        with r.stage("candidates", source="manual") as s:
            s.documents(DOCUMENTS)
        with r.stage("rerank", model="ranker") as s:
            s.documents(DOCUMENTS)
        with r.stage("context") as s:
            s.documents(DOCUMENTS[:5])
        with r.stage("answer"):
            r.answer(ANSWER, citations=["doc-0"], usage={"input_tokens": 900, "output_tokens": 80}, model="m")
        r.outcome("answered")


def raw(tracer: Any) -> None:
    def listed(documents: list[dict[str, Any]]) -> str:
        return json.dumps(
            [
                {"id": d["id"], "rank": i, "score": d["score"], "content": d["content"]}
                for i, d in enumerate(documents, 1)
            ],
            ensure_ascii=False,
            separators=(",", ":"),
        )

    def stage(name: str, kind: str, **attributes: Any) -> None:
        with tracer.start_as_current_span(
            name, attributes={names.STAGE: kind, names.SPAN_KIND: kind, names.CONTENT_MODE: "text", **attributes}
        ):
            pass

    with tracer.start_as_current_span(
        "invoke_workflow bench",
        attributes={
            names.STAGE: "request",
            names.SPAN_KIND: "CHAIN",
            names.OPERATION: "invoke_workflow",
            names.QUERY: "How large may an upload be?",
            names.SESSION: "s-1",
        },
    ) as root:
        stage("rewrite", "CHAIN", **{names.REWRITTEN_QUERY: "upload limit team edition"})
        stage("retrieval manual", "RETRIEVER", **{names.CANDIDATES: listed(DOCUMENTS), names.DATA_SOURCE: "manual"})
        stage("rerank ranker", "RERANKER", **{names.RERANKED: listed(DOCUMENTS), names.REQUEST_MODEL: "ranker"})
        stage("context", "CHAIN", **{names.CONTEXT: listed(DOCUMENTS[:5])})
        stage("chat m", "LLM", **{names.REQUEST_MODEL: "m", names.INPUT_TOKENS: 900, names.OUTPUT_TOKENS: 80})
        root.set_attributes({names.ANSWER: ANSWER, names.OUTCOME: "answered", names.CITATIONS: '[{"id":"doc-0"}]'})


def measure(run: Callable[[], None], requests: int, flush: Callable[[], object]) -> tuple[float, float]:
    """Microseconds of this thread's CPU time per request, and of wall time at the median."""
    gc.collect()
    walls = []
    began = time.thread_time_ns()
    for _ in range(requests):
        at = time.perf_counter_ns()
        run()
        walls.append(time.perf_counter_ns() - at)
    cpu = time.thread_time_ns() - began
    flush()
    return cpu / requests / 1000, statistics.median(walls) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=500)
    args = parser.parse_args()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    groundwatch.configure(
        service="bench", endpoint=url, capture_content="text", queue_size=100_000, queue_bytes=2**31
    )
    provider = TracerProvider(resource=Resource({"service.name": "bench"}))
    processor = BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{url}/v1/traces"), max_queue_size=100_000)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("bench")

    variants: dict[str, tuple[Callable[[], None], Callable[[], object]]] = {
        "bare": (bare, lambda: None),
        "groundwatch": (with_groundwatch, lambda: groundwatch.flush(60)),
        "groundwatch_stages": (with_groundwatch_stages, lambda: groundwatch.flush(60)),
        "raw_opentelemetry": (lambda: raw(tracer), lambda: provider.force_flush(60_000)),
    }
    cpu: dict[str, list[float]] = {name: [] for name in variants}
    wall: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(args.rounds + 1):
        for name, (run, flush) in variants.items():
            spent, median = measure(run, args.requests, flush)
            if number:  # the first round warms up
                cpu[name].append(spent)
                wall[name].append(median)
        print(f"round {number} of {args.rounds}", file=sys.stderr)
    lost = groundwatch.stats().dropped
    groundwatch.shutdown()
    provider.shutdown()
    server.shutdown()
    report = {
        "unit": "microseconds per request on the caller's thread",
        "rounds": args.rounds,
        "requests_per_round": args.requests,
        "cpu_median": {name: round(statistics.median(values), 1) for name, values in cpu.items()},
        "cpu_min": {name: round(min(values), 1) for name, values in cpu.items()},
        "wall_p50": {name: round(statistics.median(values), 1) for name, values in wall.items()},
        "ratio_to_raw": {
            name: round(statistics.median(cpu[name]) / statistics.median(cpu["raw_opentelemetry"]), 3) for name in cpu
        },
        "lost": lost,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
