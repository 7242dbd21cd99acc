"""Alerts about the watched application. Each is a symptom that its users feel, and says what to look at first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from groundwatch_alerts.alert_names import BY_NAME, runbook
from groundwatch_alerts.objectives import (
    EVERY_APP,
    EXECUTION,
    KEEP_BURNING_MINUTES,
    KEEP_FIRING_HOURS,
    LARGEST_BURN,
    AlertsConfig,
    Objective,
    alarm_z_promql,
)
from groundwatch_alerts.rule_files import Alert, Group, Recording
from groundwatch_alerts.traffic_rules import USUAL, requests

# The estimate outlives the monitor by its window. What else is asked is remembered for an hour: an alert should not
# end, or say that no baseline is known, only because the monitor is down.
HEADLINE = "and on (judge) last_over_time(groundwatch_headline_judge[1h]) == 1"
LEARNT = "on (app, criterion) last_over_time(rag_baseline_frozen[1h]) == 1"
MIN_JUDGED_SHARE = 0.98
_REGEX_SIGNS = ".+*?()|[]{}^$"  # RE2 knows a backslash before these; before other signs it is an error
_APP = "{{ $labels.app }}"
_OF_APP = "app={{ $labels.app | urlquery }}"
_MONEY = '{{ printf "%.3g" $value }}'  # humanize would make three cents "30m"
_SHARE = "{{ $value | humanizePercentage }}"
_Z_SHARE = 4.0  # two shares that differ by chance: about once in thirty years of hourly looks
PAIRS = ((LARGEST_BURN, "1h", "5m"), (6.0, "6h", "30m"))
SLOW_PAIR = (3.0, "1d", "2h")


@dataclass(frozen=True, slots=True)
class Wording:
    """What every alert carries beside its own words."""

    config: AlertsConfig

    def links(self, name: str, query: str = "", dashboard: str = "") -> dict[str, str]:
        base = self.config.runbook_url.rstrip("/")
        found = {"runbook_url": f"{base}/{name}.md" if base else f"docs/{runbook(name)}"}
        if query:
            found["traces_url"] = f"{self.config.console_url.rstrip('/')}{query}"
        if self.config.dashboard_url and dashboard:
            filters = f"?var-{_OF_APP}" if BY_NAME[name].about == "application" else ""
            found["dashboard_url"] = f"{self.config.dashboard_url.rstrip('/')}/d/{dashboard}{filters}"
        return found


def worst_traces(**query: str) -> str:
    """The console's list of failed traces of the app in the alert."""
    fixed = urlencode({"window": "24h", "sort": "worst", **query})
    return f"/traces?{_OF_APP}&{fixed}"


def application_groups(objectives: Sequence[Objective], config: AlertsConfig) -> list[Group]:
    """Alerts of all objectives, and those that compare an application with itself."""
    quality = [item for item in objectives if item.is_quality]
    judged = [alert for item in quality for alert in _quality(item, objectives, config)]
    groups = [Group("groundwatch-objectives", [*_scores(quality), *judged])]
    traffic = [rule for item in objectives if not item.is_quality for rule in _traffic(item, objectives, config)]
    groups.append(Group("groundwatch-traffic-objectives", traffic))
    groups.append(Group("groundwatch-changes", [_change(config), *_compared(config)]))
    return [group for group in groups if group.rules]


def apps_of(objective: Objective, objectives: Sequence[Objective]) -> str:
    """Label matcher of the apps that *objective* is about; one of every app leaves out those with their own."""
    if objective.app != EVERY_APP:
        return f'app="{objective.app}"'
    own = sorted({other.app for other in objectives if other.criterion == objective.criterion} - {EVERY_APP})
    escaped = "|".join(_regex(app) for app in own)
    return f'app!~"{escaped}"' if own else 'app!=""'


def _regex(name: str) -> str:
    """*name* as a regular expression inside a PromQL string."""
    return "".join(f"\\\\{c}" if c in _REGEX_SIGNS else c for c in name)


def _labels(item: Objective, objectives: Sequence[Objective]) -> str:
    judge = f', judge="{item.judge}"' if item.judge else ""
    return f'{apps_of(item, objectives)}, criterion="{item.criterion}"{judge}'


def _scores(objectives: Sequence[Objective]) -> list[Recording]:
    """How many standard errors each estimate lies above its objective: ``Estimate.score`` of ``estimator.py``."""
    by_window: dict[str, list[str]] = {}
    for item in objectives:
        p, w, labels = item.objective, item.window, _labels(item, objectives)
        above = f"(rag:fail_ratio:{w}{{{labels}}} - {p})"
        by_window.setdefault(w, []).append(f"{above}\n/ sqrt({p} * (1 - {p}) / rag:neff:{w}{{{labels}}})")
    return [Recording(f"rag:score_z:{w}", "\nor\n".join(parts)) for w, parts in by_window.items()]


