"""The failure rate of all traffic, with an interval, from a sample whose chances are known.

Pure: sums in, estimate out. ``docs/concepts/estimate.md`` says in words why each step is there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Z95 = 1.959964
"""Two-sided 95 % normal quantile."""


@dataclass(frozen=True, slots=True)
class StratumSums:
    """What is known of one stratum in one window. ``w`` is a judged trace's weight, ``y`` is 1 where it failed."""

    stratum: str
    traffic: float  # N: all eligible requests, judged or not
    weight: float  # A = sum of w over traces with a verdict
    fail_weight: float  # B = sum of w * y
    weight_sq: float  # C = sum of w^2
    judged: int
    failed: int
    not_applicable_weight: float = 0.0  # judged, and the criterion does not apply
    missing_weight: float = 0.0  # sampled, but no verdict could be had


@dataclass(frozen=True, slots=True)
class StratumEstimate:
    stratum: str
    traffic: float
    share: float  # of the traffic to which the criterion applies
    rate: float  # the pooled rate where nothing was judged
    low: float
    high: float
    effective_n: float  # Kish: judged traces of equal weight that would say as much
    unseen_share: float  # phi: 0 when every request was judged, near 1 for a thin sample
    judged: int
    failed: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """A rate over all eligible traffic and how far it can be trusted."""

    rate: float
    low: float
    high: float
    high_safe: float  # MOVER: holds also where the failures sit in thin strata
    effective_n: float  # n*: size of a plain random sample with this variance; inf when everything was judged
    judged: int
    failed: int
    traffic: float  # all eligible requests seen
    applicable_traffic: float  # of those, how many the criterion applies to (estimated)
    judged_share: float  # of applicable traffic that lies in strata with at least one verdict
    raw_mean: float  # failed / judged over the sample as it is: what an unweighted dashboard shows
    missing_share: float  # of sampled weight for which no verdict could be had
    rate_if_missing_passed: float
    rate_if_missing_failed: float
    strata: tuple[StratumEstimate, ...]

    @property
    def thin(self) -> bool:
        """Whether a stratum with most of the traffic rests on fewer than 10 failures: show the safe bound then."""
        return any(s.share > 0.5 and s.failed < 10 and s.unseen_share > 0 for s in self.strata)

    @property
    def high_shown(self) -> float:
        """The upper bound to put before a person."""
        return max(self.high, self.high_safe) if self.thin else self.high

    def score(self, objective: float) -> float:
        """How many standard errors the rate lies above *objective*; above z means the lower bound is above it."""
        if not 0 < objective < 1:
            raise ValueError(f"objective is a failure rate between 0 and 1, not {objective}")
        distance = self.rate - objective
        if math.isinf(self.effective_n):
            return math.copysign(math.inf, distance) if distance else 0.0
        return distance / math.sqrt(objective * (1 - objective) / self.effective_n)


def estimate(strata: Sequence[StratumSums], z: float = Z95) -> Estimate | None:
    """Estimate the failure rate of all eligible traffic; None when nothing was judged or there is no traffic."""
    pooled = _pooled_rate(strata)
    applicable = [s.traffic * _applicable(s) for s in strata]
    total = sum(applicable)
    if pooled is None or total <= 0:
        return None
    parts = [_stratum(s, n, n / total, pooled, z) for s, n in zip(strata, applicable, strict=True)]
    rate = min(1.0, sum(p.share * p.rate for p in parts))
    domain = [_domain_variance(p, 1 - _applicable(s), rate) for p, s in zip(parts, strata, strict=True)]
    effective_n = _effective_n(parts, sum(domain))
    low, high = wilson(rate, effective_n, z)
    low, high = min(low, rate), max(high, rate)  # 0 and 1 exactly, whatever the rounding
    above = sum((p.share * (p.high - p.rate)) ** 2 for p in parts) + z * z * sum(domain)
    judged, failed = sum(s.judged for s in strata), sum(s.failed for s in strata)
    passed_bound, failed_bound = _missing_bounds(parts, strata)
    return Estimate(
        rate=rate,
        low=low,
        high=high,
        high_safe=min(1.0, rate + math.sqrt(above)),
        effective_n=effective_n,
        judged=judged,
        failed=failed,
        traffic=sum(s.traffic for s in strata),
        applicable_traffic=total,
        judged_share=sum(p.share for p, s in zip(parts, strata, strict=True) if s.weight > 0),
        raw_mean=failed / judged,
        missing_share=_missing_share(strata),
        rate_if_missing_passed=passed_bound,
        rate_if_missing_failed=failed_bound,
        strata=tuple(parts),
    )


