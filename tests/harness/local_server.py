"""Serve from a thread while a test runs, and leave nothing behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer
from typing import TypeVar

S = TypeVar("S", bound=BaseServer)

POLL_SECONDS = 0.01  # how often it looks whether it is to end: half a second by itself, which each test would wait


@contextmanager
def served(server: S) -> Iterator[S]:
    """*server*, answering until the block ends; then its thread is over and its port is closed."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(POLL_SECONDS,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
