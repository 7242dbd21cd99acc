"""What every door of the collector does alike: ask for the key, decode within limits, keep on disk, count.

HTTP and gRPC are two ways to the same door, from two threads: one bound on bytes in hand, one set of counters.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from groundwatch_collector.feedback_access import FeedbackAccess
from groundwatch_collector.feedback_intake import read_feedback
from groundwatch_collector.intake_body import Held, InFlight, unpack
from groundwatch_collector.intake_keys import IngestKeys
from groundwatch_collector.intake_metrics import IntakeMetrics
from groundwatch_collector.limits import Limits, Reason, Rejected
from groundwatch_collector.log_protocol import AppendLog
from groundwatch_collector.otlp import Decoded, Encoding, decode
from groundwatch_collector.project_stamp import stamped
from groundwatch_collector.spanlog import LogFailed, LogFull
from groundwatch_collector.spans import Span

logger = logging.getLogger(__name__)

_INLINE_BYTES = 64 * 1024  # decoding less than this is over sooner than a thread could take it
_TELL_EVERY_SECONDS = 60.0  # a refusal is logged once per reason and minute, and counted every time


@dataclass(frozen=True, slots=True)
class TracesTaken:
    """For the sender's partial success. A message without rejected spans is a warning."""

    rejected_spans: int
    message: str


class IntakeDoor:
    """Takes what came in for one span log."""

    def __init__(
        self,
        log: AppendLog,
        limits: Limits,
        metrics: IntakeMetrics,
        keys: IngestKeys,
        now: Callable[[], float] = time.time,
        *,
        feedback: FeedbackAccess | None = None,
    ) -> None:
        self.limits = limits
        self.access = feedback or FeedbackAccess()
        self.in_flight = InFlight(limits.max_concurrent_bytes, metrics.bytes_in_flight.set)
        self._log = log
        self._metrics = metrics
        self._keys = keys
        self._now = now
        self._told_at: dict[Reason, float] = {}
        # Two at a time: what large bodies unpack to is bounded by it, and more would not be faster on one GIL.
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="groundwatch-decode")
        metrics.bytes_in_flight_max.set(limits.max_concurrent_bytes)
        metrics.name_projects(keys.projects)
        metrics.watch(log)

    @property
    def trouble(self) -> str:
        """Why nothing can be kept at the moment; empty when it can."""
        return self._log.trouble

    def project_of(self, authorization: bytes) -> str:
        """Whose key this is; "" where none is asked for. Raises :class:`Rejected`."""
        return self._keys.project_of(authorization)

    def note(self, rejected: Rejected) -> None:
        """Count a refusal, and log it now and then."""
        self._metrics.rejected(rejected.reason)
        moment = self._now()
        if moment - self._told_at.get(rejected.reason, -_TELL_EVERY_SECONDS) >= _TELL_EVERY_SECONDS:
            self._told_at[rejected.reason] = moment
            # Messages about feedback may name a key that a person chose; those go to the sender only.
            detail = "" if rejected.reason == Reason.BAD_FEEDBACK else rejected.message
            logger.warning("refused a request (%s, %d) %s", rejected.reason, rejected.status, detail)

    async def traces(
        self, raw: bytes, encoding: Encoding, held: Held, *, gzip: bool, project: str, started: float
    ) -> TracesTaken:
        """Return once the spans of *raw* are durable. *started*: ``time.perf_counter()`` when the request came."""
        body, decoded = await self._decoded(raw, gzip, encoding, project)
        held.add(max(0, len(body) - len(raw)))
        if decoded.rejected and not decoded.spans:
            self._metrics.rejected_spans(decoded.rejected)
            raise Rejected(decoded.first_reason, decoded.rejection_message)
        taken = TracesTaken(decoded.rejected_spans, decoded.rejection_message or _mended_message(decoded))
        kept, rejected, mended = len(decoded.spans), decoded.rejected, decoded.mended
        if kept:
            await self._keep(f"otlp_{encoding}", stamped(body, encoding, project), decoded.spans)
        self._metrics.spans(kept, rejected, mended)
        self._metrics.accepted("traces", encoding, len(body), time.perf_counter() - started)
        self._metrics.project(project)
        return taken

    async def feedback(self, body: bytes, *, project: str, started: float) -> str:
        """Return the feedback's id once it is durable."""
        feedback_id, record = read_feedback(body, self.limits, project, self.access)
        await self._keep("feedback", record, ())
        self._metrics.accepted("feedback", "json", len(body), time.perf_counter() - started)
        self._metrics.project(project)
        return feedback_id

    async def _decoded(self, raw: bytes, gzip: bool, encoding: Encoding, project: str) -> tuple[bytes, Decoded]:
        if len(raw) <= _INLINE_BYTES:
            small = _unpack_if_small(raw) if gzip else raw
            if small is not None:
                return small, decode(small, encoding, self.limits, project=project)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._decode_large, raw, gzip, encoding, project)

    def _decode_large(self, raw: bytes, gzip: bool, encoding: Encoding, project: str) -> tuple[bytes, Decoded]:
        body = unpack(raw, self.limits.max_decompressed_bytes) if gzip else raw
        return body, decode(body, encoding, self.limits, project=project)

    async def _keep(self, kind: str, body: bytes, spans: Sequence[Span]) -> None:
        """Return once the span log has *body* on disk."""
        try:
            future: Future[int] = self._log.append(kind, body, spans)
            await asyncio.wrap_future(future)
        except LogFailed as failed:
            reason = Reason.LOG_FULL if isinstance(failed, LogFull) else Reason.LOG_FAILED
            raise Rejected(reason, f"{failed}; send again later", 503, {"retry-after": "5"}) from None


def _unpack_if_small(raw: bytes) -> bytes | None:
    try:
        return unpack(raw, 2 * _INLINE_BYTES)
    except Rejected as rejected:
        if rejected.reason == Reason.TOO_LARGE:
            return None
        raise


def _mended_message(decoded: Decoded) -> str:
    return "; ".join(f"{count} spans were kept with {flag}" for flag, count in sorted(decoded.mended.items()))
