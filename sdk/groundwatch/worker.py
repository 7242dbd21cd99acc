"""The background worker: takes ended requests, builds spans, sends them, waits when the receiver is away."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, overload

from opentelemetry.sdk.trace import ReadableSpan

from groundwatch.delivery import Delivery, FeedbackDelivery, SpanDelivery, suppress_instrumentation
from groundwatch.lane import FULL_BATCH, Feedback, Lane
from groundwatch.quiet import logger, note_internal_error, settled, tell_once
from groundwatch.records import RequestRecord
from groundwatch.settings import Settings
from groundwatch.spans import Encoded, SpanBuilder

LINGER_SECONDS = 0.2  # so that a batch forms; a flush does not wait for it
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
BREATH_SECONDS = 1e-6  # the system makes about 50 microseconds of it
SPANS_A_BREATH = 6  # about one request
FEEDBACK_PER_BATCH = 8  # while a full batch of requests waits: each takes a connection and an answer of its own
FEEDBACK_ATTEMPTS = 20  # with the pauses above: about eight minutes


def load_exporter(settings: Settings) -> None:
    SpanDelivery(settings).load()


class Builder(Protocol):
    def build(self, record: RequestRecord, dropped: int) -> Encoded: ...


class _InSlices(Sequence[ReadableSpan]):
    """Spans which an encoder reads one after the other: *breathe* is called now and then between them."""

    def __init__(self, spans: Sequence[ReadableSpan], breathe: Callable[[], None]) -> None:
        self._spans = spans
        self._breathe = breathe

    def __iter__(self) -> Iterator[ReadableSpan]:
        for number, span in enumerate(self._spans, start=1):
            yield span
            if number % SPANS_A_BREATH == 0:
                self._breathe()

    def __len__(self) -> int:
        return len(self._spans)

    @overload
    def __getitem__(self, at: int) -> ReadableSpan: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[ReadableSpan]: ...
    def __getitem__(self, at: int | slice) -> ReadableSpan | Sequence[ReadableSpan]:
        return self._spans[at]


class Worker:
    """Runs in one daemon thread per process. Not shared with a forked child."""

    def __init__(self, settings: Settings, lane: Lane, version: str) -> None:
        self._settings = settings
        self._lane = lane
        self._builder: Builder = SpanBuilder(settings, version)
        self._spans = SpanDelivery(settings)
        self._feedback = FeedbackDelivery(settings)
        self._failures = 0  # in a row
        self._retry_after = 0.0  # seconds, as the receiver asked
        self._batch: list[tuple[RequestRecord, Encoded]] = []  # taken, built, not settled

    def start(self) -> threading.Thread:
        """Start the thread, in an empty context: the first request's must not live as long as the process."""
        run = contextvars.Context().run
        thread = threading.Thread(target=run, args=(self._run,), name="groundwatch", daemon=True)
        thread.start()
        return thread

    def abort(self) -> None:
        """Break off a running export."""
        self._spans.close()

    def _run(self) -> None:
        suppress_instrumentation()
        while self._batch or self._lane.wait_for_work(LINGER_SECONDS):
            try:
                self.step()
            except BaseException as error:
                note_internal_error("worker", error)
                self._settle_batch("internal_error")
        self._spans.close()

    def step(self) -> None:
        """One round: a batch of spans, then the feedback that waits. Neither keeps the other waiting for long."""
        self._fill()
        if self._batch and not self._send_batch():
            self._pause()
            return
        tried = 0
        while not (tried >= FEEDBACK_PER_BATCH and self._lane.has_full_batch()):
            feedback = self._lane.take_feedback()
            if feedback is None:
                return
            tried += 1
            if not self._send_feedback(feedback):
                self._pause()
                return

    def _fill(self) -> None:
        size = sum(encoded.size for _record, encoded in self._batch)
        while len(self._batch) < FULL_BATCH and size < self._settings.max_batch_bytes:
            record = self._lane.take()
            if record is None:
                return
            encoded = self._build(record)
            if encoded is not None:
                size += encoded.size
                self._batch.append((record, encoded))
            self._breathe()

    def _breathe(self) -> None:
        """Let go of the interpreter lock for a moment: a request that has waited for it runs on now, and not only
        when the interpreter takes it away, after 5 ms. Not while somebody waits for us, or a whole batch does.
        """
        if not self._lane.in_haste():
            time.sleep(BREATH_SECONDS)

    def _build(self, record: RequestRecord) -> Encoded | None:
        try:
            encoded = self._builder.build(record, self._lane.lost())
        except BaseException as error:  # a redact function may call sys.exit
            note_internal_error("build", error)
            self._lane.settle([record], "internal_error")
            return None
        self._lane.redaction_failures += encoded.redaction_failures
        return encoded

    # --- spans

    def _send_batch(self) -> bool:
        """True when the batch is settled, one way or the other."""
        delivery = self._deliver([span for _record, encoded in self._batch for span in encoded.spans])
        if delivery.state == "again":
            return False
        if delivery.state == "refused" and len(self._batch) > 1:
            return self._send_singly()
        self._settle_batch("refused" if delivery.state == "refused" else "")
        return True

    def _send_singly(self) -> bool:
        """One request may have spoilt the batch: let the others through."""
        whole, self._batch = self._batch, []
        for at, (record, encoded) in enumerate(whole):
            delivery = self._deliver(list(encoded.spans))
            if delivery.state == "again":
                self._batch = whole[at:]
                return False
            self._lane.settle([record], "refused" if delivery.state == "refused" else "")
        return True

    def _deliver(self, spans: list[ReadableSpan]) -> Delivery:
        attempt = self._lane.attempt_begins()
        delivery = self._spans.send(_InSlices(spans, self._breathe))
        self._note(delivery, attempt, "requests")
        return delivery

    def _settle_batch(self, dropped: str) -> None:
        batch, self._batch = self._batch, []
        self._lane.settle([record for record, _encoded in batch], dropped)

    # --- feedback

    def _send_feedback(self, feedback: Feedback) -> bool:
        attempt = self._lane.attempt_begins()
        delivery = self._feedback.send(feedback.body)
        self._note(delivery, attempt, "feedback")
        feedback.attempts += 1
        if delivery.state != "again":
            self._lane.settle_feedback("refused" if delivery.state == "refused" else "")
            return True
        if feedback.attempts >= FEEDBACK_ATTEMPTS:
            self._lane.settle_feedback("no_answer")
        else:
            self._lane.give_back(feedback)
        return False

    # --- shared

    def _note(self, delivery: Delivery, attempt: int, what: str) -> None:
        if delivery.state == "sent":
            self._failures = 0
            if settled(f"export:{what}"):
                logger.warning("groundwatch: %s are sent again (lost in this process: %d)", what, self._lane.lost())
            return
        if delivery.state == "again":
            self._failures += 1
            self._retry_after = delivery.retry_after_seconds
        self._lane.attempt_failed(attempt, final=delivery.state == "refused")
        place = (self._spans if what == "requests" else self._feedback).place
        then = "waiting and trying again" if delivery.state == "again" else "dropped, and counted"
        tell_once(
            f"export:{what}", "groundwatch: %s cannot be sent to %s (%s); %s", what, place, delivery.problem, then
        )

    def _pause(self) -> None:
        wait = min(FIRST_PAUSE_SECONDS * 2 ** min(self._failures - 1, 10), LONGEST_PAUSE_SECONDS)
        if self._lane.ending:
            self._batch = []
            if lost := self._lane.give_up():
                logger.warning("groundwatch: %d requests or feedback were lost at the end", lost)
        else:
            self._lane.pause(max(wait, self._retry_after))
