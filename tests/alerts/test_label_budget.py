"""However many applications, versions, judges and error classes come, the number of series stays within a budget."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from sqlalchemy import Engine

from groundwatch_alerts.estimate_metrics import TallyCollector
from groundwatch_collector.ragtrace import Outcome, RagTrace, Usage
from groundwatch_collector.storage import add_to_tally
from groundwatch_collector.tables import traffic_tally
from groundwatch_collector.traffic_metrics import TrafficMetrics
from groundwatch_scorer.tables import fault_tally, verdict_tally


def flood(engine: Engine, places: int) -> None:
    """*places* applications with a version each, and as many versions of the first one."""
    names = [(f"app{n}", "v1") for n in range(places)] + [("app0", f"v{n}") for n in range(2, places)]
    verdicts = dict.fromkeys(
        ("weight", "fail_weight", "weight_sq", "judged", "failed", "not_applicable_weight", "missing_weight"), 1
    )
    traffic, judged, faults = [], [], []
    for bucket, (app, version) in enumerate(names):
        key = {"bucket_start": bucket, "app": app, "version": version, "stratum": "normal_b0"}
        traffic.append({**key, "outcome": "answered", "traces": 1.0, "received": 1})
        judged.append({**key, "criterion": "any_failure", "judge": "local", **verdicts})
        faults.append({**key, "judge": "local", "layer": "rerank", "weight": 1.0, "judged": 1})
    with engine.begin() as connection:
        for table, rows in ((traffic_tally, traffic), (verdict_tally, judged), (fault_tally, faults)):
            add_to_tally(connection, table, rows)


def lines(registry: CollectorRegistry) -> list[str]:
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def overflow(rows: list[str], name: str) -> dict[str, float]:
    found = (row for row in rows if row.startswith(f"{name}{{"))
    return {row.split('"')[1]: float(row.rsplit(" ", 1)[1]) for row in found}


def test_one_application_and_version_cost_at_most_two_thousand_series(engine: Engine) -> None:
    """Everything beyond the caps shares __other__: three places here, one named and two to share."""
    flood(engine, 100)
    registry = CollectorRegistry()
    registry.register(TallyCollector(engine, judges=["local"], max_apps=1, max_versions=1))
    rows = lines(registry)
    assert len(rows) <= 2_000
    assert overflow(rows, "groundwatch_tally_label_overflow_total") == {"app": 99, "version": 98}
    counted = sum(float(row.rsplit(" ", 1)[1]) for row in rows if row.startswith("rag_traces_total{"))
    assert counted == 198  # nothing is lost by sharing


def test_a_flood_of_names_meets_the_default_caps(engine: Engine) -> None:
    flood(engine, 300)
    registry = CollectorRegistry()
    registry.register(TallyCollector(engine, judges=["local"]))
    rows = lines(registry)
    assert len(rows) <= 60_000
    assert overflow(rows, "groundwatch_tally_label_overflow_total")["app"] == 250


def test_a_flood_of_traffic_labels_is_bounded_and_counted() -> None:
    registry = CollectorRegistry()
    metrics = TrafficMetrics(registry, label_limit=10)
    for number in range(200):
        metrics.decided("sampled", "hash", trace(f"app{number}", f"v{number}", f"Error{number}"))
    rows = lines(registry)
    assert len(rows) <= 2_000
    assert overflow(rows, "groundwatch_label_overflow_total") == {"app": 190, "version": 190, "error_class": 190}


def trace(app: str, version: str, error_class: str) -> RagTrace:
    return RagTrace(
        trace_id="0" * 32,
        app=app,
        version=version,
        started_at=0.0,
        duration_seconds=1.0,
        outcome=Outcome.ERROR,
        outcome_source="recorded",
        error_class=error_class,
        usage=Usage(10, 10, 0.01),
        time_to_first_token_seconds=0.5,
    )


def test_every_outcome_of_a_version_is_there_from_its_first_request() -> None:
    """A series that is born with a value loses it to increase(): the first error would not be seen."""
    registry = CollectorRegistry()
    TrafficMetrics(registry).decided("sampled", "hash", trace("shop", "v1", "E"))
    found = {
        row.split('outcome="')[1].split('"')[0] for row in lines(registry) if row.startswith("rag_requests_total")
    }
    assert found == {str(outcome) for outcome in Outcome}
