"""The handle that an application holds while it answers one question."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar, cast, overload

from opentelemetry import context

from groundwatch import documents as docs
from groundwatch import names
from groundwatch.nesting import Attachment, OpenSpan, calling_span, context_for, current_scope, surroundings
from groundwatch.outcomes import decide, error_record, known_word
from groundwatch.quiet import note_internal_error, quiet, tell_once
from groundwatch.records import (
    MAX_RETRIES,
    MAX_STAGES,
    ErrorRecord,
    RequestRecord,
    StageRecord,
    new_trace_id,
)
from groundwatch.scoped import Scoped
from groundwatch.streaming import AsyncStream, SyncStream
from groundwatch.values import amount_of, text_of, tokens_of

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Recorder(Protocol):
    """Where ended requests go. The client implements it; a request only knows this much of it."""

    @property
    def keeps_text(self) -> bool: ...
    @property
    def keep_chars(self) -> int: ...
    @property
    def lane(self) -> Any: ...
    def accept(self, record: RequestRecord) -> None: ...
    def is_here(self) -> bool: ...
    def adopt(self, trace_id: int) -> bool: ...
    def feedback_token(self, trace_id: int, user: str | None) -> str: ...


class Request(Scoped):
    """One request. A context manager, sync and async; or ended by the stream that carries its answer."""

    __slots__ = (
        "__weakref__",
        "_attachment",
        "_ended",
        "_escaped",
        "_holds",
        "_nested",
        "_record",
        "_recorder",
        "_text",
    )

    def __init__(self, recorder: Recorder, record: RequestRecord) -> None:
        self._recorder = recorder
        self._record: RequestRecord = record
        record.lane = recorder.lane
        self._text = recorder.keeps_text
        self._attachment: Attachment | None = None
        self._holds = 0  # who keeps it open: the with block, and each running stream
        self._nested = False  # a stage of it was opened, so a call may belong to that
        self._ended = False
        self._escaped: ErrorRecord | None = None

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits; give it to the front end, feedback comes back with it."""
        return f"{self._record.trace_id:032x}"

    @property
    def feedback_token(self) -> str:
        """Permission to give feedback on this answer, as this request's user; "" without a ``feedback_key``.

        The front end posts it back with the trace id, to the application or straight to the collector.
        """
        try:
            return self._recorder.feedback_token(self._record.trace_id, self._record.user)
        except Exception as error:
            note_internal_error("feedback_token", error)
            return ""

    # --- open and close

    def __del__(self) -> None:
        # Dropped without an end: what is known of it still counts. Not in a forked child: there it is a copy.
        if not self._ended and self._recorder.is_here():
            self._abandon()

    @quiet
    def end(self) -> None:
        """End a request that was not opened with ``with``."""
        self._finish()

    @quiet
    def _enter(self) -> None:
        self._hold()
        self._attachment = Attachment(context_for(self, OpenSpan(self._record, self._record.span_id)))

    @quiet
    def _exit(self, error: BaseException | None) -> None:
        attachment, self._attachment = self._attachment, None
        if attachment is not None:
            attachment.restore()
        self._release(error)

    @quiet
    def _abandon(self) -> None:
        self._record.outcome = self._record.outcome or ("cancelled" if self._record.answer is None else None)
        self._record.flags.add("abandoned")
        self._finish()

    def _hold(self) -> None:
        with self._record.lock:
            self._holds += 1

    def _release(self, error: BaseException | None = None) -> None:
        """One holder lets go; the last one ends the request. The first exception that escaped decides."""
        if error is not None and self._escaped is None:
            self._escaped = self._error_record(error)
        with self._record.lock:
            self._holds -= 1
            last = self._holds <= 0
        if last:
            self._finish()

    def _finish(self) -> None:
        record = self._record
        with record.lock:
            if self._ended:
                return
            self._ended = True
        now = time.monotonic_ns()
        for stage in record.stages:
            if not stage.end:
                stage.end = now
        record.outcome = decide(record, self._escaped)
        record.end = now
        self._recorder.accept(record)

    # --- stages

    def stage(self, name: str, *, source: str | None = None, model: str | None = None) -> Stage:
        """Time a stage: ``with r.stage("candidates") as s: s.documents(...)``. Other names than ours are welcome."""
        return Stage(self, str(name), source, model)

    @quiet
    def rewrite(self, text: str, *, model: str | None = None) -> None:
        """Record the query that is really sent to the retriever."""
        stage = self._stage_for("rewrite")
        stage.model = model or stage.model
        self._set_stage_text(stage, text)

    @quiet
    def candidates(self, documents: Sequence[Any], *, source: str | None = None) -> None:
        """Record what retrieval found, best first. Call it with ``[]`` when it found nothing."""
        stage = self._stage_for("candidates")
        stage.source = source or stage.source
        self._set_documents(stage, documents)

    @quiet
    def rerank(self, documents: Sequence[Any], *, model: str | None = None) -> None:
        """Record the documents in the order that the reranker gave them."""
        stage = self._stage_for("rerank")
        stage.model = model or stage.model
        self._set_documents(stage, documents)

    @quiet
    def context(self, documents: Sequence[Any] | str) -> None:
        """Record the documents that were really sent to the model."""
        self._set_documents(self._stage_for("context"), documents)

    @quiet
    def answer(
        self,
        text: Any,
        *,
        citations: Sequence[Any] | None = None,
        usage: Any = None,
        model: str | None = None,
        cost_usd: float | None = None,
    ) -> None:
        """Record the answer; *citations* are document ids, ``(id, marker)`` or ``{"id":, "marker":}``."""
        self._set_answer(self._stage_for("answer"), text, usage, model)
        record = self._record
        if citations is not None:
            record.citations = [c if isinstance(c, (str, int)) else docs._copy(c) for c in list(citations)]
        if cost_usd is not None:
            record.cost_usd = amount_of(cost_usd)
            if record.cost_usd is None:
                record.flags.add("bad_cost")

    @quiet
    def first_token(self) -> None:
        """Mark the moment at which the user saw the first token. Only the first call counts."""
        if self._record.first_token is None and self._open("first_token"):
            self._record.first_token = time.monotonic_ns()

    @quiet
    def outcome(self, state: str, reason: str | None = None) -> None:
        """Record how the request ended: answered, partial, refused, no_result, error, timeout, cancelled, unknown."""
        if not self._open("outcome"):
            return
        word = known_word(state)
        self._record.outcome_reason = reason
        if word is None:
            tell_once(
                "unknown_outcome",
                "groundwatch: an outcome is not one of %s; recorded as unknown",
                ", ".join(names.OUTCOMES),
            )
            self._record.flags.add("unknown_outcome")
            self._record.outcome_reason = reason or f"outcome {state!r}"[:200]
        self._record.outcome = word or "unknown"

    @quiet
    def retry(self, stage: str, error: BaseException | None = None) -> None:
        """Record that *stage* failed with *error* and is tried again."""
        if not self._open("retry"):
            return
        record = self._record
        if len(record.retries) >= MAX_RETRIES:
            record.flags.add("retries_cut")
            return
        at = time.monotonic_ns()
        record.retries.append((str(stage), self._error_record(error) if error is not None else None, at))

    @quiet
    def error(self, error: BaseException) -> None:
        """Record a failure that the application handles itself. An answer recorded later makes it a recovered one."""
        if self._open("error"):
            self._record.error = self._error_record(error)

    @overload
    def stream(
        self, source: Iterable[T], *, text: Callable[[T], str | None] | None = None, model: str | None = None
    ) -> SyncStream[T]: ...
    @overload
    def stream(
        self, source: AsyncIterable[T], *, text: Callable[[T], str | None] | None = None, model: str | None = None
    ) -> AsyncStream[T]: ...
    def stream(
        self, source: Any, *, text: Callable[[Any], str | None] | None = None, model: str | None = None
    ) -> Any:
        """Pass *source* through: its first chunk is the first token, its text the answer, its end the end.

        The request stays open until the stream ends, also when the ``with`` block is left before. A stream that
        is dropped half-way is ``cancelled`` with the text so far. *text* reads a chunk that we cannot.
        """
        return self._through(source, text, model, whole=False)

    def _through(self, source: Any, text: Callable[[Any], str | None] | None, model: str | None, whole: bool) -> Any:
        try:
            if hasattr(source, "__aiter__"):
                return AsyncStream(self, source, text or text_of, model, whole)
            return SyncStream(self, source, text or text_of, model, whole)
        except Exception as error:
            note_internal_error("stream", error)
            return source

    # --- shared by handle, stages and streams

    def _open(self, what: str) -> bool:
        if self._ended:
            tell_once(f"late:{what}", "groundwatch: %s() was called after its request had ended; not recorded", what)
        return not self._ended

    def _error_record(self, error: BaseException) -> ErrorRecord:
        return error_record(error, time.monotonic_ns(), with_message=self._text)

    def _stage_for(self, name: str) -> StageRecord:
        """The open stage of that name in this execution context, or one that lasted from the last mark to now."""
        if self._nested:
            scope = current_scope()
            if isinstance(scope, Stage) and scope._request is self and scope._record.name == name:
                return scope._record
        now = time.monotonic_ns()
        stage = StageRecord(name, self._record.span_id, self._record.mark, now)
        self._add_stage(stage)
        self._record.mark = now
        return stage

    def _add_stage(self, stage: StageRecord) -> None:
        if not self._open(stage.name):
            return
        if len(self._record.stages) >= MAX_STAGES:
            self._record.flags.add("stages_cut")
            return
        self._record.stages.append(stage)

    def _set_documents(self, stage: StageRecord, documents: Any) -> None:
        taken = docs.snapshot(documents)
        if not self._open(stage.name):
            return
        if taken is None:
            tell_once(
                f"documents:{type(documents).__name__}",
                "groundwatch: documents must be a list; a %s can only be read once and was left alone",
                type(documents).__name__,
            )
            self._record.flags.add("documents_unreadable")
            return
        if not self._text:
            taken.forget_texts()
        stage.documents = taken
        self._record.size += taken.size

    def _set_stage_text(self, stage: StageRecord, text: Any) -> None:
        stage.text = self._kept(text)

    def _set_answer(self, stage: StageRecord, text: Any, usage: Any, model: str | None) -> None:
        record = self._record
        if not self._open("answer"):
            return
        found = text if type(text) is str else text_of(text)
        if found is None and text is not None:
            record.flags.add("answer_unreadable")
        record.answer = self._kept(found) if found is not None else record.answer
        stage.model = model or stage.model
        record.model = stage.model or record.model
        self._add_usage(stage, usage)

    def _add_usage(self, stage: StageRecord, usage: Any) -> None:
        stage.input_tokens, stage.output_tokens = tokens_of(usage)
        record = self._record
        record.input_tokens = stage.input_tokens if stage.input_tokens is not None else record.input_tokens
        record.output_tokens = stage.output_tokens if stage.output_tokens is not None else record.output_tokens

    def _kept(self, text: Any) -> str | None:
        """The text, or "" where only the fact that there was one is wanted."""
        found = text if type(text) is str else text_of(text)
        if found is None:
            return None
        if not self._text:
            return ""
        self._record.size += docs.estimated_bytes(found)
        return found


