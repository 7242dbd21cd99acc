"""Changes are found soon and seldom falsely, and a crash changes no sum."""

from __future__ import annotations

import math
from collections.abc import Iterable

import judged_stream as js
import numpy as np
import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import Engine, insert, update

from groundwatch_alerts.alert_tables import change_detectors
from groundwatch_alerts.change_detection import RISES, Baseline, Detector, learn
from groundwatch_alerts.change_monitor import DAY, ChangeMetrics, ChangeMonitor
from groundwatch_alerts.estimator import StratumSums, estimate
from groundwatch_alerts.objectives import AlertsConfig, Objective
from groundwatch_collector.storage import add_to_tally
from groundwatch_collector.tables import ledger, sampled_traces, traffic_tally
from groundwatch_scorer.tables import judgements, verdict_tally

BASELINE = Baseline({"normal_b0": 0.05, "refusal": 0.4}, judged_per_week=2_800)


def test_evidence_is_the_mean_of_the_sums_of_likelihood_ratios():
    """By hand: M <- (M + 1) * ratio, for each rise."""
    detector = Detector(BASELINE, 1.0)
    for failed in (True, False):
        detector.judged("normal_b0", failed)
    expected = []
    for rise in RISES:
        risen = 0.05 * math.exp(rise) / (0.95 + 0.05 * math.exp(rise))
        expected.append((risen / 0.05 + 1) * (1 - risen) / 0.95)
    assert detector.sums == pytest.approx(expected)
    assert detector.log_threshold == math.log(0.8 * 2_800)


def test_a_stratum_without_a_baseline_says_nothing():
    detector = Detector(BASELINE, 1.0)
    detector.judged("novel", True)
    assert detector.log_e == 0


def test_evidence_has_a_ceiling_so_that_an_incident_ends():
    detector = Detector(BASELINE, 1.0)
    for _ in range(500):
        detector.judged("normal_b0", True)
    assert detector.has_changed and detector.log_e < detector.log_threshold + 1.01
    passes = 0
    while detector.has_changed:
        detector.judged("normal_b0", False)
        passes += 1
    assert passes < 100


@pytest.mark.parametrize("rows", [(), (StratumSums("s", 100, 5, 5, 5, 5, 5),), (StratumSums("s", 9, 9, 0, 9, 9, 0),)])
def test_nothing_is_learnt_where_there_is_too_little(rows):
    assert learn(rows, 14) is None


def test_a_doubled_failure_rate_is_found_within_hours_and_a_quiet_fortnight_stays_quiet():
    """Seeded and short; the figures are of bench_detection.py."""
    rng = np.random.default_rng(11)
    hours, false, runs = [], 0, 30
    for _ in range(runs):
        baseline = learn(js.stream(rng, 14, 0.05).whole(), 14)
        assert baseline is not None
        detector = Detector(baseline, 1.0)
        quiet, risen = js.stream(rng, 7, 0.05), js.stream(rng, 2, 0.10)
        before = list(run(detector, quiet, rng))
        false += len(js.episodes(before, 0))
        found = next((step for step, holds in enumerate(run(detector, risen, rng)) if holds), None)
        assert found is not None
        hours.append(found * js.STEP_SECONDS / 3600)
    assert false / runs <= 1.0 + 2 * 1.1 / math.sqrt(runs)  # two standard errors of a count a week
    assert np.mean(hours) < 8


def run(detector: Detector, stream: js.Stream, rng: np.random.Generator) -> Iterable[bool]:
    for step in range(len(stream.judged)):
        for stratum, failed in stream.verdicts(step, rng):
            detector.judged(stratum, failed)
        yield detector.has_changed


