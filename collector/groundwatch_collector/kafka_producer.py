"""The receiver's end of the topic: bodies are split by trace, keyed by it, and acknowledged when the broker has them.

One thread splits and hands to kafka-python; the broker's word comes on kafka-python's own thread. What waits is
bounded. While the broker is away requests are refused at once, and the thread looks for it without any traffic.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from groundwatch_collector.kafka_metrics import KafkaMetrics
from groundwatch_collector.kafka_settings import KafkaConfig, KafkaSecrets, client_options, reachable, require_client
from groundwatch_collector.kafka_split import Piece, split
from groundwatch_collector.limits import Limits, Reason, Rejected
from groundwatch_collector.spanlog import LogFailed, LogFull
from groundwatch_collector.spans import Span

logger = logging.getLogger(__name__)

KIND_HEADER = "groundwatch-kind"  # on every message of ours: it holds one trace, and its key is that trace
_PROBE_SECONDS = 1.0  # how often a broker that is away is looked for
_BATCH_BYTES = 256 * 1024
_TOO_LARGE = ("MessageSizeTooLargeError", "RecordListTooLargeError")


@dataclass(slots=True)
class _Append:
    kind: str
    body: bytes
    received_at: float
    deadline: float  # of time.monotonic
    future: Future[int]
    waiting: int = 0  # messages without the broker's word
    position: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


def open_producer(config: KafkaConfig, secrets: KafkaSecrets) -> Any:
    """An idempotent kafka-python producer that waits for all in-sync replicas."""
    from kafka import KafkaProducer  # noqa: PLC0415

    milliseconds = int(config.delivery_timeout_seconds * 1000)
    return KafkaProducer(
        **client_options(config, secrets),
        acks="all",
        enable_idempotence=True,
        compression_type=None if config.compression == "none" else config.compression,
        linger_ms=2,
        batch_size=_BATCH_BYTES,
        max_request_size=config.max_message_bytes + 1024,  # key, header and framing
        delivery_timeout_ms=milliseconds,
        request_timeout_ms=max(500, milliseconds // 2),
        max_block_ms=milliseconds,
        bootstrap_timeout_ms=milliseconds,
    )


def close_producer(producer: Any, seconds: float) -> None:
    """Wait up to *seconds* for what is under way, then end the producer whatever became of it."""
    try:
        producer.close(timeout=seconds)
    except Exception:
        # close() gives up before its forced end when its flush runs out of time; every future must hear something
        with contextlib.suppress(Exception):
            producer._sender.force_close()
            producer._sender.join(5)
            producer.close(timeout=0)


def send_piece(producer: Any, topic: str, kind: str, piece: Piece, received_at: float) -> Any:
    """Hand one message to *producer*; return kafka-python's future."""
    return producer.send(
        topic,
        value=piece.body,
        key=piece.trace_id.encode(),
        headers=[(KIND_HEADER, kind.encode())],
        timestamp_ms=int(received_at * 1000),
    )


