"""What a monitor says on stderr: a line for each event, few enough to read, and nothing that a user wrote.

A message is ours. The text of an exception may be anybody's (a database quotes the row that it refuses), so of an
exception its kind and the places that it passed are written, and its words only where they are the system's.
"""

from __future__ import annotations

import logging
import sqlite3
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TextIO

LEVELS = ("debug", "info", "warning", "error")
PACKAGES = ("groundwatch", *(f"groundwatch_{part}" for part in ("collector", "scorer", "alerts", "review", "deploy")))
WINDOW_SECONDS = 60.0
MOST_IN_WINDOW = 10  # of one kind of message; enough to see what is going on
MOST_KINDS = 1_000  # of ours there are some dozens; a library may put values into its messages

_Place = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def configure(level: str, stream: TextIO | None = None) -> None:
    """Write to *stream* (stderr), ours from *level* up and those of libraries from "warning" up."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Lines())
    handler.addFilter(Sparing(time.monotonic))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    for package in PACKAGES:
        logging.getLogger(package).setLevel(level.upper())
    threading.excepthook = _died


def _died(died: threading.ExceptHookArgs) -> None:
    name = died.thread.name if died.thread is not None else "unknown"
    if died.exc_value is not None and died.exc_type is not SystemExit:
        information = (died.exc_type, died.exc_value, died.exc_traceback)
        logging.getLogger(__name__).critical("the thread %s died", name, exc_info=information)


class Lines(logging.Formatter):
    """``2026-11-30T03:12:45Z ERROR   collector.pipeline: message``."""

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-8s%(place)s: %(message)s", "%Y-%m-%dT%H:%M:%SZ")

    def format(self, record: logging.LogRecord) -> str:
        record.place = record.name.removeprefix("groundwatch_")
        record.exc_text = None  # another handler may have put the whole text there
        return super().format(record)

    def formatException(self, ei: _Place) -> str:  # noqa: N802 (the name is logging's)
        return "\n".join(f"  {line}" for line in _told(ei[1]))


def _told(error: BaseException | None) -> Iterator[str]:
    """An exception and what caused it, the first cause first; a line for each, and one for each place."""
    if error is None:
        return
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    yield from _told(before)
    yield f"{type(error).__module__}.{type(error).__qualname__}{_words_of_the_system(error)}"
    for frame in _telling(traceback.extract_tb(error.__traceback__)):
        yield f"  at {frame.filename}:{frame.lineno} in {frame.name}"


def _telling(frames: Sequence[traceback.FrameSummary]) -> Iterator[traceback.FrameSummary]:
    """Our own places, and the last one, which is mostly a library's: those between are the way through it."""
    return (frame for frame in frames if frame is frames[-1] or "groundwatch_" in frame.filename)


def _words_of_the_system(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f": {error.strerror}"
    if isinstance(error, sqlite3.Error):  # names of columns at most, never a value
        return f": {error}"
    if not hasattr(error, "sqlstate"):
        return ""
    if error.sqlstate is None:  # not PostgreSQL's words, which quote rows, but the connection's
        return f": {str(error).partition(chr(10))[0]}" if type(error).__name__ == "OperationalError" else ""
    return f": {error.sqlstate} {getattr(getattr(error, 'diag', None), 'constraint_name', None) or ''}".rstrip()


class Sparing(logging.Filter):
    """Let at most ``MOST_IN_WINDOW`` messages of one kind through in ``WINDOW_SECONDS``; the next one tells how many
    were held back. A kind is what the program says, whatever the values in it."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self._now = now
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}  # kind: the window's beginning, messages in it

    def filter(self, record: logging.LogRecord) -> bool:
        kind, now = (record.name, str(record.msg)), self._now()
        began, count = self._seen.get(kind, (now, 0))
        held = 0
        if now - began >= WINDOW_SECONDS:
            held, began, count = max(0, count - MOST_IN_WINDOW), now, 0
        if len(self._seen) >= MOST_KINDS:
            self._seen.clear()
        self._seen[kind] = (began, count + 1)
        if held:
            record.msg, record.args = f"{record.getMessage()} ({held} more like it were not written)", None
        return count < MOST_IN_WINDOW
