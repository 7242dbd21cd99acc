"""What becomes of one assembled trace: its stratum, its chance of being judged, and whether the hash chose it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from groundwatch_collector import rates as planning
from groundwatch_collector import rules, sampling, signals, strata
from groundwatch_collector.assembly import AssemblyConfig, Pending
from groundwatch_collector.lazy_trace import changed, whole
from groundwatch_collector.mapping import identity, to_lazy_trace
from groundwatch_collector.mapping.tree import UNKNOWN_APP, is_root
from groundwatch_collector.noticing import NOTHING, Noticed, Noticer
from groundwatch_collector.novelty import NoveltySettings
from groundwatch_collector.ragtrace import Feedback, RagTrace, to_json
from groundwatch_collector.rate_tables import FixedRates, PlanConfig, Rates
from groundwatch_collector.reasking import ReaskSettings
from groundwatch_collector.sampled import SampledTrace
from groundwatch_collector.spans import Span

logger = logging.getLogger(__name__)

EARLIEST_START = 946_684_800.0  # 2000-01-01: a clock before it was never set
NO_STRATUM = "none"  # of what was skipped

DEFAULT_RATES: Mapping[str, float] = {
    "incomplete": 0.05,
    "error_timeout": 0.2,  # costs no judge; for people to look at
    "cancelled": 0.05,
    "feedback_neg": 1.0,  # rare, and most of them failed
    "refusal": 0.25,
    "novel": 0.25,  # few by their budget, and nobody knows yet how they fare
    "normal_b0": 0.01,
    "normal_b1": 0.03,
    "normal_b2": 0.08,
    "normal_b3": 0.25,
}


@dataclass(frozen=True)
class DecideConfig:
    """Assembly, strata and sampling of one collector. The salt of the hash is a secret and comes separately."""

    grace_seconds: float = 3.0  # wait after the root for children that arrive late
    idle_seconds: float = 30.0  # without a root: decide after this long without a new span
    max_age_seconds: float = 600.0  # decide at the latest this long after the first span
    max_pending_bytes: int = 256 * 1024 * 1024  # of all undecided traces; above it the oldest are decided early
    max_pending_spans: int = 500_000  # of all undecided traces; above it the oldest are decided early
    max_spans_per_trace: int = 2_000  # further spans of a trace are counted, not kept
    max_bytes_per_trace: int = 8 * 1024 * 1024  # likewise
    rates: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT_RATES))  # stratum -> chance in (0, 1]
    rules: tuple[str, ...] = ()  # strata of your own, "NAME before STRATUM: CONDITIONS"; each needs a rate as well
    # Quantiles 60, 85 and 95 % of the score of faithful answers in public English and Chinese data, rounded.
    cut_1: float = 0.32  # score from here on is normal_b1
    cut_2: float = 0.58  # score from here on is normal_b2
    cut_3: float = 0.77  # score from here on is normal_b3
    cuts_version: str = "1"  # change it with the cuts: it is part of the epoch's id
    salt_version: int = 1  # change it with the salt
    bucket_seconds: int = 60  # step of time of the tallies; the scorer must use the same
    batch_records: int = 256  # span log records per transaction
    future_seconds: float = 3600.0  # a trace that starts further ahead of its receipt has a wrong clock
    dead_letter_body_bytes: int = 65_536  # larger bodies are kept in the span log only
    position_interval_seconds: float = 1.0  # how often a position alone is worth a transaction
    trim_interval_seconds: float = 30.0  # how often segments beyond age or bytes are looked for
    label_limit: int = 50  # values per metric label; more become __other__
    novel_budget: float = 0.02  # share of an application's traffic that may be called a new kind of question; 0: none
    novel_warm_up: int = 500  # questions of an application before any kind is new
    novel_hits: int = 20  # a kind is new until it was asked this often ...
    novel_seconds: float = 86_400.0  # ... or for this long
    novel_save_seconds: float = 60.0  # how often the memory of kinds is written to the database
    reask_seconds: float = 600.0  # nearly the same question within this time after the answer is re-asking; 0: off
    reask_similarity: float = 0.5  # how near is nearly: shared features of both questions, from 0 to 1
    budget_judged_per_day: float = 0.0  # traces to judge in a day (UTC): rates are then planned; 0: `rates` hold
    budget_usd_per_day: float = 0.0  # likewise in money; needs a price, or a budget in traces as well; 0: no bound
    usd_per_judged_trace: float = -1.0  # price of one judged trace; negative: the mean of what was paid lately
    budget_feedback_share: float = 0.25  # of the budget, that complaints may use at most
    expected_traces_per_day: float = 100_000.0  # traffic to plan with before any was seen
    epoch_seconds: int = 300  # how long planned rates hold, by the start of traces
    judge_queue_limit: int = 10_000  # traces that may wait for a judge; beyond it they are shed; 0: no bound
    reask_sentiment: str = "neutral"  # of the feedback that re-asking gives the earlier trace: neutral or negative

    def __post_init__(self) -> None:
        object.__setattr__(self, "rates", _with_defaults(self.rates))
        self.assembly()
        self.rate_table()
        self.novelty()
        self.reasking()
        if self.reask_sentiment not in ("neutral", "negative"):
            raise ValueError(f"reask_sentiment: found {self.reask_sentiment!r}, accepted: neutral, negative")
        if not 1 <= len(self.cuts_version) <= 32:
            raise ValueError(f"cuts_version: found {len(self.cuts_version)} characters, accepted: 1 to 32")
        for name in ("bucket_seconds", "batch_records", "label_limit"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}: found {getattr(self, name)}, accepted: more than 0")
        for name in ("budget_judged_per_day", "budget_usd_per_day", "expected_traces_per_day", "judge_queue_limit"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: found {getattr(self, name)}, accepted: 0 or more")
        self.planned()

    def assembly(self) -> AssemblyConfig:
        return AssemblyConfig(
            grace_seconds=self.grace_seconds,
            idle_seconds=self.idle_seconds,
            max_age_seconds=self.max_age_seconds,
            max_pending_bytes=self.max_pending_bytes,
            max_pending_spans=self.max_pending_spans,
            max_spans_per_trace=self.max_spans_per_trace,
            max_bytes_per_trace=self.max_bytes_per_trace,
        )

    def cuts(self) -> strata.Cuts:
        return strata.Cuts(self.cuts_version, self.cut_1, self.cut_2, self.cut_3)

    def order(self) -> tuple[strata.Entry, ...]:
        """Every stratum, the first that matches counts."""
        return rules.order(self.rules, self.cuts())

    def novelty(self) -> NoveltySettings | None:
        """None: nothing is ever new."""
        if self.novel_budget == 0:
            return None
        return NoveltySettings(self.novel_budget, self.novel_warm_up, self.novel_hits, self.novel_seconds)

    def reasking(self) -> ReaskSettings | None:
        return ReaskSettings(self.reask_seconds, self.reask_similarity) if self.reask_seconds != 0 else None

    def noticer(self, name: str) -> Noticer:
        """*name*: the consumer whose memory it is."""
        return Noticer(self.novelty(), self.reasking(), save_seconds=self.novel_save_seconds, name=name)

    def planned(self) -> PlanConfig | None:
        """What rates are planned by; None: there is no budget, and `rates` hold for ever."""
        budget = planning.Budget(self.budget_judged_per_day, self.budget_usd_per_day)
        if not budget.given:
            return None
        if self.epoch_seconds <= 0 or planning.DAY % self.epoch_seconds or self.epoch_seconds % self.bucket_seconds:
            raise ValueError(
                f"epoch_seconds: found {self.epoch_seconds}, accepted: a part of a day that is a whole number of "
                f"buckets ({self.bucket_seconds} s), such as 300"
            )
        return PlanConfig(
            budget=budget,
            names=tuple(self.rate_table().rates),
            salt_version=self.salt_version,
            cuts_version=self.cuts_version,
            epoch_seconds=self.epoch_seconds,
            expected_per_day=self.expected_traces_per_day,
            feedback_share=self.budget_feedback_share,
            usd_per_judged_trace=self.usd_per_judged_trace if self.usd_per_judged_trace >= 0 else None,
        )

    def rate_table(self) -> sampling.RateTable:
        names = tuple(entry.name for entry in self.order())
        return sampling.fixed_table(self.rates, self.salt_version, self.cuts(), strata=names, rules=self.rules)


def _with_defaults(rates: Mapping[str, float]) -> Mapping[str, float]:
    """What a configuration does not name keeps its default: it may be older than a stratum, or change only one."""
    missing = [name for name in DEFAULT_RATES if name not in rates]
    if missing:
        logger.info("[decide.rates] has no rate for the stratum %s: taking the default", ", ".join(missing))
    return {**DEFAULT_RATES, **rates}


@dataclass(frozen=True, slots=True)
class Decision:
    """One row of the ledger before it is written."""

    pending: Pending
    trace: RagTrace | None  # None: skipped
    app: str
    version: str
    started_at: float
    stratum: str
    probability: float  # in (0, 1]
    u56: int
    epoch: str
    salt_version: int
    verdict: str  # sampled | not_sampled | skipped
    reason: str  # closed set: hash, not_a_question, unreadable
    noticed: Noticed = NOTHING

    @property
    def sampled(self) -> SampledTrace | None:
        if self.trace is None or self.verdict != "sampled":
            return None
        return SampledTrace(self.trace, self.stratum, self.probability, self.reason, self.epoch)


class Decider:
    """Decide traces under the rate table of their time.

    Whether the hash chooses a trace of a given stratum is the same anywhere. The label ``novel`` and the hint of
    re-asking depend on what this process has seen before; both are stored with the decision.
    """

    def __init__(
        self, config: DecideConfig, salt: bytes, noticer: Noticer | None = None, rates: Rates | None = None
    ) -> None:
        self._salt = sampling.check_salt(salt)
        self._future_seconds = config.future_seconds
        self._cuts = config.cuts()
        self._order = config.order()
        self._rates = rates or FixedRates(config.rate_table())
        self._noticer = noticer or Noticer(None, None)

    def table(self, started_at: float) -> sampling.RateTable:
        """The rates for something that happened then."""
        return self._rates.table(started_at)

    def decide(self, pending: Pending, feedback: Sequence[Feedback]) -> Decision:
        number = sampling.u56(pending.trace_id, self._salt)
        try:
            trace = self._read(pending, feedback)
            noticed = self._noticer.notice(trace, pending.first_received_at) if trace is not None else NOTHING
            stratum = self._stratum(trace, noticed) if trace is not None else NO_STRATUM
        except Exception as error:  # a fault of ours must not stop the stream; the spans stay in the log
            logger.error("trace %s could not be read: %s", pending.trace_id, type(error).__name__, exc_info=True)
            return self._skipped(pending, number, "unreadable")
        if trace is None:
            return self._skipped(pending, number, "not_a_question")
        table = self._rates.table(trace.started_at)
        probability = table.probability(stratum)
        chosen = sampling.included(number, probability)
        stored = _storable(trace) if chosen else trace
        if stored is None:
            return self._skipped(pending, number, "unreadable")
        return Decision(
            pending=pending,
            trace=stored,
            app=trace.app,
            version=trace.version,
            started_at=trace.started_at,
            stratum=stratum,
            probability=probability,
            u56=number,
            epoch=table.epoch,
            salt_version=table.salt_version,
            verdict="sampled" if chosen else "not_sampled",
            reason="hash",
            noticed=noticed,
        )

    def _stratum(self, trace: RagTrace, noticed: Noticed) -> str:
        reasked = noticed.reask.similarity if noticed.reask is not None else 0.0
        return strata.classify(
            trace, signals.measure(trace, reasked=reasked), self._cuts, novel=noticed.novel, order=self._order
        )

    def read(self, pending: Pending, feedback: Sequence[Feedback]) -> RagTrace | None:
        """The trace of *pending* as it can be stored; None when it is none, or cannot be."""
        trace = self._read(pending, feedback)
        return _storable(trace) if trace is not None else None

    def _read(self, pending: Pending, feedback: Sequence[Feedback]) -> RagTrace | None:
        """Map the spans of *pending*, with a start that can be true and the count of upstream sampling."""
        spans = list(pending.spans.values())
        trace = to_lazy_trace(spans, feedback, incomplete=pending.incomplete, flags=pending.flags)
        if trace is None:
            return None
        count = sampling.adjusted_count(_trace_state(spans))
        started_at = self._plausible(trace.started_at, pending.first_received_at)
        flags = set()
        if count is None:
            flags.add("tracestate_invalid")
        if started_at != trace.started_at:
            flags.add("start_time_replaced")
        changes: dict[str, Any] = {"flags": tuple(sorted(flags.union(trace.flags)))} if flags else {}
        if count == 1.0 and not changes:
            return trace
        return changed(trace, started_at=started_at, adjusted_count=count or 1.0, **changes)

    def lost(self, pending: Pending, reason: str) -> Decision:
        """What is written of a trace that cannot be: nothing that its sender chose is in it, except its id."""
        number = sampling.u56(pending.trace_id, self._salt)
        return self._without_trace(pending, number, reason, started_at=pending.first_received_at)

    def _skipped(self, pending: Pending, number: int, reason: str) -> Decision:
        app, version = identity(list(pending.spans.values()))
        start = min(span.start_unix_nano for span in pending.spans.values()) * 1e-9
        started_at = self._plausible(start, pending.first_received_at)
        return self._without_trace(pending, number, reason, started_at=started_at, app=app, version=version)

    def _without_trace(
        self,
        pending: Pending,
        number: int,
        reason: str,
        *,
        started_at: float,
        app: str = UNKNOWN_APP,
        version: str = "",
    ) -> Decision:
        table = self._rates.table(started_at)
        return Decision(
            pending=pending,
            trace=None,
            app=app,
            version=version,
            started_at=started_at,
            stratum=NO_STRATUM,
            probability=1.0,
            u56=number,
            epoch=table.epoch,
            salt_version=table.salt_version,
            verdict="skipped",
            reason=reason,
        )

    def _plausible(self, started_at: float, received_at: float) -> float:
        return started_at if EARLIEST_START <= started_at <= received_at + self._future_seconds else received_at


def _storable(trace: RagTrace) -> RagTrace | None:
    """The whole of *trace*; None where it cannot be stored: that must fail here, not in the transaction of many.

    Asked of traces whose text will be stored only: the others' texts are mostly never read.
    """
    try:
        read = whole(trace)
        to_json(read)
    except Exception as error:  # a fault of ours: mapping lets nothing through that JSON cannot hold
        logger.error("trace %s cannot be stored: %s", trace.trace_id, type(error).__name__, exc_info=True)
        return None
    return read


def _trace_state(spans: Sequence[Span]) -> str:
    if not any(span.trace_state for span in spans):
        return ""
    ordered = sorted(spans, key=lambda span: (not is_root(span), span.start_unix_nano, span.span_id))
    return next((span.trace_state for span in ordered if span.trace_state), "")
