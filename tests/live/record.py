"""Record what the real instrumentors send now: the twins in tests/collector/data that the mappings are tested with.

python tests/live/record.py LIVE_PYTHON [FAMILY ...]

A recording is one case of one family: ``FAMILY-CASE.pb.gz``.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

HERE = Path(__file__).parent
DATA = HERE.parent / "collector" / "data"
FAMILIES = (
    "openinference-langchain",
    "openinference-llamaindex",
    "openinference-haystack",
    "openinference-openai",
    "traceloop-langchain",
    "traceloop-llamaindex",
    "traceloop-openai",
    "otel-genai-langchain",
    "otel-genai-openai",
    "langfuse-langchain",
    "langsmith-langchain",
    "llamaindex-native",
    "haystack-native",
    "openlit-langchain",
    "openlit-haystack",
    "openlit-openai",
)
CASES = "normal,error,empty,zh,stream,cancel,refusal,rerank"
OWN = ("service.", "telemetry.sdk.")  # of a resource, what does not describe the machine


class Recorder(BaseHTTPRequestHandler):
    """Keeps the bodies that exporters post."""

    bodies: list[bytes] = []  # noqa: RUF012

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        zipped = self.headers.get("content-encoding") == "gzip"
        if self.path.endswith("/v1/traces"):
            self.bodies.append(gzip.decompress(body) if zipped else body)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        """``/done/FAMILY/CASE``: what came since the last one is that case."""
        write(*self.path.split("/")[-2:])
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


def merged(bodies: list[bytes]) -> ExportTraceServiceRequest:
    whole = ExportTraceServiceRequest()
    for body in bodies:
        whole.MergeFromString(body)
    for part in whole.resource_spans:
        kept = [pair for pair in part.resource.attributes if pair.key.startswith(OWN)]
        del part.resource.attributes[:]
        part.resource.attributes.extend(kept)
        for scoped in part.scope_spans:
            for span in scoped.spans:
                for event in span.events:
                    kept = [pair for pair in event.attributes if pair.key != "exception.stacktrace"]  # paths
                    del event.attributes[:]
                    event.attributes.extend(kept)
    return whole


def write(family: str, case: str) -> None:
    body = merged(Recorder.bodies).SerializeToString()
    print(f"{family}-{case}: {len(Recorder.bodies)} bodies, {len(body)} bytes", file=sys.stderr)
    Recorder.bodies.clear()
    (DATA / f"{family}-{case}.pb.gz").write_bytes(gzip.compress(body, mtime=0))


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    families = sys.argv[2:] or FAMILIES
    subprocess.run([sys.argv[1], HERE / "pipelines.py", url, CASES, *families], check=True, timeout=900)


if __name__ == "__main__":
    main()