class KafkaLog:
    """What the receiver appends to, when the span log is a topic."""

    def __init__(
        self,
        config: KafkaConfig,
        secrets: KafkaSecrets,
        limits: Limits,
        metrics: KafkaMetrics,
        *,
        now: Callable[[], float],
    ) -> None:
        require_client()
        self._config = config
        self._secrets = secrets
        self._limits = limits
        self._metrics = metrics
        self._now = now
        self._changed = threading.Condition()
        self._queue: deque[_Append] = deque()
        self._pending_bytes = 0
        self._trouble = "the Kafka broker has not answered yet"
        self._closing = False
        self._producer: Any = None
        self._thread = threading.Thread(target=self._run, name="groundwatch-kafka-producer", daemon=True)
        metrics.in_trouble.set(1)
        self._thread.start()

    @property
    def trouble(self) -> str:
        """Why appends fail at the moment, in words; empty when they work."""
        return "the Kafka producer is closed" if self._closing else self._trouble

    @property
    def pending_bytes(self) -> int:
        return self._pending_bytes

    def append(self, kind: str, body: bytes, spans: Sequence[Span] | None = None) -> Future[int]:
        """Hand *body* over. The future gives the offset of its last message once the broker has all of them.

        *spans* are not used: whoever reads the topic decodes.

        Raises :class:`LogFull` or :class:`LogFailed`, at once or through the future: then it is not known to be
        kept, and sending it again is right. Through the future also :class:`Rejected`, when it never fits.
        """
        deadline = time.monotonic() + self._config.delivery_timeout_seconds
        item = _Append(kind, body, self._now(), deadline, Future())
        item.future.set_running_or_notify_cancel()
        with self._changed:
            if self._closing or self._trouble:
                raise self._count(LogFailed("closed" if self._closing else "away", self.trouble))
            if self._pending_bytes and self._pending_bytes + len(body) > self._config.max_pending_bytes:
                raise self._count(LogFull("pending", "too much waits for the Kafka broker already"))
            self._queue.append(item)
            self._hold(len(body))
            self._changed.notify_all()
        return item.future

    def wait_ready(self, seconds: float) -> bool:
        """Wait until the broker has answered; False when *seconds* passed first."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._trouble, seconds)

    def close(self) -> None:
        """Wait for the broker's word on what was handed over, as long as a delivery may take; then stop."""
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._changed.notify_all()
        self._thread.join(2 * self._config.delivery_timeout_seconds)
        self._drop_producer(self._config.delivery_timeout_seconds)
        self._fail_queued(LogFailed("closed", "the Kafka producer is closed"))

    def _hold(self, size: int) -> None:
        self._pending_bytes += size
        self._metrics.pending_bytes.set(self._pending_bytes)

    def _count(self, failure: LogFailed) -> LogFailed:
        self._metrics.failures.labels(failure.cause).inc()
        return failure

    # The thread.

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._trouble:
                    self._changed.wait_for(lambda: self._queue or self._closing or self._trouble)
                if self._closing and (self._trouble or not self._queue):
                    return
                item = self._queue.popleft() if self._queue and not self._trouble else None
            if item is None:
                self._look_for_the_broker()
            else:
                self._send(item)

    def _look_for_the_broker(self) -> None:
        """Start afresh: a producer that failed may hold batches whose fate is unknown."""
        self._drop_producer(0)
        self._fail_queued(LogFailed("away", self._trouble))
        if not self._found_the_broker():
            gc.collect()  # a client that could not begin leaves its sockets in reference cycles
            with self._changed:
                self._changed.wait_for(lambda: self._closing, _PROBE_SECONDS)
            return
        with self._changed:
            self._trouble = ""
            self._metrics.in_trouble.set(0)
            self._changed.notify_all()
        logger.info("the Kafka broker answers; topic %s is written", self._config.topic)

    def _found_the_broker(self) -> bool:
        try:
            if not reachable(self._config):
                raise ConnectionError("no bootstrap server takes connections")
            self._producer = open_producer(self._config, self._secrets)
            if not self._producer.partitions_for(self._config.topic):
                raise LookupError("the topic does not exist or has no partitions")
        except Exception as error:
            self._in_trouble(error)
            return False
        return True

    def _in_trouble(self, error: Exception) -> None:
        reason = f"the Kafka broker does not take messages: {type(error).__name__}"
        with self._changed:
            if not self._trouble.startswith("the Kafka broker does not"):
                detail = f" ({error})" if isinstance(error, LookupError | ConnectionError) else ""
                logger.error("%s%s; requests are answered 503 until it does", reason, detail)
            self._trouble = reason
            self._metrics.in_trouble.set(1)
            self._changed.notify_all()

    def _drop_producer(self, seconds: float) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            close_producer(producer, seconds)
            gc.collect()  # its sockets of failed connections are in reference cycles

    def _fail_queued(self, failure: LogFailed) -> None:
        with self._changed:
            waiting = list(self._queue)
            self._queue.clear()
        for item in waiting:
            self._finish(item, failure)

    def _send(self, item: _Append) -> None:
        if time.monotonic() > item.deadline:
            self._finish(item, LogFailed("away", "the Kafka broker was too slow"))
            return
        try:
            pieces = self._pieces(item)
            item.waiting = len(pieces)
            sent = [self._send_piece(item, piece) for piece in pieces]
        except Rejected as rejected:
            self._metrics.too_large.inc()
            self._finish(item, rejected)
            return
        except Exception as error:
            self._delivery_failed(item, error)
            return
        if not sent:
            self._finish(item, None)
        for future, size in sent:
            future.add_callback(self._delivered, item, size)
            future.add_errback(self._delivery_failed_of(item))

    def _pieces(self, item: _Append) -> Sequence[Piece]:
        if item.kind == "feedback":
            return [Piece(_trace_of_feedback(item.body), item.body)]
        return split(item.kind, item.body, self._config.max_message_bytes, self._limits).pieces

    def _send_piece(self, item: _Append, piece: Piece) -> tuple[Any, int]:
        sent = send_piece(self._producer, self._config.topic, item.kind, piece, item.received_at)
        return sent, len(piece.body)

    # On kafka-python's thread.

    def _delivered(self, item: _Append, size: int, metadata: Any) -> None:
        self._metrics.messages.inc()
        self._metrics.bytes.inc(size)
        with item.lock:
            item.waiting -= 1
            item.position = max(item.position, metadata.offset)
            done = item.waiting == 0
        if done:
            self._finish(item, None)

    def _delivery_failed_of(self, item: _Append) -> Callable[[Exception], None]:
        return lambda error: self._delivery_failed(item, error)

    def _delivery_failed(self, item: _Append, error: Exception) -> None:
        if type(error).__name__ in _TOO_LARGE:
            self._metrics.too_large.inc()
            message = "body: a message is larger than the Kafka topic accepts (max.message.bytes)"
            self._finish(item, Rejected(Reason.TOO_LARGE, message, 413))
            return
        self._in_trouble(error)
        self._finish(item, LogFailed("away", self._trouble))

    def _finish(self, item: _Append, error: Exception | None) -> None:
        with item.lock:
            if item.future.done():
                return
            if isinstance(error, LogFailed):
                self._metrics.failures.labels(error.cause).inc()
            if error is None:
                item.future.set_result(item.position)
            else:
                item.future.set_exception(error)
        with self._changed:
            self._hold(-len(item.body))


def _trace_of_feedback(record: bytes) -> str:
    import orjson  # noqa: PLC0415

    return str(orjson.loads(record)["trace_id"])
