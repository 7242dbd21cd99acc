"""An OpenAI-compatible server on loopback that behaves, misbehaves and lies as it is told: real HTTP, no model."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from local_server import served

from groundwatch_collector.ragtrace import Document, Outcome, RagTrace

Answer = Callable[["Handler", dict[str, Any]], None]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        self.server.paths.append(self.path)
        script = self.server.script
        answer = script.pop(0) if len(script) > 1 else script[0]
        try:
            answer(self, body)
        except (BrokenPipeError, ConnectionResetError):  # the client gave up, as some tests want
            self.close_connection = True

    def respond(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in ({"Content-Type": "application/json"} | headers).items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *script: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = list(script)
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.released = threading.Event()  # ends the handlers that hang

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def data(self, index: int = -1) -> dict[str, Any]:
        """The JSON object that was put before the model."""
        user = next(m for m in self.requests[index]["messages"] if m["role"] == "user")
        found: dict[str, Any] = json.loads(user["content"])
        return found


@contextmanager
def serving(*script: Answer) -> Iterator[Server]:
    """Answer request by request with *script*; its last entry answers all that follow."""
    with served(Server(*script)) as server:
        try:
            yield server
        finally:
            server.released.set()


def completion(content: Any, finish: str = "stop", **message: Any) -> bytes:
    usage = {"prompt_tokens": 1000, "completion_tokens": 200, "total_tokens": 1200}
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
    return json.dumps({"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage}).encode()


def says(content: Any, finish: str = "stop", **message: Any) -> Answer:
    return lambda handler, _body: handler.respond(200, completion(content, finish, **message))


def status(code: int, message: str = "no", **headers: str) -> Answer:
    body = json.dumps({"error": {"message": message, "type": "x", "param": None, "code": None}}).encode()
    return lambda handler, _body: handler.respond(code, body, **headers)


def raw(body: bytes, **headers: str) -> Answer:
    return lambda handler, _body: handler.respond(200, body, **headers)


def hangs(handler: Handler, _body: dict[str, Any]) -> None:
    handler.server.released.wait(10)
    handler.close_connection = True


def drips(handler: Handler, _body: dict[str, Any]) -> None:
    """Sends a byte now and then, each within the timeout of one read."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    while not handler.server.released.wait(0.02):
        handler.wfile.write(b" ")
        handler.wfile.flush()
    handler.close_connection = True


def breaks_off(handler: Handler, _body: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.close_connection = True


# --- traces and an honest model -------------------------------------------------------------------------------------

LIMIT = Document("up-1", 1, 0.9, "Free accounts may upload files of up to 25 MB. Larger files need the Pro edition.")
KEEP = Document("keep-1", 2, 0.5, "Backups are kept for 30 days. “Deleted” files can be restored\nwithin that time.")
OTHER = Document("other-1", 3, 0.2, "The team edition has a shared calendar.")


def make_trace(answer: str | None = "Free accounts can upload files up to 25 MB.", **changes: Any) -> RagTrace:
    fields: dict[str, Any] = {
        "trace_id": "t",
        "app": "shop",
        "version": "v1",
        "started_at": 1_700_000_000.0,
        "duration_seconds": 0.5,
        "outcome": Outcome.ANSWERED,
        "outcome_source": "recorded",
        "query": "How large may my files be?",
        "answer": answer,
        "context": (LIMIT, KEEP),
        "candidates": (LIMIT, KEEP, OTHER),
    }
    return RagTrace(**(fields | changes))


Edit = Callable[[dict[str, Any], dict[str, Any]], None]


def honest(data: dict[str, Any]) -> dict[str, Any]:
    """What a good model would reply about LIMIT: what says "25 MB" is supported, the rest is not mentioned."""

    def claim(sentence: dict[str, str]) -> dict[str, Any]:
        known = "25 MB" in sentence["text"]
        quote = [{"chunk_id": "c1", "quote": "upload files of up to 25 MB"}]
        return {
            "sentence_id": sentence["id"],
            "text": sentence["text"],
            "evidence": quote if known else [],
            "reason": "The passage says so." if known else "No passage says so.",
            "label": "supported" if known else "not_mentioned",
        }

    relevance = {"25 MB": "relevant"}
    return {
        "claims": [claim(s) for s in data["sentences"]],
        "chunks": [
            {"id": c["id"], "relevance": next((r for w, r in relevance.items() if w in c["text"]), "irrelevant")}
            for c in data["chunks"]
        ],
        "retrieved": [{"id": c["id"], "relevance": "irrelevant"} for c in data["retrieved"]],
        "answerability": {"reason": "The size is given.", "label": "FULL"},
        "retrieved_answerability": {"reason": "The size is given.", "label": "FULL"},
        "refusal": "none",
        "answer_relevance": "full",
        "citations": [
            {"sentence_id": s, "chunk_id": c, "label": "supports"}
            for s, ids in data["citations"].items()
            for c in ids
        ],
        "injection_suspected": {"where": "none", "ids": []},
    }


def data_of(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(next(m for m in body["messages"] if m["role"] == "user")["content"])
    return found


def model(edit: Edit | None = None, wrap: str = "{}") -> Answer:
    """An honest model whose reply *edit* changes; *wrap* puts text around it."""

    def answer(handler: Handler, body: dict[str, Any]) -> None:
        data = data_of(body)
        reply = honest(data)
        if edit:
            edit(reply, data)
        handler.respond(200, completion(wrap.replace("{}", json.dumps(reply, ensure_ascii=False))))

    return answer


def control_of(data: dict[str, Any]) -> str:
    found: str = next(
        s["id"] for s in data["sentences"] if "handwritten copies" in s["text"] or "手抄本" in s["text"]
    )
    return found


def first_claim(reply: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(c for c in reply["claims"] if c["sentence_id"] != control_of(data))
    return found