class Stage(Scoped):
    """One timed stage of a request."""

    __slots__ = ("_attachment", "_record", "_request")

    def __init__(self, request: Request, name: str, source: str | None, model: str | None) -> None:
        self._request: Request = request
        scope = current_scope() if request._nested else None
        outer = scope._record.open_span_id() if isinstance(scope, Stage) and scope._request is request else None
        self._record: StageRecord = StageRecord(name, outer or request._record.span_id, time.monotonic_ns())
        self._record.source = source
        self._record.model = model
        self._attachment: Attachment | None = None

    @quiet
    def _enter(self) -> None:
        request, record = self._request, self._record
        request._nested = True
        record.start = time.monotonic_ns()
        request._add_stage(record)
        self._attachment = Attachment(context_for(self, OpenSpan(request._record, record.open_span_id())))

    @quiet
    def _exit(self, error: BaseException | None) -> None:
        attachment, self._attachment = self._attachment, None
        if attachment is not None:
            attachment.restore()
        now = time.monotonic_ns()
        if not self._record.end:
            self._record.end = self._request._record.mark = now
        if error is not None and self._record.error is None:
            self._record.error = self._request._error_record(error)

    @quiet
    def documents(self, documents: Sequence[Any] | str, *, source: str | None = None) -> None:
        """Record the documents that this stage gave."""
        self._record.source = source or self._record.source
        self._request._set_documents(self._record, documents)

    @quiet
    def text(self, text: Any, *, usage: Any = None, model: str | None = None) -> None:
        """Record the text that this stage gave: the rewritten query, or the answer."""
        if self._record.name == "answer":
            self._request._set_answer(self._record, text, usage, model)
        else:
            self._record.model = model or self._record.model
            self._request._set_stage_text(self._record, text)

    @quiet
    def error(self, error: BaseException) -> None:
        """Record a failure of this stage that the application handles itself."""
        self._record.error = self._request._error_record(error)


