"""The durable span log: what was acknowledged is here, in order, until every trace in it is decided.

One process writes (a lock file says so) and one thread of it touches the disk: appends that arrive while the disk
is busy share the next fdatasync. Readers see only what is durable. A position is a byte offset over the whole life
of the log.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from groundwatch_collector.handover import Handover
from groundwatch_collector.log_segments import (
    HEAD_BYTES,
    KINDS,
    MARK,
    MAX_BODY_BYTES,
    LogRecord,
    Segment,
    claimed_end,
    frame_head,
    list_segments,
    next_whole_record,
    read_record,
    segment_path,
)
from groundwatch_collector.spans import Span

__all__ = ["FAILURE_CAUSES", "LogFailed", "LogFull", "LogLocked", "LogReader", "LogRecord", "SpanLog"]

logger = logging.getLogger(__name__)

FAILURE_CAUSES = ("bound", "pending", "no_space", "io_error", "closed")
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_PENDING_BYTES = 64 * 1024 * 1024  # appends that wait for the disk; more means that the disk does not keep up
_BATCH_BYTES = 4 * 1024 * 1024  # one fdatasync covers about this much, so that the first of a flood is answered soon
_PROBE_SECONDS = 1.0  # how often a log in trouble looks whether the disk takes writes again
_PARTS_PER_WRITE = 512  # systems take at most 1024 in one call
_READ_BYTES = 16 * 1024 * 1024  # one read returns at most this much (and always one record)
_HANDED_BYTES = 16 * 1024 * 1024  # of records with their spans that the pipeline has not read yet


class LogError(Exception):
    """The span log cannot do what was asked."""


class LogLocked(LogError):
    """Another process writes this log."""


class LogFailed(LogError):
    """The record is not durable and was not kept. Sending it again later can succeed."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause  # one of FAILURE_CAUSES


class LogFull(LogFailed):
    """There is no room: the log's own bound is reached, or the disk is full."""


class LogReader:
    """Read a span log without the right to write it, also while another process does."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.damage: dict[int, int] = {}  # position -> bytes that could not be read there
        self._barren = (0, 0)  # from, to: read to the end and found nothing readable

    def segments(self) -> list[Segment]:
        return list_segments(self.directory)

    @property
    def start_position(self) -> int:
        """Where the oldest record that is still kept begins."""
        segments = self.segments()
        return segments[0].base if segments else 0

    @property
    def end_position(self) -> int:
        """Where the next record will begin; everything before it is durable."""
        segments = self.segments()
        return segments[-1].end if segments else 0

    def read(self, position: int, limit_records: int, limit_bytes: int = _READ_BYTES) -> list[LogRecord]:
        """Return up to *limit_records* durable records from *position* on, oldest first.

        Before the oldest kept record reading starts at that one. What cannot be read is skipped up to the next whole
        record and noted in ``damage``. Raises :class:`LogError` when the log ends before *position*.
        """
        segments = self.segments()
        end = segments[-1].end if segments else 0
        if position > end:
            raise LogError(f"position {position} is beyond the end of the span log ({end}): was its folder replaced?")
        records: list[LogRecord] = []
        room = limit_bytes
        for record in self._records(segments, position):
            room -= len(record.body)
            if records and room < 0:
                break
            records.append(record)
            if len(records) >= limit_records:
                break
        if not records and position < end:
            self._barren = (position, end)
        return records

    def records(self, position: int = 0) -> Iterator[LogRecord]:
        """Every durable record from *position* on, one at a time."""
        yield from self._records(self.segments(), position)

    def close(self) -> None:
        """Nothing is held open between reads."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    def _records(self, segments: list[Segment], position: int) -> Iterator[LogRecord]:
        reached = segments[0].base if segments else 0
        for segment in segments:
            if segment.base > reached:
                self._note_damage(reached, segment.base - reached)  # a file of the middle is gone
            reached = segment.end
            if segment.end > position:
                with contextlib.suppress(FileNotFoundError):  # trimmed meanwhile: all of it was decided
                    yield from self._segment_records(segment, max(position, segment.base), segment is segments[-1])

    def _segment_records(self, segment: Segment, position: int, is_last: bool) -> Iterator[LogRecord]:
        with segment.path.open("rb", buffering=256 * 1024) as file:
            while position < segment.end:
                record = read_record(file, segment, position)
                if record is not None:
                    yield record
                    position = record.next_position
                    continue
                found = next_whole_record(file, segment, position)
                if found is None and is_last and self._tail_may_be_unfinished():
                    return
                self._note_damage(position, (found or segment.end) - position)
                position = found or segment.end

    def _tail_may_be_unfinished(self) -> bool:
        return True  # the writer may be in the middle of this record

    def _note_damage(self, position: int, size: int) -> None:
        if position not in self.damage:
            self.damage[position] = size
            logger.error("span log: %d bytes at position %d cannot be read and are skipped", size, position)


