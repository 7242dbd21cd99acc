"""What the real SDK sends over HTTP is what the collector understands, field by field."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import groundwatch
from groundwatch_collector import feedback, otlp
from groundwatch_collector.feedback_intake import read_feedback
from groundwatch_collector.limits import Limits
from groundwatch_collector.mapping import to_ragtrace
from groundwatch_collector.ragtrace import Outcome, RagTrace

DOCUMENTS = [
    {"id": "a", "content": "上传上限为 50 MB。", "score": 2.5},
    {"id": "b", "content": "second", "score": 1.0},
]

Bodies = list[tuple[str, bytes]]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.bodies.append(  # type: ignore[attr-defined]
            (self.path, gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
        )
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_args: Any) -> None:
        pass


@pytest.fixture
def bodies() -> Iterator[Callable[[], Bodies]]:
    """Everything that the SDK has posted; the SDK is configured to post here."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.bodies = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    groundwatch.configure(service="shop", version="7", endpoint=url, capture_content="text")

    def posted() -> Bodies:
        groundwatch.flush(10)
        return list(server.bodies)  # type: ignore[attr-defined]

    yield posted
    groundwatch.shutdown(1.0)
    server.shutdown()
    server.server_close()
    thread.join()


def read(posted: Bodies) -> RagTrace:
    spans = [s for path, body in posted if path == "/v1/traces" for s in otlp.decode(body, "protobuf").spans]
    trace = to_ragtrace(spans)
    assert trace is not None
    return trace


def test_a_whole_request_arrives_field_by_field(bodies):
    with groundwatch.request("上传上限是多少？", session="s-1") as request:
        request.rewrite("上传 上限")
        request.candidates(DOCUMENTS, source="manual")
        request.rerank([("b", 0.9), ("a", 0.1)], model="ranker")
        request.context(DOCUMENTS[:1])
        request.first_token()
        request.answer(
            "50 MB [1]",
            citations=[("a", "[1]")],
            usage={"input_tokens": 90, "output_tokens": 4},
            model="m",
            cost_usd=0.002,
        )
        request.outcome("partial", reason="only one edition")
    trace = read(bodies())
    assert (trace.trace_id, trace.app, trace.version) == (request.trace_id, "shop", "7")
    assert (trace.query, trace.rewritten_query, trace.answer) == ("上传上限是多少？", "上传 上限", "50 MB [1]")
    assert (trace.outcome, trace.outcome_source, trace.outcome_reason) == (
        Outcome.PARTIAL,
        "recorded",
        "only one edition",
    )
    assert [(d.id, d.rank, d.score, d.text) for d in trace.candidates or ()] == [
        ("a", 1, 2.5, "上传上限为 50 MB。"),
        ("b", 2, 1.0, "second"),
    ]
    assert [(d.id, d.rank, d.score, d.text) for d in trace.reranked or ()] == [
        ("b", 1, 0.9, "second"),
        ("a", 2, 0.1, "上传上限为 50 MB。"),
    ]
    assert [d.id for d in trace.context or ()] == ["a"]
    assert [(c.document_id, c.marker) for c in trace.citations] == [("a", "[1]")]
    assert (trace.usage.input_tokens, trace.usage.output_tokens, trace.usage.cost_usd) == (90, 4, 0.002)
    assert (trace.model, trace.session, trace.incomplete) == ("m", "s-1", False)
    assert trace.time_to_first_token_seconds is not None and trace.duration_seconds > 0
    assert [stage.name for stage in trace.stages] == ["rewrite", "candidates", "rerank", "context", "answer"]
    assert trace.flags == ("text_joined_by_id",)


def test_a_failed_request_arrives_with_its_error(bodies):
    with pytest.raises(ValueError), groundwatch.request("q"):
        raise ValueError("no")
    failed = read(bodies())
    assert (failed.outcome, failed.error_class) == (Outcome.ERROR, "ValueError")


def test_a_retry_is_counted_and_is_no_error_of_the_request(bodies):
    with groundwatch.request("q") as request:
        request.retry("answer", TimeoutError("slow"))
        request.answer("a")
    trace = read(bodies())
    assert (trace.outcome, trace.error_class, trace.retries) == (Outcome.ANSWERED, "", 1)


def test_an_empty_search_is_known_to_be_empty(bodies):
    with groundwatch.request("q") as request:
        request.candidates([])
    assert read(bodies()).candidates == ()


def test_feedback_of_the_sdk_is_understood(bodies):
    groundwatch.feedback("1" * 32, name="thumbs", label="down", comment="错了", id="f-1")
    (body,) = (body for path, body in bodies() if path == "/v1/feedback")
    found = feedback.read(read_feedback(body, Limits())[1], 5.0)
    assert (found.id, found.trace_id, found.sentiment, found.comment) == ("f-1", "1" * 32, "negative", "错了")
