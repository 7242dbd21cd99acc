"""Run the rules that `groundwatch rules render` writes, by promtool, on made verdicts: when does the alert fire?"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import closed_loop
import judged_stream as js
import numpy as np

from groundwatch_alerts.alert_rules import application_groups
from groundwatch_alerts.estimate_rules import estimate_group
from groundwatch_alerts.objectives import AlertsConfig, Objective
from groundwatch_alerts.rule_files import Alert, Group, Recording, to_yaml

STEP = f"{js.STEP_SECONDS // 60}m"
_SAMPLE = re.compile(r'\{app="run(\d+)"\} ([\d.E+]+)')
_PER_FILE = 20  # runs: promtool reads the whole file into memory
_ALERT = 'ALERTS{alertname="RagFailureRateAboveObjective", alertstate="firing"}'


def fires(streams: Sequence[js.Stream], objective: float) -> Iterator[list[bool]]:
    """For each stream, at each step, whether the rendered alert of a 6 h window fires."""
    for first in range(0, len(streams), _PER_FILE):
        yield from _fires(streams[first : first + _PER_FILE], objective)


def _fires(streams: Sequence[js.Stream], objective: float) -> list[list[bool]]:
    rules = Objective("good", "any_failure", objective)
    groups = [replace(_quick(group), interval=STEP) for group in (estimate_group("6h"), _alerts(rules))]
    steps = len(streams[0].judged)
    asked = [
        {"expr": f"max by (app) ({_ALERT}) * {step}", "eval_time": f"{step * js.STEP_SECONDS}s", "exp_samples": []}
        for step in range(1, steps + 1)
    ]
    inputs = [row for run, stream in enumerate(streams) for row in _series(stream, f"run{run}")]
    inputs.append({"series": 'groundwatch_headline_judge{judge="l"}', "values": f"1x{steps}"})
    found = np.zeros((len(streams), steps), dtype=bool)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "rules.yaml").write_text(to_yaml(groups))
        test = {"interval": STEP, "input_series": inputs, "promql_expr_test": asked}
        document = {"rule_files": ["rules.yaml"], "evaluation_interval": STEP, "tests": [test]}
        (Path(folder) / "test.yaml").write_text(json.dumps(document))
        words = ["promtool", "test", "rules", "test.yaml"]
        # It is told to expect nothing, and so prints all that it finds.
        said = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    for run, step in _SAMPLE.findall(said.stdout + said.stderr):
        found[int(run), round(float(step)) - 1] = True
    return [[bool(one) for one in row] for row in found]


def _alerts(objective: Objective) -> Group:
    (group, *_rest) = application_groups([objective], AlertsConfig())
    return group


def _quick(group: Group) -> Group:
    """The same conditions without their words, whose queries take most of the time."""

    def bare(rule: Alert | Recording) -> Alert | Recording:
        if isinstance(rule, Recording):
            return rule
        return replace(rule, labels={}, annotations={}, summary="s", description="d")

    return replace(group, rules=[bare(rule) for rule in group.rules])


def _series(stream: js.Stream, app: str) -> Iterator[dict[str, str]]:
    """The counters as the monitor exports them."""
    for index, stratum in enumerate(closed_loop.STRATA):
        place, p = f'app="{app}", criterion="any_failure", stratum="{stratum}"', float(stream.chance[index])
        judged, failed = stream.judged[:, index], stream.failed[:, index]
        counters = {
            f"rag_eligible_traces_total{{{place}}}": stream.traffic[:, index],
            f'rag_judged_weight_total{{{place}, judge="l"}}': judged / p,
            f'rag_judged_fail_weight_total{{{place}, judge="l"}}': failed / p,
            f'rag_judged_weight_sq_total{{{place}, judge="l"}}': judged / p**2,
            f'rag_judged_total{{{place}, judge="l", verdict="fail"}}': failed,
            f'rag_judged_total{{{place}, judge="l", verdict="pass"}}': judged - failed,
        }
        for name, steps in counters.items():
            yield {"series": name, "values": " ".join(f"{value:.9g}" for value in (0, *np.cumsum(steps)))}
