"""What was drawn for people waits in the review queue until a person has spoken, whatever the judge said."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine
from starlette.testclient import TestClient

from groundwatch_collector import storage
from groundwatch_review import desk, queries
from groundwatch_review.console import ConsoleConfig, console_app
from groundwatch_scorer import judgement_store, second_look
from groundwatch_scorer.judgement import AnnotatorKind, Assessment, Criterion, FaultFinding, FaultLayer, Judgement
from groundwatch_scorer.second_look import PEOPLE, SecondLook

NOW = 1_790_000_000.0
APP = "manual-assistant"
JUDGED = Assessment("local:claims-1", AnnotatorKind.CODE)
FAULT = FaultFinding(FaultLayer.RERANK, 0.9, "cut", ())


def draw(engine: Engine, trace_id: str, *, asked: str = PEOPLE, chosen: bool = True) -> str:
    with engine.begin() as connection:
        second_look.keep(connection, trace_id, [SecondLook(asked, 0.2, chosen, unsure=False)])
    return trace_id


def queue(engine: Engine, limit: int = 200) -> dict[str, tuple[str, ...]]:
    with storage.reader(engine).connect() as connection:
        items = queries.review_queue(connection, APP, limit)
        if limit >= 200:
            assert queries.review_queue_size(connection, APP) == len(items)
    return {item.trace_id: item.why for item in items}


def test_what_was_drawn_comes_first_by_time_and_only_that(engine: Engine, add_trace: Any) -> None:
    failure = add_trace(1, JUDGED, FAULT)
    older = draw(engine, add_trace(2, JUDGED, FAULT, started_at=NOW - 90))
    newer = draw(engine, add_trace(3, JUDGED, started_at=NOW - 80))
    draw(engine, add_trace(4, JUDGED), chosen=False)
    draw(engine, add_trace(5, JUDGED), asked="llm:m:rubric-v1")
    assert list(queue(engine).items()) == [(newer, ("drawn",)), (older, ("drawn", "failed")), (failure, ("failed",))]


def test_many_that_were_drawn_do_not_hide_the_failures(
    engine: Engine, add_trace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "DRAWN_FIRST", 2)
    drawn = [draw(engine, add_trace(n, JUDGED, started_at=NOW - n)) for n in range(1, 5)]
    failure = add_trace(9, JUDGED, FAULT)
    assert list(queue(engine)) == [*drawn[:2], failure, *drawn[2:]]
    assert list(queue(engine, limit=3)) == [*drawn[:2], failure]
    assert list(queue(engine, limit=1)) == drawn[:1]


def test_a_decision_of_a_person_takes_it_out(engine: Engine, add_trace: Any) -> None:
    trace_id = draw(engine, add_trace(1, JUDGED))
    desk.reject(engine, trace_id, "", "", desk.new_reviewer(), NOW)
    assert queue(engine) == {}


def test_a_label_from_elsewhere_counts_too(engine: Engine, add_trace: Any) -> None:
    passed, failed = draw(engine, add_trace(1, JUDGED)), draw(engine, add_trace(2, JUDGED, FAULT))
    said = [
        Judgement(trace_id, Criterion.ANY_FAILURE, "pass", None, "", AnnotatorKind.HUMAN, "reviewer:rv_1", NOW)
        for trace_id in (passed, failed)
    ]
    with engine.begin() as connection:
        judgement_store.append(connection, said)
    assert queue(engine) == {failed: ("failed",)}


def test_the_page_says_why_in_words(engine: Engine, add_trace: Any) -> None:
    trace_id = draw(engine, add_trace(1, JUDGED))
    app = console_app(engine, ConsoleConfig(), now=lambda: NOW, candidate_key=b"k" * 32)
    with TestClient(app, base_url="http://127.0.0.1:4390") as client:
        page = client.get("/review", params={"app": APP, "item": trace_id}).text
    assert "it was chosen for people at random" in page
