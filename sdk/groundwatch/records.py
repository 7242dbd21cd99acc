"""What one request was, as plain facts. Filled on the caller's thread, read once by the background worker."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

from groundwatch.documents import Snapshot

MAX_STAGES = 200  # of one request; a loop that forgets to end must not fill the memory
MAX_RETRIES = 100

# Our own generator: a host that calls random.seed(0) must not make every process emit the same ids.
_ids = random.Random()  # noqa: S311


def new_trace_id() -> int:
    return _ids.getrandbits(128) or 1


def new_span_id() -> int:
    return _ids.getrandbits(64) or 1


def reseed_ids() -> None:
    """Draw new randomness, for a forked child."""
    _ids.seed()


class ErrorRecord:
    """An exception without the exception: holding it would hold every frame of its traceback."""

    __slots__ = ("at", "kind", "message", "type_name")

    def __init__(self, kind: str, type_name: str, message: str, at: int) -> None:
        self.kind = kind  # error | timeout | cancelled
        self.type_name = type_name
        self.message = message
        self.at = at  # monotonic ns


class StageRecord:
    __slots__ = (
        "attempts",
        "documents",
        "end",
        "error",
        "input_tokens",
        "model",
        "name",
        "output_tokens",
        "parent_id",
        "source",
        "span_id",
        "start",
        "text",
    )

    def __init__(self, name: str, parent_id: int, start: int, end: int = 0) -> None:
        self.name = name
        self.span_id = 0  # drawn when somebody asks for it: see open_span_id
        self.parent_id = parent_id
        self.start = start  # monotonic ns
        self.end = end  # monotonic ns; 0 = still open
        self.documents: Snapshot | None = None
        self.text: str | None = None  # the rewritten query
        self.source: str | None = None
        self.model: str | None = None
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None
        self.attempts = 1
        self.error: ErrorRecord | None = None

    def open_span_id(self) -> int:
        """The id of its span. Drawn once: here where spans nest under it, else by the background worker."""
        if not self.span_id:
            self.span_id = new_span_id()
        return self.span_id


class RequestRecord:
    __slots__ = (
        "answer",
        "answer_cut",
        "citations",
        "cost_usd",
        "end",
        "error",
        "first_token",
        "flags",
        "input_tokens",
        "lane",
        "link",
        "lock",
        "mark",
        "model",
        "name",
        "outcome",
        "outcome_reason",
        "output_tokens",
        "parent",
        "query",
        "retries",
        "session",
        "size",
        "span_id",
        "stages",
        "start",
        "started_at_ns",
        "trace_id",
        "user",
    )

    def __init__(self, trace_id: int) -> None:
        self.trace_id = trace_id
        self.span_id = new_span_id()
        self.parent: Any = None  # SpanContext of the span that the request runs in
        self.link: Any = None  # SpanContext that is related, but not the parent
        self.started_at_ns = time.time_ns()
        self.start = self.mark = time.monotonic_ns()
        self.end = 0
        self.name: str | None = None
        self.query: str | None = None
        self.session: str | None = None
        self.user: str | None = None
        self.stages: list[StageRecord] = []
        self.answer: str | None = None
        self.answer_cut = 0  # characters of a stream that were not kept
        self.citations: list[Any] | None = None
        self.model: str | None = None
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None
        self.cost_usd: float | None = None
        self.first_token: int | None = None  # monotonic ns
        self.outcome: str | None = None
        self.outcome_reason: str | None = None
        self.error: ErrorRecord | None = None
        self.retries: list[tuple[str, ErrorRecord | None, int]] = []
        self.flags: set[str] = set()
        self.lane: Any = None  # the queue of the process that opened it
        self.size = 2000  # estimated bytes held
        self.lock = threading.RLock()  # a stream collected as garbage may come back here

    def epoch_ns(self, monotonic_ns: int) -> int:
        """Turn a monotonic reading into a wall time that no clock step can put before the start."""
        return self.started_at_ns + (monotonic_ns - self.start)
