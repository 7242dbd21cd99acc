"""What one request costs the thread that answers it: our SDK, raw OpenTelemetry, OpenInference, Langfuse, in one run.

All record the same request: a root and five stages, three lists of documents (10, 10 and 5 of 1 KB) and an answer of
1 KB. "raw" writes each list as one JSON attribute with a TracerProvider and a BatchSpanProcessor, as a careful author
would by hand; OpenInference and Langfuse are written as their documentation shows. Each sends OTLP/HTTP to a loopback
receiver of its own. Rounds alternate. Then each is paced at 200 requests a second, for the tail, in windows that
take turns; the medians of the windows are told.

    python tests/bench/bench_sdk.py [--rounds 9] [--requests 500] [--paced-seconds 5] [--windows 3]

Runs with the packages of the optional group ``live`` when they are built (tests/harness/live_python.py), else without
OpenInference and Langfuse.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import importlib.util
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
PER_SECOND = 200
_draw = random.Random(1)
_WORDS = ["".join(_draw.choices("abcdefghijklmnoprstuvw", k=_draw.randint(2, 9))) for _ in range(3000)]


def _text(characters: int) -> str:
    return " ".join(_draw.choices(_WORDS, k=characters // 4))[:characters]


def _found(request: int) -> list[dict[str, Any]]:
    return [{"id": f"doc-{request}-{n}", "content": _text(1024), "score": 1.0 / (n + 1)} for n in range(10)]


# Other documents for each request, as in life: a compressor finds only what one request says twice.
FOUND = itertools.cycle([_found(request) for request in range(200)])
QUESTION, REWRITTEN, ANSWER = "How large may an upload be?", "upload limit team edition", _text(1000)
USAGE = {"input_tokens": 900, "output_tokens": 80}


@dataclass
class Receiver:
    """Counts what one variant sends."""

    wire_bytes: int = 0
    body_bytes: int = 0
    spans: int = 0
    url: str = field(init=False)

    def __post_init__(self) -> None:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                receiver.take(self.rfile.read(int(self.headers["content-length"])), self.headers)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_args: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def take(self, body: bytes, headers: Any) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        plain = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        self.wire_bytes += len(body)
        self.body_bytes += len(plain)
        found = ExportTraceServiceRequest.FromString(plain)
        self.spans += sum(len(scope.spans) for resource in found.resource_spans for scope in resource.scope_spans)


@dataclass
class Variant:
    run: Callable[[], None]
    flush: Callable[[], object]
    receiver: Receiver | None = None
    cpu: list[float] = field(default_factory=list)  # microseconds per request, a round each
    requests: int = 0


def bare() -> None:
    """The same calls without any recording: what the loop itself costs."""
    found = next(FOUND)
    for documents in (found, found, found[:5]):
        list(documents)


def groundwatch_variants(compression: str = "none") -> dict[str, Variant]:
    import groundwatch

    def direct() -> None:
        found = next(FOUND)
        with groundwatch.request(QUESTION, session="s-1") as r:
            r.rewrite(REWRITTEN)
            r.candidates(found, source="manual")
            r.rerank(found, model="ranker")
            r.context(found[:5])
            r.answer(ANSWER, citations=["doc-0"], usage=USAGE, model="m")
            r.outcome("answered")

    def stages() -> None:
        """Each stage timed by a context manager, so that other instrumentation nests under it."""
        found = next(FOUND)
        with groundwatch.request(QUESTION, session="s-1") as r:
            with r.stage("rewrite") as s:
                s.text(REWRITTEN)
            with r.stage("candidates", source="manual") as s:
                s.documents(found)
            with r.stage("rerank", model="ranker") as s:
                s.documents(found)
            with r.stage("context") as s:
                s.documents(found[:5])
            with r.stage("answer"):
                r.answer(ANSWER, citations=["doc-0"], usage=USAGE, model="m")
            r.outcome("answered")

    receiver = Receiver()
    groundwatch.configure(
        service="bench",
        endpoint=receiver.url,
        capture_content="text",
        compression=compression,
        queue_size=100_000,
        queue_bytes=2**31,
    )
    flush = lambda: groundwatch.flush(60)  # noqa: E731
    return {"groundwatch": Variant(direct, flush, receiver), "groundwatch_stages": Variant(stages, flush)}


def provider_to(receiver: Receiver) -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource({"service.name": "bench"}))
    exporter = OTLPSpanExporter(endpoint=f"{receiver.url}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=200_000))
    return provider


def raw_variant() -> Variant:
    from groundwatch import names

    receiver = Receiver()
    provider = provider_to(receiver)
    tracer = provider.get_tracer("bench")

    def listed(documents: list[dict[str, Any]]) -> str:
        entries = [{**document, "rank": rank} for rank, document in enumerate(documents, 1)]
        return json.dumps(entries, ensure_ascii=False, separators=(",", ":"))

    def stage(name: str, kind: str, **attributes: Any) -> None:
        known = {names.STAGE: kind, names.SPAN_KIND: kind, names.CONTENT_MODE: "text"}
        with tracer.start_as_current_span(name, attributes={**known, **attributes}):
            pass

    def run() -> None:
        documents = next(FOUND)
        asked = {
            names.STAGE: "request",
            names.SPAN_KIND: "CHAIN",
            names.OPERATION: "invoke_workflow",
            names.QUERY: QUESTION,
            names.SESSION: "s-1",
        }
        with tracer.start_as_current_span("invoke_workflow bench", attributes=asked) as root:
            stage("rewrite", "CHAIN", **{names.REWRITTEN_QUERY: REWRITTEN})
            found = {names.CANDIDATES: listed(documents), names.DATA_SOURCE: "manual"}
            stage("retrieval manual", "RETRIEVER", **found)
            stage("rerank ranker", "RERANKER", **{names.RERANKED: listed(documents), names.REQUEST_MODEL: "ranker"})
            stage("context", "CHAIN", **{names.CONTEXT: listed(documents[:5])})
            usage = {names.INPUT_TOKENS: 900, names.OUTPUT_TOKENS: 80}
            stage("chat m", "LLM", **{names.REQUEST_MODEL: "m", **usage})
            cited = {names.ANSWER: ANSWER, names.OUTCOME: "answered", names.CITATIONS: '[{"id":"doc-0"}]'}
            root.set_attributes(cited)

    return Variant(run, lambda: provider.force_flush(60_000), receiver)


def openinference_variant() -> Variant:
    from importlib import import_module  # not where this project is checked

    oi = import_module("openinference.instrumentation")
    receiver = Receiver()
    provider = provider_to(receiver)
    tracer = oi.OITracer(provider.get_tracer("bench"), oi.TraceConfig())

    def run() -> None:
        documents = next(FOUND)
        with oi.using_session("s-1"), tracer.start_as_current_span("bench", openinference_span_kind="chain") as root:
            root.set_input(QUESTION)
            with tracer.start_as_current_span("rewrite", openinference_span_kind="chain") as span:
                span.set_output(REWRITTEN)
            with tracer.start_as_current_span("retrieve", openinference_span_kind="retriever") as span:
                span.set_attributes(oi.get_retriever_attributes(documents=documents))
            with tracer.start_as_current_span("rerank", openinference_span_kind="reranker") as span:
                span.set_attributes(oi.get_reranker_attributes(model_name="ranker", output_documents=documents))
            with tracer.start_as_current_span("context", openinference_span_kind="retriever") as span:
                span.set_attributes(oi.get_retriever_attributes(documents=documents[:5]))
            with tracer.start_as_current_span("chat", openinference_span_kind="llm") as span:
                span.set_attributes(
                    oi.get_llm_attributes(model_name="m", token_count={"prompt": 900, "completion": 80})
                )
            root.set_output(ANSWER)

    return Variant(run, lambda: provider.force_flush(60_000), receiver)


def langfuse_variant() -> Variant:
    os.environ["OTEL_BSP_MAX_QUEUE_SIZE"] = "200000"
    from langfuse import Langfuse, propagate_attributes

    receiver = Receiver()
    client = Langfuse(public_key="pk-none", secret_key="sk-none", base_url=receiver.url)
    observe = client.start_as_current_observation

    def run() -> None:
        documents = next(FOUND)
        with propagate_attributes(session_id="s-1"), observe(name="bench", as_type="chain", input=QUESTION) as root:
            with observe(name="rewrite", as_type="span", output=REWRITTEN):
                pass
            with observe(name="retrieve", as_type="retriever", output=documents):
                pass
            with observe(name="rerank", as_type="span", output=documents):
                pass
            with observe(name="context", as_type="span", output=documents[:5]):
                pass
            with observe(name="chat", as_type="generation", model="m", usage_details={"input": 900, "output": 80}):
                pass
            root.update(output=ANSWER)

    return Variant(run, client.flush, receiver)


def variants() -> dict[str, Variant]:
    made = {"bare": Variant(bare, lambda: None), **groundwatch_variants(), "raw_opentelemetry": raw_variant()}
    if importlib.util.find_spec("openinference") is not None:
        made["openinference"] = openinference_variant()
    if importlib.util.find_spec("langfuse") is not None:
        made["langfuse"] = langfuse_variant()
    return made


def unpaced(variant: Variant, requests: int) -> None:
    """Microseconds of this thread's CPU time per request."""
    gc.collect()
    began = time.thread_time_ns()
    for _ in range(requests):
        variant.run()
    variant.cpu.append((time.thread_time_ns() - began) / requests / 1000)
    variant.requests += requests
    variant.flush()


