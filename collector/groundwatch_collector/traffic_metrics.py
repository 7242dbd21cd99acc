"""Metrics of ALL traffic, whether it is judged or not. Counters move after the database has committed.

``rag_traces_total`` is not here: it is exported from the committed tallies, together with the judged sums.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from functools import lru_cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from groundwatch_collector import late_errors, refused
from groundwatch_collector.limits import Reason
from groundwatch_collector.novelty import AppNovelty, Sight
from groundwatch_collector.ragtrace import FAILED_EXECUTION, Outcome, RagTrace
from groundwatch_collector.rate_tables import InForce
from groundwatch_collector.strata import STRATA

OTHER = "__other__"
LATE_RESULTS = (
    "queued",
    "not_negative",
    "not_chosen",
    "already_sampled",
    "skipped",
    "payload_gone",
    "quarantined",
    "refused",  # the database refuses what was to be written with it
)
_REMEMBERED_CHILDREN = 4_096  # of one metric; labels are capped, so that this is hardly ever reached
# Interactive answers live below a second; OpenTelemetry's workflow buckets begin at one.
REQUEST_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.4, 0.6, 0.8, 1, 1.5, 2.5, 4, 6, 10, 15, 30, 60, 120)
STAGE_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


_CLASS_NAME = re.compile(r"[\w.:/$\-]{1,100}", re.ASCII)  # what languages and protocols call an error


class LabelCap:
    """Pass the first *limit* values of a label; later new ones become ``__other__`` and are counted.

    With *form* so does a value of another form: a message in the place of a name may hold what a user wrote.
    """

    def __init__(self, label: str, limit: int, overflow: Counter, form: re.Pattern[str] | None = None) -> None:
        self._form = form
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._limit = limit
        self._overflow = overflow.labels(label)

    def __call__(self, value: str) -> str:
        if value in self._seen:
            return value
        if len(self._seen) >= self._limit or (self._form is not None and not self._form.fullmatch(value)):
            self._overflow.inc()
            return OTHER
        self._seen[value] = None
        return value


class TrafficMetrics:
    """Every metric of assembly, decision and traffic, registered in *registry*."""

    def __init__(self, registry: CollectorRegistry, *, label_limit: int = 50) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, registry=registry)

        def histogram(name: str, text: str, labels: tuple[str, ...], buckets: tuple[float, ...]) -> Histogram:
            return Histogram(name, text, labels, buckets=buckets, registry=registry)

        overflow = counter("groundwatch_label_overflow", "Label values that became __other__.", "label")
        self._app = LabelCap("app", label_limit, overflow)
        self._version = LabelCap("version", label_limit, overflow)
        self._error_class = LabelCap("error_class", label_limit, overflow, _CLASS_NAME)

        self._requests = counter(
            "rag_requests", "Requests by how they ended, head sampling undone.", "app", "version", "outcome"
        )
        self._errors = counter(
            "rag_execution_errors", "Requests that ended in an error or timeout.", "app", "error_class"
        )
        self._duration = histogram("rag_request_duration_seconds", "Duration of requests.", ("app",), REQUEST_BUCKETS)
        self._stage = histogram("rag_stage_duration_seconds", "Duration of stages.", ("app", "stage"), STAGE_BUCKETS)
        self._first_token = histogram(
            "rag_time_to_first_token_seconds", "From the start of the request.", ("app",), REQUEST_BUCKETS
        )
        self._tokens = counter("rag_tokens", "Tokens of model calls.", "app", "direction")
        self._cost = counter("rag_cost_usd", "Cost of requests in US dollars, where it is reported.", "app")
        self._retries = counter("rag_retries", "Retries inside requests.", "app")
        self._feedback = counter("rag_feedback", "Feedback of users.", "app", "sentiment")
        self._late_feedback = counter(
            "groundwatch_late_feedback", "Feedback after its trace was decided, by what came of it.", "result"
        )
        self._reasked = counter(
            "rag_reasked_requests", "Requests that ask nearly the same as an answered one of their session.", "app"
        )
        self._novel_over_budget = counter(
            "groundwatch_novel_over_budget", "Questions of a new kind that the budget did not allow to be called so."
        )
        self._novel_untracked = counter(
            "groundwatch_novel_untracked", "Questions of applications beyond those that have a memory of kinds."
        )
        self._novel_leaders = gauge("groundwatch_novel_leaders", "Kinds of question remembered.", "app")
        self._novel_threshold = gauge(
            "groundwatch_novel_threshold", "Cosine to all known kinds below which a new kind is called new.", "app"
        )
        self._decided = counter("groundwatch_decided_traces", "Traces in the ledger.", "verdict", "reason")
        self._dead_letters = counter("groundwatch_dead_letters", "Records that can never be read.", "reason")
        self._rejected_again = counter(
            "groundwatch_replay_rejected_spans",
            "Spans of the span log that were refused when it was read, those that the receiver refused included.",
            "reason",
        )
        self.late_spans = counter("groundwatch_late_spans", "Spans that came after their trace was decided.")
        self.duplicate_spans = counter("groundwatch_duplicate_spans", "Spans that were received again.")
        self._ignored_feedback = counter(
            "groundwatch_feedback_ignored", "Feedback that counts no more, or not again: one vote a person.", "reason"
        )
        self._quarantined = counter(
            "groundwatch_feedback_quarantined", "Complaints of a burst: stored, and moving no stratum.", "bound"
        )
        self._risen = counter(
            "rag_late_feedback", "Traces that a complaint moved after their decision, by stratum left.", "from"
        )
        self._late_errors = counter(
            "groundwatch_late_errors", "Traces with an error after their decision, by what came of it.", "result"
        )
        self._failed_late = counter(
            "rag_late_errors", "Traces that turned out to have failed after their decision, by stratum left.", "from"
        )
        self.excess_spans = counter("groundwatch_excess_spans", "Spans beyond the bound of one trace, not kept.")
        self.early_traces = counter("groundwatch_early_traces", "Traces decided early because memory ran short.")
        self.step_failures = counter("groundwatch_pipeline_failures", "Steps that failed and are retried.", "kind")
        self._shed = counter("groundwatch_shed_traces", "Sampled traces taken out of the judge's queue.", "reason")
        self._shed.labels("queue_full")
        self._budget = gauge("groundwatch_budget_judged_per_day", "Traces to judge in a day; 0 without a budget.")
        self._budget_sampled = gauge("groundwatch_budget_sampled_today", "Traces sampled since midnight (UTC).")
        self._budget_left = gauge("groundwatch_budget_left_today", "Of the budget, what no trace or plan uses yet.")
        self._rates_since = gauge(
            "groundwatch_rates_epoch_start_seconds", "Start of the epoch of the rates in force."
        )
        self.pending_traces = gauge("groundwatch_pending_traces", "Undecided traces.")
        self.pending_bytes = gauge("groundwatch_pending_bytes", "Bytes held for undecided traces.")
        self.pending_bytes_capacity = gauge("groundwatch_pending_bytes_capacity", "Bound of the pending bytes.")
        self.pending_spans = gauge("groundwatch_pending_spans", "Spans held for undecided traces.")
        self.pending_spans_capacity = gauge("groundwatch_pending_spans_capacity", "Bound of the pending spans.")
        self.log_backlog_bytes = gauge("groundwatch_pipeline_backlog_bytes", "Span log bytes that are not read yet.")

        for series, values in (
            (self._late_feedback, LATE_RESULTS),
            (self._late_errors, late_errors.RESULTS),
            (self._failed_late, late_errors.LEFT),
            (self._dead_letters, (*Reason, "decode_failed", *refused.REASONS)),
            (self._rejected_again, Reason),
            (self._ignored_feedback, ("duplicate", "replaced")),
            (self._quarantined, ("subject", "app")),
            (self._risen, [stratum for stratum in STRATA if STRATA.index(stratum) > STRATA.index("feedback_neg")]),
        ):
            for value in values:
                series.labels(value)
        self._remember_children()

    def _remember_children(self) -> None:
        """Several of these move with every trace: their children are then found in a tenth of the time."""
        remembered = lru_cache(_REMEMBERED_CHILDREN)
        self._decided_of = remembered(self._decided.labels)
        self._requests_of = remembered(self._requests_from_zero)
        self._duration_of = remembered(self._duration.labels)
        self._stage_of = remembered(self._stage.labels)
        self._first_token_of = remembered(self._first_token.labels)
        self._tokens_of = remembered(self._tokens.labels)
        self._novel_leaders_of = remembered(self._novel_leaders.labels)
        self._novel_threshold_of = remembered(self._novel_threshold.labels)

    def _requests_from_zero(self, app: str, version: str, outcome: Outcome) -> Counter:
        """All outcomes of a version exist from its first request on: its first error is then an increase."""
        for other in Outcome:
            self._requests.labels(app, version, other)
        return self._requests.labels(app, version, outcome)

    def decided(self, verdict: str, reason: str, trace: RagTrace | None) -> None:
        """Count one new row of the ledger; *trace* is None when it was not a question."""
        self._decided_of(verdict, reason).inc()
        if trace is not None:
            self._traffic(trace)

    def _traffic(self, trace: RagTrace) -> None:
        app = self._app(trace.app)
        # The newest of each bucket is kept: a point of a graph leads to this trace on the console.
        exemplar = {"trace_id": trace.trace_id}
        self._requests_of(app, self._version(trace.version), trace.outcome).inc(trace.adjusted_count)
        if trace.outcome in FAILED_EXECUTION:
            named = self._error_class(trace.error_class or "unknown")
            self._errors.labels(app, named).inc(trace.adjusted_count, exemplar)
        self._duration_of(app).observe(trace.duration_seconds, exemplar)
        if trace.time_to_first_token_seconds is not None:
            self._first_token_of(app).observe(trace.time_to_first_token_seconds, exemplar)
        self._stages(app, trace)
        self._usage(app, trace)

    def _stages(self, app: str, trace: RagTrace) -> None:
        for stage in trace.stages:
            if stage.name != "other":
                self._stage_of(app, stage.name).observe(stage.duration_seconds)

    def _usage(self, app: str, trace: RagTrace) -> None:
        for direction, tokens in (("input", trace.usage.input_tokens), ("output", trace.usage.output_tokens)):
            if tokens:
                self._tokens_of(app, direction).inc(tokens)
        if trace.usage.cost_usd is not None and trace.usage.cost_usd > 0:
            self._cost.labels(app).inc(trace.usage.cost_usd)
        if trace.retries:
            self._retries.labels(app).inc(trace.retries)

    def noticed(self, sight: Sight | None) -> None:
        """*sight* is None for an application without a memory."""
        if sight is None:
            self._novel_untracked.inc()
        elif sight.over_budget:
            self._novel_over_budget.inc()

    def memory(self, app: str, memory: AppNovelty | None) -> None:
        """What is remembered of *app* after some of its traces."""
        if memory is not None:
            self._novel_leaders_of(self._app(app)).set(memory.leaders)
            self._novel_threshold_of(self._app(app)).set(memory.threshold)

    def reasked(self, app: str) -> None:
        self._reasked.labels(self._app(app)).inc()

    def feedback(self, app: str, sentiment: str) -> None:
        self._feedback.labels(self._app(app), sentiment).inc()

    def vote(self, change: str, quarantined_for: str) -> None:
        """Count what became of one record of feedback beyond being stored."""
        if change in ("duplicate", "replaced"):
            self._ignored_feedback.labels(change).inc()
        if quarantined_for:
            self._quarantined.labels(quarantined_for).inc()

    def risen(self, from_stratum: str) -> None:
        self._risen.labels(from_stratum).inc()

    def late_feedback(self, result: str) -> None:
        """*result*: one of LATE_RESULTS."""
        self._late_feedback.labels(result).inc()

    def late_error(self, result: str, from_stratum: str | None = None) -> None:
        """*result*: one of `late_errors.RESULTS`; *from_stratum*: what its trace left, None where it stays."""
        self._late_errors.labels(result).inc()
        if from_stratum is not None:
            self._failed_late.labels(from_stratum).inc()

    def planned(self, in_force: InForce) -> None:
        self._budget.set(in_force.budget_per_day)
        self._budget_sampled.set(in_force.sampled_today)
        self._budget_left.set(in_force.left)
        self._rates_since.set(in_force.start)

    def shed(self, traces: int) -> None:
        self._shed.labels("queue_full").inc(traces)

    def rejected_again(self, reason: str, spans: int) -> None:
        self._rejected_again.labels(reason).inc(spans)

    def dead_letter(self, reason: str) -> None:
        self._dead_letters.labels(reason).inc()
