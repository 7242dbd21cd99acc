"""The one client of a process: configure, hand out requests, flush, survive forks, flush at exit."""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import TYPE_CHECKING, Any, TypeVar, overload

from groundwatch import feedback_signing, sigterm
from groundwatch.documents import number
from groundwatch.handle import IDLE, Request, _parse_trace_id, open_request
from groundwatch.lane import Feedback, FlushResult, Lane, Stats
from groundwatch.outgoing import SLACK_CHARS, Outgoing, keyed_hash
from groundwatch.quiet import already_told, internal_errors, logger, note_internal_error, tell_once
from groundwatch.records import RequestRecord, reseed_ids
from groundwatch.settings import ConfigurationError, Redact, Settings, redact_hook, resolve

if TYPE_CHECKING:  # importing this loads nothing of the OpenTelemetry SDK
    from opentelemetry.sdk.trace.export import SpanExporter

F = TypeVar("F", bound=Callable[..., Any])

ADOPTED_TRACES = 4096  # surrounding traces remembered, to give a second request in one of them its own


class Client:
    """Implements :class:`groundwatch.handle.Recorder`."""

    def __init__(self, settings: Settings) -> None:
        # Now, not in the background: a fork in the middle of an import leaves the child a lock that never opens.
        from groundwatch.worker import Worker, load_exporter  # noqa: PLC0415

        load_exporter(settings)
        self._make_worker = Worker
        self.settings = settings
        self.keeps_text = settings.capture_content == "text"
        self.keep_chars = settings.max_text_chars + SLACK_CHARS if self.keeps_text else 0
        self._fresh()

    def _fresh(self) -> None:
        """A queue and a worker of this process alone. A forked child calls it: the parent sends what it holds."""
        self.lane = Lane(self.settings.queue_size, self.settings.queue_bytes)
        self._worker: Any = None
        self._thread: threading.Thread | None = None
        self._starting = threading.RLock()
        self._launching = False
        self._adopted: OrderedDict[int, None] = OrderedDict()
        self._adopting = threading.Lock()
        self._pid = os.getpid()  # last: until then finalizers in a child take themselves for copies, which they are

    def accept(self, record: RequestRecord) -> None:
        """Queue an ended request. One that a fork copied belongs to the process that opened it."""
        if record.lane is not self.lane:
            return
        self.lane.put(record)
        self._run()

    def is_here(self, pid: Callable[[], int] = os.getpid, ending: Callable[[], bool] = sys.is_finalizing) -> bool:
        """Whether what is dropped now can still be recorded: in this process, before its modules are taken apart."""
        return not ending() and self._pid == pid()

    def adopt(self, trace_id: int) -> bool:
        """True the first time that a request runs in the surrounding trace *trace_id*."""
        with self._adopting:
            if trace_id in self._adopted:
                return False
            self._adopted[trace_id] = None
            if len(self._adopted) > ADOPTED_TRACES:
                self._adopted.popitem(last=False)
            return True

    def _run(self) -> None:
        thread = self._thread
        if thread is not None and thread.is_alive():
            return
        with self._starting:
            if self._launching or (self._thread is not None and self._thread.is_alive()):
                return
            self._launching = True
            try:
                self._worker = self._make_worker(self.settings, self.lane, sdk_version())
                self._thread = self._worker.start()
            finally:
                self._launching = False

    def feedback_token(self, trace_id: int, user: str | None) -> str:
        keys = self.settings.feedback_keys
        if not keys:
            tell_once("feedback_key", "groundwatch: no feedback key is configured; feedback tokens are empty")
            return ""
        subject = "" if user is None else keyed_hash(self.settings.user_hash_key, user)
        return feedback_signing.make(keys[0], f"{trace_id:032x}", subject)

    def send_feedback(self, feedback: Feedback) -> None:
        if self.lane.put_feedback(feedback):
            self._run()

    def flush(self, timeout_seconds: float) -> FlushResult:
        if self.lane.pending():
            self._run()
        return self.lane.flush(timeout_seconds)

    def close(self, timeout_seconds: float) -> FlushResult:
        """Flush, then end the worker. What is left is counted as lost."""
        result = self.flush(timeout_seconds)
        self.lane.end(accept_more=False)
        if result.pending:
            self.lane.give_up()
            logger.warning("groundwatch: %d requests or feedback could not be sent before the end", result.pending)
            if self._worker is not None:
                self._worker.abort()
        return result


_client: Client | None = None
_hooked = False


