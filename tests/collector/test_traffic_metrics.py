"""Counts of all traffic, with labels that cannot grow without bound."""

from __future__ import annotations

import dataclasses

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from groundwatch import names
from groundwatch_collector.mapping import to_ragtrace
from groundwatch_collector.traffic_metrics import TrafficMetrics


@pytest.fixture
def registry():
    return CollectorRegistry()


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, labels)


def test_one_request_moves_every_count_of_traffic(make, registry):
    trace = to_ragtrace(make.request(root={names.RETRIES: 2, names.COST_USD: 0.25}))
    TrafficMetrics(registry).decided("not_sampled", "hash", trace)
    assert value(registry, "rag_requests_total", app="shop", version="1.0", outcome="answered") == 1
    assert value(registry, "rag_tokens_total", app="shop", direction="input") == 120
    assert value(registry, "rag_tokens_total", app="shop", direction="output") == 30
    assert value(registry, "rag_cost_usd_total", app="shop") == 0.25
    assert value(registry, "rag_retries_total", app="shop") == 2
    assert value(registry, "rag_request_duration_seconds_sum", app="shop") == pytest.approx(0.6)
    assert value(registry, "rag_stage_duration_seconds_count", app="shop", stage="rerank") == 1
    assert value(registry, "rag_time_to_first_token_seconds_sum", app="shop") == 0.45
    assert value(registry, "groundwatch_decided_traces_total", verdict="not_sampled", reason="hash") == 1
    assert value(registry, "rag_execution_errors_total", app="shop", error_class="unknown") is None


def test_an_execution_failure_is_counted_by_its_class(make, registry):
    trace = to_ragtrace(make.request(root={names.OUTCOME: "error", names.ERROR_TYPE: "openai.APIError"}))
    TrafficMetrics(registry).decided("not_sampled", "hash", trace)
    assert value(registry, "rag_execution_errors_total", app="shop", error_class="openai.APIError") == 1


def test_a_skipped_trace_is_no_request(registry):
    TrafficMetrics(registry).decided("skipped", "not_a_question", None)
    assert "rag_requests_total{" not in generate_latest(registry).decode()


def test_label_values_are_bounded_and_the_rest_is_counted(make, registry):
    metrics = TrafficMetrics(registry, label_limit=3)
    trace = to_ragtrace(make.request())
    assert trace is not None
    for number in range(10):
        metrics.decided("not_sampled", "hash", dataclasses.replace(trace, version=f"1.{number}"))
    assert value(registry, "rag_requests_total", app="shop", version="1.2", outcome="answered") == 1
    assert value(registry, "rag_requests_total", app="shop", version="__other__", outcome="answered") == 7
    assert value(registry, "groundwatch_label_overflow_total", label="version") == 7


def test_latency_below_a_second_can_be_told_apart(make, registry):
    TrafficMetrics(registry).decided("not_sampled", "hash", to_ragtrace(make.request()))
    bounds = [
        float(sample.labels["le"])
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "rag_request_duration_seconds_bucket"
    ]
    assert sum(bound < 1 for bound in bounds) >= 8


@pytest.mark.parametrize("said", ["no account for bob@example.com", "查询失败", "x" * 101])
def test_a_message_in_the_place_of_an_error_class_is_no_label(make, registry, said):
    trace = to_ragtrace(make.request(root={names.OUTCOME: "error", names.ERROR_TYPE: said}))
    TrafficMetrics(registry).decided("not_sampled", "hash", trace)
    assert value(registry, "rag_execution_errors_total", app="shop", error_class="__other__") == 1
    assert value(registry, "groundwatch_label_overflow_total", label="error_class") == 1
    assert said not in generate_latest(registry).decode()
