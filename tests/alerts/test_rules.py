"""The recording rules say what the Python estimator says, to 1e-6, evaluated by Prometheus' own promtool."""

from __future__ import annotations

import importlib.resources
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from groundwatch_alerts.estimator import Estimate, StratumSums, estimate

RULES = Path(str(importlib.resources.files("groundwatch_alerts") / "rules" / "rag-6h.yaml"))
MINUTES = 360
LABELS = '{app="shop", criterion="any_failure", judge="%s"}'

# Equal weights, weights that changed, no failure at all, a census, a census with verdicts missing, no verdict, not
# always applicable, never applicable. Each value is reached by a straight line over six hours.
STRATA = (
    StratumSums("normal_b0", 36_000, 36_000, 720, 3_600_000, 360, 7),
    StratumSums("normal_b1", 7_200, 7_000, 900, 180_000, 300, 40),
    StratumSums("normal_b2", 3_600, 3_800, 0, 72_000, 200, 0),
    StratumSums("normal_b3", 720, 720, 144, 720, 720, 144),
    StratumSums("feedback_neg", 360, 90, 60, 90, 90, 60),
    StratumSums("incomplete", 180, 0, 0, 0, 0, 0),
    StratumSums("refusal", 1_080, 540, 270, 1_620, 180, 90, not_applicable_weight=360),
    StratumSums("cancelled", 108, 0, 0, 0, 0, 0, not_applicable_weight=72),
)
BLIND = tuple(StratumSums(s.stratum, s.traffic, 0, 0, 0, 0, 0) for s in STRATA)


def line(name: str, value: float, **labels: str) -> dict[str, str]:
    inside = ", ".join(f'{key}="{text}"' for key, text in labels.items())
    return {"series": f"{name}{{{inside}}}", "values": f"0+{value / MINUTES}x{MINUTES}"}


def series(judge: str, strata: tuple[StratumSums, ...]) -> list[dict[str, str]]:
    rows = []
    for s in strata:
        for version, part in (("v1", 0.25), ("v2", 0.75)):
            labels = {"app": "shop", "version": version, "stratum": s.stratum, "criterion": "any_failure"}
            sums = {
                "rag_judged_weight_total": s.weight,
                "rag_judged_fail_weight_total": s.fail_weight,
                "rag_judged_weight_sq_total": s.weight_sq,
                "rag_judge_not_applicable_weight_total": s.not_applicable_weight,
            }
            rows += [line(name, part * value, **labels, judge=judge) for name, value in sums.items()]
    return rows


def traffic() -> list[dict[str, str]]:
    return [
        line(
            "rag_eligible_traces_total",
            s.traffic,
            app="shop",
            version="v1",
            stratum=s.stratum,
            criterion="any_failure",
        )
        for s in STRATA
    ]


def expectations(found: Estimate) -> list[dict[str, object]]:
    values = {
        "rag:fail_ratio:6h": found.rate,
        "rag:fail_ratio_lcb95:6h": found.low,
        "rag:fail_ratio_ucb95:6h": found.high,
        "rag:fail_ratio_ucb95_safe:6h": found.high_safe,
        "rag:judged_share:6h": found.judged_share,
        "rag:neff:6h / 1e4": found.effective_n / 1e4,
    }
    return [
        {
            "expr": f"abs({name.replace('6h', '6h' + LABELS % 'l', 1)} - {value!r}) < bool 1e-6",
            "eval_time": "6h",
            "exp_samples": [{"labels": LABELS % "l", "value": 1}],
        }
        for name, value in values.items()
    ]


@pytest.mark.service("prometheus")
def test_rules_equal_the_estimator(tmp_path: Path) -> None:
    found = estimate(STRATA)
    assert found is not None
    nothing = {"expr": f"rag:fail_ratio:6h{LABELS % 'blind'}", "eval_time": "6h", "exp_samples": []}
    document = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [*traffic(), *series("l", STRATA), *series("blind", BLIND)],
                "promql_expr_test": [*expectations(found), nothing],
            }
        ],
    }
    path = tmp_path / "test.yaml"
    path.write_text(json.dumps(document))  # YAML reads JSON
    promtool = shutil.which("promtool")
    assert promtool is not None
    done = subprocess.run([promtool, "test", "rules", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.service("prometheus")
def test_rules_pass_promtools_own_check() -> None:
    promtool = shutil.which("promtool")
    assert promtool is not None
    done = subprocess.run([promtool, "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout
