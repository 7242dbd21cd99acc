"""Alerts about Groundwatch itself: what would make its figures late, incomplete or wrong."""

from __future__ import annotations

from groundwatch_alerts.alert_names import BY_NAME
from groundwatch_alerts.alert_rules import Wording
from groundwatch_alerts.objectives import AlertsConfig
from groundwatch_alerts.rule_files import Alert, Group

MIN_KAPPA = 0.7
_CLIENT_MISTAKES = "not_found|method_not_allowed|unauthorized|wrong_signal|content_type|bad_feedback|feedback_token"


def monitor_groups(config: AlertsConfig) -> list[Group]:
    """Alerts of the collector, the judges and the labels."""

    def alert(name: str, expr: str, summary: str, description: str, pending: str = "") -> Alert:
        links = Wording(config).links(name, dashboard="groundwatch-monitor")
        return Alert(name, expr, BY_NAME[name].severity, summary, description, pending, annotations=links)

    def alerts(rows: tuple[tuple[str, ...], ...]) -> list[Alert]:
        return [alert(*row) for row in rows]

    return [
        Group("groundwatch-collector", alerts(_COLLECTOR)),
        Group("groundwatch-judge", alerts(_JUDGE)),
        Group("groundwatch-input", alerts(_INPUT)),
    ]


