"""Late feedback: both families are right, and the bookkeeping that suggests itself is not.

A fixed population is sampled again and again, each time with another salt, by the product's own hash, thresholds,
rule for late feedback and estimator. 0.5 % complain before the decision (85 % of those answers fail), 1.5 % later
(45 % fail).
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from groundwatch_alerts.estimator import StratumSums, estimate
from groundwatch_collector.sampling import included, u56
from groundwatch_collector.settling import Standing, chance_of_being_judged, final

SIZE, RUNS = 6_000, 400
RATES = {"feedback_neg": 0.6, "refusal": 0.3, "normal_b0": 0.1}
DECIDED = {name: Standing(name, rate) for name, rate in RATES.items()}
LATE = DECIDED["feedback_neg"]


class Trace(NamedTuple):
    id: str
    stratum: str  # of the decision
    late: bool  # somebody complains afterwards
    failed: bool


class Sums:
    """What the tallies of one family hold."""

    def __init__(self, strata: Iterable[str]) -> None:
        """*strata*: of every trace, chosen or not."""
        self.traffic = Counter(strata)
        self.judged: defaultdict[str, list[tuple[float, bool]]] = defaultdict(list)

    def strata(self) -> list[StratumSums]:
        return [self._stratum(name) for name in sorted(self.traffic)]

    def _stratum(self, name: str) -> StratumSums:
        found = self.judged[name]
        return StratumSums(
            name,
            self.traffic[name],
            sum(w for w, _ in found),
            sum(w for w, y in found if y),
            sum(w * w for w, _ in found),
            len(found),
            sum(y for _, y in found),
        )


def population() -> list[Trace]:
    """The same for every run. Ids are sequential, the hardest case for a hash."""
    rng = random.Random(11)
    kinds = [("feedback_neg", False, 0.85)] * 30 + [("normal_b0", True, 0.45)] * 90 + [("refusal", False, 0.4)] * 120
    kinds += [("normal_b0", False, 0.04)] * (SIZE - len(kinds))
    rng.shuffle(kinds)
    return [Trace(f"{n:032x}", name, late, rng.random() < p) for n, (name, late, p) in enumerate(kinds)]


def _end(trace: Trace) -> str:
    return final(DECIDED[trace.stratum], [LATE]).stratum if trace.late else trace.stratum


def run(traces: list[Trace], salt: bytes) -> dict[str, list[StratumSums]]:
    """One sample, in four kinds of bookkeeping."""
    fast, appended, on_top = (Sums(trace.stratum for trace in traces) for _ in range(3))
    settled = Sums(_end(trace) for trace in traces)
    for trace in traces:
        number = u56(trace.id, salt)
        decided = DECIDED[trace.stratum]
        chosen = included(number, decided.probability)
        if chosen:
            for sums in (fast, appended, on_top) if trace.late else (fast, appended, on_top, settled):
                sums.judged[trace.stratum].append((1 / decided.probability, trace.failed))
        if not trace.late:
            continue
        end = _end(trace)
        chance = chance_of_being_judged(number, decided.probability if chosen else None, [LATE])
        if chance is not None:
            settled.judged[end].append((1 / chance, trace.failed))
        if chance is not None and not chosen:  # judged because of the complaint
            appended.judged[end].append((1 / chance, trace.failed))
            on_top.traffic[end] += 1
            on_top.judged[end].append((1 / chance, trace.failed))
    kinds = {"fast": fast, "settled": settled, "appended": appended, "on_top": on_top}
    return {name: sums.strata() for name, sums in kinds.items()}


class Result(NamedTuple):
    bias: float  # percentage points
    standard_error: float  # of the bias
    coverage: float
    rmse: float
    moved: float  # percentage points from the fast family's estimate of the same sample, on average
    moved_standard_error: float  # far smaller: what both have in common cancels


@cache
def results() -> dict[str, Result]:
    traces = population()
    truth = sum(trace.failed for trace in traces) / SIZE
    errors: defaultdict[str, list[float]] = defaultdict(list)
    covered: defaultdict[str, int] = defaultdict(int)
    for number in range(RUNS):
        for name, strata in run(traces, f"salt {number}".encode()).items():
            found = estimate(strata)
            assert found is not None
            errors[name].append(100 * (found.rate - truth))
            covered[name] += found.low <= truth <= found.high
    return {name: _result(found, errors["fast"], covered[name]) for name, found in errors.items()}


def _result(errors: list[float], fast: list[float], covered: int) -> Result:
    rmse = math.sqrt(sum(error**2 for error in errors) / RUNS)
    moved = _mean([a - b for a, b in zip(errors, fast, strict=True)])
    return Result(*_mean(errors), covered / RUNS, rmse, *moved)


def _mean(values: list[float]) -> tuple[float, float]:
    """The mean and its standard error."""
    mean = sum(values) / RUNS
    return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / (RUNS - 1) / RUNS)


def test_the_fast_family_is_unbiased_although_late_verdicts_are_left_out():
    found = results()["fast"]
    assert abs(found.bias) < 3 * found.standard_error
    assert found.coverage >= 0.93


def test_the_settled_family_is_unbiased_and_tighter():
    found = results()["settled"]
    assert abs(found.bias) < 3 * found.standard_error
    assert abs(found.moved) < 3 * found.moved_standard_error
    assert found.coverage >= 0.93
    assert found.rmse < results()["fast"].rmse


def test_late_verdicts_appended_to_the_complaints_are_biased():
    """They dilute the stratum, whose traffic does not know of them."""
    found = results()["appended"]
    assert found.moved < -3 * found.moved_standard_error
    assert found.bias < -0.05


def test_late_verdicts_added_with_traffic_of_their_own_are_biased():
    """Those traces are counted twice: where they were decided, and where they were judged."""
    found = results()["on_top"]
    assert found.moved > 3 * found.moved_standard_error
    assert found.bias > 3 * found.standard_error


if __name__ == "__main__":
    for kind, result in results().items():
        print(f"{kind:9} bias {result.bias:+.3f} pp (SE {result.standard_error:.3f})  "
              f"coverage {result.coverage:.1%}  RMSE {result.rmse:.3f} pp  "
              f"from fast {result.moved:+.3f} (SE {result.moved_standard_error:.3f})")  # fmt: skip
