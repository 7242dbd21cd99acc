"""Graded scores and rates corrected for the judge's own errors, against simulated truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

from groundwatch_alerts.corrections import GradedSums, graded, rogan_gladen, two_phase

REPLICATIONS = 2_000


def graded_sums(y: np.ndarray, w: float, traffic: float, stratum: str = "s") -> GradedSums:
    return GradedSums(
        stratum,
        traffic,
        len(y) * w,
        float(w * y.sum()),
        len(y) * w * w,
        float(w * w * y.sum()),
        float(w * w * (y * y).sum()),
        len(y),
    )


def test_graded_variance_is_the_textbook_one() -> None:
    y = np.random.default_rng(1).beta(2, 5, 400)
    found = graded([graded_sums(y, w=1e9, traffic=400e9)])
    assert found is not None
    assert found.value == pytest.approx(y.mean())
    assert found.variance == pytest.approx(y.var() / 400)


def test_graded_yes_and_no_is_a_rate() -> None:
    y = (np.arange(200) < 20).astype(float)
    found = graded([graded_sums(y, w=10, traffic=2_000)])
    assert found is not None
    assert found.variance == pytest.approx(0.9 * 0.1 * 0.9 / 200)


def test_graded_needs_thirty_scores() -> None:
    y = np.full(29, 0.5)
    assert graded([graded_sums(y, w=10, traffic=290)]) is None
    assert graded([]) is None


def test_a_thin_graded_stratum_takes_the_worst_case() -> None:
    """Three equal scores have no sample variance, which says nothing."""
    thick = graded_sums(np.random.default_rng(1).random(100), w=10, traffic=1_000)
    thin = graded_sums(np.full(3, 0.5), w=100, traffic=300, stratum="thin")
    blind = GradedSums("blind", 400, 0, 0, 0, 0, 0, 0)
    alone, both, all_three = graded([thick]), graded([thick, thin]), graded([thick, thin, blind])
    assert alone is not None
    assert both is not None
    assert all_three is not None
    assert alone.variance < both.variance < all_three.variance


def test_graded_interval_covers() -> None:
    rng = np.random.default_rng(4)
    covered = 0
    population = [rng.beta(2, 8, 20_000), rng.beta(5, 2, 1_000)]
    truth = np.concatenate(population).mean()
    for _ in range(REPLICATIONS):
        picks = [part[rng.integers(0, len(part), n)] for part, n in zip(population, (200, 80), strict=True)]
        found = graded(
            [graded_sums(y, len(p) / len(y), len(p)) for y, p in zip(picks, population, strict=True)],
        )
        assert found is not None
        covered += found.low <= truth <= found.high
    assert covered / REPLICATIONS >= 0.94 - 2 * math.sqrt(0.95 * 0.05 / REPLICATIONS)


@pytest.mark.parametrize(("sensitivity", "specificity"), [(0.9, 0.97), (0.8, 0.95), (0.99, 0.999)])
def test_two_phase_covers_the_truth_where_the_judge_alone_does_not(sensitivity: float, specificity: float) -> None:
    rng = np.random.default_rng(7)
    truth, n, labels = 0.0538, 1_000, 100
    shown = truth * sensitivity + (1 - truth) * (1 - specificity)
    ppv, false_omission = truth * sensitivity / shown, truth * (1 - sensitivity) / (1 - shown)
    q = rng.binomial(n, shown, REPLICATIONS) / n
    confirmed = rng.binomial(labels, ppv, REPLICATIONS) / labels
    overlooked = rng.binomial(labels, false_omission, REPLICATIONS) / labels
    found = [
        two_phase(float(a), n, ppv=float(b), m1=labels, for_=float(c), m0=labels)
        for a, b, c in zip(q, confirmed, overlooked, strict=True)
    ]
    values = np.array([f.value for f in found])
    assert abs(values.mean() - truth) < 3 * values.std() / math.sqrt(REPLICATIONS)
    assert np.mean([f.low <= truth <= f.high for f in found]) >= 0.94 - 2 * math.sqrt(0.95 * 0.05 / REPLICATIONS)


def test_two_phase_formula() -> None:
    found = two_phase(0.08, 900, ppv=0.6, m1=100, for_=0.01, m0=100)
    assert found.value == pytest.approx(0.08 * 0.6 + 0.92 * 0.01)
    expected = 0.59**2 * 0.08 * 0.92 / 900 + 0.08**2 * 0.6 * 0.4 / 100 + 0.92**2 * 0.01 * 0.99 / 100
    assert found.variance == pytest.approx(expected, rel=1.0)  # smoothing widens a rate of 1 in 100
    assert found.variance > expected


def test_two_phase_without_labels_is_refused() -> None:
    with pytest.raises(ValueError, match="m0=0"):
        two_phase(0.1, 100, ppv=1, m1=10, for_=0, m0=0)


def test_rogan_gladen_inverts_the_judges_errors() -> None:
    shown = 0.05 * 0.9 + 0.95 * 0.03
    found = rogan_gladen(shown, 1_000, sensitivity=0.9, positives=100, specificity=0.97, negatives=100)
    assert found is not None
    assert found.value == pytest.approx(0.05)
    assert found.low < 0.05 < found.high


def test_rogan_gladen_refuses_a_judge_that_guesses() -> None:
    assert rogan_gladen(0.4, 1_000, sensitivity=0.55, positives=50, specificity=0.6, negatives=50) is None