def _quality(item: Objective, objectives: Sequence[Objective], config: AlertsConfig) -> list[Alert]:
    w, labels = item.window, _labels(item, objectives)
    headline = "" if item.judge else f"\n{HEADLINE}"
    limit = alarm_z_promql(item.hours, item.false_alarms_per_week, f"rag:judged:{w}")
    enough = (
        f"rag:score_z:{w}{{{labels}}} > {limit}\n"
        f"and rag:judged:{w} >= {config.min_judged}\nand rag:judged_share:{w} > {MIN_JUDGED_SHARE}{headline}"
    )
    seen = f"rag:fail_ratio:{w}{{{labels}}} and on (app, criterion, judge) ({enough})"
    return [
        _above(item, f"{seen}\nand {LEARNT}", "page", config),
        _above(item, f"{seen}\nunless {LEARNT}", "ticket", config),
        _blind(item, labels, headline, config),
    ]


def _above(item: Objective, expr: str, severity: str, config: AlertsConfig) -> Alert:
    name = "RagWrongRefusals" if item.criterion == "refusal" else "RagFailureRateAboveObjective"
    what = "wrong refusals" if item.criterion == "refusal" else "{{ $labels.criterion }}"
    learning = "" if severity == "page" else " No baseline is known yet, so this is a ticket and no page."
    return Alert(
        name,
        expr,
        severity,
        summary=f"{_SHARE} of the answers of {_APP} fail ({what}); at most {_share(item.objective)} may.",
        description=(
            f"Over the last {item.window} of all traffic, estimated from judged traces: 95 % sure of at least "
            f"{_query(f'rag:fail_ratio_lcb95:{item.window}')}. Most weight of failures: layer "
            f"{_top('fault_weight', 'layer')}, version {_top('fault_version_weight', 'version')}. "
            f"Open the worst traces first.{learning}"
        ),
        pending="5m",
        keep_firing=f"{KEEP_FIRING_HOURS}h",
        labels={"objective": item.name, **_where(name, "criterion", "judge")},
        annotations=Wording(config).links(name, _failed_answers(), "groundwatch-quality"),
    )


def _failed_answers() -> str:
    return f"{worst_traces(verdict='fail')}&criterion={{{{ $labels.criterion }}}}"


def _where(alert: str, *same: str) -> dict[str, str]:
    """Layer and version with most weight of failures when the alert began.

    They stay until it ends: Prometheus takes an alert with another label for another alert, which waits anew and
    pages again. *same*: the labels that tell one series of the alert from another, beside the app.
    """

    def kept(label: str, otherwise: str) -> str:
        matchers = ", ".join(f"{name}=%q" for name in ("app", *same))
        # 15 minutes: also over a restart of Prometheus.
        series = f'last_over_time(ALERTS{{alertname="{alert}", {label}!="unknown", {matchers}}}[15m])'
        values = " ".join(f"$labels.{name}" for name in ("app", *same))
        return (
            f'{{{{ with printf `{series}` {values} | query }}}}{{{{ . | first | label "{label}" }}}}'
            f"{{{{ else }}}}{otherwise}{{{{ end }}}}"
        )

    return {
        "fault_layer": kept("fault_layer", _top("fault_weight", "layer")),
        "version": kept("version", _top("fault_version_weight", "version")),
    }


def _top(series: str, label: str) -> str:
    """Template for the *label* with most weight of failures; ``unknown`` where nothing failed."""
    return _first_of(f"topk(1, rag:{series}:6h{{app=%q}} > 0)", label, "unknown")


def _first_of(query: str, label: str, otherwise: str) -> str:
    """Template for the *label* of what *query* finds for the app, where ``%q`` stands for its name."""
    return (
        f'{{{{ with printf `{query}` $labels.app | query }}}}{{{{ . | first | label "{label}" }}}}'
        f"{{{{ else }}}}{otherwise}{{{{ end }}}}"
    )


def _query(series: str) -> str:
    selector = f"{series}{{app=%q, criterion=%q, judge=%q}}"
    return (
        f"{{{{ with printf `{selector}` $labels.app $labels.criterion $labels.judge | query }}}}"
        "{{ . | first | value | humanizePercentage }}{{ end }}"
    )


def _share(value: float) -> str:
    """As Prometheus writes shares, with as many digits as a small one needs."""
    return f"{100 * value:.4g}%"


