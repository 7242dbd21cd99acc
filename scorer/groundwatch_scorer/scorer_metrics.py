"""The scorer's own metrics. Labels come from closed or configured sets only: never from a trace."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from groundwatch_scorer.judgement import Assessment, Judgement
from groundwatch_scorer.second_look import PEOPLE, SecondLook

REPEAT_MISSES = ("no_verdict", "over_limit", "error")
"""Why a reading that was to be made twice says nothing of the judge's stability."""

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class ScorerMetrics:
    """Counts of verdicts, failures, time, tokens and money, and the depth of the queue."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.judged = Counter(
            "groundwatch_judged_total",
            "Judgements recorded, per criterion of each trace, by what they say",
            ["judge", "verdict"],
            registry=registry,
        )
        self.seconds = Histogram(
            "groundwatch_judge_seconds",
            "Time a judge takes for one trace",
            ["judge"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.failures = Counter(
            "groundwatch_judge_failures_total",
            "Traces for which a judge gave no verdict, by reason",
            ["judge", "reason"],
            registry=registry,
        )
        self.queue = Gauge(
            "groundwatch_judge_queue_traces",
            "Sampled traces without a verdict yet",
            ["state"],
            registry=registry,
        )
        self.oldest = Gauge(
            "groundwatch_judge_queue_oldest_timestamp_seconds",
            "When the oldest unjudged trace was queued (Unix seconds); 0 when none waits",
            registry=registry,
        )
        self.cost = Counter(
            "groundwatch_judge_cost_usd_total",
            "Money spent on judging, where the price is known",
            ["judge"],
            registry=registry,
        )
        self.tokens = Counter(
            "groundwatch_judge_tokens_total", "Tokens used for judging", ["judge", "direction"], registry=registry
        )
        self.flags = Counter(
            "groundwatch_judge_flags_total",
            "What code found wrong with a judge's reply, or remarkable in a trace",
            ["judge", "flag"],
            registry=registry,
        )
        self.looks = Counter(
            "groundwatch_second_looks_total",
            "Judged traces by who might read them again, who was chosen to, and whether the verdict before is unsure",
            ["by", "chosen", "unsure"],
            registry=registry,
        )
        for by in ("model", PEOPLE):
            for chosen in ("no", "yes"):
                for unsure in ("no", "yes"):
                    self.looks.labels(by, chosen, unsure)
        self.repeats = Counter(
            "groundwatch_judge_repeats_total", "Traces that a judge has read twice", ["judge"], registry=registry
        )
        self.repeat_changes = Counter(
            "groundwatch_judge_repeat_changes_total",
            "Traces whose second reading by the same judge comes to another verdict",
            ["judge"],
            registry=registry,
        )
        self.repeats_missed = Counter(
            "groundwatch_judge_repeats_missed_total",
            "Traces chosen for a second reading that cannot be compared, by reason",
            ["judge", "reason"],
            registry=registry,
        )
        self.database_errors = Counter(
            "groundwatch_judge_database_errors_total",
            "Scoring steps that the database refused; tried again later",
            registry=registry,
        )

        self.step_failures = Counter(
            "groundwatch_judge_step_failures_total",
            "Scoring steps that failed for another reason than the database; tried again later",
            registry=registry,
        )

    def prepare(self, judge: str) -> None:
        """Create the series of *judge* at zero, so that the first count is an increase."""
        for verdict in ("pass", "fail", "not_applicable", "unscored"):
            self.judged.labels(judge, verdict)
        for direction in ("input", "output"):
            self.tokens.labels(judge, direction)
        self.cost.labels(judge)
        self.repeats.labels(judge)
        self.repeat_changes.labels(judge)
        for reason in REPEAT_MISSES:
            self.repeats_missed.labels(judge, reason)

    def used(self, assessment: Assessment) -> None:
        """What a reading has cost, whatever it is for."""
        judge = assessment.identifier
        self.cost.labels(judge).inc(assessment.cost_usd or 0.0)
        self.tokens.labels(judge, "input").inc(assessment.input_tokens or 0)
        self.tokens.labels(judge, "output").inc(assessment.output_tokens or 0)

    def assessed(self, assessment: Assessment, seconds: float) -> None:
        judge = assessment.identifier
        self.used(assessment)
        self.seconds.labels(judge).observe(seconds)
        for flag in set(assessment.flags):
            self.flags.labels(judge, flag).inc()
        if assessment.unscored_reason:
            self.failures.labels(judge, assessment.unscored_reason).inc()

    def looked(self, looks: list[SecondLook]) -> None:
        for look in looks:
            by = PEOPLE if look.asked == PEOPLE else "model"
            self.looks.labels(by, "yes" if look.chosen else "no", "yes" if look.unsure else "no").inc()

    def recorded(self, judgements: list[Judgement]) -> None:
        for judgement in judgements:
            self.judged.labels(judgement.identifier, judgement.label).inc()


class SettleMetrics:
    """What was written into the settled family, and how far behind it is."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._traces = Counter(
            "groundwatch_settled_traces_total",
            "Traces written into the settled family, by what became of them",
            ["state"],
            registry=registry,
        )
        self.failures = Counter(
            "groundwatch_settle_failures_total",
            "Settling steps that the database refused; tried again later",
            registry=registry,
        )
        self.oldest = Gauge(
            "groundwatch_unsettled_oldest_timestamp_seconds",
            "Decision time of the oldest trace that is not in the settled family yet (Unix seconds); 0: none waits",
            registry=registry,
        )
        for state in ("received", "risen", "judged", "missing"):
            self._traces.labels(state)

    def settled(self, received: int, risen: int, judged: int, missing: int) -> None:
        """*risen*: into another stratum after the decision; *missing*: chosen, but without a verdict."""
        for state, count in (("received", received), ("risen", risen), ("judged", judged), ("missing", missing)):
            self._traces.labels(state).inc(count)
