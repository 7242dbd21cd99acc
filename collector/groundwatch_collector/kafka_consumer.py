"""The pipeline's end of the topic: one pipeline for each partition that this process has.

One thread polls, reads and decides. When partitions move, everything undecided is dropped from memory and read again
by whoever has the partition then, from the position in the database; the ledger makes reading again harmless.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from sqlalchemy.exc import SQLAlchemyError

from groundwatch_collector.decision import DecideConfig
from groundwatch_collector.decision_store import Place
from groundwatch_collector.kafka_metrics import LABELLED_PARTITIONS, KafkaMetrics, PartitionMetrics
from groundwatch_collector.kafka_partition import Fenced, OwnedPlace, PartitionLog, RangeReader, offset_of
from groundwatch_collector.kafka_rekey import Rekeyer
from groundwatch_collector.kafka_settings import KafkaConfig, KafkaSecrets, client_options, reachable, require_client
from groundwatch_collector.limits import Limits
from groundwatch_collector.log_protocol import DecisionLog
from groundwatch_collector.pipeline import Pipeline
from groundwatch_collector.reasking import Reasking
from groundwatch_collector.spanlog import LogError
from groundwatch_collector.traffic_metrics import TrafficMetrics

logger = logging.getLogger(__name__)

_POLL_MILLISECONDS = 100
_REBALANCING = "<rebalancing>"  # kafka.structs.MemberState, which is imported only where Kafka is used
_BROKER_MILLISECONDS = 2_000
_STEPS_PER_ROUND = 8  # of one partition, before the next one has its turn
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 5.0
_TELL_EVERY_SECONDS = 60.0


@dataclasses.dataclass(slots=True)
class _Partition:
    place: Any  # kafka-python's TopicPartition
    log: PartitionLog
    pipeline: Pipeline
    metrics: PartitionMetrics
    owned: OwnedPlace
    is_paused: bool = False
    retry_at: float = 0.0  # of time.monotonic
    pause_seconds: float = _FIRST_PAUSE_SECONDS


class OpenPipeline(Protocol):
    """Make the pipeline of one partition; everything that does not depend on the partition is the caller's."""

    def __call__(
        self,
        log: DecisionLog,
        config: DecideConfig,
        metrics: TrafficMetrics,
        *,
        now: Callable[[], float],
        place: Place,
    ) -> Pipeline: ...


