"""Notice that answers fail more often than in a frozen baseline, one judged trace after another. Pure.

Inside each stratum a verdict is worth the likelihood ratio of raised odds of failure against the baseline's. A
Shiryaev-Roberts sum of these, averaged over two sizes of rise, is an e-detector (Shin, Ramdas, Rinaldo 2023): with a
threshold of as many as are judged in a week it raises on average at most one false alarm a week, whatever the sizes
of strata and however unevenly they are sampled, as long as the baseline is right. Two things are measured rather than
proved (``tests/bench/bench_detection.py``): the threshold is a fifth lower, which the leap of the last failure over
it makes up for; and the baseline is learnt, so it is put a little above what was seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean as mean

from groundwatch_alerts.estimator import StratumSums

RISES = (0.7, 1.1)
"""Logarithms of the factors by which the odds of failure may have grown."""
MIN_STRATUM = 10
"""With fewer judged traces in the baseline a stratum tells nothing and is passed over."""
_HEADROOM = math.e  # evidence beyond is not kept, so that a change that is over is soon seen to be
_PRIOR = 2.0  # judged traces of the pooled rate, added to each stratum
_MARGIN = 1.25  # of what makes up for the chance that a learnt baseline is too low, and alarms again and again
_OVERSHOOT = (
    0.8  # the evidence leaps over its threshold by about a quarter: with this the alarms are as many as allowed
)


@dataclass(frozen=True, slots=True)
class Baseline:
    """How often answers failed while nothing was wrong, and how many are judged."""

    rates: Mapping[str, float]  # stratum -> failure rate in (0, 1)
    judged_per_week: float


def learn(strata: Sequence[StratumSums], days: float) -> Baseline | None:
    """Freeze the baseline of *days* of sums; None where no stratum has enough verdicts, or nothing ever failed."""
    judged, failed = sum(s.judged for s in strata), sum(s.failed for s in strata)
    if failed in (0, judged):
        return None
    known = [s for s in strata if s.judged >= MIN_STRATUM]
    if not known:
        return None
    pooled, per_week = failed / judged, judged / days * 7
    seen = {s.stratum: (s.failed + _PRIOR * pooled) / (s.judged + _PRIOR) for s in known}
    shift = _margin(sum(s.judged * seen[s.stratum] * (1 - seen[s.stratum]) for s in known), per_week)
    return Baseline({name: _raised(rate, shift) for name, rate in seen.items()}, per_week)


def _margin(information: float, judged_per_week: float) -> float:
    """By how much to raise all log odds, so that the false alarms are as many as allowed in the mean over baselines.

    A baseline that is too low by d (log odds; its variance is 1 / *information*) makes them exp(2 d log(threshold) /
    rise) times as many: a low one adds more of them than a high one takes away.
    """
    return _MARGIN * math.log(max(10.0, judged_per_week)) / (mean(RISES) * information)


def _raised(rate: float, log_odds: float) -> float:
    return min(0.99, 1 / (1 + (1 - rate) / rate * math.exp(-log_odds)))


class Detector:
    """Evidence for a rise. *sums*: what :attr:`sums` was when another detector of this baseline stopped."""

    def __init__(
        self, baseline: Baseline, false_alarms_per_week: float, sums: Sequence[float] = (0.0,) * len(RISES)
    ) -> None:
        self.threshold = max(10.0, _OVERSHOOT * baseline.judged_per_week / false_alarms_per_week)
        self._ratios = {name: _ratios(rate) for name, rate in baseline.rates.items()}
        self.sums = tuple(sums)

    def judged(self, stratum: str, failed: bool) -> None:
        """Take one verdict, in the order in which verdicts were committed."""
        ratios = self._ratios.get(stratum)
        if ratios is None:
            return
        sums = [(one + 1) * ratio for one, ratio in zip(self.sums, ratios[failed], strict=True)]
        keep = min(1.0, self.threshold * _HEADROOM / mean(sums))
        self.sums = tuple(one * keep for one in sums)

    @property
    def log_e(self) -> float:
        """Logarithm of the evidence, 0 at the least."""
        return math.log(max(1.0, mean(self.sums)))

    @property
    def log_threshold(self) -> float:
        return math.log(self.threshold)

    @property
    def has_changed(self) -> bool:
        return self.log_e > self.log_threshold


def _ratios(rate: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Likelihood ratios of a pass and of a failure, one for each rise."""
    risen = [1 / (1 + (1 - rate) / rate * math.exp(-rise)) for rise in RISES]
    return tuple((1 - one) / (1 - rate) for one in risen), tuple(one / rate for one in risen)