def paced(variant: Variant, seconds: float) -> dict[str, float]:
    """How long one request keeps its thread, at PER_SECOND: on the clock, and on the processor alone."""
    gc.collect()
    walls, cpus = [], []
    begin = time.perf_counter()
    for number in range(int(seconds * PER_SECOND)):
        time.sleep(max(0.0, begin + number / PER_SECOND - time.perf_counter()))
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        variant.run()
        cpus.append(time.thread_time_ns() - cpu)
        walls.append(time.perf_counter_ns() - wall)
    variant.requests += len(walls)
    variant.flush()
    return {
        "wall_p50_ms": percentile(walls, 0.5),
        "wall_p99_ms": percentile(walls, 0.99),
        "cpu_p50_ms": percentile(cpus, 0.5),
        "cpu_p99_ms": percentile(cpus, 0.99),
    }


def tails(made: dict[str, Variant], seconds: float, windows: int) -> dict[str, dict[str, float]]:
    """The median of several windows that take turns, after one second that warms up."""
    tried = {name: variant for name, variant in made.items() if name != "bare"}
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in tried}
    for window in range(windows + 1):
        for name, variant in tried.items():
            found = paced(variant, seconds if window else min(1.0, seconds))
            if window:
                seen[name].append(found)
        print(f"window {window} of {windows}", file=sys.stderr)
    return {
        name: {key: statistics.median(one[key] for one in found) for key in found[0]} for name, found in seen.items()
    }


