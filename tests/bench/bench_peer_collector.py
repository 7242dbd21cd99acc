"""The same payload to the monitor and to an OpenTelemetry Collector with `tail_sampling`, in turns, on this machine.

    python tests/harness/otelcol.py build      # once
    python tests/bench/bench_peer_collector.py

Prints one JSON line for each: traces a second of its CPU until they are decided, memory, and what each still has of
the acknowledged traces when it is killed (-9) before they are decided and started again. The two do not do the same
work: the Collector keeps spans in memory and draws by the trace id; the monitor writes them to the disk before it
acknowledges, reads questions, answers and documents, scores, and writes a ledger.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import bench_monitor
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from groundwatch_collector import ledger
from groundwatch_collector.decision import DecideConfig
from groundwatch_collector.spanlog import SpanLog
from groundwatch_collector.storage import open_engine

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))
import otelcol

DECISION_SECONDS = 1
PIPELINE = """
processors:
  tail_sampling:
    decision_wait: {wait}s
    num_traces: 1000000
    policies: [{{name: share, type: probabilistic, probabilistic: {{sampling_percentage: {percent}}}}}]
exporters:
  otlp_http: {{endpoint: "http://127.0.0.1:{sink}", compression: none}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    traces: {{receivers: [otlp], processors: [tail_sampling], exporters: [otlp_http]}}
"""


class Sink:
    """Where the Collector's exporter sends to: counts the traces that arrive."""

    def __init__(self) -> None:
        self.traces: set[bytes] = set()
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                sink.take(self.rfile.read(int(self.headers["content-length"])))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Not one line for each request."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        groups = [scope for resource in request.resource_spans for scope in resource.scope_spans]
        self.traces.update(span.trace_id for scope in groups for span in scope.spans)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def used(pid: int) -> tuple[float, float]:
    """CPU seconds and resident MB of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def send(port: int, body: bytes, arguments: argparse.Namespace) -> None:
    asyncio.run(bench_monitor.send_many(port, body, arguments.connections, arguments.traces))


def measured(
    pid: int, port: int, body: bytes, arguments: argparse.Namespace, done: Callable[[], None]
) -> dict[str, float]:
    cpu, _ = used(pid)
    started = time.perf_counter()
    send(port, body, arguments)
    acknowledged = time.perf_counter() - started
    memory = used(pid)[1]
    done()
    cpu = used(pid)[0] - cpu
    return {
        "traces_per_cpu_second": round(arguments.traces / cpu),
        "acknowledged_per_second": round(arguments.traces / acknowledged),
        "rss_mb_after_sending": round(memory),
    }


def collector(arguments: argparse.Namespace, body: bytes) -> dict[str, float]:
    sink = Sink()
    peer = otelcol.Collector(PIPELINE.format(wait=DECISION_SECONDS, percent=2, sink=sink.port))
    try:
        peer.start()
        return measured(peer.pid, peer.port, body, arguments, lambda: time.sleep(DECISION_SECONDS + 2))
    finally:
        peer.remove()
        sink.close()


def monitor(arguments: argparse.Namespace, body: bytes) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        ours = bench_monitor.Monitor(folder, DecideConfig(grace_seconds=DECISION_SECONDS))
        try:
            return measured(
                ours.pid, ours.port, body, arguments, lambda: bench_monitor.wait_until_decided(ours, arguments.traces)
            )
        finally:
            ours.close()


def killed_collector(arguments: argparse.Namespace, body: bytes) -> int:
    """How many of the acknowledged traces come out after a kill before their decision and a new start."""
    sink = Sink()
    peer = otelcol.Collector(PIPELINE.format(wait=60, percent=100, sink=sink.port))
    try:
        peer.start()
        send(peer.port, body, arguments)
        peer.kill()
        peer.start()
        time.sleep(3)
        return len(sink.traces)
    finally:
        peer.remove()
        sink.close()


def killed_monitor(arguments: argparse.Namespace, body: bytes) -> int:
    """Likewise: what the account of log and ledger knows of them."""
    with tempfile.TemporaryDirectory() as folder:
        ours = bench_monitor.Monitor(folder, DecideConfig(grace_seconds=60))
        send(ours.port, body, arguments)
        ours.kill()
        engine = open_engine(f"sqlite:///{Path(folder) / 'groundwatch.db'}")
        with SpanLog(Path(folder) / "spanlog") as log:
            found = ledger.report(engine, log)
        engine.dispose()
        return found.received - sum(found.lost.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=3000)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3, help="in turns; medians are printed")
    arguments = parser.parse_args()
    if not otelcol.is_available():
        raise SystemExit("the Collector is not built: python tests/harness/otelcol.py build")
    body = bench_monitor.one_trace()
    parts = {"otelcol": (collector, killed_collector), "groundwatch": (monitor, killed_monitor)}
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in parts}
    for _ in range(arguments.rounds):
        for name, (run, _killed) in parts.items():
            rounds[name].append(run(arguments, body))
    for name, (_run, killed) in parts.items():
        middle = {key: statistics.median(entry[key] for entry in rounds[name]) for key in rounds[name][0]}
        kept = {"acknowledged": arguments.traces, "there_after_kill_9": killed(arguments, body)}
        print(
            json.dumps({"what": name, "body_bytes": len(body), "rounds": arguments.rounds} | middle | kept),
            flush=True,
        )


if __name__ == "__main__":
    main()