def configure(
    *,
    service: str | None = None,
    version: str | None = None,
    endpoint: str | None = None,
    capture_content: str | None = None,
    redact: Callable[[str], str] | str | None = None,
    environment: str | None = None,
    protocol: str | None = None,
    headers: Mapping[str, str] | str | None = None,
    compression: str | None = None,
    feedback_endpoint: str | None = None,
    user_hash_key: str | None = None,
    feedback_key: str | None = None,
    max_text_chars: int | None = None,
    max_documents: int | None = None,
    max_span_bytes: int | None = None,
    max_batch_bytes: int | None = None,
    queue_size: int | None = None,
    queue_bytes: int | None = None,
    export_timeout_seconds: float | None = None,
    exit_timeout_seconds: float | None = None,
    flush_at_sigterm: bool | None = None,
) -> None:
    """Start recording. Each argument can also come from ``GROUNDWATCH_<NAME>``; some from ``OTEL_*``.

    Raises :class:`ConfigurationError` on a value it cannot use; after it, nothing here raises. A second call
    replaces the first: what waits is still sent, to where the first call said.
    """
    global _client
    settings = resolve(dict(locals()), os.environ)
    client = None if settings.disabled else Client(settings)
    former, _client = _client, client
    if former is not None:
        former.lane.end(accept_more=True)
    if client is None:
        logger.warning("groundwatch: nothing is recorded: %s", settings.disabled)
        already_told("unconfigured")
        return
    _hook_process()
    if settings.flush_at_sigterm:
        sigterm.hook(_at_exit, settings.exit_timeout_seconds)


def request(
    query: Any,
    *,
    session: str | None = None,
    user: str | None = None,
    name: str | None = None,
    trace_id: str | None = None,
    traceparent: str | None = None,
) -> Request:
    """Open a request: ``with groundwatch.request(question) as r:``, or ``async with``.

    *user* leaves the process only as a keyed hash. *trace_id* sets the trace (32 hexadecimal digits or a UUID);
    *traceparent*, the header of that name, makes it the caller's. Without them the surrounding OpenTelemetry span's
    trace is used when there is one.
    """
    client = _client
    if client is None:
        tell_once("unconfigured", "groundwatch: configure() was not called; nothing is recorded")
        return IDLE
    try:
        return open_request(
            client, query, session=session, user=user, name=name, trace_id=trace_id, traceparent=traceparent
        )
    except Exception as error:
        note_internal_error("request", error)
        return IDLE


@overload
def traced(function: F) -> F: ...
@overload
def traced(
    *, query: str | None = None, session: str | None = None, user: str | None = None, name: str | None = None
) -> Callable[[F], F]: ...
def traced(
    function: Any = None,
    *,
    query: str | None = None,
    session: str | None = None,
    user: str | None = None,
    name: str | None = None,
) -> Any:
    """Make each call of a function one request; sync, async, generator and async generator functions.

    *query*, *session* and *user* name parameters of the function. Without *query*, a parameter called query,
    question, q, prompt, message or user_input is taken. Inside, ``groundwatch.current()`` is the request.
    """
    from groundwatch.decorator import trace  # noqa: PLC0415

    def decorate(wrapped: F) -> F:
        return trace(wrapped, request, query=query, session=session, user=user, name=name)

    return decorate if function is None else decorate(function)


def feedback(
    trace_id: str,
    *,
    name: str = "thumbs",
    score: float | None = None,
    label: str | None = None,
    comment: str | None = None,
    user: str | None = None,
    token: str | None = None,
    id: str | None = None,
) -> str:
    """Send what a user said about an answer, from any configured process. Returns the feedback's id.

    *token*: what ``feedback_token`` gave for this trace; a collector with a feedback key takes nothing without it.
    Pass on what came back from the front end: it is the proof that this trace was shown to them. One vote counts for
    each trace, user and name: a later one takes the place of the one before. Delivery is in the background, with
    retries.
    """
    ident = str(id) if id is not None else uuid.uuid4().hex
    try:
        _queue_feedback(
            trace_id, name=name, score=score, label=label, comment=comment, user=user, token=token, ident=ident
        )
    except Exception as error:
        note_internal_error("feedback", error)
    return ident


def feedback_token(trace_id: str, *, user: str | None = None) -> str:
    """Permission to give feedback on the trace *trace_id*: send it to the front end together with the answer.

    With *user*, the votes that are cast with it count as that user's. "" when no ``feedback_key`` is configured.
    """
    client = _client
    if client is None:
        tell_once("unconfigured", "groundwatch: configure() was not called; nothing is recorded")
        return ""
    try:
        trace = _parse_trace_id(trace_id, "it gets no feedback token")
        return client.feedback_token(trace, None if user is None else str(user)) if trace else ""
    except Exception as error:
        note_internal_error("feedback_token", error)
        return ""


