"""The bounded queue between the application's threads and the background worker, with its counters."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field

from groundwatch.records import RequestRecord


@dataclass(frozen=True, slots=True)
class FlushResult:
    """What happened during one ``flush()``, in requests and feedback together."""

    sent: int
    dropped: int
    pending: int  # still waiting when the time was over


@dataclass(frozen=True, slots=True)
class Stats:
    """Running totals of this process."""

    sent: int = 0
    dropped: dict[str, int] = field(default_factory=dict)  # reason -> requests
    pending: int = 0
    pending_bytes: int = 0  # estimated
    feedback_sent: int = 0
    feedback_dropped: dict[str, int] = field(default_factory=dict)  # reason -> feedback
    feedback_pending: int = 0
    failed_exports: int = 0
    redaction_failures: int = 0
    internal_errors: int = 0


@dataclass(slots=True)
class Feedback:
    """One feedback, ready to be posted."""

    body: bytes
    attempts: int = 0


FULL_BATCH = 64  # requests that are sent at once without waiting for more


class Lane:
    """Everything here is touched by several threads, under one lock. A forked child gets a new one."""

    def __init__(self, queue_size: int, queue_bytes: int) -> None:
        self.queue_size = queue_size
        self.queue_bytes = queue_bytes
        # Reentrant: a signal handler that flushes, or a finalizer, may interrupt its own thread in here.
        self._lock = threading.RLock()
        self.changed = threading.Condition(self._lock)
        self.requests: deque[RequestRecord] = deque()
        self.feedback: deque[Feedback] = deque()
        self.held = 0  # requests that the worker has taken and not settled
        self.held_feedback = 0
        self.bytes = 0  # waiting and held
        self.sent = 0
        self.dropped: Counter[str] = Counter()
        self.feedback_sent = 0
        self.feedback_dropped: Counter[str] = Counter()
        self.redaction_failures = 0
        self.attempts = 0  # deliveries begun
        self.failed_attempt = 0  # number of the last one that found the receiver away
        self.failed_exports = 0
        self.urgent = False  # somebody waits: do not linger, do not sit out a pause
        self.ending = False  # the worker sends what waits, and ends
        self.closed = False  # nothing is accepted any more
        self.given_up = False
        self.idle = False

    def put(self, record: RequestRecord) -> None:
        """Queue *record*, or count it as dropped. The newest is dropped: what waits has waited longest."""
        with self._lock:
            if self.closed:
                self.dropped["closed"] += 1
            elif len(self.requests) + self.held >= self.queue_size:
                self.dropped["queue_full"] += 1
            elif self.bytes + record.size > self.queue_bytes:
                self.dropped["queue_bytes"] += 1
            else:
                self.requests.append(record)
                self.bytes += record.size
                if self.idle or len(self.requests) == FULL_BATCH:
                    self.idle = False
                    self.changed.notify_all()

    def put_feedback(self, feedback: Feedback) -> bool:
        with self.changed:
            if self.closed or len(self.feedback) + self.held_feedback >= self.queue_size:
                self.feedback_dropped["closed" if self.closed else "queue_full"] += 1
                return False
            self.feedback.append(feedback)
            self.idle = False
            self.changed.notify_all()
            return True

    def wait_for_work(self, linger_seconds: float) -> bool:
        """Block until there is something to send, and a moment more for a batch to form. False: ending and empty."""
        with self.changed:
            while not (self.requests or self.feedback):
                if self.ending:
                    return False
                self.idle = True
                self.changed.wait()
            self.idle = False
            self._linger(linger_seconds, FULL_BATCH)
            return True

    def _linger(self, seconds: float, enough: float = float("inf")) -> None:
        until = time.monotonic() + seconds
        while (
            not (self.urgent or self.ending or len(self.requests) >= enough)
            and (left := until - time.monotonic()) > 0
        ):
            self.changed.wait(left)

    def pause(self, seconds: float) -> None:
        """Sit out a pause between attempts, unless somebody waits."""
        with self.changed:
            self._linger(seconds)

    def take(self) -> RequestRecord | None:
        with self.changed:
            if not self.requests:
                return None
            self.held += 1
            return self.requests.popleft()

    def take_feedback(self) -> Feedback | None:
        with self.changed:
            if not self.feedback:
                return None
            self.held_feedback += 1
            return self.feedback.popleft()

    def has_full_batch(self) -> bool:
        """Whether a full batch of requests waits."""
        return len(self.requests) >= FULL_BATCH

    def in_haste(self) -> bool:
        """Whether somebody waits for the worker, or more than it can send at once."""
        return self.urgent or self.ending or self.has_full_batch()

    def settle(self, records: list[RequestRecord], dropped: str = "") -> None:
        """The worker is done with *records*: they are sent, or lost for the reason *dropped*."""
        with self.changed:
            if self.given_up:
                return  # counted already
            size = sum(record.size for record in records)
            self.held -= len(records)
            self.bytes -= size
            if dropped:
                self.dropped[dropped] += len(records)
            else:
                self.sent += len(records)
            self.changed.notify_all()

    def settle_feedback(self, dropped: str = "") -> None:
        with self.changed:
            if self.given_up:
                return
            self.held_feedback -= 1
            if dropped:
                self.feedback_dropped[dropped] += 1
            else:
                self.feedback_sent += 1
            self.changed.notify_all()

    def give_back(self, feedback: Feedback) -> None:
        """It is the next to be tried."""
        with self.changed:
            self.held_feedback -= 1
            self.feedback.appendleft(feedback)

    def attempt_begins(self) -> int:
        with self.changed:
            self.attempts += 1
            return self.attempts

    def attempt_failed(self, attempt: int, *, final: bool) -> None:
        """A delivery failed. Unless *final*, the receiver is away: a flush need not wait for it any longer."""
        with self.changed:
            self.failed_exports += 1
            if not final:
                self.failed_attempt = attempt
                self.urgent = False
                self.changed.notify_all()

    def pending(self) -> int:
        return len(self.requests) + self.held + len(self.feedback) + self.held_feedback

    def lost(self) -> int:
        """Requests that this process could not send, until now."""
        return self.dropped.total()

    def flush(self, timeout_seconds: float) -> FlushResult:
        """Wait until all is settled, an attempt made for this flush fails, or the time is over."""
        until = time.monotonic() + timeout_seconds
        with self.changed:
            sent, dropped = self._settled()
            first = self.attempts
            self.urgent = True
            self.idle = False
            self.changed.notify_all()
            while self.pending() and self.failed_attempt <= first and (left := until - time.monotonic()) > 0:
                self.changed.wait(left)
            self.urgent = False
            now_sent, now_dropped = self._settled()
            return FlushResult(now_sent - sent, now_dropped - dropped, self.pending())

    def end(self, *, accept_more: bool) -> None:
        """Let the worker send what waits and end. *accept_more*: requests still open may come, and restart it."""
        with self.changed:
            self.ending = True
            self.closed = not accept_more
            self.changed.notify_all()

    def give_up(self) -> int:
        """Count what is still waiting as lost, nobody will send it; how much that was."""
        with self.changed:
            lost = self.pending()
            self.dropped["shutdown"] += len(self.requests) + self.held
            self.feedback_dropped["shutdown"] += len(self.feedback) + self.held_feedback
            self.requests.clear()
            self.feedback.clear()
            self.held = self.held_feedback = self.bytes = 0
            self.given_up = True
            return lost

    def _settled(self) -> tuple[int, int]:
        return self.sent + self.feedback_sent, self.dropped.total() + self.feedback_dropped.total()

    def stats(self, internal_errors: int) -> Stats:
        with self.changed:
            return Stats(
                sent=self.sent,
                dropped={reason: n for reason, n in self.dropped.items() if n},
                pending=len(self.requests) + self.held,
                pending_bytes=self.bytes,
                feedback_sent=self.feedback_sent,
                feedback_dropped={reason: n for reason, n in self.feedback_dropped.items() if n},
                feedback_pending=len(self.feedback) + self.held_feedback,
                failed_exports=self.failed_exports,
                redaction_failures=self.redaction_failures,
                internal_errors=internal_errors,
            )