@dataclass(slots=True)
class _Append:
    kind: str
    body: bytes
    received_at: float
    future: Future[int]
    spans: Sequence[Span] | None = None

    @property
    def size(self) -> int:
        return HEAD_BYTES + len(self.body)


class SpanLog(LogReader):
    """The one writer of a span log, and a reader of it. Opening mends a torn tail and takes the lock."""

    def __init__(
        self,
        directory: Path,
        *,
        segment_bytes: int = 64 * 1024 * 1024,
        group_seconds: float = 0.005,  # fdatasyncs start at least this far apart; the first one does not wait
        max_bytes: int = 8 * 1024 * 1024 * 1024,  # appends beyond it raise LogFull
        max_age_seconds: float = 14 * 86400.0,  # decided segments older than this are deleted by trim
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(directory)
        self.max_bytes = max_bytes
        self.torn_bytes = 0  # cut from the tail when this log was opened: they were never acknowledged
        self.failures: Counter[str] = Counter(dict.fromkeys(FAILURE_CAUSES, 0))
        self.appended_records = 0
        self.on_sync: Callable[[float], None] = lambda _seconds: None
        self._segment_bytes = segment_bytes
        self._group_seconds = group_seconds
        self._max_age_seconds = max_age_seconds
        self._now = now
        self._changed = threading.Condition()
        self._queue: list[_Append] = []
        self._pending_bytes = 0  # handed over and not durable yet; while it is 0 the writer rests
        self._sealed_bytes = 0
        self._low_position = 0
        self._handed = Handover(_HANDED_BYTES)
        self._trouble = ""
        self._needs_cut = False  # bytes of a failed write may lie behind the end
        self._needs_new_segment = False
        self._closing = False
        make_directory(directory)
        self._lock_fd = _take_lock(directory)
        self._fd = -1
        try:
            self._segments = list_segments(directory)
            self._open_tail()
        except BaseException:
            os.close(self._lock_fd)
            raise
        self._writer = threading.Thread(target=self._write_loop, name="groundwatch-spanlog", daemon=True)
        self._writer.start()

    @staticmethod
    def open_read_only(directory: Path) -> LogReader:
        """Read without the lock, for example while the monitor runs."""
        return LogReader(directory)

    def segments(self) -> list[Segment]:
        with self._changed:
            return [Segment(s.path, s.base, s.size) for s in self._segments]

    @property
    def end_position(self) -> int:
        with self._changed:
            return self._segments[-1].end

    @property
    def total_bytes(self) -> int:
        with self._changed:
            return self._total_bytes()

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    @property
    def pending_bytes(self) -> int:
        """Bytes that were handed over and are not durable yet."""
        return self._pending_bytes

    @property
    def trouble(self) -> str:
        """Why appends fail at the moment, in words; empty when they work."""
        if self._closing:
            return "the span log is closed"
        return self._trouble

    def read(self, position: int, limit_records: int, limit_bytes: int = _READ_BYTES) -> list[LogRecord]:
        """As :meth:`LogReader.read`; records that were just written come with their spans, from memory, once."""
        records = self._handed.take(position, limit_records)
        if not records:
            records = super().read(position, limit_records, limit_bytes)
            if records:
                self._handed.drop_before(records[-1].next_position)
        return records

    def append(self, kind: str, body: bytes, spans: Sequence[Span] | None = None) -> Future[int]:
        """Hand *body* to the writer; the future gives its position once it is durable.

        *spans*: what decoding *body* gives, for a reader in this process; it saves decoding again.
        Raises :class:`LogFull` or :class:`LogFailed`, at once or through the future. Then nothing was kept.
        """
        if kind not in KINDS:
            raise ValueError(f"kind: found {kind!r}, accepted: {', '.join(KINDS)}")
        if len(body) > MAX_BODY_BYTES:
            raise ValueError(f"body: found {len(body)} bytes, accepted: up to {MAX_BODY_BYTES}")
        item = _Append(kind, body, self._now(), Future())
        item.future.set_running_or_notify_cancel()  # a caller that goes away must not break the batch
        with self._changed:
            self._check_room(item.size)
            if self._pending_bytes + item.size <= _HANDED_BYTES:  # objects that wait for a slow disk are a burden
                item.spans = spans
            self._queue.append(item)
            self._pending_bytes += item.size
            self._changed.notify_all()
        return item.future

    def wait(self, position: int, timeout: float) -> bool:
        """Wait until a record at or after *position* can be read; False when *timeout* seconds passed first."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._has_news(position), timeout)
            return self._has_news(position)

    def skip_to(self, position: int) -> None:
        """Make sure that new records get positions from *position* on.

        For a reader that remembers a position beyond this log's end, because the log's files were lost or replaced:
        without this, new records would lie before that position and never be read.
        """
        with self._changed:
            if position <= self.end_position:
                return
            self._changed.wait_for(lambda: not self._pending_bytes)  # the writer must not be in the middle
            logger.error("span log ends at %d, before position %d: files were lost", self.end_position, position)
            self._begin_segment(position)

    def trim(self, low_position: int, now: float | None = None) -> int:
        """Delete whole segments that end at or before *low_position* (all decided) and are past their use.

        That is: older than the maximal age, or the log is more than half full. Returns how many were deleted.
        """
        moment = self._now() if now is None else now
        with self._changed:
            self._low_position = max(self._low_position, low_position)
            self._retire_active(moment)
            return self._trim(moment, self.max_bytes // 2)

    def close(self) -> None:
        """Write what was handed over, stop the writer and give the lock back. May be called twice."""
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._changed.notify_all()
        self._writer.join()
        os.close(self._fd)
        os.close(self._lock_fd)

    # Room and retention; called with the lock held.

    def _has_news(self, position: int) -> bool:
        barren_from, barren_to = self._barren
        return self.end_position > (barren_to if barren_from <= position < barren_to else position)

    def _total_bytes(self) -> int:
        return self._sealed_bytes + self._segments[-1].file_bytes

    def _check_room(self, size: int) -> None:
        if self._closing:
            raise self._count(LogFailed("closed", "the span log is closed"))
        if self._pending_bytes and self._pending_bytes + size > _PENDING_BYTES:
            raise self._count(LogFull("pending", "too much waits for the disk already"))
        needed = size + self._pending_bytes
        if self._total_bytes() + needed > self.max_bytes:
            self._trim(self._now(), self.max_bytes - needed)
            if self._total_bytes() + needed > self.max_bytes:
                self._trouble = f"the span log holds {self._total_bytes()} of {self.max_bytes} bytes"
                self._changed.notify_all()  # the writer begins to look for room
                raise self._count(LogFull("bound", f"{self._trouble} and nothing in it is decided"))

    def _count(self, failure: LogFailed) -> LogFailed:
        self.failures[failure.cause] += 1
        return failure

    def _trim(self, now: float, keep_bytes: int) -> int:
        removed = 0
        total = self._total_bytes()
        while len(self._segments) > 1 and self._segments[0].end <= self._low_position:
            oldest = self._segments[0]
            if total <= keep_bytes and now - self._ended_at(0) <= self._max_age_seconds:
                break
            oldest.path.unlink(missing_ok=True)
            total -= oldest.file_bytes
            self._segments.pop(0)
            self._sealed_bytes -= oldest.file_bytes
            removed += 1
        if removed:
            _sync_directory(self.directory)
        return removed

    def _retire_active(self, now: float) -> None:
        """Let a quiet log forget too: an active segment past its age gives way to an empty one."""
        active = self._segments[-1]
        if active.size and active.end <= self._low_position and not self._pending_bytes:
            self._needs_new_segment = now - self._ended_at(len(self._segments) - 1) > self._max_age_seconds
            if self._needs_new_segment:
                with contextlib.suppress(OSError):  # the writer tries again at the next append
                    self._make_ready()

    def _ended_at(self, index: int) -> float:
        """When the last record of a segment came; the first one of the next segment tells when it is not known."""
        segment = self._segments[index]
        if segment.last_received_at is None and index + 1 < len(self._segments):
            following = self._segments[index + 1]
            with following.path.open("rb") as file:
                record = read_record(file, following, following.base)
            segment.last_received_at = record.received_at if record else segment.path.stat().st_mtime
        return segment.last_received_at or 0.0

    # The writer thread.

    def _write_loop(self) -> None:
        last_sync = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closing or self._trouble)
                if not self._changed.wait_for(lambda: self._queue or self._closing, _PROBE_SECONDS):
                    self._probe()
                    continue
                if not self._queue:
                    return
            time.sleep(max(0.0, last_sync + self._group_seconds - time.monotonic()))
            batch = self._take_batch()
            last_sync = time.monotonic()
            self._write(batch)

    def _take_batch(self) -> list[_Append]:
        with self._changed:
            size = count = 0
            while count < len(self._queue) and size < _BATCH_BYTES:
                size += self._queue[count].size
                count += 1
            batch, self._queue = self._queue[:count], self._queue[count:]
            return batch

    def _write(self, batch: list[_Append]) -> None:
        try:
            positions, size = self._make_durable(batch)
        except Exception as error:  # whatever it was: the senders must hear that nothing was kept
            self._fail(batch, error)
            return
        with self._changed:
            active = self._segments[-1]
            active.size += size
            active.last_received_at = batch[-1].received_at
            self._pending_bytes -= size
            self.appended_records += len(batch)
            self._trouble = ""
            self._hand_over(batch, positions)
            self._changed.notify_all()
        for item, position in zip(batch, positions, strict=True):
            item.future.set_result(position)

    def _hand_over(self, batch: list[_Append], positions: list[int]) -> None:
        for item, at in zip(batch, positions, strict=True):
            if item.spans is not None:
                self._handed.put(LogRecord(at, at + item.size, item.kind, item.received_at, item.body, item.spans))

    def _make_durable(self, batch: list[_Append]) -> tuple[list[int], int]:
        with self._changed:
            self._make_ready()
            active = self._segments[-1]
        positions: list[int] = []
        parts: list[bytes] = []
        position = active.end
        for item in batch:
            positions.append(position)
            parts += (frame_head(position, item.kind, item.received_at, item.body), item.body)
            position += item.size
        self._needs_cut = True  # until the disk has confirmed
        _write_at(self._fd, parts, active.file_bytes)
        self._sync()
        self._needs_cut = False
        return positions, position - active.end

    def _sync(self) -> None:
        started = time.perf_counter()
        try:
            sync_file(self._fd)
        except OSError:
            self._needs_new_segment = True  # after a failed sync the kernel may call lost pages clean
            raise
        self.on_sync(time.perf_counter() - started)

    def _fail(self, batch: list[_Append], error: Exception) -> None:
        number = getattr(error, "errno", None)
        full = number in _NO_SPACE
        cause = "no_space" if full else "io_error"
        detail = os.strerror(number) if number else type(error).__name__
        reason = f"the disk of the span log refused a write: {detail}"
        with self._changed:
            if not self._trouble:
                logger.error("%s; requests are answered 503 until it takes writes again", reason)
            self._trouble = reason
            self._pending_bytes -= sum(item.size for item in batch)
            self.failures[cause] += len(batch)
            with contextlib.suppress(OSError):
                self._cut()
            self._changed.notify_all()
        for item in batch:
            item.future.set_exception((LogFull if full else LogFailed)(cause, reason))

    def _probe(self) -> None:
        """Find out whether a disk in trouble takes writes again, so that readiness returns without traffic."""
        if not self._trouble or self._total_bytes() >= self.max_bytes:
            return
        try:
            self._make_ready()
            self._needs_cut = True
            _write_at(self._fd, [bytes(4096)], self._segments[-1].file_bytes)
            self._sync()
            self._cut()
        except OSError:
            return
        self._trouble = ""

    def _cut(self) -> None:
        if self._needs_cut:
            os.ftruncate(self._fd, self._segments[-1].file_bytes)
            self._needs_cut = False

    def _make_ready(self) -> None:
        self._cut()
        active = self._segments[-1]
        if self._needs_new_segment or active.size >= self._segment_bytes:
            self._begin_segment(active.end)

    # Files.

    def _begin_segment(self, base: int) -> None:
        path = segment_path(self.directory, base)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            _write_at(fd, [MARK], 0)
            sync_file(fd)
            _sync_directory(self.directory)
        except OSError:
            os.close(fd)
            raise
        if self._fd != -1:
            os.close(self._fd)
        self._fd = fd
        if self._segments and self._segments[-1].base == base:
            self._segments.pop()  # it held no record: the new file took its place
        self._segments.append(Segment(path, base, 0))
        self._sealed_bytes = sum(segment.file_bytes for segment in self._segments[:-1])
        self._needs_new_segment = self._needs_cut = False

    def _open_tail(self) -> None:
        """Go on in the newest segment, without what a crash left unfinished behind its last whole record."""
        if not self._segments:
            self._begin_segment(0)
            return
        tail = self._segments[-1]
        file_bytes = tail.path.stat().st_size
        self._check_mark(tail)
        if file_bytes < len(MARK):
            self._begin_segment(tail.base)
            return
        end, tail.last_received_at = self._whole_end(tail)
        self.torn_bytes = tail.end - end
        tail.size = end - tail.base
        self._sealed_bytes = sum(segment.file_bytes for segment in self._segments[:-1])
        self._fd = os.open(tail.path, os.O_RDWR)
        os.ftruncate(self._fd, tail.file_bytes)
        sync_file(self._fd)  # whole records that were not synced before the crash become visible now
        if self.torn_bytes:
            logger.warning("span log: cut %d unfinished bytes from the end (never acknowledged)", self.torn_bytes)

    def _check_mark(self, segment: Segment) -> None:
        with segment.path.open("rb") as file:
            mark = file.read(len(MARK))
        if mark[:5] == MARK[:5] and mark[:8] != MARK[:8] and len(mark) == len(MARK):
            raise LogError(f"{segment.path.name}: format {mark[5:8]!r} found, this version reads {MARK[5:8]!r}")

    def _whole_end(self, tail: Segment) -> tuple[int, float | None]:
        end, received_at = tail.base, None
        for record in super()._segment_records(tail, tail.base, is_last=True):
            end, received_at = record.next_position, record.received_at
        with tail.path.open("rb") as file:
            damaged = claimed_end(file, tail, end) if end < tail.end else None
        if damaged is None:
            return end, received_at
        # All of it was written, so it may have been acknowledged: it stays, and counts as damage when it is read.
        logger.error("span log: the last record, %d bytes at %d, is complete and damaged", damaged - end, end)
        return damaged, received_at

    def _tail_may_be_unfinished(self) -> bool:
        return self._fd == -1  # while opening; afterwards everything before the end was confirmed by the disk


def make_directory(directory: Path) -> None:
    """Create *directory* so that it survives a power cut."""
    if not directory.is_dir():
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        _sync_directory(directory.parent)


def sync_file(fd: int) -> None:
    """Return once the file's bytes are on the disk, not only on their way."""
    full_sync = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone stops at the drive's cache
    if full_sync is not None:
        fcntl.fcntl(fd, full_sync)
    else:
        os.fdatasync(fd)


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_at(fd: int, parts: Sequence[bytes], offset: int) -> None:
    """Write all *parts* one after the other. They are not joined: the copy would cost more than the rest."""
    for start in range(0, len(parts), _PARTS_PER_WRITE):
        some = parts[start : start + _PARTS_PER_WRITE]
        size = sum(map(len, some))
        written = os.pwritev(fd, some, offset)
        while written < size:  # a full disk takes a part first, and refuses the next write
            written += os.pwrite(fd, b"".join(some)[written:], offset + written)
        offset += size


def _take_lock(directory: Path) -> int:
    fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.read(fd, 20).decode(errors="replace").strip() or "unknown"
        os.close(fd)
        raise LogLocked(
            f"{directory}: the span log is in use by process {holder}; stop it or use another folder"
        ) from error
    os.ftruncate(fd, 0)
    os.pwrite(fd, str(os.getpid()).encode(), 0)
    return fd
