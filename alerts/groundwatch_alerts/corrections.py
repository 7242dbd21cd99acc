"""Estimates beyond the plain failure rate: graded verdicts, and rates corrected for a judge's own errors. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from groundwatch_alerts.estimator import Z95, wilson

MIN_GRADED = 30
"""Below this a sample variance of scores is not to be trusted, and the worst case of a [0, 1] score is taken."""


@dataclass(frozen=True, slots=True)
class GradedSums:
    """Sums of one stratum for a score y in [0, 1]."""

    stratum: str
    traffic: float  # N
    weight: float  # A = sum of w
    score_weight: float  # sum of w * y
    weight_sq: float  # C = sum of w^2
    weight_sq_score: float  # sum of w^2 * y
    weight_sq_score_sq: float  # sum of w^2 * y^2
    judged: int


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean or rate in [0, 1] with its variance and 95 % interval."""

    value: float
    variance: float
    low: float
    high: float


def graded(strata: Sequence[GradedSums], z: float = Z95) -> Mean | None:
    """Estimate the mean score of all traffic; None with fewer than 30 scores, where the interval would not hold."""
    weight, total = sum(s.weight for s in strata), sum(s.traffic for s in strata)
    if weight <= 0 or total <= 0 or sum(s.judged for s in strata) < MIN_GRADED:
        return None
    pooled = sum(s.score_weight for s in strata) / weight
    value = variance = 0.0
    for s in strata:
        mean, spread = _graded_stratum(s, pooled)
        value += s.traffic / total * mean
        variance += (s.traffic / total) ** 2 * spread
    reach = z * math.sqrt(variance)
    return Mean(value, variance, max(0.0, value - reach), min(1.0, value + reach))


def _graded_stratum(s: GradedSums, pooled: float) -> tuple[float, float]:
    if s.weight <= 0:
        return pooled, _worst(pooled, 1.0)
    mean = s.score_weight / s.weight
    phi = max(0.0, 1 - s.weight / s.weight_sq * min(1.0, s.weight / s.traffic if s.traffic > 0 else 1.0))
    if s.judged < MIN_GRADED:
        return mean, phi * _worst(mean, s.weight**2 / s.weight_sq)
    squares = s.weight_sq_score_sq - 2 * mean * s.weight_sq_score + mean**2 * s.weight_sq
    return mean, phi * max(0.0, squares) / s.weight**2


def _worst(mean: float, m: float) -> float:
    """No score in [0, 1] with this mean varies more than a coin with it."""
    t = (mean * m + 1) / (m + 2)
    return t * (1 - t) / m


def two_phase(q: float, n_star: float, *, ppv: float, m1: int, for_: float, m0: int, z: float = Z95) -> Mean:
    """Correct the judge's rate *q* with people's labels on a random part of what it judged.

    *n_star* is the effective size behind *q*; *ppv* the share of *m1* re-labelled failures that people confirm;
    *for_* (false omission rate) the share of *m0* re-labelled passes that people call failures. In the variance, and
    only there, each of the two gets one failure and one pass more: ``for_`` is often 0 of a few dozen, which is not
    certainty.
    """
    if m1 < 1 or m0 < 1:
        raise ValueError(f"both verdicts need labels: m1={m1} of the failures and m0={m0} of the passes")
    value = q * ppv + (1 - q) * for_
    ppv_smooth, for_smooth = (ppv * m1 + 1) / (m1 + 2), (for_ * m0 + 1) / (m0 + 2)
    variance = (
        (ppv - for_) ** 2 * q * (1 - q) / n_star
        + q**2 * ppv_smooth * (1 - ppv_smooth) / m1
        + (1 - q) ** 2 * for_smooth * (1 - for_smooth) / m0
    )
    smooth = q * ppv_smooth + (1 - q) * for_smooth
    low, high = wilson(value, smooth * (1 - smooth) / variance, z)
    return Mean(value, variance, low, high)


def rogan_gladen(
    q: float,
    n_star: float,
    *,
    sensitivity: float,
    positives: int,
    specificity: float,
    negatives: int,
    z: float = Z95,
) -> Mean | None:
    """Correct *q* with the judge's error rates measured elsewhere; None when the judge barely tells the two apart.

    Right only while the judge errs on this traffic as it did on the *positives* and *negatives* it was measured on;
    :func:`two_phase` needs no such promise.
    """
    power = sensitivity + specificity - 1
    if power < 0.2:  # dividing by less than this turns noise into figures
        return None
    value = (q + specificity - 1) / power
    variance = (
        q * (1 - q) / n_star
        + value**2 * sensitivity * (1 - sensitivity) / positives
        + (1 - value) ** 2 * specificity * (1 - specificity) / negatives
    ) / power**2
    value = min(1.0, max(0.0, value))
    reach = z * math.sqrt(variance)
    return Mean(value, variance, max(0.0, value - reach), min(1.0, value + reach))