class _Nowhere:
    """The recorder of requests that nobody asked to see."""

    keeps_text = False
    keep_chars = 0
    lane = None

    def accept(self, record: RequestRecord) -> None:
        """Forget it."""

    def is_here(self) -> bool:
        return True

    def adopt(self, trace_id: int) -> bool:
        return False

    def feedback_token(self, trace_id: int, user: str | None) -> str:
        return ""


class IdleRequest(Request):
    """What there is to hold when nothing is recorded. Shared by everyone, so it keeps nothing."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_Nowhere(), RequestRecord(0))
        self._ended = True

    @property
    def trace_id(self) -> str:
        """Empty: there is no trace."""
        return ""

    def _enter(self) -> None:
        """Attach nothing: a span that is never sent must not become anyone's parent."""

    def _exit(self, error: BaseException | None) -> None: ...

    def stage(self, name: str, *, source: str | None = None, model: str | None = None) -> Stage:
        return _IdleStage(self, "", None, None)

    def _through(self, source: Any, text: Any, model: str | None, whole: bool) -> Any:
        """Give *source* back untouched."""
        return source

    def _open(self, what: str) -> bool:
        return False

    def _stage_for(self, name: str) -> StageRecord:
        return StageRecord(name, 0, 0)

    def _set_documents(self, stage: StageRecord, documents: Any) -> None: ...

    def answer(self, text: Any, **rest: Any) -> None: ...

    def _kept(self, text: Any) -> str | None:
        return None


