"""Do two versions differ? A test on live weighted traffic that may be looked at every minute.

Ordinary 95 % intervals that are looked at again and again are wrong some time far more often than one time in
twenty. Here evidence is an e-value and the interval a confidence sequence: over the whole life of a comparison,
however often it is looked at, the chance to call two equal versions different is at most ``ALPHA``.

The formula is Robbins' normal mixture (Robbins 1970) in the asymptotic form of Waudby-Smith, Arbour, Sinha, Kennedy
and Ramdas, "Time-uniform central limit theory and asymptotic confidence sequences", Annals of Statistics 52 (2024).
With the difference d, its variance V, information I = 1 / V and the mixture's width t:

    e = (1 + I t^2)^(-1/2) exp(d^2 I^2 t^2 / (2 (1 + I t^2)))
    interval: d +- sqrt(V (1 + 1 / (I t^2)) log((1 + I t^2) / ALPHA^2))

It is asymptotic, so nothing is said before ``MIN_JUDGED`` verdicts of each version. Pure: estimates in, comparison
out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from groundwatch_alerts.estimator import Estimate

ALPHA = 0.05
MIN_JUDGED = 50
"""Verdicts of each version before anything is said: below, the rates are too coarse for the limit theorem."""
USUAL_DIFFERENCE = 0.05
"""Width t of the mixture: differences of about this size are found with the fewest verdicts."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Version *b* against version *a*: how much more often it fails, and how sure that is."""

    rate_a: float
    rate_b: float
    judged_a: int
    judged_b: int
    difference: float  # rate_b - rate_a
    low: float  # of the confidence sequence: it may be read at any time
    high: float
    log_e: float  # natural logarithm of the e-value; 1 / e bounds the chance of so much evidence between equals

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out 0: the versions differ."""
        return self.low > 0 or self.high < 0


def compare(a: Estimate | None, b: Estimate | None) -> Comparison | None:
    """Compare two versions; None while one of them has fewer than ``MIN_JUDGED`` verdicts.

    The estimates hold everything judged since a fixed start. A window that slides forgets, and with it the promise.
    """
    if a is None or b is None or min(a.judged, b.judged) < MIN_JUDGED:
        return None
    variance = _variance(a, b)
    difference = b.rate - a.rate
    half = half_width(variance)
    return Comparison(
        rate_a=a.rate,
        rate_b=b.rate,
        judged_a=a.judged,
        judged_b=b.judged,
        difference=difference,
        low=max(-1.0, difference - half),
        high=min(1.0, difference + half),
        log_e=log_e(difference, variance),
    )


def log_e(difference: float, variance: float) -> float:
    """Evidence against equality; at least -0.5 log(1 + t^2 / variance)."""
    grown = 1 + USUAL_DIFFERENCE**2 / variance
    return difference**2 / variance * (grown - 1) / grown / 2 - math.log(grown) / 2


def half_width(variance: float) -> float:
    """Half the width of the confidence sequence: it leaves out 0 exactly where ``log_e`` exceeds log(1 / ALPHA)."""
    grown = 1 + USUAL_DIFFERENCE**2 / variance
    return math.sqrt(variance * grown / (grown - 1) * math.log(grown / ALPHA**2))


def _variance(a: Estimate, b: Estimate) -> float:
    """Of the difference, were the traffic drawn anew: a version that was judged completely still met other questions.

    The larger of the pooled and the separate form: the first holds while failures are few, the second when the
    versions differ much and one has little traffic.
    """
    n_a, n_b = _size(a), _size(b)
    both = _smooth((a.rate * n_a + b.rate * n_b) / (n_a + n_b), n_a + n_b)
    pooled = both * (1 - both) * (1 / n_a + 1 / n_b)
    rate_a, rate_b = _smooth(a.rate, n_a), _smooth(b.rate, n_b)
    return max(pooled, rate_a * (1 - rate_a) / n_a + rate_b * (1 - rate_b) / n_b)


def _size(found: Estimate) -> float:
    """Plain random requests that would say as much: the draw of the traffic (N) and of the sample (n*) both vary."""
    return 1 / (1 / found.applicable_traffic + 1 / found.effective_n)


def _smooth(rate: float, n: float) -> float:
    return (rate * n + 1) / (n + 2)
