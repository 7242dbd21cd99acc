"""Two versions are told apart on weighted traffic, looked at all the time, with few false alarms."""

from __future__ import annotations

import json
import math
import shutil
import subprocess

import numpy as np
import pytest
from prometheus_client import CollectorRegistry
from scipy import integrate, stats
from sqlalchemy import Engine

from groundwatch_alerts import version_comparison as vc
from groundwatch_alerts.estimator import StratumSums, estimate
from groundwatch_alerts.objectives import AlertsConfig
from groundwatch_alerts.rule_files import to_yaml
from groundwatch_alerts.version_metrics import VersionCollector, compared, is_served, pair_of
from groundwatch_alerts.version_rules import version_group
from groundwatch_collector.storage import add_to_tally
from groundwatch_collector.tables import traffic_tally
from groundwatch_scorer.tables import verdict_tally

PI = np.array((0.03, 0.1, 0.5, 1.0))  # chances of four strata, as unequal as the product's
SHARES = np.array((0.6, 0.25, 0.1, 0.05))
ODDS = np.array((0.4, 1.0, 3.0, 6.0))


def rates_of(overall: float) -> np.ndarray:
    return np.minimum(1.0, overall / (SHARES * ODDS).sum() * ODDS)


class Stream:
    """Sums of one version that grow look by look, sampled like the product samples."""

    def __init__(self, rng: np.random.Generator, rate: float, traffic: float) -> None:
        self.rng, self.rates, self.traffic = rng, rates_of(rate), traffic
        self.sums = np.zeros((4, 6))

    def grow(self):
        self.traffic *= 1.1  # many early looks and late ones: an ordinary interval has many chances to be fooled
        seen = self.rng.multinomial(self.rng.poisson(self.traffic), SHARES)
        judged = self.rng.binomial(seen, PI)
        failed = self.rng.binomial(judged, self.rates)
        self.sums += np.stack([seen, judged / PI, failed / PI, judged / PI**2, judged, failed], 1)
        rows = enumerate(self.sums.tolist())
        return estimate([StratumSums(str(i), n, a, b, c, int(k), int(y)) for i, (n, a, b, c, k, y) in rows])


def first_call(seed: int, rate_a: float, rate_b: float, canary: float, looks: int):
    """(Look at which the versions are called different, whether an ordinary interval was ever fooled)."""
    rng = np.random.default_rng(seed)
    a, b = Stream(rng, rate_a, 300 * (1 - canary)), Stream(rng, rate_b, 300 * canary)
    ordinary = False
    for look in range(looks):
        found = vc.compare(a.grow(), b.grow())
        if found is None:
            continue
        half = found.high - found.difference
        variance = _variance_of(half)
        ordinary = ordinary or abs(found.difference) > 1.96 * math.sqrt(variance)
        if found.clear:
            return look, True
    return None, ordinary


def _variance_of(half: float) -> float:
    low, high = 1e-9, 1.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if vc.half_width(middle) < half else (low, middle)
    return low


def test_equal_versions_are_rarely_told_apart_however_often_one_looks():
    runs = [first_call(seed, rate, rate, canary, 60) for seed in range(50) for rate, canary in CELLS]
    called = sum(look is not None for look, _ordinary in runs)
    fooled = sum(ordinary for _look, ordinary in runs)
    assert called <= 0.05 * len(runs)
    assert fooled > 0.10 * len(runs), "the same looks fool an ordinary 95 % interval; else this test shows nothing"


CELLS = ((0.01, 0.5), (0.05, 0.5), (0.05, 0.1), (0.2, 0.1))


def test_a_version_that_fails_twice_as_often_is_found():
    found = [first_call(seed, 0.05, 0.10, 0.5, 60)[0] for seed in range(30)]
    assert sum(look is not None for look in found) >= 24


