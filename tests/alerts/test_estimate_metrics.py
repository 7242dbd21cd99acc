"""What a scrape shows, read back through the text format of a real registry."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Engine, text

from groundwatch_alerts.estimate_metrics import CRITERIA, LAYERS, OTHER, TallyCollector
from groundwatch_alerts.estimator import StratumSums, estimate
from groundwatch_alerts.tallies import sums
from groundwatch_collector.storage import add_to_tally
from groundwatch_collector.strata import STRATA
from groundwatch_collector.tables import traffic_tally
from groundwatch_scorer.tables import fault_tally, verdict_tally


def traffic(engine: Engine, traces: float, bucket: int = 0, **changes: str) -> None:
    row = {"app": "shop", "version": "v1", "stratum": "normal_b0", "outcome": "answered"} | changes
    with engine.begin() as connection:
        add_to_tally(
            connection, traffic_tally, [{**row, "bucket_start": bucket, "traces": traces, "received": int(traces)}]
        )


def verdicts(engine: Engine, judged: int, failed: int, bucket: int = 0, weight: float = 10.0, **changes: str) -> None:
    row = {"app": "shop", "version": "v1", "stratum": "normal_b0", "criterion": "any_failure", "judge": "l"}
    values = {
        "weight": judged * weight,
        "fail_weight": failed * weight,
        "weight_sq": judged * weight**2,
        "judged": judged,
        "failed": failed,
        "not_applicable_weight": 3.0,
        "missing_weight": 2.0,
    }
    with engine.begin() as connection:
        add_to_tally(connection, verdict_tally, [{**row, **changes, "bucket_start": bucket, **values}])


class Scrape:
    def __init__(self, collector: TallyCollector) -> None:
        registry = CollectorRegistry()
        registry.register(collector)
        self.text = generate_latest(registry).decode()
        families = text_string_to_metric_families(self.text)
        self.samples = {(s.name, frozenset(s.labels.items())): s.value for f in families for s in f.samples}

    def __call__(self, name: str, **labels: str) -> float:
        return self.samples[name, frozenset(labels.items())]

    def total(self, name: str, **labels: str) -> float:
        wanted = labels.items()
        return sum(v for (n, found), v in self.samples.items() if n == name and wanted <= found)


PLACE = {"app": "shop", "version": "v1", "stratum": "normal_b0"}
VERDICT = {**PLACE, "criterion": "any_failure", "judge": "l"}


def test_a_scrape_shows_the_committed_sums(engine: Engine) -> None:
    traffic(engine, 100)
    traffic(engine, 20, bucket=60)
    traffic(engine, 5, outcome="error")
    verdicts(engine, judged=10, failed=1)
    verdicts(engine, judged=5, failed=2, bucket=60)
    with engine.begin() as connection:
        row = {"bucket_start": 0, "app": "shop", "version": "v1", "stratum": "normal_b0", "judge": "l"}
        add_to_tally(connection, fault_tally, [{**row, "layer": "rerank", "weight": 30.0, "judged": 3}])
    scrape = Scrape(TallyCollector(engine, rates={"normal_b0": 0.1}))
    assert scrape("rag_traces_total", **PLACE) == 125
    assert scrape("rag_eligible_traces_total", **PLACE, criterion="any_failure") == 120
    assert scrape("rag_judged_weight_total", **VERDICT) == 150
    assert scrape("rag_judged_fail_weight_total", **VERDICT) == 30
    assert scrape("rag_judged_weight_sq_total", **VERDICT) == 1500
    assert scrape("rag_judge_not_applicable_weight_total", **VERDICT) == 6
    assert scrape("rag_judge_missing_weight_total", **VERDICT) == 4
    assert scrape("rag_judged_total", **VERDICT, verdict="pass") == 12
    assert scrape("rag_judged_total", **VERDICT, verdict="fail") == 3
    assert scrape("rag_fault_weight_total", **PLACE, judge="l", layer="rerank") == 30
    assert scrape("rag_inclusion_probability", stratum="normal_b0") == 0.1


def test_the_counters_and_the_estimator_read_the_same_sums(engine: Engine) -> None:
    traffic(engine, 1000)
    traffic(engine, 50, stratum="refusal", outcome="refused")
    verdicts(engine, judged=100, failed=7)
    verdicts(engine, judged=20, failed=9, weight=2.5, stratum="refusal")
    scrape = Scrape(TallyCollector(engine))

    def stratum_sums(stratum: str) -> StratumSums:
        place, verdict = PLACE | {"stratum": stratum}, VERDICT | {"stratum": stratum}
        counts = {v: int(scrape("rag_judged_total", **verdict, verdict=v)) for v in ("pass", "fail")}
        return StratumSums(
            stratum,
            traffic=scrape("rag_eligible_traces_total", **place, criterion="any_failure"),
            weight=scrape("rag_judged_weight_total", **verdict),
            fail_weight=scrape("rag_judged_fail_weight_total", **verdict),
            weight_sq=scrape("rag_judged_weight_sq_total", **verdict),
            judged=sum(counts.values()),
            failed=counts["fail"],
            not_applicable_weight=scrape("rag_judge_not_applicable_weight_total", **verdict),
            missing_weight=scrape("rag_judge_missing_weight_total", **verdict),
        )

    from_scrape = [stratum_sums("normal_b0"), stratum_sums("refusal")]
    committed = sums(engine, app="shop", criterion="any_failure", judge="l")
    assert from_scrape == committed
    assert estimate(from_scrape) == estimate(committed)


def test_every_series_of_a_known_app_and_judge_starts_at_zero(engine: Engine) -> None:
    traffic(engine, 1)
    scrape = Scrape(TallyCollector(engine, judges=["l", "llm"]))
    for stratum in STRATA:
        place = PLACE | {"stratum": stratum}
        assert scrape("rag_traces_total", **place) == (1.0 if stratum == "normal_b0" else 0.0)
        for judge in ("l", "llm"):
            for criterion in CRITERIA:
                assert scrape("rag_judged_weight_total", **place, criterion=criterion, judge=judge) == 0.0
            for layer in LAYERS:
                assert scrape("rag_fault_weight_total", **place, judge=judge, layer=layer) == 0.0


def test_an_empty_database_scrapes(engine: Engine) -> None:
    scrape = Scrape(TallyCollector(engine, judges=["l"]))
    assert not any(name.startswith("rag_") for name, _ in scrape.samples)
    assert scrape("groundwatch_tally_label_overflow_total", label="app") == 0


def test_too_many_apps_and_versions_share_one_name_and_keep_the_total(engine: Engine) -> None:
    for index in range(20):
        traffic(engine, 1, bucket=index, app=f"app{index:02}")
        traffic(engine, 1, bucket=index, version=f"v{index:02}")
    collector = TallyCollector(engine, max_apps=5, max_versions=8)
    scrape = Scrape(collector)
    apps = {dict(labels)["app"] for name, labels in scrape.samples if name == "rag_traces_total"}
    pairs = {
        (dict(labels)["app"], dict(labels)["version"])
        for name, labels in scrape.samples
        if name == "rag_traces_total" and dict(labels)["version"] != OTHER
    }
    assert apps == {"app00", "app01", "app02", "app03", "shop", OTHER}
    assert len(pairs) == 8
    assert scrape.total("rag_traces_total") == 40
    assert scrape("groundwatch_tally_label_overflow_total", label="app") == 16
    # A name once given is kept, also when an older bucket arrives later.
    traffic(engine, 1, bucket=-1, app="late")
    again = Scrape(collector)
    assert {dict(labels)["app"] for name, labels in again.samples if name == "rag_traces_total"} == apps
    assert again.total("rag_traces_total", app=OTHER) == scrape.total("rag_traces_total", app=OTHER) + 1


def test_a_counter_never_falls_by_a_rounding(engine: Engine) -> None:
    """0.1 + 0.2 + 0.3 depends on the order; Prometheus would take the lower sum for a restart."""
    traffic(engine, 0.1 + (0.2 + 0.3))
    collector = TallyCollector(engine)
    before = Scrape(collector)("rag_traces_total", **PLACE)
    with engine.begin() as connection:
        connection.execute(text("UPDATE traffic_tally SET traces = traces - 1e-16 * traces - 1e-16"))
    assert Scrape(collector)("rag_traces_total", **PLACE) == before
    traffic(engine, 1)
    assert Scrape(collector)("rag_traces_total", **PLACE) == pytest.approx(before + 1)


def test_a_long_history_is_read_less_often_and_nothing_is_lost(engine: Engine) -> None:
    """Reading takes one tick of this clock, so for 20 ticks only the last hour before the newest bucket is read."""
    now = [0.0]

    def clock() -> float:
        now[0] += 1
        return now[0]

    traffic(engine, 100)
    traffic(engine, 10, bucket=36_000)
    collector = TallyCollector(engine, clock=clock)
    assert Scrape(collector)("rag_traces_total", **PLACE) == 110
    traffic(engine, 5)  # a late trace of an old bucket
    traffic(engine, 1, bucket=36_060)
    verdicts(engine, judged=1, failed=1, bucket=36_000)
    scrape = Scrape(collector)
    assert scrape("rag_traces_total", **PLACE) == 111
    assert scrape("rag_judged_weight_total", **VERDICT) == 10
    now[0] += 20
    assert Scrape(collector)("rag_traces_total", **PLACE) == 116


def test_a_database_that_is_away_leaves_the_other_metrics(empty_engine: Engine) -> None:
    scrape = Scrape(TallyCollector(empty_engine, rates=lambda: {"refusal": 0.5}))
    assert scrape("groundwatch_tally_read_errors_total") == 1
    assert scrape("rag_inclusion_probability", stratum="refusal") == 0.5


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "药店", "{}"])
def test_names_of_apps_are_escaped(engine: Engine, name: str) -> None:
    traffic(engine, 3, app=name)
    place: dict[str, Any] = PLACE | {"app": name}
    assert Scrape(TallyCollector(engine))("rag_traces_total", **place) == 3
