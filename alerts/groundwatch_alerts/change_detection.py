"""Notice that answers fail more often than in a frozen baseline, one judged trace after another. Pure.

Inside each stratum a verdict is worth the likelihood ratio of raised odds of failure against the baseline's. A
Shiryaev-Roberts sum of these, averaged over several sizes of rise, is an e-detector (Shin, Ramdas and Rinaldo 2023):
with a threshold of as many as are judged in a week it raises on average at most one false alarm a week, whatever the
sizes of strata and however unevenly they are sampled, as long as the baseline is right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from groundwatch_alerts.estimator import StratumSums

RISES = (0.4, 0.75, 1.1)
"""Logarithms of the factors by which the odds of failure may have grown."""
MIN_STRATUM = 10
"""With fewer judged traces in the baseline a stratum tells nothing and is passed over."""
_HEADROOM = math.e  # evidence beyond is not kept, so that a change that is over is soon seen to be
_PRIOR = 2.0  # judged traces of the pooled rate, added to each stratum
_MARGIN = 0.25  # standard errors above what was seen: a baseline that is too low by chance alarms for ever


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
    pooled = failed / judged
    rates = {s.stratum: _usual(s, pooled) for s in strata if s.judged >= MIN_STRATUM}
    return Baseline(rates, judged / days * 7) if rates else None


def _usual(s: StratumSums, pooled: float) -> float:
    rate = (s.failed + _PRIOR * pooled) / (s.judged + _PRIOR)
    return min(0.99, rate + _MARGIN * math.sqrt(rate * (1 - rate) / (s.judged + _PRIOR)))


class Detector:
    """Evidence for a rise. *sums*: what :attr:`sums` was when another detector of this baseline stopped."""

    def __init__(
        self, baseline: Baseline, false_alarms_per_week: float, sums: Sequence[float] = (0.0,) * len(RISES)
    ) -> None:
        self.threshold = max(10.0, baseline.judged_per_week / false_alarms_per_week)
        self._ratios = {name: _ratios(rate) for name, rate in baseline.rates.items()}
        self.sums = tuple(sums)

    def judged(self, stratum: str, failed: bool) -> None:
        """Take one verdict, in the order in which verdicts were committed."""
        ratios = self._ratios.get(stratum)
        if ratios is None:
            return
        sums = [(one + 1) * ratio for one, ratio in zip(self.sums, ratios[failed], strict=True)]
        mean = sum(sums) / len(sums)
        keep = min(1.0, self.threshold * _HEADROOM / mean)
        self.sums = tuple(one * keep for one in sums)

    @property
    def log_e(self) -> float:
        """Logarithm of the evidence, 0 at the least."""
        return math.log(max(1.0, sum(self.sums) / len(self.sums)))

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