def _queue_feedback(
    trace_id: str,
    *,
    name: str,
    score: float | None,
    label: str | None,
    comment: str | None,
    user: str | None,
    token: str | None,
    ident: str,
) -> None:
    client = _client
    if client is None:
        tell_once("unconfigured", "groundwatch: configure() was not called; nothing is recorded")
        return
    settings, lane = client.settings, client.lane
    trace = _parse_trace_id(trace_id, "feedback on it has nowhere to go")
    if not trace or not settings.feedback_url:
        reason = "no_endpoint" if trace else "bad_trace_id"
        with lane.changed:
            lane.feedback_dropped[reason] += 1
        tell_once(f"feedback:{reason}", "groundwatch: feedback was dropped (%s)", reason)
        return
    points = float(score) if isinstance(score, bool) else number(score)
    if score is not None and points is None:
        tell_once("feedback:bad_score", "groundwatch: a feedback score is not a finite number; sent without it")
    out = Outgoing(settings.redact, settings.max_text_chars)
    body = {
        "trace_id": f"{trace:032x}",
        "name": out.name(name, "name") or "",
        "score": points,
        "label": out.name(label, "label") or "",
        "comment": _comment(comment, out, client),
        "by": keyed_hash(settings.user_hash_key, str(user)) if user is not None else "",
        "id": out.name(ident, "id") or uuid.uuid4().hex,
    }
    if token:
        body["token"] = str(token)
    lane.redaction_failures += out.redaction_failures
    client.send_feedback(Feedback(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")))


def _comment(comment: str | None, out: Outgoing, client: Client) -> str:
    if not comment:
        return ""
    if not client.keeps_text:
        tell_once(
            "feedback_comment",
            "groundwatch: feedback comments are text; they are sent only with capture_content='text'",
        )
        return ""
    return out.text(comment, "comment") or ""


def redacting(exporter: SpanExporter, *, redact: Redact | str | None = None) -> SpanExporter:
    """An exporter for the spans of other instrumentors, in which every string goes through the ``redact`` hook.

    ``BatchSpanProcessor(groundwatch.redacting(OTLPSpanExporter()))``. The hook is *redact*, else the one that
    ``configure()`` was given; without either it raises :class:`ConfigurationError`.
    """
    from groundwatch.foreign_spans import RedactingExporter  # noqa: PLC0415

    hook = redact_hook(redact) or (_client.settings.redact if _client is not None else None)
    if hook is None:
        raise ConfigurationError("redacting() has no hook: pass redact=, or call configure(redact=...) before it")
    return RedactingExporter(exporter, hook)


def flush(timeout_seconds: float = 5.0) -> FlushResult:
    """Wait until everything that ended is sent, at most *timeout_seconds*; shorter when the receiver is away."""
    client = _client
    if client is None:
        return FlushResult(0, 0, 0)
    try:
        return client.flush(timeout_seconds)
    except Exception as error:
        note_internal_error("flush", error)
        return FlushResult(0, 0, client.lane.pending())


def shutdown(timeout_seconds: float = 5.0) -> FlushResult:
    """Flush and stop recording. Afterwards the SDK does nothing, until ``configure()`` is called again."""
    global _client
    client, _client = _client, None
    if client is None:
        return FlushResult(0, 0, 0)
    try:
        return client.close(timeout_seconds)
    except Exception as error:
        note_internal_error("shutdown", error)
        return FlushResult(0, 0, client.lane.pending())


def stats() -> Stats:
    """Running totals of this process, for the application's own monitoring."""
    client = _client
    return Stats(internal_errors=internal_errors()) if client is None else client.lane.stats(internal_errors())


def sdk_version() -> str:
    try:
        return installed_version("groundwatch")
    except PackageNotFoundError:
        return "0"


# --- the process around us


def _hook_process() -> None:
    """Once per process tree, and not at import."""
    global _hooked  # noqa: PLW0603
    if not _hooked:
        _hooked = True
        atexit.register(_at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_after_fork)
    _hook_multiprocessing()


def _at_exit() -> None:
    client = _client
    if client is not None and client.lane.pending():
        shutdown(client.settings.exit_timeout_seconds)


def _after_fork() -> None:
    """Runs in the child before anything else: no lock of the parent may be touched."""
    reseed_ids()
    if _client is not None:
        _client._fresh()
        _hook_multiprocessing()


def _hook_multiprocessing() -> None:
    """Children of multiprocessing, and of celery's copy of it, end without running atexit."""
    _hook_celery()
    for module in ("multiprocessing.util", "billiard.util"):
        loaded = sys.modules.get(module)
        if loaded is not None and (os.getpid(), module) not in _hooked_modules:
            _hooked_modules.add((os.getpid(), module))
            _finish_with(loaded)


def _hook_celery() -> None:
    """A worker of celery's prefork pool ends by ``os._exit``, right after this signal."""
    signals = sys.modules.get("celery.signals")
    if signals is None:
        return
    try:
        signals.worker_process_shutdown.connect(_at_worker_exit, weak=False, dispatch_uid="groundwatch")
    except Exception as error:
        note_internal_error("celery", error)


def _at_worker_exit(**_signal: Any) -> None:
    _at_exit()


_hooked_modules: set[tuple[int, str]] = set()


def _finish_with(util: Any) -> None:
    def register(_key: object) -> None:
        util.Finalize(None, _at_exit, exitpriority=10)

    try:
        register(None)
        util.register_after_fork(_at_exit, register)  # a child clears what its parent registered
    except Exception as error:
        note_internal_error("multiprocessing", error)
