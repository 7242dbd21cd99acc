"""Send what waits when the process is told to end by a signal that nobody handles: exit handlers do not run then.

Servers that handle it may still end that way: Uvicorn shuts down, restores what it found, and raises it again.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any


def hook(flush: Callable[[], object], timeout_seconds: float) -> None:
    """Run *flush* before SIGTERM ends the process. Left alone where the host has a handler."""
    on_main = threading.current_thread() is threading.main_thread()
    if not on_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return

    def end(signum: int, _frame: Any) -> None:
        signal.signal(signum, signal.SIG_DFL)  # a second signal ends it at once
        # In a thread of its own: the interrupted code may hold a lock that flushing needs. Then we wait, and give up.
        worker = threading.Thread(target=flush, name="groundwatch-end", daemon=True)
        worker.start()
        worker.join(timeout_seconds)
        os.kill(os.getpid(), signum)

    signal.signal(signal.SIGTERM, end)
