"""Every alert fires in a case where it should and in none where it must not, evaluated by promtool."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from groundwatch_alerts.alert_names import ALERTS
from groundwatch_alerts.objectives import CRITERIA, AlertsConfig, Objective
from groundwatch_alerts.rule_files import Alert, Group, Recording, to_yaml
from groundwatch_alerts.rule_set import alert_groups, recording_groups

TARGETS = {"latency": 4.0, "first_token": 1.0, "cost": 0.02, "execution": 0.01, "timeout": 0.005}
OBJECTIVES = [Objective(name, name, TARGETS.get(name, 0.05), app="shop") for name in CRITERIA]
RULES = [
    rule
    for group in [*recording_groups(OBJECTIVES), *alert_groups(OBJECTIVES, AlertsConfig())]
    for rule in group.rules
]

Series = dict[str, str]


@dataclass(frozen=True)
class Case:
    """Series with one value a step, and whether the alert fires at the end."""

    alert: str
    about: str
    fires: bool
    series: Series
    hours: float = 2
    step_minutes: int = 5
    labels: str = ""  # matcher of the firing alert

    def document(self, folder: Path) -> dict[str, object]:
        rules = folder / f"{self.alert}.yaml"
        rules.write_text(to_yaml([Group("g", needed(self.alert), f"{self.step_minutes}m")]))
        matcher = f'alertname="{self.alert}", alertstate="firing"{self.labels}'
        samples = [{"labels": "{}", "value": 1}] if self.fires else []
        expected = {"expr": f"sum(ALERTS{{{matcher}}}) > bool 0", "eval_time": f"{int(self.hours * 60)}m"}
        rows = [{"series": name, "values": values} for name, values in self.series.items()]
        test = {"interval": f"{self.step_minutes}m", "input_series": rows}
        test |= {"promql_expr_test": [{**expected, "exp_samples": samples}]}
        return {"rule_files": [str(rules)], "evaluation_interval": f"{self.step_minutes}m", "tests": [test]}


def needed(alert: str) -> list[Recording | Alert]:
    """The rules of *alert* and all that they read, in order."""
    wanted = {alert}
    for rule in reversed(RULES):
        if (rule.record if isinstance(rule, Recording) else rule.alert) in wanted:
            words = " ".join(rule.labels.values()) if isinstance(rule, Alert) else ""
            wanted |= set(re.findall(r"\brag\w*:\w+:\w+\b", f"{rule.expr} {words}"))
    return [rule for rule in RULES if (rule.record if isinstance(rule, Recording) else rule.alert) in wanted]


def up(*parts: tuple[float, int]) -> str:
    """A counter that rises by so much a step, for so many steps, and then otherwise."""
    start, words = 0.0, []
    for rise, steps in parts:
        words.append(f"{start}+{rise}x{steps}")
        start += rise * (steps + 1)
    return " ".join(words)


def still(value: float) -> str:
    return f"{value}x300"


def judged(criterion: str, failing: float, judged_a_step: float = 2.0, frozen: int = 1) -> Series:
    place = f'app="shop", version="v2", criterion="{criterion}", stratum="normal_b0"'
    weight = 100 / judged_a_step
    verdicts = {
        "rag_judged_weight_total": 100.0,
        "rag_judged_fail_weight_total": 100 * failing,
        "rag_judged_weight_sq_total": 100 * weight,
        "rag_judge_not_applicable_weight_total": 0.0,
        "rag_judge_missing_weight_total": 0.0,
    }
    series = {f'{name}{{{place}, judge="l"}}': up((value, 100)) for name, value in verdicts.items()}
    series |= {f'rag_judged_total{{{place}, judge="l", verdict="pass"}}': up((judged_a_step, 100))}
    series |= {f"rag_eligible_traces_total{{{place}}}": up((100, 100))}
    series |= {'rag_fault_weight_total{app="shop", version="v2", judge="l", layer="rerank"}': up((30, 100))}
    key = f'app="shop", criterion="{criterion}"'
    return series | {
        'groundwatch_headline_judge{judge="l"}': still(1),
        f"rag_baseline_frozen{{{key}}}": still(frozen),
    }


def requests(steps: int, changed_steps: int = 0, **outcomes: float | tuple[float, float]) -> Series:
    found = {}
    for outcome, rise in outcomes.items():
        before, after = rise if isinstance(rise, tuple) else (rise, rise)
        parts = [(before, steps), (after, changed_steps)] if changed_steps else [(before, steps)]
        found[f'rag_requests_total{{app="shop", version="v1", outcome="{outcome}"}}'] = up(*parts)
    return found


def slow(metric: str, seconds: float) -> Series:
    return {
        f'{metric}_bucket{{app="shop", le="0.5"}}': up((0 if seconds > 0.5 else 20, 100)),
        f'{metric}_bucket{{app="shop", le="10"}}': up((20, 100)),
        f'{metric}_bucket{{app="shop", le="+Inf"}}': up((20, 100)),
        f'{metric}_count{{app="shop"}}': up((20, 100)),
    }


def mix(after: float) -> Series:
    return {
        'rag_traces_total{app="shop", version="v1", stratum="normal_b0"}': up((90, 336), (100 - after, 16)),
        'rag_traces_total{app="shop", version="v1", stratum="refusal"}': up((10, 336), (after, 16)),
    }


def one(series: str, values: str) -> Series:
    return {series: values}


PAGE, TICKET = ', severity="page"', ', severity="ticket"'
LATENCY, FIRST = "rag_request_duration_seconds", "rag_time_to_first_token_seconds"
REJECTED, FAILED = "groundwatch_rejected_requests_total", "groundwatch_judge_failures_total"
ANSWERS = requests(100, answered=100)
COST = 'rag_cost_usd_total{app="shop"}'
ASSESSED = one('groundwatch_judge_seconds_count{judge="l"}', up((5, 100)))
REPEATS = one('groundwatch_judge_repeats_total{judge="l"}', up((2, 400)))
ABOVE, WRONG, BLIND = "RagFailureRateAboveObjective", "RagWrongRefusals", "RagEstimateBlind"
BURN, SLOW_BURN, CHANGE = "RagExecutionBudgetBurn", "RagExecutionBudgetBurnSlow", "RagQualityChange"
VERSIONS = '{app="shop", criterion="any_failure", version="v2", against="v1"}'
FIRES, SILENT = True, False
ROLES = {"groundwatch_log_end_position": still(0), 'groundwatch_judge_queue_traces{state="waiting"}': still(0),
         "groundwatch_tally_read_errors_total": still(0)}  # fmt: skip

CASES = [
    Case(ABOVE, "30 % of the answers fail", FIRES, judged("any_failure", 0.3), 7, labels=PAGE),
    Case(ABOVE, "its layer and version are named", FIRES, judged("any_failure", 0.3), 7,
         labels=', fault_layer="rerank", version="v2"'),
    Case(ABOVE, "the objective is kept", SILENT, judged("any_failure", 0.05), 7),
    Case(ABOVE, "few are judged, most of them failed", SILENT, judged("any_failure", 0.9, 0.5), 7),
    Case(ABOVE, "while it is learnt nobody is woken", SILENT, judged("any_failure", 0.3, frozen=0), 7, labels=PAGE),
    Case(ABOVE, "while it is learnt a ticket opens", FIRES, judged("any_failure", 0.3, frozen=0), 7, labels=TICKET),
    Case(WRONG, "30 % are wrong", FIRES, judged("refusal", 0.3), 7, labels=PAGE),
    Case(WRONG, "answers fail, refusals are right", SILENT, judged("any_failure", 0.3), 7),
    Case(BLIND, "few are judged", FIRES, judged("any_failure", 0.3, 0.5), 8),
    Case(BLIND, "enough are judged", SILENT, judged("any_failure", 0.3), 8),
    *(
        Case(CHANGE, about, fires, {
            'rag_change_log_e{app="shop", criterion="any_failure"}': still(evidence),
            'rag_change_log_e_threshold{app="shop", criterion="any_failure"}': still(7.9),
            'rag_baseline_frozen{app="shop", criterion="any_failure"}': still(1),
        })
        for about, fires, evidence in (("evidence is above", FIRES, 8.5), ("evidence is below", SILENT, 7.5))
    ),
    *(
        Case("RagVersionWorse", about, fires, {
            f"rag_version_difference{VERSIONS}": still(0.08),
            f"rag_version_log_e{VERSIONS}": still(evidence),
            f"rag_version_difference_low{VERSIONS}": still(low),
            'rag_version_served{app="shop", version="v2", against="v1"}': still(1),
        })
        for about, fires, evidence, low in (
            ("8 points worse and sure", FIRES, 9, 0.02),
            ("8 points worse, by chance perhaps", SILENT, 1, -0.01),
        )
    ),
    Case(BURN, "a fifth are errors", FIRES, requests(100, answered=80, error=20)),
    Case(BURN, "1 % are errors", SILENT, requests(100, answered=99, error=1)),
    Case(BURN, "one error of three requests", SILENT, requests(100, answered=0.09, error=0.04)),
    Case(BURN, "users cancel, nothing fails", SILENT, requests(100, answered=80, cancelled=20)),
    Case(BURN, "every request failed for 20 minutes, then three scrapes are missed", FIRES,
         {name: f"{values} _ _ _" for name, values in requests(72, 3, answered=(100, 0), error=(0, 100)).items()},
         395 / 60),
    Case(SLOW_BURN, "5 % are errors for a day", FIRES, requests(100, answered=95, error=5), 26, 30),
    Case(SLOW_BURN, "2 % are errors for a day", SILENT, requests(100, answered=98, error=2), 26, 30),
    Case("RagLatencyAboveObjective", "users wait 9 s", FIRES, slow(LATENCY, 9)),
    Case("RagLatencyAboveObjective", "users wait 0.3 s", SILENT, slow(LATENCY, 0.3)),
    Case("RagFirstTokenAboveObjective", "the first word takes 9 s", FIRES, slow(FIRST, 9)),
    Case("RagFirstTokenAboveObjective", "the first word takes 0.3 s", SILENT, slow(FIRST, 0.3)),
    Case("RagCostAboveObjective", "5 cents an answer", FIRES, ANSWERS | one(COST, up((5, 100)))),
    Case("RagCostAboveObjective", "1 cent an answer", SILENT, ANSWERS | one(COST, up((1, 100)))),
    Case("RagRefusalShareChanged", "20 % instead of 2 % are refused", FIRES,
         requests(336, 16, answered=(98, 80), refused=(2, 20)), 174, 30),
    Case("RagRefusalShareChanged", "2 % are refused as ever", SILENT,
         requests(336, 16, answered=98, refused=2), 174, 30),
    Case("RagRetrievalEmpty", "30 % instead of 1 % find nothing", FIRES,
         requests(1008, 9, answered=(99, 70), no_result=(1, 30)), 169, 10),
    Case("RagRetrievalEmpty", "an app that always finds nothing for 10 %", SILENT,
         requests(1008, 9, answered=90, no_result=10), 169, 10),
    Case("RagMixShift", "half are refused instead of a tenth", FIRES, mix(50), 175, 30),
    Case("RagMixShift", "the mix is as ever", SILENT, mix(10), 175, 30),
    Case("RagTrafficGone", "300 an hour, none since 90 minutes", FIRES,
         requests(1008, 9, answered=(50, 0)), 169.5, 10),
    Case("RagTrafficGone", "300 an hour as ever", SILENT, requests(1008, 9, answered=50), 169, 10),
    Case("RagTrafficGone", "none at this hour of yesterday either", SILENT,
         requests(836, 181, answered=(50, 0)), 169, 10),
    Case("RagTrafficGone", "the collector was restarted, and nothing came since", FIRES,
         {name: f"{values} stale" for name, values in requests(1000, answered=50).items()}, 169, 10),
    *(
        Case("GroundwatchExportedTwice", f"{processes} with the role exporter", processes > 1,
             {f'rag_traces_total{{app="m", version="1", stratum="s", instance="{n}"}}': still(1)
              for n in range(processes)})
        for processes in (1, 2)
    ),
    Case("GroundwatchExportedTwice", "two deployments, each with its own application", SILENT,
         {f'rag_traces_total{{app="{app}", version="1", stratum="s", instance="{app}"}}': still(1) for app in "ab"}
         | {f'groundwatch_headline_judge{{judge="l", instance="{app}"}}': still(1) for app in "ab"}),
    Case("GroundwatchAbsent", "nothing is scraped", FIRES, one("up", still(0))),
    *(
        Case("GroundwatchAbsent", f"no {role} is scraped", FIRES, {k: v for k, v in ROLES.items() if k != series},
             labels=f', role="{role}"')
        for role, series in zip(("collector", "scorer", "exporter"), ROLES, strict=True)
    ),
    Case("GroundwatchAbsent", "every role is scraped", SILENT, ROLES),
    Case("GroundwatchAbsent", "every role is scraped, the log is in Kafka", SILENT,
         {**dict(list(ROLES.items())[1:]), "groundwatch_kafka_assigned_partitions": still(0)}),
    Case("GroundwatchCollectorDropping", "the log is full", FIRES,
         one(REJECTED + '{reason="log_full"}', up((5, 100)))),
    Case("GroundwatchCollectorDropping", "one of two kinds of records cannot be read", FIRES,
         one('groundwatch_dead_letters_total{reason="decode_failed"}', up((5, 100)))
         | one('groundwatch_dead_letters_total{reason="bad_protobuf"}', still(0))),
    Case("GroundwatchCollectorDropping", "a stranger has no key", SILENT,
         one(REJECTED + '{reason="unauthorized"}', up((5, 100)))),
    Case("GroundwatchLogLag", "100 MB wait", FIRES, one("groundwatch_pipeline_backlog_bytes", still(1e8))),
    Case("GroundwatchLogLag", "1 MB waits", SILENT, one("groundwatch_pipeline_backlog_bytes", still(1e6))),
    Case("GroundwatchJudgeBacklogOld", "the oldest waits 2 h", FIRES,
         one("groundwatch_judge_queue_oldest_timestamp_seconds", still(1))),
    Case("GroundwatchJudgeBacklogOld", "none waits", SILENT,
         one("groundwatch_judge_queue_oldest_timestamp_seconds", still(0))),
    Case("GroundwatchJudgeUnavailable", "60 % time out", FIRES,
         ASSESSED | one(FAILED + '{judge="l", reason="timeout"}', up((3, 100)))),
    Case("GroundwatchJudgeUnavailable", "2 % time out", SILENT,
         ASSESSED | one(FAILED + '{judge="l", reason="timeout"}', up((0.1, 100)))),
    Case("GroundwatchJudgeOverBudget", "the money is spent", FIRES,
         one(FAILED + '{judge="l", reason="over_budget"}', up((3, 100)))),
    Case("GroundwatchJudgeOverBudget", "the endpoint is slow", SILENT,
         one(FAILED + '{judge="l", reason="timeout"}', up((3, 100)))),
    Case("GroundwatchJudgeDrift", "kappa 0.5", FIRES, one('groundwatch_judge_kappa{judge="l"}', still(0.5))),
    Case("GroundwatchJudgeDrift", "kappa 0.8", SILENT, one('groundwatch_judge_kappa{judge="l"}', still(0.8))),
    Case("GroundwatchJudgeUnstable", "a quarter differ the second time", FIRES,
         REPEATS | one('groundwatch_judge_repeat_changes_total{judge="l"}', up((0.5, 400))), 25),
    Case("GroundwatchJudgeUnstable", "2 % differ the second time", SILENT,
         REPEATS | one('groundwatch_judge_repeat_changes_total{judge="l"}', up((0.04, 400))), 25),
    Case("GroundwatchFeedbackBurst", "complaints are held back", FIRES,
         one('groundwatch_feedback_quarantined_total{bound="subject"}', up((0, 10), (9, 90)))),
    Case("GroundwatchFeedbackBurst", "none is held back", SILENT,
         one('groundwatch_feedback_quarantined_total{bound="app"}', still(7))),
    Case("GroundwatchFeedbackWithoutToken", "a key is wrong", FIRES,
         one(REJECTED + '{reason="feedback_token"}', up((25, 100)))),
    Case("GroundwatchFeedbackWithoutToken", "somebody tried once", SILENT,
         one(REJECTED + '{reason="feedback_token"}', up((0, 10), (1, 0), (0, 90)))),
    Case("GroundwatchLabelOverflow", "versions change with every request", FIRES,
         one('groundwatch_label_overflow_total{label="version"}', up((9, 100)))),
    Case("GroundwatchLabelOverflow", "every label has room", SILENT,
         one('groundwatch_label_overflow_total{label="version"}', still(0))),
]  # fmt: skip


LAYER = 'rag_fault_weight_total{app="shop", version="v2", judge="l", layer="%s"}'
LAYERS_CHANGE = {LAYER % "rerank": up((30, 84), (0, 40)), LAYER % "generation": up((0, 84), (200, 40))}


@pytest.mark.service("prometheus")
def test_an_alert_that_fires_stays_one_when_another_layer_comes_to_weigh_most(tmp_path):
    """With another label it would be another alert: it waits anew, is grouped apart, and pages a second time."""
    case = Case(ABOVE, "the layer changes", FIRES, judged("any_failure", 0.3) | LAYERS_CHANGE, 9)
    firing = f'ALERTS{{alertname="{ABOVE}", alertstate="firing"'
    most = 'topk(1, rag:fault_weight:6h) and rag:fault_weight:6h{layer="generation"}'
    said = promtool(
        case, tmp_path, [f"count({firing}}})", f'count({firing}, fault_layer="rerank"}})', f"count({most})"]
    )
    assert said == ""


@pytest.mark.service("prometheus")
def test_while_the_monitor_is_down_nobody_is_told_that_no_baseline_is_known(tmp_path):
    named = [Objective("named", "any_failure", 0.05, app="shop", judge="l")]
    groups = [*recording_groups(named), *alert_groups(named, AlertsConfig())]
    series = judged("any_failure", 0.3) | one(
        'rag_baseline_frozen{app="shop", criterion="any_failure"}', "1x75 stale"
    )
    case = Case(ABOVE, "the monitor is killed after 6:20 h", FIRES, series, 7)
    document: Any = case.document(tmp_path)
    quick = [replace(group, interval="5m") for group in groups if group.name.endswith(("6h", "faults", "objectives"))]
    (tmp_path / f"{ABOVE}.yaml").write_text(to_yaml(quick))
    states = [f'count(ALERTS{{alertname="{ABOVE}", severity="page"}})', f'count(ALERTS{{alertname="{ABOVE}"}})']
    rows = [{"expr": expr, "eval_time": "7h", "exp_samples": [{"labels": "{}", "value": 1}]} for expr in states]
    document["tests"][0]["promql_expr_test"] = rows
    assert run(document, tmp_path) == ""


FIGURES = {
    "RagCostAboveObjective": (ANSWERS | one(COST, up((3, 100))), "An answer of shop costs 0.03 USD on average"),
    "GroundwatchJudgeDrift": (one('groundwatch_judge_kappa{judge="l"}', still(0.5)), "no better than kappa 0.50."),
    BURN: (requests(100, answered=80, timeout=20), "&outcome=timeout"),
}


@pytest.mark.service("prometheus")
@pytest.mark.parametrize("alert", FIGURES)
def test_what_is_told_is_true_and_needs_no_second_look(alert, tmp_path):
    """Three cents are not "30m", kappa 0.5 is not "500m", and a link leads to what failed, not to an empty list."""
    series, words = FIGURES[alert]
    assert words in told(Case(alert, "its words", FIRES, series), tmp_path)


@pytest.mark.service("prometheus")
def test_a_name_that_looks_like_a_template_stays_what_it_is(tmp_path):
    key = 'app="客服{{x}} \\"q\\" `b` $labels %s\\n", criterion="any_failure"'
    evidence = {f"rag_change_log_e{{{key}}}": still(8.5), f"rag_change_log_e_threshold{{{key}}}": still(7.9)}
    failed = {f'rag_fault_weight_total{{{key}, version="v2{{{{.}}}}", judge="l", layer="rerank"}}': up((30, 100))}
    said = told(Case(CHANGE, "", FIRES, evidence | failed | {f"rag_baseline_frozen{{{key}}}": still(1)}), tmp_path)
    assert f'Labels:{{alertname="RagQualityChange", {key}, fault_layer="rerank"' in said
    assert 'version="v2{{.}}"' in said
    assert "/traces?app=%E5%AE%A2%E6%9C%8D%7B%7Bx%7D%7D+%22q%22+%60b%60+%24labels+%25s%0A&window=24h" in said


def promtool(case: Case, folder: Path, expressions: list[str] | None = None) -> str:
    """What promtool complains of, where each of *expressions* shall be 1 at the end; without: what *case* says."""
    document: Any = case.document(folder)
    if expressions is not None:
        at, one_sample = f"{int(case.hours * 60)}m", [{"labels": "{}", "value": 1}]
        rows = [{"expr": expr, "eval_time": at, "exp_samples": one_sample} for expr in expressions]
        document["tests"][0]["promql_expr_test"] = rows
    return run(document, folder)


def told(case: Case, folder: Path) -> str:
    """The words of the firing alert: promtool is told to expect none, and prints what it finds."""
    document: Any = case.document(folder)
    del document["tests"][0]["promql_expr_test"]
    at = f"{int(case.hours * 60)}m"
    document["tests"][0]["alert_rule_test"] = [{"alertname": case.alert, "eval_time": at, "exp_alerts": []}]
    return run(document, folder)


def run(document: object, folder: Path) -> str:
    path = folder / "test.yaml"
    path.write_text(json.dumps(document, ensure_ascii=False))  # YAML reads JSON
    program = shutil.which("promtool") or "promtool"
    done = subprocess.run([program, "test", "rules", str(path)], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize("fires", [FIRES, SILENT])
def test_every_alert_has_a_case_where_it_fires_and_one_where_it_does_not(fires):
    assert {case.alert for case in CASES if case.fires is fires} == {alert.name for alert in ALERTS}


@pytest.mark.service("prometheus")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.alert}: {case.about}")
def test_alert(case, tmp_path):
    assert promtool(case, tmp_path) == ""
