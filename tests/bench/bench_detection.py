"""How soon a rise from 5 % to 10 % is noticed, and how often an alert is false: the product's rules and detector.

    .venv/bin/python tests/bench/bench_detection.py [--runs 1000] [--seed 20261202] [--rendered 40]

A run is eight days at 5 %, of which the last seven count false alarms, then two days at 10 %. Delays begin with the
change; runs in which the alert fires at that moment are left out of them. The time that judges take comes on top.
The scores are those of the Python estimator (tests/alerts/test_rules.py: equal to the PromQL); with ``--rendered``
the written rules themselves are run by promtool on the same verdicts.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))
import closed_loop
import judged_stream as js
import numpy as np
import rendered_alert

from groundwatch_alerts.change_detection import Detector, learn
from groundwatch_alerts.objectives import WINDOWS

USUAL, RISEN = 0.05, 0.10
QUIET_DAYS, RISEN_DAYS = 8, 2
CHANGE = QUIET_DAYS * js.STEPS_A_DAY
_BEST_THRESHOLD = 0.78  # of the traces judged in a week: one false alarm a week of the detector that knows everything


def raw_mean_holds(stream: js.Stream, limit: float = 0.075) -> list[bool]:
    """The usual alert: the mean of an hour's verdicts is above a limit."""
    judged, failed = (np.convolve(c.sum(axis=1), np.ones(js.STEPS_AN_HOUR)) for c in (stream.judged, stream.failed))
    every = len(stream.judged)
    return [bool(n > 0 and y / n > limit) for y, n in zip(failed[:every], judged[:every], strict=True)]


def change_holds(stream: js.Stream, rng: np.random.Generator, judged_a_day: float) -> list[bool]:
    """The product's detector, with a baseline learnt from two weeks as the product does it."""
    baseline = learn(js.stream(rng, 14, USUAL, judged_a_day).whole(), 14)
    assert baseline is not None
    detector, holds = Detector(baseline, 1.0), []
    for step in range(len(stream.judged)):
        for stratum, failed in stream.verdicts(step, rng):
            detector.judged(stratum, failed)
        holds.append(detector.has_changed)
    return holds


def best_holds(stream: js.Stream, rng: np.random.Generator, judged_a_day: float) -> list[bool]:
    """The quickest detector that there is (Shiryaev-Roberts): it is told every rate before and after the change."""
    pairs = zip(js.rates_of(USUAL), js.rates_of(RISEN), strict=True)
    ratios = {n: ((1 - q) / (1 - p), q / p) for n, (p, q) in zip(closed_loop.STRATA, pairs, strict=True)}
    threshold, evidence, holds = _BEST_THRESHOLD * 7 * judged_a_day, 0.0, []
    for step in range(len(stream.judged)):
        for stratum, failed in stream.verdicts(step, rng):
            evidence = min((evidence + 1) * ratios[stratum][failed], math.e * threshold)
        holds.append(evidence > threshold)
    return holds


def false_and_delay(fires: Sequence[bool]) -> tuple[int, float | None]:
    """False alarms of the last quiet week, and hours from the change; None where it fired at the change."""
    week = range(CHANGE - 7 * js.STEPS_A_DAY, CHANGE)
    false = sum(fires[step] and not fires[step - 1] for step in week)
    if fires[CHANGE - 1]:
        return false, None
    first = next((step for step in range(CHANGE, len(fires)) if fires[step]), len(fires))
    return false, (first - CHANGE + 1) / js.STEPS_AN_HOUR


def told(name: str, outcomes: Sequence[tuple[int, float | None]]) -> str:
    false, hours = np.array([f for f, _h in outcomes]), np.array([h for _f, h in outcomes if h is not None])
    if false.mean() > 5:
        return f"{name:<34}{false.mean():>7.2f} ± {_error(false):.2f}{'fires anyway':>17}"
    delay = f"{hours.mean():>9.2f} ± {_error(hours):.2f}{np.quantile(hours, 0.9):>8.1f}"
    return f"{name:<34}{false.mean():>7.2f} ± {_error(false):.2f}{delay}"


def _error(values: np.typing.NDArray[np.float64]) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def alerts(rng: np.random.Generator, judged_a_day: float) -> dict[str, Callable[[js.Stream], list[bool]]]:
    """Every alert that is measured: when it fires."""

    def score(hours: int) -> Callable[[js.Stream], list[bool]]:
        return lambda stream: js.firing(js.score_holds(stream, hours, USUAL))

    wide = {name: hours for name, hours in WINDOWS.items() if judged_a_day * hours / 24 >= 60}
    found = {f"score over {name}": score(hours) for name, hours in wide.items()}
    found["change (in process)"] = lambda stream: js.firing(change_holds(stream, rng, judged_a_day), 0)
    found["best there is, told all rates"] = lambda stream: js.firing(best_holds(stream, rng, judged_a_day), 0)
    found["usual: mean of 1 h > 7.5 %"] = lambda stream: js.firing(raw_mean_holds(stream), 0, js.STEPS_AN_HOUR)
    return found


def a_run(rng: np.random.Generator, judged_a_day: float) -> js.Stream:
    quiet = js.stream(rng, QUIET_DAYS, USUAL, judged_a_day)
    return js.then(quiet, js.stream(rng, RISEN_DAYS, RISEN, judged_a_day))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=20261202)
    parser.add_argument("--judged", type=float, default=400, help="judged traces a day")
    parser.add_argument("--only", default="", help="alerts whose name begins so, e.g. score")
    parser.add_argument("--rendered", type=int, default=0, help="runs that promtool is given too")
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    rules = {name: fires for name, fires in alerts(rng, asked.judged).items() if name.startswith(asked.only)}
    outcomes: dict[str, list[tuple[int, float | None]]] = {name: [] for name in rules}
    rendered: list[js.Stream] = []
    for _ in range(asked.runs):
        stream = a_run(rng, asked.judged)
        for name, fires in rules.items():
            outcomes[name].append(false_and_delay(fires(stream)))
        if len(rendered) < asked.rendered:
            rendered.append(js.last(stream, 2 + RISEN_DAYS))
    print(f"{asked.judged:g} judged a day, {asked.runs} runs, seed {asked.seed}")
    print(f"{'alert':<34}{'false a week':>14}{'mean delay h':>16}{'p90 h':>8}")
    for name, rows in outcomes.items():
        print(told(name, rows), flush=True)
    if rendered:
        pairs = list(zip(rendered_alert.fires(rendered, USUAL), map(rules["score over 6h"], rendered), strict=True))
        same = sum(one == other for one, other in pairs)
        alarms = sum(len(js.starts(one)) for one, _other in pairs)
        print(
            f"by promtool, last 4 days: as in Python at each step in {same} of {len(pairs)} runs with {alarms} alarms"
        )


if __name__ == "__main__":
    main()