_COLLECTOR = (
    (
        "GroundwatchAbsent",
        "label_replace(absent(groundwatch_log_end_position) and absent(groundwatch_kafka_assigned_partitions),\n"
        '  "role", "collector", "", "")\n'
        'or label_replace(absent(groundwatch_judge_queue_traces), "role", "scorer", "", "")\n'
        'or label_replace(absent(groundwatch_tally_read_errors_total), "role", "exporter", "", "")',
        "Groundwatch ({{ $labels.role }}) sends no metrics: nobody would be told if answers became bad.",
        "Prometheus sees no process with the role {{ $labels.role }}. See whether it runs and whether its metrics "
        "port is scraped. Without a collector, traces wait in the applications' SDKs for a short time only.",
        "15m",
    ),
    (
        "GroundwatchExportedTwice",
        "max(count by (app, stratum, version) (rag_traces_total)) > 1",
        "{{ $value }} processes export the same sums: every figure counts that many times.",
        "Estimates look surer than they are, and alerts come too often. Let one process have the role exporter, and "
        "see that Prometheus does not scrape it by two names.",
        "30m",
    ),
    (
        "GroundwatchCollectorDropping",
        "sum by (reason) (\n"
        f'  increase(groundwatch_rejected_requests_total{{reason!~"{_CLIENT_MISTAKES}"}}[10m])\n'
        "  or label_replace(sum without (reason) (increase(groundwatch_log_append_failures_total[10m])),\n"
        '    "reason", "log", "", "")\n'
        "  or label_replace(sum without (reason) (increase(groundwatch_dead_letters_total[10m])),\n"
        '    "reason", "dead_letter", "", "")\n'
        '  or label_replace(increase(groundwatch_kafka_lost_records_total[10m]), "reason", "kafka_lost", "", "")\n'
        ") > 0",
        "The collector refuses or loses traces ({{ $labels.reason }}); counts are too low from here on.",
        "{{ $value | humanize }} in 10 minutes. busy, log_full and log_failed are sent again for a while; the rest "
        "is gone. malformed: look at what sends; else at disk, database and the size of requests.",
        "5m",
    ),
    (
        "GroundwatchLogLag",
        "groundwatch_pipeline_backlog_bytes > 64 * 1024 * 1024\n"
        "or groundwatch_kafka_lag_records > 100000\n"
        "or rate(groundwatch_pipeline_failures_total[10m]) * 600 > 5",
        "Received traces are not counted yet: the pipeline is behind.",
        "Traces are safe in the span log, but every figure is late. Look at the database (locked, full, away?) and "
        "at whether more comes in than one process can read.",
        "15m",
    ),
    (
        "GroundwatchJudgeBacklogOld",
        "time() - (groundwatch_judge_queue_oldest_timestamp_seconds > 0) > 3600",
        "Sampled traces wait {{ $value | humanizeDuration }} for their verdict: alerts on quality are that late.",
        "The judges are slower than the sample, or do not answer. Look at groundwatch_judge_seconds and at the "
        "failures; lower the budget of judged traces when it is not for a short time.",
        "15m",
    ),
)
_SPENT = "over_budget|unknown_price"
_JUDGE = (
    (
        "GroundwatchJudgeUnavailable",
        f'sum by (judge) (increase(groundwatch_judge_failures_total{{reason!~"{_SPENT}"}}[30m]))\n'
        "/ (sum by (judge) (increase(groundwatch_judge_seconds_count[30m])) > 0) > 0.2\n"
        f'and sum by (judge) (increase(groundwatch_judge_failures_total{{reason!~"{_SPENT}"}}[30m])) >= 5',
        "{{ $labels.judge }} gives no verdict for {{ $value | humanizePercentage }} of its traces.",
        "Its estimate rests on the rest, which is right only if those fail as often. Look at the reasons of "
        "groundwatch_judge_failures_total: endpoint, key, limits, timeouts.",
        "10m",
    ),
    (
        "GroundwatchJudgeOverBudget",
        f'sum by (judge) (increase(groundwatch_judge_failures_total{{reason=~"{_SPENT}"}}[30m])) >= 5',
        "{{ $labels.judge }} has spent its money for today and judges no more until midnight (UTC).",
        "Its estimate goes on ageing. Raise llm_budget_usd_per_day or judge fewer traces a day. With reason "
        "unknown_price no price is configured for the model.",
        "",
    ),
    (
        "GroundwatchJudgeDrift",
        f"groundwatch_judge_kappa < {MIN_KAPPA}",
        '{{ $labels.judge }} agrees with people no better than kappa {{ printf "%.2f" $value }}.',
        "Below 0.7 its verdicts are no measure. Read the traces on which it and people differ; the corrected rates "
        "are wider but right.",
        "1h",
    ),
    (
        "GroundwatchJudgeUnstable",
        "sum by (judge) (increase(groundwatch_judge_repeat_changes_total[1d]))\n"
        "/ (sum by (judge) (increase(groundwatch_judge_repeats_total[1d])) >= 20) > 0.1",
        "{{ $labels.judge }} changes its mind on {{ $value | humanizePercentage }} of the traces it reads twice.",
        "A rate made of such verdicts moves by itself. A model behind the same name may have been replaced; pin its "
        "version, or use another rubric.",
        "",
    ),
)
_INPUT = (
    (
        "GroundwatchFeedbackBurst",
        "sum by (bound) (increase(groundwatch_feedback_quarantined_total[10m])) > 0",
        "Complaints come faster than people make them; those beyond the bound are stored and move nothing.",
        "One person (bound subject) or one application (bound app) sends more than the configured number. Look at "
        "who sends them; estimates are not moved by what is held back.",
        "",
    ),
    (
        "GroundwatchFeedbackWithoutToken",
        'sum without (reason) (increase(groundwatch_rejected_requests_total{reason="feedback_token"}[10m])) > 20',
        "Feedback is refused for its token: a key was changed on one side only, or somebody is guessing.",
        "{{ $value | humanize }} in 10 minutes. Compare GROUNDWATCH_FEEDBACK_KEY in the application and the monitor.",
        "10m",
    ),
    (
        "GroundwatchLabelOverflow",
        "sum by (label) (increase(groundwatch_label_overflow_total[1h])) > 0\n"
        "or sum by (label) (increase(groundwatch_tally_label_overflow_total[1h])) > 0",
        "More values of label {{ $labels.label }} came than are kept apart; new ones share __other__.",
        "Figures of __other__ mix several. A version that changes with every request, or a tenant's id in the place "
        "of an application's name, does this.",
        "",
    ),
)
