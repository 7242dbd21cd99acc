"""Which state a request ended in, when the application did not say."""

from __future__ import annotations

import asyncio
from typing import Literal

from groundwatch import names
from groundwatch.records import ErrorRecord, RequestRecord

Failure = Literal["error", "timeout", "cancelled"]

_FAILURES = ("error", "timeout", "cancelled")


def failure_of(error: BaseException) -> Failure:
    """Sort an exception. By name too, because clients bring their own classes (APITimeoutError, DeadlineExceeded)."""
    name = type(error).__name__
    if isinstance(error, asyncio.CancelledError | GeneratorExit | KeyboardInterrupt | SystemExit):
        return "cancelled"
    if "Cancelled" in name or "Canceled" in name or name == "ClientDisconnect":
        return "cancelled"
    if isinstance(error, TimeoutError) or "Timeout" in name or "DeadlineExceeded" in name:
        return "timeout"
    return "error"


def error_record(error: BaseException, at: int, *, with_message: bool) -> ErrorRecord:
    kind = type(error)
    module = getattr(kind, "__module__", "")
    name = kind.__qualname__ if module in ("builtins", "") else f"{module}.{kind.__qualname__}"
    name = name[:512].encode("utf-8", "replace").decode()  # classes can be made at run time, with any name
    return ErrorRecord(failure_of(error), name, _message(error) if with_message else "", at)


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a broken __str__ of the host's class
        return ""


def decide(record: RequestRecord, escaped: ErrorRecord | None) -> str:
    """Name the outcome of *record*. ``refused`` is never guessed: only the application knows.

    What the application recorded stands, except that an exception which escapes afterwards makes a completed
    outcome untrue. A cancellation does not: the client may leave after it has the answer.
    """
    recorded = record.outcome
    if escaped is not None:
        record.error = escaped
        if escaped.kind != "cancelled":
            return recorded if recorded in _FAILURES else escaped.kind
        return recorded or "cancelled"
    if recorded:
        return recorded
    if record.answer is None and record.error is not None:
        return record.error.kind
    if record.answer is not None:
        return "answered"
    return "no_result" if known_empty(record) else "unknown"


def known_empty(record: RequestRecord) -> bool:
    """Whether retrieval ran, and found nothing."""
    found = [s.documents.total for s in record.stages if s.name == "candidates" and s.documents is not None]
    return bool(found) and not any(found)


def known_word(outcome: object) -> str | None:
    """The outcome as the closed set spells it, or None."""
    word = str.__str__(outcome).strip().lower() if isinstance(outcome, str) else ""
    return word if word in names.OUTCOMES else None
