"""The corrected rate out of the database, and as metrics: only what was chosen counts, and a refusal says why."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from queue_rows import queue_row
from sqlalchemy import Engine, insert

from groundwatch_alerts import corrected_rows
from groundwatch_alerts.corrected import Corrected, Refused
from groundwatch_alerts.corrected_metrics import CorrectedCollector
from groundwatch_collector.tables import sampled_traces, traffic_tally
from groundwatch_scorer import judgement_store, second_look
from groundwatch_scorer.judgement import AnnotatorKind, Criterion, Judgement
from groundwatch_scorer.second_look import PEOPLE, SecondLook

T0 = 1_700_000_000.0
MODEL = "llm:m:rubric-v1"
KEY = {"app": "shop", "judge": "local", "second": MODEL}


def verdict(trace_id: str, label: str, kind: AnnotatorKind, name: str) -> Judgement:
    return Judgement(trace_id, Criterion.ANY_FAILURE, label, None, "", kind, name, T0)


def fill(engine: Engine, count: int = 200) -> None:
    """Half of 400 requests are sampled; of those the local judge fails each fourth and is right in each eighth.

    The model was asked about all that failed and half of the rest, people about every other one.
    """
    with engine.begin() as connection:
        connection.execute(
            insert(traffic_tally),
            [
                {
                    "bucket_start": int(T0),
                    "app": "shop",
                    "version": "v1",
                    "stratum": "normal_b0",
                    "outcome": "answered",
                    "traces": 2.0 * count,
                    "received": 2 * count,
                }
            ],
        )
        connection.execute(insert(sampled_traces), [queue_row(f"t{i}", "yes", T0) for i in range(count)])
        for i in range(count):
            fails, truth = i % 4 == 0, "fail" if i % 8 == 0 else "pass"
            asked = fails or i % 2 == 1
            rows = [verdict(f"t{i}", "fail" if fails else "pass", AnnotatorKind.CODE, "local")]
            if asked:
                rows.append(verdict(f"t{i}", truth, AnnotatorKind.LLM, MODEL))
            judgement_store.append(connection, rows)
            chance = 1.0 if fails else 2 / 3
            looks = [SecondLook(MODEL, chance, asked, fails), SecondLook(PEOPLE, 0.5, i % 2 == 0, unsure=False)]
            second_look.keep(connection, f"t{i}", looks)


def say(engine: Engine, trace_id: str, label: str) -> None:
    with engine.begin() as connection:
        row = verdict(trace_id, label, AnnotatorKind.HUMAN, "reviewer:li")
        judgement_store.append(connection, [row])


def test_the_rate_is_the_models_and_not_the_local_judges(engine: Engine) -> None:
    fill(engine)
    found = corrected_rows.read(engine, app="shop", judge="local", second=MODEL, since=T0)
    assert isinstance(found, Corrected)
    assert found.rate == pytest.approx(1 / 8)
    assert found.low < 1 / 8 < found.high
    assert (found.labels, found.sensitivity) == (150, 1.0)
    assert found.false_positive_rate == pytest.approx(1 / 7)


def test_people_count_where_they_were_asked_and_with_their_last_word(engine: Engine) -> None:
    fill(engine)
    for i in range(200):
        say(engine, f"t{i}", "pass")  # also on what nobody asked them for
    for i in range(0, 200, 4):
        say(engine, f"t{i}", "fail")
    found = corrected_rows.read(engine, app="shop", judge="local", second=PEOPLE, since=T0)
    assert isinstance(found, Corrected)
    assert found.labels == 100
    assert found.rate == pytest.approx(0.25)


def test_a_window_in_which_the_cascade_was_off_for_a_while_has_no_rate(engine: Engine) -> None:
    fill(engine)
    with engine.begin() as connection:
        for i in range(40):  # judged before it was switched on: nobody drew whether to read them again
            connection.execute(insert(sampled_traces), [queue_row(f"old{i}", "yes", T0)])
            judgement_store.append(connection, [verdict(f"old{i}", "fail", AnnotatorKind.CODE, "local")])
    found = corrected_rows.read(engine, app="shop", judge="local", second=MODEL, since=T0)
    assert isinstance(found, Refused)
    assert found.reason == "unseen_part"
    assert found.found == pytest.approx(40 / 240)


def test_other_windows_hold_nothing(engine: Engine) -> None:
    fill(engine)
    for since, until in ((T0 + 60, None), (T0 - 60, T0)):
        found = corrected_rows.read(engine, app="shop", judge="local", second=MODEL, since=since, until=until)
        assert getattr(found, "reason", "") == "no_verdicts"


def test_metrics_say_the_rate_or_why_there_is_none(engine: Engine) -> None:
    registry = CollectorRegistry()
    at = [0.0]
    registry.register(CorrectedCollector(engine, ["local", MODEL], now=lambda: T0 + 60, clock=lambda: at[0]))
    assert registry.get_sample_value("rag_corrected_fail_rate", KEY) is None
    fill(engine)
    assert registry.get_sample_value("rag_corrected_labels", KEY) is None  # read a moment ago
    at[0] += 61
    value = registry.get_sample_value
    assert value("rag_corrected_fail_rate", KEY) == pytest.approx(1 / 8)
    low, high = value("rag_corrected_fail_rate_lcb95", KEY), value("rag_corrected_fail_rate_ucb95", KEY)
    assert low is not None
    assert high is not None
    assert low < 1 / 8 < high
    assert value("rag_corrected_refused", {**KEY, "reason": "too_few_labels"}) == 0
    people = {**KEY, "second": PEOPLE}
    assert value("rag_corrected_fail_rate", people) is None
    assert value("rag_corrected_refused", {**people, "reason": "too_few_labels"}) == 1


def test_a_database_that_is_away_leaves_the_other_metrics(empty_engine: Engine) -> None:
    registry = CollectorRegistry()
    registry.register(CorrectedCollector(empty_engine, ["local", MODEL], now=lambda: T0))
    assert registry.get_sample_value("groundwatch_corrected_read_errors_total") == 1
