"""What was drawn for people waits in the review queue until a person has spoken, whatever the judge said."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine
from starlette.testclient import TestClient

from groundwatch_collector import storage
from groundwatch_review import desk, review_queue
from groundwatch_review.console import ConsoleConfig, console_app
from groundwatch_review.labels import Label
from groundwatch_review.rereading import REPEAT, SECOND, RereadingConfig
from groundwatch_review.review_queue import ANYBODY, Reader, Wanted
from groundwatch_scorer import judgement_store, second_look
from groundwatch_scorer.judgement import (
    AnnotatorKind,
    Assessment,
    Criterion,
    Evidence,
    FaultFinding,
    FaultLayer,
    Judgement,
)
from groundwatch_scorer.second_look import PEOPLE, SecondLook

NOW = 1_790_000_000.0
APP = "manual-assistant"
ONE, TWO = "rv_11111111", "rv_22222222"
JUDGED = Assessment("local:claims-1", AnnotatorKind.CODE)
FAULT = FaultFinding(FaultLayer.RERANK, 0.9, "cut", ())


def draw(engine: Engine, trace_id: str, *, asked: str = PEOPLE, chosen: bool = True) -> str:
    with engine.begin() as connection:
        second_look.keep(connection, trace_id, [SecondLook(asked, 0.2, chosen, unsure=False)])
    return trace_id


def queue(
    engine: Engine, limit: int = 200, reader: Reader = ANYBODY, wanted: Wanted | None = None
) -> dict[str, tuple[str, ...]]:
    with storage.reader(engine).connect() as connection:
        items = review_queue.read(connection, APP, limit, reader, wanted)
        if limit >= 200 and wanted is None:
            assert review_queue.size(connection, APP, reader) == len(items)
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
    monkeypatch.setattr(review_queue, "DRAWN_FIRST", 2)
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


def reread(engine: Engine, reviewer: str, *, now: float = NOW) -> dict[str, tuple[str, ...]]:
    return queue(engine, reader=Reader(reviewer, now - 7 * 86_400))


def test_what_was_drawn_for_a_second_person_waits_for_everybody_but_the_first(engine: Engine, add_trace: Any) -> None:
    trace_id = draw(engine, add_trace(1, JUDGED, FAULT), asked=SECOND)
    draw(engine, add_trace(2, JUDGED, FAULT), asked=SECOND, chosen=False)
    for number in (1, 2):
        desk.confirm(engine, f"{number:032x}", "rerank", "", ONE, NOW)
    assert reread(engine, ONE) == {}
    assert reread(engine, TWO) == {trace_id: ("reread",)}
    assert queue(engine) == {}, "nobody in particular reads again"
    desk.decide(engine, trace_id, Label("confirmed", "rerank"), TWO, NOW + 1, blind=True)
    assert reread(engine, "rv_33333333") == {}, "two are enough"


def test_what_was_drawn_to_be_repeated_waits_for_the_same_person_after_some_days(
    engine: Engine, add_trace: Any
) -> None:
    trace_id = draw(engine, add_trace(1, JUDGED, FAULT), asked=REPEAT)
    desk.confirm(engine, trace_id, "rerank", "", ONE, NOW)
    assert reread(engine, ONE, now=NOW + 6 * 86_400) == {}
    assert reread(engine, ONE, now=NOW + 7 * 86_400) == {trace_id: ("reread",)}
    assert reread(engine, TWO, now=NOW + 7 * 86_400) == {}
    desk.decide(engine, trace_id, Label("confirmed", "rerank"), ONE, NOW + 7 * 86_400, blind=True)
    assert reread(engine, ONE, now=NOW + 20 * 86_400) == {}


def test_what_readers_disagree_on_comes_first_and_for_everybody(engine: Engine, add_trace: Any) -> None:
    other, trace_id = add_trace(1, JUDGED, FAULT), draw(engine, add_trace(2, JUDGED, FAULT), asked=SECOND)
    desk.confirm(engine, trace_id, "rerank", "", ONE, NOW)
    desk.decide(engine, trace_id, Label("rejected"), TWO, NOW + 1, blind=True)
    for reviewer in (ONE, TWO):
        assert list(reread(engine, reviewer).items()) == [(trace_id, ("disputed",)), (other, ("failed",))]
    desk.reject(engine, trace_id, "", "", ONE, NOW + 2)
    assert queue(engine) == {other: ("failed",)}


def test_a_part_of_the_queue_can_be_asked_for(engine: Engine, add_trace: Any) -> None:
    drawn = draw(engine, add_trace(1, JUDGED))
    failure = add_trace(2, JUDGED, FAULT, version="2.0.0")
    unsure = add_trace(3, JUDGED, FaultFinding(FaultLayer.GENERATION, 0.3, "perhaps", ()))
    for reason, expected in {"drawn": drawn, "failed": failure, "failed_unsure": unsure, "unscored": None}.items():
        assert list(queue(engine, wanted=Wanted(why=reason))) == [expected] * (expected is not None)
    assert list(queue(engine, wanted=Wanted(version="2.0.0"))) == [failure]
    assert list(queue(engine, wanted=Wanted(layer="generation"))) == [unsure]
    assert list(queue(engine, wanted=Wanted(layer="generation", why="failed"))) == []


def test_one_failure_many_times_is_one_family(engine: Engine, add_trace: Any) -> None:
    page = FaultFinding(FaultLayer.RERANK, 0.9, "cut", (Evidence("upload-limits", 0, 3, "abc", "candidates"),))
    for number, question in enumerate(("how big is a file", "what is the limit?", "Is 60 MB too much"), 1):
        add_trace(number, JUDGED, page, query=question)
    add_trace(4, JUDGED, FAULT, query="do links expire?")
    add_trace(5, JUDGED, FAULT, query="Do links expire")
    add_trace(6, JUDGED, FaultFinding(FaultLayer.GENERATION, 0.9, "new", ()), query="do links expire?")
    with storage.reader(engine).connect() as connection:
        found = {int(i.trace_id, 16): i.family for i in review_queue.read(connection, APP, 200)}
    assert found == {1: 3, 2: 3, 3: 3, 4: 2, 5: 2, 6: 1}


def test_the_page_says_why_in_words(engine: Engine, add_trace: Any) -> None:
    trace_id = draw(engine, add_trace(1, JUDGED))
    app = console_app(engine, ConsoleConfig(), now=lambda: NOW, candidate_key=b"k" * 32)
    with TestClient(app, base_url="http://127.0.0.1:4390") as client:
        page = client.get("/review", params={"app": APP, "item": trace_id}).text
    assert "it was chosen for people at random" in page


def test_a_filter_that_tells_the_verdict_shows_nothing_that_is_to_be_read_blind(
    engine: Engine, add_trace: Any
) -> None:
    drawn = draw(engine, add_trace(1, JUDGED, FAULT))
    seen = add_trace(2, JUDGED, FAULT)
    nothing = RereadingConfig(second_reader_share=0.0, repeat_share=0.0)
    app = console_app(engine, ConsoleConfig(), now=lambda: NOW, candidate_key=b"k" * 32, labelling=nothing)
    with TestClient(app, base_url="http://127.0.0.1:4390") as client:
        for telling in ({"layer": "rerank"}, {"why": "failed"}):
            page = client.get("/review", params={"app": APP, **telling}).text
            assert seen in page
            assert drawn not in page
            assert "1 more is to be read blind" in page
        every = client.get("/review", params={"app": APP, "version": ""}).text
        assert drawn in every
        assert "to be read blind" not in every
        client.get("/review", params={"app": APP, "why": "drawn"}).raise_for_status()