def test_a_baseline_from_few_verdicts_is_put_further_above_what_was_seen():
    """So that false alarms are as many as allowed in the mean over the baselines that chance may give."""

    def excess(judged: int) -> float:
        found = learn([StratumSums("s", 4e4, 4e4, 2e3, 4e6, judged, judged // 20)], 14)
        assert found is not None
        return math.log(found.rates["s"] / (1 - found.rates["s"])) - math.log(0.05 / 0.95)

    assert excess(1_400) == pytest.approx(excess(5_600) * 4 * math.log(700) / math.log(2_800), rel=0.01)
    assert 0 < excess(5_600) < 0.05


def test_the_score_seldom_alarms_while_the_truth_lies_on_the_objective():
    rng, begun, weeks = np.random.default_rng(3), 0, 50
    for _ in range(weeks):
        begun += len(js.episodes(js.score_holds(js.stream(rng, 7.25, 0.05), 6, 0.05)))
    assert begun / weeks <= 1.0 + 2 / math.sqrt(weeks)


def test_the_harness_scores_as_the_estimator_does():
    stream = js.stream(np.random.default_rng(4), 0.5, 0.05, 100)  # strata without a verdict are among the windows
    z, judged = js.scores(stream, 24, 0.05)
    for end, strata in stream.windows(24):
        found = estimate(strata)
        assert found is not None and found.judged == judged[end]
        assert found.judged_share <= 0.98 if np.isinf(z[end]) else z[end] == pytest.approx(found.score(0.05))
    assert 0 < np.isinf(z[23:]).sum() < len(z) - 30


class World:
    """A monitor's database, filled by hand."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.clock, self.count = engine, 100 * DAY, 0
        self.registry = CollectorRegistry()
        self.monitor = self.restarted()

    def restarted(self) -> ChangeMonitor:
        self.registry = CollectorRegistry()
        return ChangeMonitor(
            self.engine,
            "local",
            [Objective("q", "any_failure", 0.05, app="shop"), Objective("e", "execution", 0.01)],
            AlertsConfig(),
            ChangeMetrics(self.registry),
            now=lambda: self.clock,
        )

    def baseline(self) -> None:
        key = {"bucket_start": int(self.clock), "app": "shop", "version": "v1", "stratum": "normal_b0"}
        sums = {"weight": 4e4, "fail_weight": 2e3, "weight_sq": 4e6, "judged": 400, "failed": 20}
        zero = {"not_applicable_weight": 0.0, "missing_weight": 0.0}
        with self.engine.begin() as connection:
            add_to_tally(
                connection, traffic_tally, [{**key, "outcome": "answered", "traces": 4e4, "received": 40_000}]
            )
            row = {**key, "criterion": "any_failure", "judge": "local", **sums, **zero}
            add_to_tally(connection, verdict_tally, [row])

    def judge(self, *labels: str, family: str = "fast", outcome: str = "answered") -> None:
        for label in labels:
            self.count += 1
            name = f"{self.count:032x}"
            place = {
                "trace_id": name,
                "app": "shop",
                "version": "v1",
                "started_at": self.clock,
                "stratum": "normal_b0",
            }
            chance = {"inclusion_probability": 0.01, "reason": "hash", "epoch": "e"}
            sampled = {"family": family, "payload": "{}", "state": "judged", "queued_at": self.clock}
            row = {"verdict": "sampled", "outcome": outcome, "decided_at": self.clock, "u56": 1, "salt_version": 1}
            verdict = {"trace_id": name, "criterion": "any_failure", "label": label, "annotator_kind": "CODE"}
            with self.engine.begin() as connection:
                connection.execute(insert(sampled_traces).values({**place, **chance, **sampled}))
                connection.execute(
                    insert(ledger).values({**place, **chance, **row, "first_position": 0, "last_position": 0})
                )
                connection.execute(
                    insert(judgements).values({**verdict, "identifier": "local", "judged_at": self.clock})
                )

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, {"app": "shop", "criterion": "any_failure"} | labels)


@pytest.fixture
def world(engine: Engine) -> World:
    return World(engine)


def test_nothing_is_compared_until_the_baseline_is_two_weeks_old(world):
    world.baseline()
    world.clock += 13 * DAY
    world.monitor.step()
    assert world("rag_baseline_frozen") == 0 and world("rag_change_log_e") is None
    assert world("rag_objective_fail_ratio") == 0.05
    assert world("rag_objective_fail_ratio", criterion="execution") == 0.01
    world.clock += DAY
    world.monitor.step()
    assert world("rag_baseline_frozen") == 1 and world("rag_change_log_e") == 0
    assert world("rag_change_log_e_threshold") == pytest.approx(math.log(0.8 * 200))


def test_failures_after_the_freeze_raise_the_evidence_and_a_crash_changes_nothing(world):
    world.baseline()
    world.clock += 14 * DAY
    world.judge(*["fail"] * 50)  # part of the past when the baseline is frozen
    world.monitor.step()
    world.judge("pass", "fail", "fail", "unscored")
    world.judge("fail", family="late")
    world.judge("fail", outcome="error")
    world.clock += 10
    world.monitor.step()
    expected = Detector(Baseline({"normal_b0": frozen_rate()}, 200), 1.0)
    for failed in (False, True, True):
        expected.judged("normal_b0", failed)
    assert world("rag_change_log_e") == pytest.approx(expected.log_e)
    world.judge("fail", "pass")
    world.clock += 10
    world.monitor = world.restarted()  # what it read and did not keep is read again
    world.monitor.step()
    for failed in (True, False):
        expected.judged("normal_b0", failed)
    assert world("rag_change_log_e") == pytest.approx(expected.log_e)


def frozen_rate() -> float:
    learnt = learn([StratumSums("normal_b0", 4e4, 4e4, 2e3, 4e6, 400, 20)], 14)
    assert learnt is not None
    return learnt.rates["normal_b0"]


def test_evidence_of_a_version_that_looked_for_other_rises_is_not_read_as_its_own(world):
    world.baseline()
    world.clock += 14 * DAY
    world.monitor.step()
    with world.engine.begin() as connection:
        connection.execute(update(change_detectors).values(sums="[900.0,900.0,900.0]"))
    world.monitor.step()
    assert world("rag_change_log_e") == 0


def test_two_processes_of_one_database_count_each_verdict_once(world):
    world.baseline()
    world.clock += 14 * DAY
    world.monitor.step()
    other = world.restarted()
    world.judge("fail", "fail")
    world.clock += 10
    world.monitor.step()
    other.step()
    expected = Detector(Baseline({"normal_b0": frozen_rate()}, 200), 1.0)
    for _ in range(2):
        expected.judged("normal_b0", True)
    assert world("rag_change_log_e") == pytest.approx(expected.log_e)