class KafkaPipelines:
    """Decide every trace of the partitions that the group gives to this process."""

    def __init__(
        self,
        config: KafkaConfig,
        secrets: KafkaSecrets,
        open_pipeline: OpenPipeline,
        decide: DecideConfig,
        *,
        traffic: TrafficMetrics,
        metrics: KafkaMetrics,
        now: Callable[[], float],
        limits: Limits | None = None,
    ) -> None:
        require_client()
        self._config = config
        self._secrets = secrets
        self._open_pipeline = open_pipeline
        self._decide = decide
        sessions = decide.reasking()
        self._sessions = Reasking(sessions) if sessions is not None else None
        self._traffic = traffic
        self._metrics = metrics
        self._now = now
        self._limits = limits or Limits()
        self._again = RangeReader(config, secrets, now)
        self._rekeyer = Rekeyer(config, secrets, self._limits, metrics, now)
        self._open: dict[Any, _Partition] = {}
        self._wanted: dict[Any, float] = {}  # assigned and not open yet -> when to try (time.monotonic)
        self._assigned: frozenset[Any] = frozenset()
        self._has_moved = False  # partitions were taken or given since the last round
        self._probed_at = self._committed_at = self._answered_at = self._settled_at = 0.0
        self._told_at: dict[str, float] = {}

    @property
    def partitions(self) -> list[int]:
        """The partitions that are read here now."""
        return sorted(place.partition for place in tuple(self._open))

    def chances(self) -> Mapping[str, float]:
        """Chance of each stratum in the table that holds now; empty while no partition is read here."""
        for part in tuple(self._open.values()):
            return part.pipeline.chances()
        return {}

    def run(self, stop: threading.Event) -> None:
        """Read and decide until *stop* is set. Whatever fails is tried again, with growing pauses."""
        pause = _FIRST_PAUSE_SECONDS
        while not stop.is_set():
            started = time.monotonic()
            try:
                self._read_until(stop)
            except Exception as error:  # a stopped thread would lose more than a repeated round
                self._failed("broker", error)
            if time.monotonic() - started > _TELL_EVERY_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
            gc.collect()  # a client that failed leaves sockets in reference cycles, with the error just forgotten
            stop.wait(pause)
            pause = min(_LONGEST_PAUSE_SECONDS, pause * 2)
        self._rekeyer.close()
        self._again.close()

    def _read_until(self, stop: threading.Event) -> None:
        if not reachable(self._config):
            raise ConnectionError("no bootstrap server takes connections")
        consumer = self._consumer()
        try:
            self._answered_at = self._settled_at = time.monotonic()
            consumer.subscribe([self._config.topic], listener=_listener(self, consumer))
            consumer.partitions_for_topic(self._config.topic)  # known before the first join: it is not done twice
            while not stop.is_set():
                self._round(consumer)
            with contextlib.suppress(Exception):
                self._tell_positions(consumer, wait=True)
        finally:
            self._drop(list(self._open))
            self._wanted.clear()
            self._count_partitions()
            with contextlib.suppress(Exception):
                consumer.close(autocommit=False, timeout_ms=_BROKER_MILLISECONDS)

    def _consumer(self) -> Any:
        from kafka import KafkaConsumer  # noqa: PLC0415

        milliseconds = int(self._config.session_timeout_seconds * 1000)
        return KafkaConsumer(
            **client_options(self._config, self._secrets),
            group_id=self._config.group_id,
            enable_auto_commit=False,
            auto_offset_reset="none",  # where to begin is in the database
            session_timeout_ms=milliseconds,
            heartbeat_interval_ms=max(200, milliseconds // 5),
            max_poll_records=1_000,
            max_partition_fetch_bytes=4 * 1024 * 1024,
            fetch_max_wait_ms=_POLL_MILLISECONDS,
            metadata_max_age_ms=30_000,
            bootstrap_timeout_ms=10_000,
        )

    # Called by kafka-python while it polls.

    def revoked(self) -> None:
        self._assigned = frozenset()
        self._has_moved = True

    def assigned(self, places: Iterable[Any]) -> None:
        self._assigned = frozenset(places)
        self._has_moved = True

    # One round.

    def _round(self, consumer: Any) -> None:
        fetched = self._poll(consumer)
        self._leave_if_stuck(consumer)
        if self._has_moved:
            self._move()
            fetched = {}  # fetched for an assignment that is no more, or not opened yet
        self._open_wanted(consumer)
        for place, messages in fetched.items():
            if place in self._open:
                self._take(consumer, self._open[place], messages)
        self._probe(consumer)
        for part in list(self._open.values()):
            self._step(consumer, part)
        self._tell_positions(consumer)

    def _poll(self, consumer: Any) -> dict[Any, list[Any]]:
        from kafka.errors import NoOffsetForPartitionError, OffsetOutOfRangeError  # noqa: PLC0415

        try:
            fetched: dict[Any, list[Any]] = consumer.poll(timeout_ms=_POLL_MILLISECONDS)
        except (OffsetOutOfRangeError, NoOffsetForPartitionError) as error:
            self._failed("log", error)
            self._reopen(consumer, list(self._open))  # beginning again finds out what the broker still has
            return {}
        return fetched

    def _leave_if_stuck(self, consumer: Any) -> None:
        """Raise, so that a new client joins, when a rebalance has begun and does not end.

        kafka-python 3.0 loses the answer of a join that it began because the topic's partitions changed, if the join
        takes longer than one poll: it never asks for that answer again, sends no heartbeat, and is thrown out of the
        group without noticing. A member that died holds up the others for one session timeout, hence two.
        """
        if consumer.group_metadata().state != _REBALANCING:
            self._settled_at = time.monotonic()
            return
        longest = 2 * self._config.session_timeout_seconds
        if time.monotonic() - self._settled_at > longest:
            raise TimeoutError(f"a rebalance did not end within {longest:g} s; joining the group anew")

    def _move(self) -> None:
        self._has_moved = False
        self._drop(list(self._open))
        self._wanted = dict.fromkeys(self._assigned, 0.0)
        if self._assigned:
            self._metrics.rebalances.inc()
        self._count_partitions()

    def _drop(self, places: Iterable[Any]) -> None:
        """Forget what is not committed."""
        for place in places:
            part = self._open.pop(place)
            part.metrics.close()
            if place.partition < LABELLED_PARTITIONS:
                self._metrics.partition_lag.labels(str(place.partition)).set(0)

    def _reopen(self, consumer: Any, places: Iterable[Any], pause: float = 0.0) -> None:
        for place in places:
            self._drop([place])
            self._wanted[place] = time.monotonic() + pause
            with contextlib.suppress(Exception):  # no longer assigned: then it is not wanted either, next round
                consumer.pause(place)

    def _count_partitions(self) -> None:
        self._metrics.partitions.set(len(self._open))
        self._metrics.lag.set(sum(part.log.lag_records for part in self._open.values()))

    # Beginning.

    def _open_wanted(self, consumer: Any) -> None:
        for place, at in list(self._wanted.items()):
            if time.monotonic() < at:
                continue
            try:
                self._open[place] = self._begin(consumer, place)
                del self._wanted[place]
            except Exception as error:
                self._failed(_kind_of(error), error)
                self._wanted[place] = time.monotonic() + _FIRST_PAUSE_SECONDS
        self._metrics.partitions.set(len(self._open))

    def _begin(self, consumer: Any, place: Any) -> _Partition:
        oldest = consumer.beginning_offsets([place], timeout_ms=_BROKER_MILLISECONDS)[place]
        end = consumer.end_offsets([place], timeout_ms=_BROKER_MILLISECONDS)[place]
        log = PartitionLog(place.partition, self._again, self._now)
        owned = OwnedPlace(place.topic, place.partition, uuid.uuid4().hex, oldest, end)
        metrics = PartitionMetrics(self._traffic)
        try:
            pipeline = self._open_pipeline(log, self._share(), metrics.traffic, now=log.clock, place=owned)
        except Exception:
            metrics.close()
            raise
        if self._sessions is not None:
            pipeline.share_sessions(self._sessions)
        offset = offset_of(pipeline.committed_position)
        log.start(offset)
        consumer.seek(place, offset)
        consumer.resume(place)
        self._metrics.lost_records.inc(owned.lost_records)
        return _Partition(place, log, pipeline, metrics, owned)

    def _share(self) -> DecideConfig:
        """This process may hold so much undecided; each of its partitions a part of that."""
        parts = max(1, len(self._assigned))
        return dataclasses.replace(
            self._decide,
            max_pending_bytes=max(1, self._decide.max_pending_bytes // parts),
            max_pending_spans=max(1, self._decide.max_pending_spans // parts),
        )

    # Reading and deciding.

    def _take(self, consumer: Any, part: _Partition, messages: list[Any]) -> None:
        try:
            part.log.add(self._rekeyer.records(messages))
            self._metrics.records.inc(len(messages))
        except LogError as error:
            self._failed("broker", error)
            consumer.seek(part.place, messages[0].offset)

    def _probe(self, consumer: Any) -> None:
        """Ask where the partitions end: for the lag, and to know up to when everything has been read."""
        wait = self._config.probe_seconds if self._open else self._config.session_timeout_seconds / 3
        if time.monotonic() - self._probed_at < wait:
            return
        moment = self._now()
        ends = self._ends(consumer)
        self._probed_at = time.monotonic()
        for place, end in ends.items():
            part = self._open[place]
            part.log.saw_end(end, moment)
            if part.log.fetched_to < end:
                with contextlib.suppress(Exception):  # offsets have gaps where a transaction ended
                    part.log.reached(consumer.position(place, timeout_ms=0) or 0)
            if place.partition < LABELLED_PARTITIONS:
                self._metrics.partition_lag.labels(str(place.partition)).set(part.log.lag_records)
        self._count_partitions()

    def _ends(self, consumer: Any) -> dict[Any, int]:
        """Where the open partitions end; nothing while the broker is silent, and then their clocks stand still."""
        try:
            if self._open:
                ends: dict[Any, int] = consumer.end_offsets(list(self._open), timeout_ms=_BROKER_MILLISECONDS)
            elif reachable(self._config):
                ends = {}
            else:
                raise ConnectionError("no bootstrap server takes connections")
        except Exception as error:
            if time.monotonic() - self._answered_at > self._config.session_timeout_seconds:
                raise  # begin anew: a client leaves a socket behind each time that it finds no broker
            self._failed("broker", error)
            return {}
        self._answered_at = time.monotonic()
        return ends

    def _step(self, consumer: Any, part: _Partition) -> None:
        if time.monotonic() >= part.retry_at:
            try:
                for _ in range(_STEPS_PER_ROUND):
                    if not part.pipeline.step(0):
                        break
                part.pause_seconds = _FIRST_PAUSE_SECONDS
            except Exception as error:
                self._step_failed(consumer, part, error)
                return
        self._balance(consumer, part)

    def _step_failed(self, consumer: Any, part: _Partition, error: Exception) -> None:
        if isinstance(error, Fenced):
            logger.warning("%s; what was not committed is dropped here", error)
            self._metrics.fenced.inc()
            self._reopen(consumer, [part.place], 1.0)
            return
        kind = _kind_of(error)
        self._failed(kind, error)
        self._traffic.step_failures.labels(kind).inc()
        if kind == "other" and not part.pipeline.is_refused(error):  # a fault of ours: begin with what is committed
            self._reopen(consumer, [part.place], 1.0)
            return
        part.retry_at = time.monotonic() + part.pause_seconds
        part.pause_seconds = min(_LONGEST_PAUSE_SECONDS, part.pause_seconds * 2)

    def _balance(self, consumer: Any, part: _Partition) -> None:
        """Fetch no more of a partition than may be held."""
        too_much = part.log.buffered_bytes > self._config.max_buffered_bytes
        if too_much != part.is_paused:
            with contextlib.suppress(Exception):
                (consumer.pause if too_much else consumer.resume)(part.place)
                part.is_paused = too_much

    def _tell_positions(self, consumer: Any, *, wait: bool = False) -> None:
        """Tell the broker the lowest undecided offsets, for its tools. We begin with those of the database."""
        from kafka.structs import OffsetAndMetadata  # noqa: PLC0415

        if not self._open or (not wait and time.monotonic() - self._committed_at < self._config.commit_seconds):
            return
        self._committed_at = time.monotonic()
        offsets = {
            place: OffsetAndMetadata(offset_of(part.pipeline.committed_position), "", -1)
            for place, part in self._open.items()
        }
        if wait:
            consumer.commit(offsets, timeout_ms=_BROKER_MILLISECONDS)
        else:
            consumer.commit_async(offsets, callback=_ignore)

    def _failed(self, kind: str, error: Exception) -> None:
        self._metrics.consumer_failures.labels(kind).inc()
        moment = time.monotonic()
        if moment - self._told_at.get(kind, -_TELL_EVERY_SECONDS) >= _TELL_EVERY_SECONDS:
            self._told_at[kind] = moment
            name = type(error).__name__
            logger.error("reading from Kafka failed (%s: %s); trying again", kind, name, exc_info=error)


def _ignore(_offsets: object, _result: object) -> None:
    """A position that the broker did not take is told again a second later."""


def _kind_of(error: Exception) -> str:
    if isinstance(error, SQLAlchemyError):
        return "database"
    if isinstance(error, LogError | OSError):
        return "log"
    return "broker" if type(error).__module__.startswith("kafka.") else "other"


def _listener(pipelines: KafkaPipelines, consumer: Any) -> Any:
    from kafka import ConsumerRebalanceListener  # noqa: PLC0415

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            pipelines.revoked()

        def on_partitions_assigned(self, assigned: Any) -> None:
            consumer.pause(*assigned)  # nothing is fetched before we said from where
            for place in assigned:
                consumer.seek(place, 0)  # any place will do: without one polling fails where nothing was committed
            pipelines.assigned(assigned)

    return Listener()
