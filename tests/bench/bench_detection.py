"""How soon a rise from 5 % to 10 % is noticed, and how often an alert is false: the product's rules and detector.

    .venv/bin/python tests/bench/bench_detection.py [--weeks 100] [--runs 200] [--seed 1]

The rules' window and score are evaluated by the Python estimator, which tests/alerts/test_rules.py proves equal to
the rendered PromQL. Times begin with the change; the time that judges take comes on top.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import mean

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))
import judged_stream as js

from groundwatch_alerts.change_detection import Detector, learn
from groundwatch_alerts.estimator import estimate
from groundwatch_alerts.objectives import WINDOWS, alarm_z

Rule = Callable[[js.Stream], list[bool]]
USUAL, RISEN = 0.05, 0.10
STEPS_AN_HOUR = 3600 // js.STEP_SECONDS
LONGEST_HOURS = 48


def score_holds(stream: js.Stream, hours: int, z: float) -> list[bool]:
    """Whether the condition of the alert holds, at each step; before a window is full it does not."""
    holds = [False] * (hours * STEPS_AN_HOUR - 1)
    for _end, strata in stream.windows(hours * STEPS_AN_HOUR):
        found = estimate(strata)
        enough = found is not None and found.judged >= 60 and found.judged_share > 0.98
        holds.append(enough and found is not None and found.score(USUAL) > z)
    return holds


def raw_mean_holds(stream: js.Stream, limit: float = 0.075) -> list[bool]:
    """The usual alert: the mean of an hour's verdicts is above a limit."""
    windows = stream.windows(STEPS_AN_HOUR)
    means = [(sum(s.failed for s in strata), sum(s.judged for s in strata)) for _end, strata in windows]
    return [False] * (STEPS_AN_HOUR - 1) + [n > 0 and y / n > limit for y, n in means]


def detector_of(rng: np.random.Generator, judged_a_day: float) -> Detector:
    """One whose baseline was learnt from two weeks, as the product does it."""
    baseline = learn(js.stream(rng, 14, USUAL, judged_a_day).whole(), 14)
    assert baseline is not None
    return Detector(baseline, 1.0)


def change_holds(stream: js.Stream, detector: Detector, rng: np.random.Generator) -> list[bool]:
    holds = []
    for step in range(len(stream.judged)):
        for stratum, failed in stream.verdicts(step, rng):
            detector.judged(stratum, failed)
        holds.append(detector.has_changed)
    return holds


def delays(
    rng: np.random.Generator, runs: int, judged_a_day: float, rules: Mapping[str, Rule]
) -> dict[str, list[float]]:
    """Hours from the change to the alert; runs that fired just before the change are left out."""
    found: dict[str, list[float]] = {name: [] for name in rules}
    for _ in range(runs):
        before = js.stream(rng, 1, USUAL, judged_a_day)
        both = js.then(before, js.stream(rng, LONGEST_HOURS / 24, RISEN, judged_a_day))
        for name, rule in rules.items():
            pending = 1 if name.endswith("h") else 0
            begun = js.episodes(rule(both), pending)
            change = len(before.judged)
            if not any(change - 2 * STEPS_AN_HOUR <= step < change for step in begun):
                first = next((step for step in begun if step >= change), change + LONGEST_HOURS * STEPS_AN_HOUR)
                found[name].append((first - change + 1) / STEPS_AN_HOUR)
    return found


def rules_of(rng: np.random.Generator, judged_a_day: float) -> dict[str, Rule]:
    """Every alert that is measured, by name."""

    def score(hours: int) -> Rule:
        return lambda stream: score_holds(stream, hours, alarm_z(hours, 1.0))

    wide = {name: hours for name, hours in WINDOWS.items() if judged_a_day * hours / 24 >= 60}
    rules: dict[str, Rule] = {f"score over {name}": score(hours) for name, hours in wide.items()}
    rules["change (in process)"] = lambda stream: change_holds(stream, detector_of(rng, judged_a_day), rng)
    rules["raw mean of 1 h > 7.5 %"] = raw_mean_holds
    return rules


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weeks", type=int, default=100)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--judged", type=float, default=400, help="judged traces a day")
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    rules = rules_of(rng, asked.judged)
    print(f"{asked.judged:g} judged a day, {asked.weeks} weeks, {asked.runs} runs, seed {asked.seed}")
    late = delays(rng, asked.runs, asked.judged, rules)
    print(f"{'alert':<26}{'false a week':>14}{'mean delay h':>14}{'p90 h':>8}")
    for name, rule in rules.items():
        pending = 1 if name.endswith("h") else 0
        false = [len(js.episodes(rule(js.stream(rng, 7, USUAL, asked.judged)), pending)) for _ in range(asked.weeks)]
        hours = late[name]
        told = f"{mean(hours):>14.1f}{float(np.quantile(hours, 0.9)):>8.1f}"
        told = told if mean(false) < 5 else f"{'fires anyway':>22}"
        print(f"{name:<26}{mean(false):>14.2f}{told}", flush=True)


if __name__ == "__main__":
    main()
