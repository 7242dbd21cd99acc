"""How many traces a second the receiver acknowledges durably. Run it: python tests/bench/bench_ingest.py

The collector runs in a process of its own (uvicorn, a real span log with fdatasync); the senders here keep a number
of connections busy, each waiting for its acknowledgement before it sends again. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import json
import multiprocessing
import multiprocessing.connection
import socket
import statistics
import tempfile
import threading
import time
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import uvicorn
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from prometheus_client import CollectorRegistry

from groundwatch_collector.intake_metrics import IntakeMetrics
from groundwatch_collector.limits import Limits
from groundwatch_collector.receiver import asgi_app
from groundwatch_collector.spanlog import SpanLog

STAGES = ("request", "rewrite", "candidates", "rerank", "context", "answer")
TEXT = "".join(topics.values())  # the Python manual: real text, so that gzip has real work


def one_trace() -> bytes:
    """A question with six spans and about 26 KB of text, as the SDK sends it."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number, stage in enumerate(STAGES, start=1):
        span = spans.add(trace_id=b"t" * 16, span_id=bytes([number] * 8), name=stage)
        span.attributes.append(attribute("groundwatch.stage", stage))
        documents = {"candidates": 20, "rerank": 10, "context": 8}.get(stage, 0)
        for rank in range(documents):
            span.attributes.append(attribute(f"document.{rank}.id", f"manual-{rank}"))
            start = 600 * (number * 100 + rank)
            span.attributes.append(attribute(f"document.{rank}.content", TEXT[start : start + 600]))
        span.attributes.append(attribute("text", TEXT[:200]))
    return request.SerializeToString()


def attribute(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def serve(directory: str, bound: socket.socket, control: multiprocessing.connection.Connection) -> None:
    """The collector. Answers each message on *control* with its CPU seconds and its log's syncs and records."""
    with SpanLog(Path(directory)) as log:
        registry = CollectorRegistry()
        app: Any = asgi_app(log, Limits(), IntakeMetrics(registry))
        config = uvicorn.Config(app, http="httptools", ws="none", lifespan="off", access_log=False, log_level="error")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        with contextlib.suppress(EOFError):
            while control.recv():
                syncs = registry.get_sample_value("groundwatch_log_fsync_seconds_count") or 0
                control.send((time.process_time(), syncs, log.appended_records))
        server.should_exit = True
        thread.join()


async def send_many(port: int, request: bytes, connections: int, seconds: float) -> list[float]:
    """Keep *connections* busy for *seconds*; return how long each acknowledgement took."""
    until = time.perf_counter() + seconds
    results = await asyncio.gather(*[one_sender(port, request, until) for _ in range(connections)])
    return [taken for result in results for taken in result]


async def one_sender(port: int, request: bytes, until: float) -> list[float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    taken = []
    while (started := time.perf_counter()) < until:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"the collector answered {head[:40]!r}")
        taken.append(time.perf_counter() - started)  # the body of an OTLP success is empty
    writer.close()
    return taken


def http_request(body: bytes, packed: bool) -> bytes:
    head = "POST /v1/traces HTTP/1.1\r\nHost: bench\r\nContent-Type: application/x-protobuf\r\n"
    if packed:
        body = gzip.compress(body, 1)
        head += "Content-Encoding: gzip\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def measure(arguments: argparse.Namespace, directory: str) -> dict[str, Any]:
    body = one_trace()
    request = http_request(body, arguments.gzip)
    bound = socket.create_server(("127.0.0.1", 0))
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=serve, args=(directory, bound, there))
    process.start()
    port = bound.getsockname()[1]
    asyncio.run(send_many(port, request, arguments.connections, 1.0))  # warm
    rounds = [one_round(here, port, request, arguments) for _ in range(arguments.rounds)]
    here.send(False)
    process.join()
    bound.close()
    middle = sorted(rounds, key=lambda r: r["traces_per_second"])[len(rounds) // 2]
    shape = {"body_bytes": len(body), "sent_bytes": len(request), "spans": len(STAGES), "gzip": arguments.gzip}
    return shape | {"connections": arguments.connections, "rounds": len(rounds)} | middle


def one_round(
    control: multiprocessing.connection.Connection, port: int, request: bytes, arguments: argparse.Namespace
) -> dict[str, float]:
    def state() -> tuple[float, float, int]:
        control.send(True)
        answer: tuple[float, float, int] = control.recv()
        return answer

    cpu, syncs, records = state()
    started = time.perf_counter()
    taken = asyncio.run(send_many(port, request, arguments.connections, arguments.seconds))
    wall = time.perf_counter() - started
    cpu_after, syncs_after, records_after = state()
    if records_after - records != len(taken):
        raise SystemExit(f"{len(taken)} acknowledged, but {records_after - records} durable")
    cuts = statistics.quantiles(taken, n=100)
    return {
        "traces_per_second": round(len(taken) / wall),
        "traces_per_server_cpu_second": round(len(taken) / (cpu_after - cpu)),
        "p50_ms": round(cuts[49] * 1000, 2),
        "p99_ms": round(cuts[98] * 1000, 2),
        "records_per_sync": round(len(taken) / max(1.0, syncs_after - syncs), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=5, help="the median round is printed")
    parser.add_argument("--gzip", action="store_true")
    parser.add_argument("--directory", help="where the span log lies; default: a temporary folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        print(json.dumps(measure(arguments, directory)))


if __name__ == "__main__":
    main()
