"""The rendered rules say what the Python estimator says, to 1e-6, evaluated by Prometheus' own promtool."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from alerting import running, until
from local_server import served

from groundwatch_alerts.alert_rules import application_groups
from groundwatch_alerts.estimate_rules import estimate_group
from groundwatch_alerts.estimator import Estimate, StratumSums, estimate
from groundwatch_alerts.objectives import AlertsConfig, Objective, alarm_z, alarm_z_promql
from groundwatch_alerts.rule_files import Group, to_yaml

MINUTES = 360
LABELS = '{app="shop", criterion="any_failure", judge="%s"}'
OBJECTIVE = Objective("good", "any_failure", 0.05, app="shop")

# Equal weights, weights that changed, no failure at all, a census, a census with verdicts missing, no verdict, not
# always applicable, never applicable. Each value is reached by a straight line over six hours.
STRATA = (
    StratumSums("normal_b0", 36_000, 36_000, 720, 3_600_000, 360, 7),
    StratumSums("normal_b1", 7_200, 7_000, 900, 180_000, 300, 40),
    StratumSums("normal_b2", 3_600, 3_800, 0, 72_000, 200, 0, missing_weight=90),
    StratumSums("normal_b3", 720, 720, 144, 720, 720, 144),
    StratumSums("feedback_neg", 360, 90, 60, 90, 90, 60, missing_weight=36),
    StratumSums("incomplete", 180, 0, 0, 0, 0, 0),
    StratumSums("refusal", 1_080, 540, 270, 1_620, 180, 90, not_applicable_weight=360),
    StratumSums("cancelled", 108, 0, 0, 0, 0, 0, not_applicable_weight=72),
)
BLIND = tuple(StratumSums(s.stratum, s.traffic, 0, 0, 0, 0, 0) for s in STRATA)


def line(name: str, value: float, **labels: str) -> dict[str, str]:
    inside = ", ".join(f'{key}="{text}"' for key, text in labels.items())
    step = value / MINUTES
    values = f"0+{step}x{MINUTES}"
    if labels.get("instance") == "restarted":  # at half time from 0 again, having counted one minute since
        half = MINUTES // 2
        values = f"0+{step}x{half} {step}+{step}x{half - 1}"
    return {"series": f"{name}{{{inside}}}", "values": values}


REPLICAS = (("v1", "steady", 0.25), ("v2", "steady", 0.5), ("v2", "restarted", 0.25))


def replicas(name: str, value: float, **labels: str) -> list[dict[str, str]]:
    """*value* as two processes count it, in two versions; one process is started again half way."""
    return [line(name, part * value, **labels, version=v, instance=i) for v, i, part in REPLICAS]


def series(judge: str, strata: tuple[StratumSums, ...], prefix: str = "rag") -> list[dict[str, str]]:
    rows = []
    for s in strata:
        labels = {"app": "shop", "stratum": s.stratum, "criterion": "any_failure"}
        sums = {
            "judged_weight": s.weight,
            "judged_fail_weight": s.fail_weight,
            "judged_weight_sq": s.weight_sq,
            "judge_not_applicable_weight": s.not_applicable_weight,
            "judge_missing_weight": s.missing_weight,
        }
        for name, value in sums.items():
            rows += replicas(f"{prefix}_{name}_total", value, **labels, judge=judge)
        for verdict, value in (("fail", s.failed), ("pass", s.judged - s.failed)):
            rows += replicas(f"{prefix}_judged_total", value, **labels, judge=judge, verdict=verdict)
    return rows


def traffic(prefix: str = "rag") -> list[dict[str, str]]:
    name, labels = f"{prefix}_eligible_traces_total", {"app": "shop", "criterion": "any_failure"}
    return [row for s in STRATA for row in replicas(name, s.traffic, **labels, stratum=s.stratum)]


def values_of(found: Estimate) -> dict[str, float]:
    """Recorded series, and what the estimator says of each."""
    return {
        "fail_ratio": found.rate,
        "fail_ratio_lcb95": found.low,
        "fail_ratio_ucb95": found.high,
        "fail_ratio_ucb95_safe": found.high_safe,
        "judged_share": found.judged_share,
        "missing_share": found.missing_share,
        "judged": found.judged,
        "neff": found.effective_n,
    }


def expectations(found: Estimate, prefix: str = "rag") -> list[dict[str, object]]:
    values = values_of(found)
    if prefix == "rag":
        values["score_z"] = found.score(OBJECTIVE.objective)
    expected = [(f"{prefix}:{name}:6h{LABELS % 'l'}", value) for name, value in values.items()]
    # The limit of the score, which follows from how much was judged.
    limit = alarm_z_promql(6, 1.0, f"{prefix}:judged:6h{LABELS % 'l'}")
    return [
        {
            "expr": f"abs({expr} / {value!r} - 1) < bool 1e-6",
            "eval_time": "6h",
            "exp_samples": [{"labels": LABELS % "l", "value": 1}],
        }
        for expr, value in [*expected, (limit, alarm_z(6, 1.0, found.judged))]
    ]


def with_scores(group: Group) -> Group:
    """The recording rule that alerts on quality read, evaluated after those that it reads."""
    (objectives, *_rest) = application_groups([OBJECTIVE], AlertsConfig())
    return Group(group.name, [*group.rules, objectives.rules[0]])


def promtool(*words: str) -> str:
    program = shutil.which("promtool")
    assert program is not None
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def evaluated(tmp_path: Path, groups: list[Group], test: dict[str, Any]) -> None:
    rules, path = tmp_path / "rules.yaml", tmp_path / "test.yaml"
    rules.write_text(to_yaml(groups))
    document = {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [{"interval": "1m", **test}]}
    path.write_text(json.dumps(document))  # YAML reads JSON
    promtool("test", "rules", str(path))


@pytest.mark.service("prometheus")
def test_rules_equal_the_estimator_over_replicas_versions_and_a_restart(tmp_path):
    found = estimate(STRATA)
    assert found is not None and math.isfinite(found.effective_n)
    nothing = {"expr": f"rag:fail_ratio:6h{LABELS % 'blind'}", "eval_time": "6h", "exp_samples": []}
    inputs = [*traffic(), *series("l", STRATA), *series("blind", BLIND)]
    expected = [*expectations(found), nothing]
    evaluated(tmp_path, [with_scores(estimate_group("6h"))], {"input_series": inputs, "promql_expr_test": expected})


@pytest.mark.service("prometheus")
def test_rules_of_the_settled_family_equal_the_estimator(tmp_path):
    found = estimate(STRATA)
    assert found is not None
    inputs = [*traffic("rag_settled"), *series("l", STRATA, "rag_settled")]
    expected = expectations(found, "rag_settled")
    evaluated(tmp_path, [estimate_group("6h", "settled")], {"input_series": inputs, "promql_expr_test": expected})


class Exporter:
    """Two processes, as Prometheus scrapes them: three minutes later at each scrape, by timestamps of their own.

    They count in straight lines; the second is started again at half time. An hour that way takes some seconds.
    """

    MINUTES, STEP = 66, 3

    def __init__(self, now: float) -> None:
        self._start = now - 60 * self.MINUTES
        self._counters = {process: list(_counters(process)) for process in ("steady", "restarted")}
        self._scrapes = dict.fromkeys(("steady", "restarted"), 0)

    def done(self) -> bool:
        return min(self._scrapes.values()) > self.MINUTES // self.STEP

    def page(self, process: str) -> str:
        minute = min(self.STEP * self._scrapes[process], self.MINUTES)
        self._scrapes[process] += 1
        half = self.MINUTES // 2
        counted = minute - half if process == "restarted" and minute > half else minute
        at = round(1000 * (self._start + 60 * minute))
        return "".join(f"{name} {value * counted / 60!r} {at}\n" for name, value in self._counters[process])


def _counters(process: str) -> Iterator[tuple[str, float]]:
    """What a process counts in an hour, by series."""
    for row in [*traffic(), *series("l", STRATA), *series("blind", BLIND)]:
        name, step = row["series"], float(row["values"].split("+", 1)[1].split("x", 1)[0])
        if f'instance="{process}"' in name:
            yield name.replace(f', instance="{process}"', ""), step * MINUTES


@contextmanager
def exporting(exporter: Exporter) -> Iterator[list[str]]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = exporter.page(self.path.strip("/")).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            with suppress(BrokenPipeError):  # Prometheus did not wait: it has one point of a straight line less
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    with served(ThreadingHTTPServer(("127.0.0.1", 0), Page)) as server:
        yield [f"127.0.0.1:{server.server_address[1]}/{process}" for process in ("steady", "restarted")]


@pytest.mark.service("prometheus")
def test_a_live_prometheus_that_scrapes_two_processes_says_what_the_estimator_says(tmp_path):
    """Replicas, versions, a restart, unjudged strata: scraped, recorded by its own clock, asked over its API."""
    found = estimate(STRATA)
    assert found is not None
    exporter = Exporter(time.time())
    (tmp_path / "rules.yaml").write_text(to_yaml([replace(estimate_group("1h"), interval="1s")]))
    with exporting(exporter) as targets:
        jobs = [
            {
                "job_name": path,
                "metrics_path": f"/{path}",
                "static_configs": [{"targets": [address], "labels": {"instance": path}}],
            }
            for address, path in (target.split("/") for target in targets)
        ]
        config = {
            "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": jobs,
            "storage": {"tsdb": {"out_of_order_time_window": "3h"}},  # its own up{} is of now, the counters of before
        }
        (tmp_path / "prometheus.yml").write_text(json.dumps(config))
        options = (f"--config.file={tmp_path / 'prometheus.yml'}", f"--storage.tsdb.path={tmp_path / 'tsdb'}")
        with running(tmp_path, "prometheus", *options) as url:
            until(exporter.done, 90)
            expected = values_of(found)
            until(lambda: differing(url, expected) == {}, 40)
            assert asked(url, f"rag:fail_ratio:1h{LABELS % 'blind'}") == []


def differing(url: str, expected: dict[str, float]) -> dict[str, list[float]]:
    """Recorded series that are not what they should be, to 1e-6."""
    found = {name: asked(url, f"rag:{name}:1h{LABELS % 'l'}") for name in expected}
    return {name: values for name, values in found.items() if values != [pytest.approx(expected[name], rel=1e-6)]}


def asked(url: str, query: str) -> list[float]:
    answer = httpx.get(f"{url}/api/v1/query", params={"query": query}).json()
    return [float(row["value"][1]) for row in answer["data"]["result"]]
