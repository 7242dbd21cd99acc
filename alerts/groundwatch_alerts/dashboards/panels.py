"""What the dashboards show. A panel is a question, its queries, a unit, and what to do when it looks bad.

Pure data, so that tests run every query against a real Prometheus. ``grafana`` makes JSON of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Unit = Literal["percentunit", "s", "short", "reqps", "currencyUSD", "bytes"]
Look = Literal["lines", "band", "number"]
RATE = "$__rate_interval"


@dataclass(frozen=True, slots=True)
class Query:
    expr: str
    legend: str
    exemplars: bool = False  # points on the panel that lead to single traces


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    unit: Unit
    description: str  # what it says, and what to do
    queries: Sequence[Query]
    look: Look = "lines"  # band: queries are estimate, lower bound, upper bound
    limit: Query | None = None  # what was promised: a dashed line
    runbook: str = ""  # name of an alert
    page: str = "/"  # of the console

    @property
    def every_query(self) -> list[Query]:
        return [*self.queries, *([] if self.limit is None else [self.limit])]


@dataclass(frozen=True, slots=True)
class Board:
    uid: str
    title: str
    description: str
    panels: Sequence[Panel]


_APP = 'app=~"$app"'
_JUDGED = f'{_APP}, criterion=~"$criterion", judge=~"$judge"'
_REFUSAL = f'{_APP}, criterion="refusal", judge=~"$judge"'
_ANY = f'{_APP}, criterion="any_failure", judge=~"$judge"'
_WORST = "/traces?verdict=fail&sort=worst&window=24h"


def _rate(metric: str, by: str, labels: str = _APP) -> str:
    return f"sum by ({by}) (rate({metric}{{{labels}}}[{RATE}]))"


def _grown(metric: str, by: str, labels: str = _APP) -> str:
    return f"sum by ({by}) (increase({metric}{{{labels}}}[6h]))"


def _quantile(share: float, metric: str, by: str = "app") -> str:
    return f"histogram_quantile({share}, {_rate(f'{metric}_bucket', f'{by}, le')})"


def _failure_rate(labels: str, legend: str, window: str = "6h") -> list[Query]:
    return [
        Query(f"rag:fail_ratio:{window}{{{labels}}}", legend),
        Query(f"rag:fail_ratio_lcb95:{window}{{{labels}}}", f"{legend} at least"),
        Query(f"rag:fail_ratio_ucb95:{window}{{{labels}}}", f"{legend} at most"),
    ]


def _promised(labels: str, legend: str = "{{app}}") -> Query:
    """The objective of each app, where it has one."""
    return Query(f"max by (app, criterion) (rag_objective_fail_ratio{{{labels}}})", f"{legend} objective")


_ANSWERS = Panel(
    "How many answers fail?",
    "percentunit",
    "Share of all traffic over 6 hours, estimated from judged traces, with its 95 % interval. Act on the lower line: "
    "a wide band says that little was judged. Dashed: the objective. Then open the worst traces.",
    _failure_rate(_ANY, "{{app}}"),
    "band",
    _promised(f'{_APP}, criterion="any_failure"'),
    runbook="RagFailureRateAboveObjective",
    page=_WORST,
)
_LATENCY = Panel(
    "How long do users wait?",
    "s",
    "Half of the requests are faster than p50, one in twenty is slower than p95. The points are single requests: "
    "follow one to its trace, then look at the time of each stage.",
    [
        Query(_quantile(0.5, "rag_request_duration_seconds"), "{{app}} p50"),
        Query(_quantile(0.95, "rag_request_duration_seconds"), "{{app}} p95", exemplars=True),
    ],
    runbook="RagLatencyAboveObjective",
    page="/traces?window=1h",
)
_STAGES = Panel(
    "Which stage takes the time?",
    "s",
    "p95 of each stage. The one that grew is where to look: index, reranker or model.",
    [Query(_quantile(0.95, "rag_stage_duration_seconds", "app, stage"), "{{app}} {{stage}}")],
    runbook="RagLatencyAboveObjective",
)
_OUTCOMES = Panel(
    "How do requests end?",
    "reqps",
    "Complete counts, no sample. Errors and timeouts: see the next panel. Many no_result: ask one of the questions "
    "yourself and count the documents of the index.",
    [Query(_rate("rag_requests_total", "app, outcome"), "{{app}} {{outcome}}")],
    runbook="RagRetrievalEmpty",
    page="/traces?window=1h",
)

ON_CALL = Board(
    "groundwatch-overview",
    "Groundwatch: on call",
    "Are users hurt now, and by what? Read from the top left.",
    [
        _ANSWERS,
        Panel(
            "Judged traces behind that estimate",
            "short",
            "In 6 hours. Below about 60 the interval is wide and alerts say that they are blind: look at the judge.",
            [Query(f"rag:judged:6h{{{_ANY}}}", "{{app}}")],
            "number",
            runbook="RagEstimateBlind",
            page="/objectives",
        ),
        _OUTCOMES,
        Panel(
            "How many requests fail to run?",
            "percentunit",
            "Errors and timeouts of all requests that were not cancelled, over an hour. Above the objective "
            "(dashed): roll back or fail over, then look at the classes of errors.",
            [Query(f"rag:execution_fail_ratio:1h{{{_APP}}}", "{{app}}")],
            limit=_promised(f'{_APP}, criterion="execution"'),
            runbook="RagExecutionBudgetBurn",
            page="/traces?outcome=error&window=1h",
        ),
        Panel(
            "Classes of errors",
            "reqps",
            "One class that is most of it names what failed. Follow a point to a trace.",
            [
                Query(
                    _rate("rag_execution_errors_total", "app, error_class"), "{{app}} {{error_class}}", exemplars=True
                )
            ],
            runbook="RagExecutionBudgetBurn",
            page="/traces?outcome=error&window=1h",
        ),
        _LATENCY,
        Panel(
            "When does the first word come?",
            "s",
            "p95 from the start of the request. Retrieval and rerank happen before it: look at their time.",
            [Query(_quantile(0.95, "rag_time_to_first_token_seconds"), "{{app}} p95")],
            runbook="RagFirstTokenAboveObjective",
        ),
        _STAGES,
    ],
)
QUALITY = Board(
    "groundwatch-quality",
    "Groundwatch: quality by criterion",
    "Each criterion with its interval and the number of verdicts behind it.",
    [
        Panel(
            "How many answers fail each criterion?",
            "percentunit",
            "Estimate over 6 hours with its 95 % interval. Faithfulness bad and context relevance good: generation. "
            "Context relevance bad: retrieval first. Choose one criterion above to see its band alone.",
            _failure_rate(_JUDGED, "{{app}} {{criterion}}"),
            "band",
            _promised(f'{_APP}, criterion=~"$criterion"', "{{app}} {{criterion}}"),
            runbook="RagFailureRateAboveObjective",
            page=_WORST,
        ),
        Panel(
            "Over a day",
            "percentunit",
            "The same over 24 hours: narrower and slower. Use it to decide, and the 6 hours to notice.",
            _failure_rate(_JUDGED, "{{app}} {{criterion}}", "24h"),
            "band",
            runbook="RagFailureRateAboveObjective",
            page=_WORST,
        ),
        Panel(
            "Judged traces (n)",
            "short",
            "Verdicts in 6 hours, by criterion. Few: read nothing into a change; raise the budget.",
            [Query(f"rag:judged:6h{{{_JUDGED}}}", "{{app}} {{criterion}}")],
            runbook="RagEstimateBlind",
            page="/objectives",
        ),
        Panel(
            "Effective sample size",
            "short",
            "Size of a plain random sample that would say as much. Far below n: the weights are very unequal.",
            [Query(f"rag:neff:6h{{{_JUDGED}}}", "{{app}} {{criterion}}")],
            runbook="RagEstimateBlind",
        ),
        Panel(
            "Share of the traffic that verdicts speak of",
            "percentunit",
            "Below 98 % a stratum has no verdict at all and alerts are blind: raise its rate.",
            [Query(f"rag:judged_share:6h{{{_JUDGED}}}", "{{app}} {{criterion}}")],
            runbook="RagEstimateBlind",
            page="/objectives",
        ),
        Panel(
            "Is the traffic of another kind than last week?",
            "percentunit",
            "Least share of requests that must change their stratum. High: the overall rate may move by this alone.",
            [Query(f"rag:mix_shift:6h{{{_APP}}}", "{{app}}")],
            runbook="RagMixShift",
        ),
    ],
)
FAULTS = Board(
    "groundwatch-faults",
    "Groundwatch: fault layers",
    "Where failures come from, in requests of all traffic.",
    [
        Panel(
            "Which layer is at fault?",
            "short",
            "Failed requests of all traffic in 6 hours that the judged ones stand for. Look at the largest first.",
            [Query(f'rag:fault_weight:6h{{{_APP}, judge=~"$judge"}}', "{{app}} {{layer}}")],
            runbook="RagFailureRateAboveObjective",
            page=_WORST,
        ),
        Panel(
            "Which version brings them?",
            "short",
            "The same by version. One version alone: roll it back.",
            [Query(f'rag:fault_version_weight:6h{{{_APP}, judge=~"$judge"}}', "{{app}} {{version}}")],
            runbook="RagVersionWorse",
            page="/versions",
        ),
        Panel(
            "Which strata do they lie in?",
            "short",
            "The same by stratum. One stratum alone is one kind of question.",
            [
                Query(
                    _grown("rag_fault_weight_total", "app, stratum", f'{_APP}, judge=~"$judge"'),
                    "{{app}} {{stratum}}",
                )
            ],
            runbook="RagMixShift",
            page=_WORST,
        ),
    ],
)
RETRIEVAL = Board(
    "groundwatch-retrieval",
    "Groundwatch: retrieval and ranking",
    "Is the right passage found, kept by the reranker, and sent?",
    [
        Panel(
            "How many contexts do not help?",
            "percentunit",
            "Criterion context relevance over 6 hours. High while faithfulness is good: index, filters, rewriting.",
            _failure_rate(f'{_APP}, criterion="context_relevance", judge=~"$judge"', "{{app}}"),
            "band",
            runbook="RagFailureRateAboveObjective",
            page="/traces?layer=retrieval&window=24h",
        ),
        Panel(
            "How many requests find nothing?",
            "percentunit",
            "Outcome no_result over an hour. A jump: the index is empty, half built, or a filter changed.",
            [Query(f"rag:no_result_share:1h{{{_APP}}}", "{{app}}")],
            runbook="RagRetrievalEmpty",
            page="/traces?outcome=no_result&window=1h",
        ),
        Panel(
            "Lost in retrieval, rerank or context?",
            "short",
            "Failed requests of all traffic by the layer that lost the evidence. Rerank: it dropped what was found. "
            "Context: it was cut off before the model.",
            [
                Query(
                    f'rag:fault_weight:6h{{{_APP}, judge=~"$judge", layer=~"rewrite|retrieval|rerank|context"}}',
                    "{{app}} {{layer}}",
                )
            ],
            runbook="RagFailureRateAboveObjective",
            page="/traces?layer=rerank&window=24h",
        ),
        _STAGES,
    ],
)
REFUSALS = Board(
    "groundwatch-refusals",
    "Groundwatch: refusals",
    "Does the application refuse what it should, and only that?",
    [
        Panel(
            "How many requests are refused?",
            "percentunit",
            "Complete count over 6 hours, and over 7 days for comparison. Whether rightly, the next panel says.",
            [
                Query(f"rag:refusal_share:6h{{{_APP}}}", "{{app}} 6 h"),
                Query(f"rag:refusal_share:7d{{{_APP}}}", "{{app}} 7 d"),
            ],
            runbook="RagRefusalShareChanged",
            page="/traces?outcome=refused&window=24h",
        ),
        Panel(
            "How many answers refuse wrongly, or answer what they should refuse?",
            "percentunit",
            "Criterion refusal over 6 hours, of all answers. High: undo the last change of prompt or model.",
            _failure_rate(_REFUSAL, "{{app}}"),
            "band",
            runbook="RagWrongRefusals",
            page="/traces?outcome=refused&sort=worst&window=24h",
        ),
        Panel(
            "Outcome and whether it was right",
            "short",
            "Requests of all traffic in 6 hours. In stratum refusal: refused rightly or wrongly. Elsewhere: answered "
            "rightly, or although it should have refused.",
            [
                Query(
                    _grown("rag_judged_fail_weight_total", "app, stratum", _REFUSAL),
                    "{{app}} {{stratum}} wrong",
                ),
                Query(
                    f"{_grown('rag_judged_weight_total', 'app, stratum', _REFUSAL)}\n"
                    f"- {_grown('rag_judged_fail_weight_total', 'app, stratum', _REFUSAL)}",
                    "{{app}} {{stratum}} right",
                ),
            ],
            runbook="RagWrongRefusals",
            page="/traces?outcome=refused&window=24h",
        ),
    ],
)
VERSIONS = Board(
    "groundwatch-versions",
    "Groundwatch: versions",
    "The newest version against the one before it.",
    [
        Panel(
            "Does the newest version fail more often?",
            "percentunit",
            "Difference of the failure rates. Its 95 % interval may be read at any time: above 0 the newest version "
            "is worse. Stop the rollout first.",
            [
                Query(f"rag_version_difference{{{_APP}}}", "{{app}} {{criterion}} {{version}} - {{against}}"),
                Query(f"rag_version_difference_low{{{_APP}}}", "{{app}} {{criterion}} at least"),
                Query(f"rag_version_difference_high{{{_APP}}}", "{{app}} {{criterion}} at most"),
            ],
            "band",
            runbook="RagVersionWorse",
            page="/versions",
        ),
        Panel(
            "Evidence that the two differ",
            "short",
            "Logarithm of an e-value. From 4.8 on the alert fires, if the difference is for the worse.",
            [Query(f"rag_version_log_e{{{_APP}}}", "{{app}} {{criterion}}")],
            runbook="RagVersionWorse",
            page="/versions",
        ),
        Panel(
            "Verdicts behind the comparison",
            "short",
            "Of the version that has fewer. Below 50 nothing is said.",
            [Query(f"rag_version_judged{{{_APP}}}", "{{app}} {{criterion}}")],
            runbook="RagEstimateBlind",
            page="/versions",
        ),
        Panel(
            "Which versions serve?",
            "reqps",
            "Requests by version. A rollout that is not where it should be is stopped first.",
            [Query(_rate("rag_requests_total", "app, version"), "{{app}} {{version}}")],
            runbook="RagVersionWorse",
            page="/versions",
        ),
    ],
)
_ANSWERED = f'{_APP}, outcome!~"cancelled|error|timeout"'
COST = Board(
    "groundwatch-cost",
    "Groundwatch: cost",
    "What answers cost, and what judging them costs.",
    [
        Panel(
            "What does an answer cost?",
            "currencyUSD",
            "Mean over 6 hours of what the application reports. Rising: look at tokens, retries and the model.",
            [
                Query(
                    f"{_grown('rag_cost_usd_total', 'app')} / {_grown('rag_requests_total', 'app', _ANSWERED)}",
                    "{{app}}",
                )
            ],
            runbook="RagCostAboveObjective",
        ),
        Panel(
            "Tokens an answer",
            "short",
            "Input grows with passages and history, output with the length of answers.",
            [
                Query(
                    f"{_grown('rag_tokens_total', 'app, direction')} / on (app) group_left () "
                    f"{_grown('rag_requests_total', 'app', _ANSWERED)}",
                    "{{app}} {{direction}}",
                )
            ],
            runbook="RagCostAboveObjective",
        ),
        Panel(
            "What does judging cost?",
            "currencyUSD",
            "US dollars in 6 hours by judge; the local judge costs nothing. Lower the budget if it is too much.",
            [Query("sum by (judge) (increase(groundwatch_judge_cost_usd_total[6h]))", "{{judge}}")],
            runbook="GroundwatchJudgeOverBudget",
        ),
        Panel(
            "Traces judged today",
            "short",
            "Of the day's budget; 0 without one.",
            [
                Query("groundwatch_budget_sampled_today", "sampled"),
                Query("groundwatch_budget_judged_per_day", "budget"),
            ],
            runbook="RagEstimateBlind",
        ),
    ],
)
MONITOR = Board(
    "groundwatch-monitor",
    "Groundwatch: monitor health",
    "Can the other dashboards be believed?",
    [
        Panel(
            "Is everything received taken?",
            "short",
            "Refused or lost in 10 minutes. Anything but 0: counts are too low. Look at disk and database.",
            [
                Query("sum(increase(groundwatch_rejected_requests_total[10m]))", "refused requests"),
                Query("sum(increase(groundwatch_log_append_failures_total[10m]))", "not kept"),
                Query("sum(increase(groundwatch_dead_letters_total[10m]))", "unreadable"),
            ],
            runbook="GroundwatchCollectorDropping",
        ),
        Panel(
            "How far behind is the pipeline?",
            "bytes",
            "Received and not counted yet. Rising: database, or more traffic than one process reads.",
            [Query("groundwatch_pipeline_backlog_bytes", "backlog")],
            runbook="GroundwatchLogLag",
        ),
        Panel(
            "How many traces wait for a verdict?",
            "short",
            "Rising for an hour: the judge is too slow or away.",
            [Query("max by (state) (groundwatch_judge_queue_traces)", "{{state}}")],  # each scorer tells of all
            runbook="GroundwatchJudgeBacklogOld",
        ),
        Panel(
            "Verdicts by judge",
            "reqps",
            "None while traces wait: see the failures beside it.",
            [Query(f"sum by (judge) (rate(groundwatch_judged_total[{RATE}]))", "{{judge}}")],
            runbook="GroundwatchJudgeUnavailable",
        ),
        Panel(
            "Bytes of the span log",
            "bytes",
            "At its bound the collector refuses traces: free the disk or raise the bound.",
            [Query("groundwatch_log_bytes", "used"), Query("groundwatch_log_bytes_max", "bound")],
            runbook="GroundwatchCollectorDropping",
        ),
        Panel(
            "Labels that share __other__",
            "short",
            "Rising: a version or application name changes with every request.",
            [Query("sum by (label) (groundwatch_tally_label_overflow_total)", "{{label}}")],
            runbook="GroundwatchLabelOverflow",
        ),
    ],
)
BOARDS = (ON_CALL, QUALITY, FAULTS, RETRIEVAL, REFUSALS, VERSIONS, COST, MONITOR)