def _blind(item: Objective, labels: str, headline: str, config: AlertsConfig) -> Alert:
    w = item.window
    few = f"rag:judged:{w}{{{labels}}} < {config.min_judged}"
    unseen = f"rag:judged_share:{w}{{{labels}}} <= {MIN_JUDGED_SHARE}"
    expr = (
        f"({few}\nor {unseen})\n"
        f"and on (app, criterion) sum by (app, criterion) (rag:eligible:{w}) >= {config.min_requests}{headline}"
    )
    return Alert(
        "RagEstimateBlind",
        expr,
        "ticket",
        summary=f"Nobody can say whether {_APP} meets its objective for {item.criterion}: too little is judged.",
        description=(
            f"In the last {w} fewer than {config.min_judged} traces were judged, or part of the traffic has no "
            f"verdict at all, so no alert on {item.criterion} can fire. Look at the judge, raise its budget, or take "
            "a longer window."
        ),
        pending="1h",
        labels={"objective": item.name},
        annotations=Wording(config).links("RagEstimateBlind", f"/objectives?{_OF_APP}", "groundwatch-monitor"),
    )


def _change(config: AlertsConfig) -> Alert:
    name = "RagQualityChange"
    return Alert(
        name,
        "(max by (app, criterion) (rag_change_log_e) > max by (app, criterion) (rag_change_log_e_threshold))\n"
        "and max by (app, criterion) (rag_baseline_frozen) == 1",
        "page",
        summary=f"The answers of {_APP} fail more often than they used to ({{{{ $labels.criterion }}}}).",
        description=(
            'The judged traces speak against the frozen baseline: log evidence {{ printf "%.1f" $value }}. '
            "Compare with the last deploy, and with changes of documents, prompt and model. Most weight of failures: "
            f"layer {_top('fault_weight', 'layer')}, version {_top('fault_version_weight', 'version')}."
        ),
        keep_firing=f"{KEEP_FIRING_HOURS}h",
        labels=_where(name, "criterion"),
        annotations=Wording(config).links(name, _failed_answers(), "groundwatch-quality"),
    )


def _traffic(item: Objective, objectives: Sequence[Objective], config: AlertsConfig) -> list[Alert]:
    apps = apps_of(item, objectives)
    if item.criterion in EXECUTION:
        return _burns(item, apps, config)
    return [_cost(item, apps, config) if item.criterion == "cost" else _slow(item, apps, config)]


def _burns(item: Objective, apps: str, config: AlertsConfig) -> list[Alert]:
    def pair(factor: float, long: str, short: str) -> str:
        limit = f"{factor * item.objective:.6g}"
        ratio = f"rag:{item.criterion}_fail_ratio"
        return f"(\n  {ratio}_lcb95:{long}{{{apps}}} > {limit}\n  and {ratio}:{short}{{{apps}}} > {limit}\n)"

    words = "time out" if item.criterion == "timeout" else "end in an error or a timeout"
    allowed = f"than the objective of {_share(item.objective)} allows"
    labels = {"objective": item.name, "criterion": item.criterion, "fault_layer": "execution"}

    def alert(name: str, expr: str, pace: str) -> Alert:
        return Alert(
            name,
            expr,
            BY_NAME[name].severity,
            summary=f"Requests of {_APP} {words}, {pace} faster {allowed}.",
            description=(
                f"At least {_SHARE} of its requests {words}, in the long and in the short window. Look at the errors "
                "by class, then at what the application calls: model, index, database."
            ),
            keep_firing=f"{KEEP_BURNING_MINUTES}m",
            labels=labels,
            annotations=Wording(config).links(name, _failed_requests(item), "groundwatch-overview"),
        )

    return [
        alert("RagExecutionBudgetBurn", "\nor\n".join(pair(*one) for one in PAIRS), "at least 6 times"),
        alert("RagExecutionBudgetBurnSlow", pair(*SLOW_PAIR), "at least 3 times"),
    ]


def _failed_requests(item: Objective) -> str:
    """The console's list of those of the last day that ended as most of the failed ones did lately."""
    outcomes = EXECUTION[item.criterion]
    failed = f'increase(rag_requests_total{{app=%q, outcome=~"{"|".join(outcomes)}"}}[1h])'
    most = _first_of(f"topk(1, sum by (outcome) ({failed}))", "outcome", outcomes[0])
    return f"{worst_traces()}&outcome={most}"


def _slow(item: Objective, apps: str, config: AlertsConfig) -> Alert:
    first = item.criterion == "first_token"
    metric = "rag_time_to_first_token_seconds" if first else "rag_request_duration_seconds"
    name = "RagFirstTokenAboveObjective" if first else "RagLatencyAboveObjective"
    counted = f"sum by (app) (increase({metric}_count{{{apps}}}[{item.window}]))"
    quantile = f"sum by (app, le) (rate({metric}_bucket{{{apps}}}[{item.window}]))"
    what = "wait for the first word of" if first else "wait for"
    return Alert(
        name,
        f"histogram_quantile({item.quantile}, {quantile}) > {item.objective}\nand {counted} >= {config.min_requests}",
        "ticket",
        summary=(
            f"{_share(1 - item.quantile)} of the requests to {_APP} {what} an answer longer than "
            f"{{{{ $value | humanizeDuration }}}}; the objective is {item.objective:g} s."
        ),
        description=(
            f"Quantile {item.quantile:g} over {item.window}. Look at which stage takes the time: retrieval, rerank, "
            "or the model."
        ),
        pending="10m",
        labels={"objective": item.name, "criterion": item.criterion},
        annotations=Wording(config).links(name, worst_traces(), "groundwatch-overview"),
    )


