"""Made traffic with a known failure rate, sampled as the product samples it, for alerts: how soon, how often falsely.

Seven strata whose heuristic score has an AUROC of 0.85, chances proportional to the spread inside the stratum with a
floor, steps of five minutes. The verdicts are made; what reads them is the product's own code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import closed_loop
import numpy as np
import numpy.typing as npt

from groundwatch_alerts.alert_rules import MIN_JUDGED_SHARE
from groundwatch_alerts.estimator import StratumSums
from groundwatch_alerts.objectives import KEEP_FIRING_HOURS, AlertsConfig, alarm_z

STEP_SECONDS = 300
STEPS_AN_HOUR = 3600 // STEP_SECONDS
MIN_JUDGED = AlertsConfig().min_judged
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


def last(stream: Stream, days: float) -> Stream:
    steps = round(days * STEPS_A_DAY)
    return Stream(stream.traffic[-steps:], stream.judged[-steps:], stream.failed[-steps:], stream.chance)


def scores(stream: Stream, steps: int, objective: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """``Estimate.score`` and the judged traces of the *steps* before each; without a full window: minus infinity.

    The same formula as the product's for all windows at once, where every request is eligible and judged at once.
    ``tests/alerts/test_change_detection.py`` holds it against the estimator.
    """
    traffic, judged, failed = (_last(counts, steps) for counts in (stream.traffic, stream.judged, stream.failed))
    a, b, c = judged / stream.chance, failed / stream.chance, judged / stream.chance**2
    share = traffic / traffic.sum(axis=1, keepdims=True)
    seen = judged > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(seen, b / a, (b.sum(axis=1) / a.sum(axis=1))[:, None])
        m = np.where(seen, a**2 / c, 1.0)
        phi = np.where(seen, np.clip(1 - a / c * np.minimum(a / traffic, 1), 0, None), 1.0)
    smooth = (rate * m + 1) / (m + 2)
    mean = (share * smooth).sum(axis=1)
    n = mean * (1 - mean) / (share**2 * phi * smooth * (1 - smooth) / m).sum(axis=1)
    z = ((share * rate).sum(axis=1) - objective) * np.sqrt(n / objective / (1 - objective))
    known = (share * seen).sum(axis=1) > MIN_JUDGED_SHARE
    before = np.full(steps - 1, -np.inf), np.zeros(steps - 1, int)
    return np.concatenate([before[0], np.where(known, z, -np.inf)]), np.concatenate([before[1], judged.sum(axis=1)])


def score_holds(stream: Stream, hours: int, objective: float, allowed: float = 1.0) -> list[bool]:
    """Whether the condition of the rendered alert on quality holds, at each step."""
    z, judged = scores(stream, hours * STEPS_AN_HOUR, objective)
    limit = [alarm_z(hours, allowed, max(1, n)) for n in judged]
    return [n >= MIN_JUDGED and bool(one > most) for one, n, most in zip(z, judged, limit, strict=True)]


def _last(counts: Counts, steps: int) -> Counts:
    """Sums of the last *steps* at each step that has so many before it."""
    total = np.cumsum(np.vstack([np.zeros((1, counts.shape[1]), int), counts]), axis=0)
    return np.asarray(total[steps:] - total[:-steps])


def firing(holds: Sequence[bool], pending: int = 1, quiet: int = KEEP_FIRING_HOURS * STEPS_AN_HOUR) -> list[bool]:
    """At each step, whether an alert fires whose condition must hold for *pending* and be gone for *quiet* steps."""
    found: list[bool] = []
    held, last, fires = 0, -quiet - 1, False
    for step, now in enumerate(holds):
        held, last = (held + 1, step) if now else (0, last)
        fires = (fires and step - last <= quiet) or held > pending
        found.append(fires)
    return found


def episodes(holds: Sequence[bool], pending: int = 1, quiet: int = KEEP_FIRING_HOURS * STEPS_AN_HOUR) -> list[int]:
    """Steps at which such an alert begins."""
    return starts(firing(holds, pending, quiet))


def starts(fires: Sequence[bool]) -> list[int]:
    """Steps at which an alert that fires did not before."""
    return [step for step, now in enumerate(fires) if now and not (step and fires[step - 1])]