def wilson(rate: float, n: float, z: float = Z95) -> tuple[float, float]:
    """Wilson's interval for *rate* seen in *n* (not necessarily whole) trials; a point when *n* is infinite."""
    if math.isinf(n):
        return rate, rate
    centre = rate + z * z / (2 * n)
    reach = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return max(0.0, (centre - reach) / scale), min(1.0, (centre + reach) / scale)


def _pooled_rate(strata: Sequence[StratumSums]) -> float | None:
    weight = sum(s.weight for s in strata)
    return sum(s.fail_weight for s in strata) / weight if weight > 0 and any(s.judged for s in strata) else None


def _applicable(s: StratumSums) -> float:
    """Share of the stratum's traffic to which the criterion applies, as far as the judged traces tell."""
    seen = s.weight + s.not_applicable_weight
    return s.weight / seen if seen > 0 else 1.0


def _stratum(s: StratumSums, traffic: float, share: float, pooled: float, z: float) -> StratumEstimate:
    rate, m, phi = _rate_m_phi(s, traffic, pooled)
    low, high = wilson(rate, m / phi if phi > 0 else math.inf, z)
    return StratumEstimate(s.stratum, traffic, share, rate, low, high, m, phi, s.judged, s.failed)


def _rate_m_phi(s: StratumSums, traffic: float, pooled: float) -> tuple[float, float, float]:
    if s.weight <= 0:
        return pooled, 1.0, 1.0  # wide rather than absent
    m = s.weight**2 / s.weight_sq
    # The seen share is A/C by the weights. It is capped by m/N: while verdicts lag behind traffic, or were lost, a
    # stratum that is judged with certainty has not been seen whole and must not claim an interval of no width.
    seen = s.weight / s.weight_sq
    if traffic > s.weight:
        seen *= s.weight / traffic
    phi = 1 - seen
    return min(1.0, s.fail_weight / s.weight), m, phi if phi > 1e-12 else 0.0  # rounding of a full census


def _smoothed(rate: float, m: float) -> float:
    """One failure and one pass more: used in variances only, so that zero failures are not certainty."""
    return (rate * m + 1) / (m + 2)


def _effective_n(parts: Sequence[StratumEstimate], domain_variance: float) -> float:
    smooth = [_smoothed(p.rate, p.effective_n) for p in parts]
    variance = domain_variance + sum(
        p.share**2 * p.unseen_share * t * (1 - t) / p.effective_n for p, t in zip(parts, smooth, strict=True)
    )
    mean = sum(p.share * t for p, t in zip(parts, smooth, strict=True))
    return mean * (1 - mean) / variance if variance > 0 else math.inf


def _domain_variance(p: StratumEstimate, not_applicable: float, rate: float) -> float:
    """What it costs that the stratum's share is itself estimated: nothing where the criterion always applies.

    Linearised ratio estimate; only a stratum whose rate differs from the overall rate can move it.
    """
    return p.share**2 * p.unseen_share * not_applicable * (p.rate - rate) ** 2 / p.effective_n


def _missing_share(strata: Sequence[StratumSums]) -> float:
    missing = sum(s.missing_weight for s in strata)
    sampled = missing + sum(s.weight + s.not_applicable_weight for s in strata)
    return missing / sampled if sampled > 0 else 0.0


def _missing_bounds(parts: Sequence[StratumEstimate], strata: Sequence[StratumSums]) -> tuple[float, float]:
    """The rate if every trace without a verdict had passed, and if every one had failed."""
    passed = failed = 0.0
    for p, s in zip(parts, strata, strict=True):
        sampled = s.weight + s.missing_weight
        lost = s.missing_weight / sampled if sampled > 0 else 0.0
        kept = p.rate * (1 - lost)
        passed += p.share * kept
        failed += p.share * (kept + lost)
    return passed, min(1.0, failed)