def _cost(item: Objective, apps: str, config: AlertsConfig) -> Alert:
    answers = requests(item.window, f'{apps}, outcome!~"cancelled|error|timeout"')
    cost = f"sum by (app) (increase(rag_cost_usd_total{{{apps}}}[{item.window}]))"
    return Alert(
        "RagCostAboveObjective",
        f"{cost} / ({answers} > 0) > {item.objective}\nand {answers} >= {config.min_requests}",
        "ticket",
        summary=f"An answer of {_APP} costs {_MONEY} USD on average, above {item.objective:g} USD.",
        description=(
            f"Mean over {item.window} of what the application reports. Look at tokens an answer, at retries, and at "
            "the model in use."
        ),
        pending="10m",
        labels={"objective": item.name, "criterion": item.criterion},
        annotations=Wording(config).links("RagCostAboveObjective", worst_traces(), "groundwatch-cost"),
    )


def _compared(config: AlertsConfig) -> list[Alert]:
    return [_refusals(config), _empty(config), _mix_shift(config), _gone(config)]


def _gone(config: AlertsConfig) -> Alert:
    name, least = "RagTrafficGone", config.min_requests
    usual = f"rag:requests:1h offset 1d >= {least}\nand rag:requests:1h offset 7d >= {least}"
    return Alert(
        name,
        f"{usual}\nunless rag:requests:1h > 0",
        "ticket",
        summary=f"No request of {_APP} was counted for an hour; yesterday it had {{{{ $value | humanize }}}} then.",
        description=(
            "And about as many in the same hour a week ago. Either nobody can ask, or its traces do not arrive: SDK, "
            "address, ingest key, network. Alerts on its answers are silent meanwhile, which is no good news."
        ),
        pending="10m",
        annotations=Wording(config).links(name, f"/?{_OF_APP}&window=24h", "groundwatch-overview"),
    )


def _jumped(share: str, window: str, least: float, config: AlertsConfig) -> str:
    """A share that is clearly above last week's, by chance and by size."""
    series = f"rag:{share}_share:{window}"
    return (
        f"{series} > {least}\nand {series} > 1.5 * rag:{share}_share:{USUAL}\n"
        f"and rag:{share}_share_z:{window} > {_Z_SHARE:g}\n"
        f"and rag:{share}_requests:{window} >= {config.min_requests}\n"
        f"and rag:{share}_requests:{USUAL} >= {10 * config.min_requests}"
    )


def _refusals(config: AlertsConfig) -> Alert:
    name = "RagRefusalShareChanged"
    return Alert(
        name,
        _jumped("refusal", "6h", 0.02, config),
        "ticket",
        summary=f"{_APP} refuses {_SHARE} of its requests, clearly more than last week.",
        description=(
            "Either people ask what it must not or cannot answer, or it refuses what it could answer. The estimate "
            "for criterion refusal tells which; read some of the refused traces."
        ),
        pending="15m",
        labels={"fault_layer": "refusal"},
        annotations=Wording(config).links(name, worst_traces(outcome="refused"), "groundwatch-refusals"),
    )


def _empty(config: AlertsConfig) -> Alert:
    name = "RagRetrievalEmpty"
    return Alert(
        name,
        _jumped("no_result", "1h", 0.05, config),
        "page",
        summary=f"{_APP} finds nothing for {_SHARE} of its requests, clearly more than last week.",
        description=(
            "Outcome no_result over the last hour. An index that is empty, half built or not reached looks like "
            "this, and so do a filter and a permission that changed."
        ),
        pending="10m",
        labels={"fault_layer": "retrieval"},
        annotations=Wording(config).links(name, worst_traces(outcome="no_result"), "groundwatch-retrieval"),
    )


def _mix_shift(config: AlertsConfig) -> Alert:
    name = "RagMixShift"
    return Alert(
        name,
        f"rag:mix_shift:6h > 0.15\nand rag:mix_requests:6h >= {10 * config.min_requests}",
        "ticket",
        summary=f"{_SHARE} of the traffic of {_APP} is of another kind than last week.",
        description=(
            "Shares of the strata over 6 hours against 7 days. The overall failure rate may move by this alone, "
            "while each kind of question is answered as well as before. A new client or a "
            "campaign does this."
        ),
        pending="1h",
        annotations=Wording(config).links(name, f"/?{_OF_APP}&window=6h", "groundwatch-quality"),
    )