def percentile(found: list[int], share: float) -> float:
    return round(sorted(found)[int(share * (len(found) - 1))] / 1e6, 3)


def with_gzip(requests: int) -> Receiver:
    """What our own SDK sends with ``compression="gzip"``, which Langfuse uses always and the others do not."""
    variant = groundwatch_variants(compression="gzip")["groundwatch"]
    for _ in range(requests):
        variant.run()
    variant.flush()
    assert variant.receiver is not None
    return variant.receiver


def measure(rounds: int, requests: int, seconds: float, windows: int) -> dict[str, Any]:
    import groundwatch

    made = variants()
    for number in range(rounds + 1):
        for variant in made.values():
            unpaced(variant, requests)
        print(f"round {number} of {rounds}", file=sys.stderr)
    paced_at_rate = tails(made, seconds, windows) if seconds else {}
    cpu = {name: statistics.median(variant.cpu[1:]) for name, variant in made.items()}  # the first round warms up
    made["groundwatch"].requests += made["groundwatch_stages"].requests  # one client, one receiver
    sent = {name: variant for name, variant in made.items() if variant.receiver is not None}
    lost = groundwatch.stats().dropped
    return {
        "python": sys.version.split()[0],
        "load_average": os.getloadavg()[0],
        "rounds": rounds,
        "requests_per_round": requests,
        "caller_cpu_us": {name: round(value, 1) for name, value in cpu.items()},
        "ratio_to_raw": {name: round(value / cpu["raw_opentelemetry"], 3) for name, value in cpu.items()},
        f"paced_{PER_SECOND}_per_second": paced_at_rate,
        "wire_bytes_per_request": {
            n: round(v.receiver.wire_bytes / v.requests) for n, v in sent.items() if v.receiver
        },
        "wire_bytes_per_request_groundwatch_gzip": round(with_gzip(requests).wire_bytes / requests),
        "body_bytes_per_request": {
            n: round(v.receiver.body_bytes / v.requests) for n, v in sent.items() if v.receiver
        },
        "spans_per_request": {n: round(v.receiver.spans / v.requests, 3) for n, v in sent.items() if v.receiver},
        "lost": lost,
    }


def with_live_packages() -> None:
    """Go on in the environment that has OpenInference and Langfuse, if it is built and is not this one."""
    sys.path.insert(0, str(REPO / "tests" / "harness"))
    import live_python

    python = live_python.path()
    if importlib.util.find_spec("openinference") is None and python.exists():
        env = {**os.environ, "PYTHONPATH": str(REPO / "sdk")}
        sys.exit(subprocess.run([str(python), __file__, *sys.argv[1:]], env=env, check=False).returncode)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--paced-seconds", type=float, default=5)
    parser.add_argument("--windows", type=int, default=3)
    args = parser.parse_args()
    with_live_packages()
    print(json.dumps(measure(args.rounds, args.requests, args.paced_seconds, args.windows)))
    os._exit(0)  # the peers' exit handlers wait for servers that they never reach


if __name__ == "__main__":
    main()
