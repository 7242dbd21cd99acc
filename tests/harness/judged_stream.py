"""Made traffic with a known failure rate, sampled as the product samples it, for alerts: how soon, how often falsely.

Seven strata whose heuristic score has an AUROC of 0.85, chances proportional to the spread inside the stratum with a
floor, steps of five minutes. The verdicts are made; what reads them is the product's own code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import closed_loop
import numpy as np
import numpy.typing as npt

from groundwatch_alerts.estimator import StratumSums

STEP_SECONDS = 300
STEPS_A_DAY = 86_400 // STEP_SECONDS
Counts = npt.NDArray[np.int64]


def rates_of(overall: float) -> npt.NDArray[np.float64]:
    """Failure rate of each stratum, all odds moved alike, so that *overall* is that of the traffic."""
    odds = closed_loop.FAILURES / (1 - closed_loop.FAILURES)
    low, high = 1e-3, 1e3
    for _ in range(80):
        factor = float(np.sqrt(low * high))
        rates = odds * factor / (1 + odds * factor)
        low, high = (factor, high) if float(closed_loop.SHARES @ rates) < overall else (low, factor)
    return np.asarray(rates)


def chances(judged_a_day: float, traffic_a_day: float, usual: float = 0.05) -> npt.NDArray[np.float64]:
    """Chance of each stratum to be judged: proportional to the spread of its verdicts, with a floor."""
    rates, mean = rates_of(usual), judged_a_day / traffic_a_day
    wanted = np.sqrt(rates * (1 - rates))
    wanted = np.maximum(wanted * mean / float(closed_loop.SHARES @ wanted), 0.3 * mean)
    return np.minimum(1.0, wanted * mean / float(closed_loop.SHARES @ wanted))


@dataclass(frozen=True)
class Stream:
    """Counts by step and stratum."""

    traffic: Counts
    judged: Counts
    failed: Counts
    chance: npt.NDArray[np.float64]

    def verdicts(self, step: int, order: np.random.Generator) -> Iterator[tuple[str, bool]]:
        """Verdicts of one step, in an order of their own."""
        every = [
            (name, at < self.failed[step, index])
            for index, name in enumerate(closed_loop.STRATA)
            for at in range(self.judged[step, index])
        ]
        order.shuffle(every)
        yield from ((str(name), bool(failed)) for name, failed in every)

    def windows(self, steps: int) -> Iterator[tuple[int, list[StratumSums]]]:
        """Index of the last step, and the sums over *steps* of them, wherever so many have passed."""
        totals = [np.cumsum(np.vstack([np.zeros((1, c.shape[1]), int), c]), axis=0) for c in self._counts]
        for end in range(steps, len(self.traffic) + 1):
            traffic, judged, failed = (total[end] - total[end - steps] for total in totals)
            yield end - 1, self._sums(traffic, judged, failed)

    def whole(self) -> list[StratumSums]:
        return self._sums(*(counts.sum(axis=0) for counts in self._counts))

    @property
    def _counts(self) -> tuple[Counts, Counts, Counts]:
        return self.traffic, self.judged, self.failed

    def _sums(self, traffic: Counts, judged: Counts, failed: Counts) -> list[StratumSums]:
        rows = zip(closed_loop.STRATA, traffic, judged, failed, self.chance, strict=True)
        return [
            StratumSums(name, float(n), float(j / p), float(f / p), float(j / p**2), int(j), int(f))
            for name, n, j, f, p in rows
        ]


def stream(
    rng: np.random.Generator, days: float, overall: float, judged_a_day: float = 400, traffic_a_day: float = 40_000
) -> Stream:
    """*days* of traffic of which the share *overall* fails."""
    steps, chance = round(days * STEPS_A_DAY), chances(judged_a_day, traffic_a_day)
    traffic = rng.poisson(closed_loop.SHARES * traffic_a_day / STEPS_A_DAY, (steps, len(chance)))
    judged = rng.binomial(traffic, chance)
    return Stream(traffic, judged, rng.binomial(judged, rates_of(overall)), chance)


def then(first: Stream, second: Stream) -> Stream:
    """One after the other."""
    return Stream(
        np.vstack([first.traffic, second.traffic]),
        np.vstack([first.judged, second.judged]),
        np.vstack([first.failed, second.failed]),
        first.chance,
    )


def episodes(firing: list[bool], pending: int = 1, quiet: int = 12) -> list[int]:
    """Steps at which an alert begins: *pending* steps after its condition, over once *quiet* steps had none."""
    begun: list[int] = []
    since, last, is_firing = None, -quiet - 1, False
    for step, holds in enumerate(firing):
        if holds:
            since = step if since is None else since
            last = step
            if not is_firing and step - since >= pending:
                is_firing = True
                begun.append(step)
        else:
            since = None
            is_firing = is_firing and step - last <= quiet
    return begun