@pytest.mark.parametrize("difference", [0.0, 0.02, -0.07])
@pytest.mark.parametrize("variance", [1e-5, 4e-4, 1e-2])
def test_the_evidence_is_the_mixture_that_it_says_it_is(difference, variance):
    def likelihood_ratio(shift: float) -> float:
        ratio = (shift * difference - shift**2 / 2) / variance
        return math.exp(ratio) * stats.norm.pdf(shift, scale=vc.USUAL_DIFFERENCE)

    peak = difference * vc.USUAL_DIFFERENCE**2 / (variance + vc.USUAL_DIFFERENCE**2)
    width = 12 * math.sqrt(1 / (1 / variance + 1 / vc.USUAL_DIFFERENCE**2))
    mixed, _error = integrate.quad(likelihood_ratio, peak - width, peak + width)
    assert vc.log_e(difference, variance) == pytest.approx(math.log(mixed), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("variance", [1e-6, 1e-4, 3e-3])
def test_the_interval_leaves_out_zero_exactly_where_the_evidence_suffices(variance):
    edge = vc.half_width(variance)
    assert vc.log_e(edge, variance) == pytest.approx(math.log(1 / vc.ALPHA))


def test_nothing_is_said_of_few_verdicts():
    few = estimate([StratumSums("normal_b0", 490, 490, 0, 4900, 49, 0)])
    many = estimate([StratumSums("normal_b0", 9000, 9000, 0, 90_000, 900, 0)])
    assert vc.compare(few, many) is None
    assert vc.compare(None, many) is None
    assert vc.compare(many, many) is not None


def test_versions_that_were_judged_completely_still_differ_by_chance():
    def whole(failed: int):
        return estimate([StratumSums("normal_b0", 100, 100, failed, 100, 100, failed)])

    found = vc.compare(whole(5), whole(8))
    assert found is not None
    assert not found.clear


def add(engine: Engine, version: str, bucket: int, judged: int, failed: int, app: str = "shop") -> None:
    place = {"app": app, "version": version, "stratum": "normal_b0", "bucket_start": bucket}
    sums = {"weight": 10.0 * judged, "fail_weight": 10.0 * failed, "weight_sq": 100.0 * judged}
    counts = {"judged": judged, "failed": failed, "not_applicable_weight": 0.0, "missing_weight": 0.0}
    with engine.begin() as connection:
        traffic = {**place, "outcome": "answered", "traces": 10.0 * judged, "received": 10 * judged}
        add_to_tally(connection, traffic_tally, [traffic])
        verdict = {**place, "criterion": "any_failure", "judge": "l", **sums, **counts}
        add_to_tally(connection, verdict_tally, [verdict])


def test_the_newest_version_is_compared_with_the_one_before_it(engine):
    add(engine, "v1", 0, 1000, 900)  # long before: not part of the comparison
    add(engine, "v1", 9 * 86_400, 300, 15)
    add(engine, "v2", 10 * 86_400, 300, 90)
    with engine.connect() as connection:
        pair = pair_of(connection, "shop")
        assert pair is not None
        (row,) = compared(connection, pair, "l")
        with pytest.raises(ValueError, match="no version 'v9'; it has: v1, v2"):
            pair_of(connection, "shop", "v9", "v2")
        assert pair_of(connection, "nobody") is None
    assert (pair.a, pair.b) == ("v1", "v2")
    assert row.result is not None
    assert row.result.difference == pytest.approx(0.25)
    assert (row.result.judged_a, row.result.judged_b) == (300, 300)


def test_the_version_before_is_the_one_that_served_and_not_one_that_was_rolled_back(engine):
    hour = 3_600
    for at in range(10):
        add(engine, "v1", at * hour, 100, 5)
    add(engine, "v2", 3 * hour, 60, 30)  # a canary, rolled back
    add(engine, "v3", 10 * hour, 60, 3)
    with engine.connect() as connection:
        found = pair_of(connection, "shop")
        assert found is not None and (found.a, found.b) == ("v1", "v3")
        for asked, expected in {("v2", ""): ("v2", "v3"), ("", "v2"): ("v1", "v2"), ("v3", ""): ("v3", "v2")}.items():
            pair = pair_of(connection, "shop", *asked)
            assert pair is not None and (pair.a, pair.b) == expected
        with pytest.raises(ValueError, match="v2 cannot be compared with itself; shop has: v1, v2, v3"):
            pair_of(connection, "shop", "v2", "v2")
        assert is_served(connection, "shop", "v3") and not is_served(connection, "shop", "v2")


def test_a_rollback_ends_what_the_alert_speaks_of(engine):
    add(engine, "v1", 0, 300, 15)
    add(engine, "v2", 3_600, 300, 90)
    clock = [0.0]
    registry = CollectorRegistry()
    registry.register(VersionCollector(engine, "l", clock=lambda: clock[0]))
    labels = {"app": "shop", "version": "v2", "against": "v1"}
    assert registry.get_sample_value("rag_version_served", labels) == 1
    add(engine, "v1", 4 * 3_600, 300, 15)
    clock[0] = 61.0
    assert registry.get_sample_value("rag_version_served", labels) == 0
    assert registry.get_sample_value("rag_version_log_e", labels | {"criterion": "any_failure"}) is not None


def test_a_scrape_shows_the_comparison_and_reads_once_a_minute(engine):
    add(engine, "v1", 0, 300, 15)
    clock = [0.0]
    collector = VersionCollector(engine, "l", max_apps=1, clock=lambda: clock[0])
    registry = CollectorRegistry()
    registry.register(collector)
    labels = {"app": "shop", "criterion": "any_failure", "version": "v2", "against": "v1"}
    assert registry.get_sample_value("rag_version_judged", labels) is None
    add(engine, "v2", 3600, 300, 90)
    assert registry.get_sample_value("rag_version_judged", labels) is None
    clock[0] = 61.0
    assert registry.get_sample_value("rag_version_judged", labels) == 300
    assert registry.get_sample_value("rag_version_difference", labels) == pytest.approx(0.25)
    low = registry.get_sample_value("rag_version_difference_low", labels)
    log_e = registry.get_sample_value("rag_version_log_e", labels)
    assert low is not None and log_e is not None
    assert low > 0.1 and log_e > math.log(120)
    add(engine, "v1", 7200, 10, 0, app="other")
    clock[0] = 130.0
    assert registry.get_sample_value("groundwatch_version_apps_left_out") == 1


def series(name: str, values: str) -> dict[str, str]:
    labels = 'app="shop", criterion="any_failure", version="v2", against="v1"'
    return {"series": f"{name}{{{labels}}}", "values": values}


@pytest.mark.service("prometheus")
@pytest.mark.parametrize(
    ("log_e", "low", "served", "fires"),
    [("5.2", "0.04", 1, True), ("4.5", "0.01", 1, False), ("9", "-0.2", 1, False), ("9", "0.1", 0, False)],
)
def test_the_alert_needs_evidence_and_a_worse_version_that_serves(tmp_path, log_e, low, served, fires):
    test = {
        "interval": "1m",
        "input_series": [
            series("rag_version_difference", "0.1x30"),
            series("rag_version_log_e", f"{log_e}x30"),
            series("rag_version_difference_low", f"{low}x30"),
            {"series": 'rag_version_served{app="shop", version="v2", against="v1"}', "values": f"{served}x30"},
        ],
        "promql_expr_test": [
            {
                "expr": 'count(ALERTS{alertname="RagVersionWorse", alertstate="firing"}) or vector(0)',
                "eval_time": "20m",
                "exp_samples": [{"labels": "{}", "value": int(fires)}],
            }
        ],
    }
    (tmp_path / "rules.yaml").write_text(to_yaml([version_group(AlertsConfig())]))
    path = tmp_path / "versions.json"
    path.write_text(json.dumps({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}))
    promtool = shutil.which("promtool")
    assert promtool is not None
    done = subprocess.run([promtool, "test", "rules", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