class _IdleStage(Stage):
    __slots__ = ()

    def _enter(self) -> None: ...

    def _exit(self, error: BaseException | None) -> None: ...


IDLE = IdleRequest()


def open_request(
    recorder: Recorder,
    query: Any,
    *,
    session: str | None = None,
    user: str | None = None,
    name: str | None = None,
    trace_id: str | None = None,
    traceparent: str | None = None,
) -> Request:
    """Start a request now. Its trace is the given one, else the caller's, else the surrounding span's, else new."""
    record = RequestRecord(0)
    _place(record, recorder, trace_id, traceparent)
    request = Request(recorder, record)
    record.name = name
    record.session = None if session is None else str(session)
    record.user = None if user is None else str(user)
    record.query = request._kept(query)
    return request


def _place(record: RequestRecord, recorder: Recorder, wanted: str | None, traceparent: str | None) -> None:
    """Choose the trace. A trace holds one request: a second one in it gets its own, and a link."""
    around, scope = surroundings()
    given = _parse_trace_id(wanted)
    if given:
        record.trace_id = given
        if around is not None:
            record.parent, record.link = (around, None) if around.trace_id == given else (None, around)
        return
    inside_ours = scope is not None and not _scope_record(scope).end
    caller = calling_span(traceparent) if traceparent and not inside_ours else None
    if caller is not None and (around is None or around.trace_id != caller.trace_id):
        record.link, around = around, caller  # the host's own span is of another trace: it did not read the header
    if around is not None and not inside_ours and recorder.adopt(around.trace_id):
        record.trace_id, record.parent = around.trace_id, around
        return
    record.trace_id, record.link = new_trace_id(), around


def _parse_trace_id(wanted: object, then: str = "a new one is used instead") -> int:
    """0 when there is none, or none that can be used; *then* tells the log what becomes of that."""
    if wanted is None:
        return 0
    digits = str(wanted).replace("-", "").strip().lower()  # a UUID is welcome
    if len(digits) == 32 and set(digits) <= set("0123456789abcdef") and int(digits, 16):
        return int(digits, 16)
    tell_once(f"bad_trace_id:{then}", "groundwatch: trace_id must be 32 hexadecimal digits; %s", then)
    return 0


def _scope_record(scope: Any) -> RequestRecord:
    return cast("RequestRecord", scope._request._record if isinstance(scope, Stage) else scope._record)


def current() -> Request:
    """The request that is open in this execution context, or one that records nothing."""
    scope = current_scope()
    if scope is None:
        return IDLE
    request: Request = scope._request if isinstance(scope, Stage) else scope
    return IDLE if request._ended else request


def wrap(function: F) -> F:
    """Carry the open request into another thread: ``executor.submit(groundwatch.wrap(search), query)``."""
    carried = context.get_current()
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            attachment = Attachment(carried)
            try:
                return await function(*args, **kwargs)
            finally:
                attachment.restore()

        return cast("F", call_async)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        attachment = Attachment(carried)
        try:
            return function(*args, **kwargs)
        finally:
            attachment.restore()

    return cast("F", call)
