"""Kappa between people and with oneself, from blind readings of one policy; the figures against a hand count."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from exportable import NOW, add, make_trace
from prometheus_client import CollectorRegistry
from sqlalchemy import Engine
from starlette.testclient import TestClient

from groundwatch_alerts.judge_agreement import Pair, agreement
from groundwatch_review import desk
from groundwatch_review.console import ConsoleConfig, console_app
from groundwatch_review.label_agreement import MIN_PAIRS, measure
from groundwatch_review.label_agreement_metrics import LabelAgreementCollector
from groundwatch_review.labelling_policy import VERSION
from groundwatch_review.labels import Label
from groundwatch_review.readings import Reading

ONE, TWO = "rv_11111111", "rv_22222222"


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """One kind is enough: one query by columns that every judge writes too."""
    return f"sqlite:///{tmp_path / 'groundwatch.db'}"


def reading(trace: int, reviewer: str, label: str, kind: str = "first", **changes: Any) -> Reading:
    fields: dict[str, Any] = {"criterion": "any_failure", "blind": True, "policy": VERSION, "layer": "", "note": ""}
    read_at = {"first": 1.0, "second": 2.0, "repeat": 3.0}.get(kind, 4.0)
    return Reading(
        trace_id=f"{trace:032x}", reviewer=reviewer, label=label, read_at=read_at, kind=kind, **fields | changes
    )


def pairs_of(counts: dict[tuple[str, str], int], kind: str = "second", other: str = TWO) -> list[Reading]:
    """That many traces with these two labels."""
    labels = [pair for pair, count in counts.items() for _ in range(count)]
    return [
        found
        for number, (first, second) in enumerate(labels)
        for found in (reading(number, ONE, first), reading(number, other, second, kind))
    ]


TABLE = {("fail", "fail"): 20, ("pass", "pass"): 15, ("fail", "pass"): 5, ("pass", "fail"): 10}


def test_kappa_of_two_people_is_that_of_the_textbook_table() -> None:
    """A table of 50 that is known by hand: agreement 0.70, by chance 0.50, so kappa 0.40."""
    line = measure(pairs_of(TABLE)).between[0]
    assert (line.criterion, line.pairs, line.same) == ("any_failure", 50, 35)
    assert line.kappa is not None
    assert line.kappa.kappa == pytest.approx(0.4)
    assert line.kappa.low < 0.4 < line.kappa.high


def test_a_person_is_measured_against_themselves_and_not_against_others() -> None:
    found = measure(pairs_of(TABLE, "repeat", ONE))
    assert found.stability[0].pairs == found.by_person[ONE][0].pairs == 50
    assert found.between[0].pairs == 0


@pytest.mark.parametrize(
    "changes", [{"policy": "labelling-0"}, {"kind": "again"}, {"label": "not_applicable"}, {"criterion": "citations"}]
)
def test_what_cannot_be_compared_is_no_pair(changes: dict[str, str]) -> None:
    fields = {"label": "fail", "kind": "second"} | changes
    second = reading(1, TWO, fields.pop("label"), fields.pop("kind"), **fields)
    assert measure([reading(1, ONE, "fail"), second]).between[0].pairs == 0


def test_a_second_reading_whose_first_was_in_sight_is_counted_as_left_out() -> None:
    found = measure([reading(1, TWO, "fail", "second"), reading(2, ONE, "fail", "repeat", policy="labelling-0")])
    assert (found.left_out, found.between[0].pairs) == (2, 0)


def test_few_pairs_show_how_many_agree_and_no_kappa() -> None:
    line = measure(pairs_of({("fail", "fail"): 12, ("pass", "pass"): MIN_PAIRS - 13})).between[0]
    assert (line.pairs, line.same, line.kappa) == (MIN_PAIRS - 1, MIN_PAIRS - 1, None)


def test_the_interval_of_the_least_number_of_pairs_holds_the_truth_as_often_as_it_says() -> None:
    """Readers of kappa 0.6 on half failures: 95 % of intervals shall hold it, four standard errors allowed."""
    draw, runs, held = random.Random(5), 400, 0
    for _ in range(runs):
        pairs = []
        for _ in range(MIN_PAIRS):
            first = draw.random() < 0.5
            pairs.append(Pair(first, first if draw.random() < 0.8 else not first, 1.0))
        found = agreement(pairs, min_labels=MIN_PAIRS)
        held += found is None or found.low <= 0.6 <= found.high
    assert held / runs > 0.95 - 4 * (0.95 * 0.05 / runs) ** 0.5


def test_the_page_and_the_metric_say_what_was_labelled(engine: Engine) -> None:
    for number in range(30):
        trace = make_trace(number, f"Question {number}?")
        add(engine, trace, confirm=False)
    with engine.begin() as connection:  # the fixture's own labels were in sight
        connection.exec_driver_sql("DELETE FROM judgements")
        connection.exec_driver_sql("DELETE FROM reviews")
    for number in range(30):
        failed, name = number < 20, f"{number:032x}"
        verdict = {"citations": "fail" if number % 3 else "pass"}
        first = Label("confirmed", "rerank", criteria=verdict) if failed else Label("rejected", criteria=verdict)
        second = (
            Label("confirmed", "context", criteria=verdict)
            if failed and number
            else Label("rejected", criteria=verdict)
        )
        desk.decide(engine, name, first, ONE, NOW, blind=True)
        desk.decide(engine, name, second, TWO, NOW + 1, blind=True)
    registry = CollectorRegistry()
    registry.register(LabelAgreementCollector(engine))
    at = {"criterion": "any_failure", "between": "two_people"}
    kappa = registry.get_sample_value("groundwatch_reviewers_kappa", at)
    assert registry.get_sample_value("groundwatch_reviewers_pairs", at) == 30
    assert registry.get_sample_value("groundwatch_reviewers_kappa", at | {"criterion": "citations"}) == 1.0
    assert registry.get_sample_value("groundwatch_reviewers_kappa", at | {"between": "same_person"}) is None
    assert kappa == pytest.approx(1 - (1 / 30) / (1 - (20 * 19 + 10 * 11) / 900))
    app = console_app(engine, ConsoleConfig(), now=lambda: NOW, candidate_key=b"k" * 32)
    page = TestClient(app, base_url="http://127.0.0.1").get("/labels").text
    assert f"<strong>{kappa:.2f}</strong>" in page
    assert "Of 19 failures that both confirmed, 0 got the same layer." in page
    assert VERSION in page
    assert "10 %" in page
