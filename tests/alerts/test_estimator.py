"""The estimator against scipy, statsmodels and plain arithmetic; its interval against simulated truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from statsmodels.stats.proportion import proportion_confint

from groundwatch_alerts.estimator import Z95, StratumSums, estimate, wilson


def make(
    stratum: str = "normal_b0",
    *,
    traffic: float,
    judged: int = 0,
    failed: int = 0,
    weight: float | None = None,
    not_applicable: int = 0,
    missing: int = 0,
) -> StratumSums:
    """A stratum whose judged traces all have the same weight (traffic / sampled, unless given)."""
    sampled = judged + not_applicable + missing
    w = weight if weight is not None else (traffic / sampled if sampled else 1.0)
    return StratumSums(
        stratum, traffic, judged * w, failed * w, judged * w * w, judged, failed, not_applicable * w, missing * w
    )


def test_the_quantile_is_the_95_percent_one() -> None:
    assert pytest.approx(norm.ppf(0.975), abs=1e-6) == Z95


@pytest.mark.parametrize(("failed", "judged"), [(0, 40), (1, 40), (7, 100), (50, 100), (100, 100)])
def test_one_thin_stratum_is_the_wilson_interval_of_statsmodels(failed: int, judged: int) -> None:
    """A sample of one in 10^12: nothing of a finite population is left, and the smoothing cancels."""
    found = estimate([make(traffic=judged * 1e12, judged=judged, failed=failed)])
    assert found is not None
    low, high = proportion_confint(failed, judged, alpha=2 * norm.sf(Z95), method="wilson")
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-9)
    assert found.effective_n == pytest.approx(judged)
    assert found.rate == found.raw_mean == failed / judged


def test_a_half_seen_stratum_has_the_finite_population_interval() -> None:
    found = estimate([make(traffic=200, judged=100, failed=7)])
    assert found is not None
    n = 100 / (1 - 100 / 200)
    low, high = proportion_confint(0.07 * n, n, alpha=2 * norm.sf(Z95), method="wilson")
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-9)


def test_the_rate_is_the_stratified_mean_not_the_raw_one() -> None:
    found = estimate(
        [
            make("normal_b0", traffic=9_000, judged=90, failed=2),
            make("feedback_neg", traffic=1_000, judged=500, failed=300),
        ]
    )
    assert found is not None
    assert found.rate == pytest.approx(0.9 * 2 / 90 + 0.1 * 300 / 500)
    assert found.raw_mean == pytest.approx(302 / 590)
    assert (found.judged, found.failed, found.traffic) == (590, 302, 10_000)
    assert found.judged_share == pytest.approx(1.0)


def test_unequal_weights_inside_a_stratum_follow_hajek_and_kish() -> None:
    """A rate table changed inside the window: written out trace by trace."""
    rng = np.random.default_rng(5)
    w = rng.choice([2.0, 10.0, 50.0], size=300)
    y = rng.random(300) < 0.2
    traffic = float(w.sum())  # exactly what the weights add up to
    found = estimate(
        [StratumSums("s", traffic, w.sum(), (w * y).sum(), (w * w).sum(), 300, int(y.sum()))],
    )
    assert found is not None
    rate = (w * y).sum() / w.sum()
    m = w.sum() ** 2 / (w**2).sum()
    # Poisson sampling with chances 1/w: the linearised variance is sum w (w - 1) (y - p)^2 / N^2, up to the smoothing
    poisson = (w * (w - 1) * (y - rate) ** 2).sum() / traffic**2
    assert found.rate == pytest.approx(rate)
    assert found.strata[0].effective_n == pytest.approx(m)
    assert rate * (1 - rate) / found.effective_n == pytest.approx(poisson, rel=0.15)


def test_formula_written_out_once_by_hand() -> None:
    strata = [
        make("normal_b0", traffic=9_000, judged=90, failed=0),
        make("refusal", traffic=800, judged=40, failed=12),
        make("feedback_neg", traffic=200),
    ]
    found = estimate(strata)
    assert found is not None
    pooled = (12 * 20) / (90 * 100 + 40 * 20)
    share, rate, m, phi = (0.9, 0.08, 0.02), (0.0, 0.3, pooled), (90, 40, 1), (0.99, 0.95, 1.0)
    smooth = [(p * k + 1) / (k + 2) for p, k in zip(rate, m, strict=True)]
    variance = sum(w**2 * f * t * (1 - t) / k for w, f, t, k in zip(share, phi, smooth, m, strict=True))
    mean = sum(w * t for w, t in zip(share, smooth, strict=True))
    p = sum(w * r for w, r in zip(share, rate, strict=True))
    n = mean * (1 - mean) / variance
    assert found.rate == pytest.approx(p)
    assert found.effective_n == pytest.approx(n)
    assert (found.low, found.high) == pytest.approx(wilson(p, n))
    reach = [wilson(r, k / f)[1] - r for r, k, f in zip(rate, m, phi, strict=True)]
    safe = p + math.sqrt(sum((w * r) ** 2 for w, r in zip(share, reach, strict=True)))
    assert found.high_safe == pytest.approx(safe)
    assert found.judged_share == pytest.approx(0.98)
    objective = 0.02
    assert found.score(objective) == pytest.approx((p - objective) / math.sqrt(0.0196 / n))


def test_a_full_census_has_no_width() -> None:
    found = estimate([make("a", traffic=70, judged=70, failed=7), make("b", traffic=30, judged=30, failed=0)])
    assert found is not None
    assert found.low == found.rate == found.high == found.high_safe == pytest.approx(0.07)
    assert found.effective_n == math.inf
    assert found.score(0.05) == math.inf
    assert found.score(0.5) == -math.inf
    assert found.score(found.rate) == 0.0


def test_verdicts_that_lag_behind_traffic_keep_their_width() -> None:
    """Every trace is to be judged, but only 10 of 200 have been: A/C alone would claim a census."""
    lagging = estimate([make(traffic=200, judged=10, failed=1, weight=1.0)])
    sampled = estimate([make(traffic=200, judged=10, failed=1)])
    assert lagging is not None
    assert sampled is not None
    assert (lagging.low, lagging.high) == pytest.approx((sampled.low, sampled.high))


def test_no_failure_seen_is_not_certainty() -> None:
    found = estimate([make(traffic=1e6, judged=100, failed=0)])
    assert found is not None
    assert found.rate == found.low == 0.0
    assert found.high == pytest.approx(proportion_confint(0, 100, method="wilson")[1], rel=1e-3)


def test_a_stratum_without_verdicts_takes_the_pooled_rate_and_widens() -> None:
    judged = make("normal_b0", traffic=900, judged=90, failed=9)
    with_blind = estimate([judged, make("refusal", traffic=100)])
    without = estimate([judged])
    assert with_blind is not None
    assert without is not None
    assert with_blind.rate == pytest.approx(0.1)
    assert with_blind.judged_share == pytest.approx(0.9)
    assert with_blind.high - with_blind.low > without.high - without.low
    assert [s.effective_n for s in with_blind.strata] == pytest.approx([90, 1])


@pytest.mark.parametrize(
    "strata",
    [
        [],
        [make(traffic=100)],
        [make(traffic=0)],
        [make(traffic=0, judged=3, failed=1, weight=1.0)],
        [make(traffic=100, not_applicable=5)],
        [make(traffic=100, missing=5)],
    ],
)
def test_nothing_judged_or_no_traffic_gives_no_figure(strata: list[StratumSums]) -> None:
    assert estimate(strata) is None


def test_a_stratum_without_traffic_changes_nothing() -> None:
    judged = make(traffic=900, judged=90, failed=9)
    with_empty = estimate([judged, make("cancelled", traffic=0)])
    alone = estimate([judged])
    assert with_empty is not None
    assert alone is not None
    assert (with_empty.rate, with_empty.low, with_empty.high) == (alone.rate, alone.low, alone.high)


def test_not_applicable_traces_scale_the_stratum_down() -> None:
    """Half of the refusals have no claim to judge: the criterion concerns half of that traffic."""
    found = estimate(
        [
            make("normal_b0", traffic=900, judged=90, failed=9),
            make("refusal", traffic=100, judged=20, failed=10, not_applicable=20),
        ]
    )
    assert found is not None
    assert found.applicable_traffic == pytest.approx(950)
    assert found.rate == pytest.approx((900 * 0.1 + 50 * 0.5) / 950)
    assert found.traffic == 1_000


def test_a_wholly_not_applicable_stratum_leaves_the_rate() -> None:
    found = estimate([make(traffic=900, judged=90, failed=9), make("refusal", traffic=100, not_applicable=20)])
    assert found is not None
    assert found.rate == pytest.approx(0.1)
    assert found.applicable_traffic == pytest.approx(900)
    assert found.judged_share == pytest.approx(1.0)


def test_missing_verdicts_are_shown_with_both_bounds() -> None:
    found = estimate([make(traffic=100, judged=80, failed=8, missing=20)])
    assert found is not None
    assert found.rate == pytest.approx(0.1)
    assert found.missing_share == pytest.approx(0.2)
    assert found.rate_if_missing_passed == pytest.approx(0.08)
    assert found.rate_if_missing_failed == pytest.approx(0.28)


def test_the_safe_bound_is_shown_when_most_traffic_rests_on_few_failures() -> None:
    thin = estimate([make("normal_b0", traffic=9_000, judged=90, failed=1), make("x", traffic=1_000, judged=100)])
    thick = estimate([make("normal_b0", traffic=9_000, judged=900, failed=90)])
    assert thin is not None
    assert thick is not None
    assert thin.thin
    assert thin.high_shown == max(thin.high, thin.high_safe)
    assert not thick.thin
    assert thick.high_shown == thick.high


@pytest.mark.parametrize("objective", [0.0, 1.0, -1, 2, math.nan])
def test_an_objective_outside_0_1_is_refused(objective: float) -> None:
    found = estimate([make(traffic=200, judged=10, failed=1)])
    assert found is not None
    with pytest.raises(ValueError, match="objective"):
        found.score(objective)


def test_score_above_z_means_the_lower_bound_is_above_the_objective() -> None:
    found = estimate([make(traffic=1e6, judged=200, failed=20), make("r", traffic=1e4, judged=50, failed=30)])
    assert found is not None
    assert found.score(found.low) == pytest.approx(Z95)


strata_of_traffic = st.lists(
    st.builds(
        lambda traffic, chance, fail, na, miss: make(
            traffic=traffic,
            judged=(n := round(traffic * chance)),
            failed=round(n * fail),
            not_applicable=round(n * na),
            missing=round(n * miss),
            weight=1 / chance,
        ),
        st.integers(0, 10_000),
        st.sampled_from([0.001, 0.01, 0.1, 0.5, 1.0]),
        st.floats(0, 1),
        st.floats(0, 1),
        st.floats(0, 1),
    ),
    max_size=8,
)


@given(strata_of_traffic)
def test_whatever_the_sums_the_interval_holds_the_rate(strata: list[StratumSums]) -> None:
    found = estimate(strata)
    if found is None:
        return
    assert 0 <= found.low <= found.rate <= found.high <= 1
    assert found.rate <= found.high_safe <= 1
    assert found.effective_n > 0
    assert 0 <= found.judged_share <= 1 + 1e-9
    assert found.rate_if_missing_passed <= found.rate + 1e-9
    assert found.rate <= found.rate_if_missing_failed + 1e-9
    assert sum(s.share for s in found.strata) == pytest.approx(1)


# --- simulation ---------------------------------------------------------------------------------------------------

REPLICATIONS = 2_000
TWO_SE = 2 * math.sqrt(0.95 * 0.05 / REPLICATIONS)

BASE = ((97_000, 0.04), (2_000, 0.40), (1_000, 0.70))
RARE = ((97_000, 0.005), (2_000, 0.10), (1_000, 0.30))
CONC = ((95_000, 0.01), (3_000, 0.50), (2_000, 0.80))
SMALL = ((1_500, 0.04), (300, 0.40), (200, 0.70))
Mix = tuple[tuple[int, float], ...]


def uniform(mix: Mix, n: int) -> list[float]:
    return [n / sum(size for size, _ in mix)] * len(mix)


def neyman(mix: Mix, n: int) -> list[float]:
    """Chances as the product sets them: by the square root of p(1-p), with a floor of 0.3 x the average."""
    average = n / sum(size for size, _ in mix)
    want = [math.sqrt(p * (1 - p)) for _, p in mix]
    scale = n / sum(size * w for (size, _), w in zip(mix, want, strict=True))
    return [min(1.0, max(0.3 * average, w * scale)) for w in want]


def skewed(mix: Mix, n: int) -> list[float]:
    """A quarter of the budget on each troubled class, whatever the share of traffic."""
    sizes = [size for size, _ in mix]
    return [min(1.0, share * n / size) for share, size in zip((0.5, 0.25, 0.25), sizes, strict=True)]


def replicate(mix: Mix, chances: list[float], seed: int, not_applicable: float = 0.0) -> tuple[float, np.ndarray]:
    """The true rate, and (rate, low, high, high_safe) of each replication of keyed-hash sampling."""
    rng = np.random.default_rng(seed)
    sizes = np.array([size for size, _ in mix])
    gone = np.round(sizes * not_applicable * np.array([0.2, 1.0, 0.5])).astype(int) if not_applicable else 0 * sizes
    bad = np.round((sizes - gone) * np.array([p for _, p in mix])).astype(int)
    truth = bad.sum() / (sizes - gone).sum()
    parts = (bad, sizes - gone - bad, gone)
    drawn = [rng.binomial(part[:, None], np.array(chances)[:, None], (len(mix), REPLICATIONS)).T for part in parts]
    rows = []
    for failed, passed, skipped in zip(*drawn, strict=True):
        found = estimate(
            [
                make(traffic=n, judged=int(f + p), failed=int(f), not_applicable=int(s), weight=1 / c)
                for n, f, p, s, c in zip(sizes, failed, passed, skipped, chances, strict=True)
            ]
        )
        assert found is not None
        rows.append((found.rate, found.low, found.high, found.high_safe))
    return truth, np.array(rows)


CELLS = [
    pytest.param(mix, allocate, n, id=f"{name}-{allocate.__name__}-{n}")
    for name, mix in (("base", BASE), ("rare", RARE), ("conc", CONC))
    for allocate in (uniform, neyman)
    for n in (300, 1_000)
] + [
    pytest.param(BASE, neyman, 100, id="base-neyman-100"),
    pytest.param(SMALL, neyman, 1_000, id="half-of-a-small-population"),
]


@pytest.mark.parametrize(("mix", "allocate", "n"), CELLS)
def test_interval_covers_the_truth_and_the_rate_is_unbiased(mix: Mix, allocate, n: int) -> None:
    truth, found = replicate(mix, allocate(mix, n), seed=n)
    rate, low, high, safe = found.T
    assert abs(rate.mean() - truth) < 3 * rate.std() / math.sqrt(REPLICATIONS)
    assert ((low <= truth) & (truth <= high)).mean() >= 0.94 - TWO_SE
    assert ((low <= truth) & (truth <= np.maximum(high, safe))).mean() >= 0.94 - TWO_SE


def test_the_safe_bound_holds_for_a_badly_skewed_allocation() -> None:
    truth, found = replicate(BASE, skewed(BASE, 400), seed=11)
    rate, low, _high, safe = found.T
    assert abs(rate.mean() - truth) < 3 * rate.std() / math.sqrt(REPLICATIONS)
    assert ((low <= truth) & (truth <= safe)).mean() >= 0.94 - TWO_SE


def test_the_published_variance_is_the_variance_of_the_estimate() -> None:
    """Width against spread: at 1,000 judged the half-width is two standard deviations of what really happens."""
    _truth, found = replicate(BASE, neyman(BASE, 1_000), seed=3)
    rate, low, high, _safe = found.T
    assert ((high - low) / 2).mean() == pytest.approx(Z95 * rate.std(), rel=0.08)


def test_where_the_criterion_does_not_always_apply_the_interval_still_covers() -> None:
    """Most refusals and some answers make no claim; how many is estimated from the same sample."""
    truth, found = replicate(BASE, neyman(BASE, 600), seed=8, not_applicable=0.6)
    rate, low, high, _safe = found.T
    assert abs(rate.mean() - truth) < 3 * rate.std() / math.sqrt(REPLICATIONS) + 0.0005  # a ratio: bias of order 1/n
    assert ((low <= truth) & (truth <= high)).mean() >= 0.94 - TWO_SE


def test_the_raw_mean_of_the_same_samples_is_far_off() -> None:
    truth, found = replicate(BASE, neyman(BASE, 1_000), seed=3)
    chances = neyman(BASE, 1_000)
    raw = sum(n * c * p for (n, p), c in zip(BASE, chances, strict=True)) / sum(
        n * c for (n, _), c in zip(BASE, chances, strict=True)
    )
    assert raw - truth > 0.015
    assert abs(found[:, 0].mean() - truth) < 0.001
