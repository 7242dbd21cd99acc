"""The review desk: blind where it measures, whole where it decides, and what is set comes through the form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import Engine, select
from starlette.testclient import TestClient

from groundwatch_collector.ragtrace import Document
from groundwatch_collector.tables import feedback
from groundwatch_review.console import ConsoleConfig, console_app
from groundwatch_review.console.guard import CSRF_COOKIE
from groundwatch_review.rereading import RereadingConfig
from groundwatch_review.tables import candidates, reviews
from groundwatch_scorer import second_look
from groundwatch_scorer.judgement import (
    AnnotatorKind,
    Assessment,
    ClaimVerdict,
    Evidence,
    FaultFinding,
    FaultLayer,
    Verdict,
)
from groundwatch_scorer.tables import judgements

NOW = 1_790_000_000.0
ORIGIN = "http://127.0.0.1:4390"
TEXT = "Files up to 50 MB\u202e can be uploaded. 团队版 too."
DOCUMENTS = (Document("upload", 1, 0.5, TEXT, title="Upload limits"),)
ANSWER = "Up to 70 MB. It is free."
CLAIMS = (
    ClaimVerdict(
        "Up to 70 MB.", 0, 12, Verdict.CONTRADICTED, 0.9, "number_conflict", (Evidence("upload", 0, 5, "Files"),)
    ),
    ClaimVerdict("It is free.", 13, 24, Verdict.NOT_MENTIONED, 0.8, "low_overlap"),
)
JUDGED = Assessment("local:claims-1", AnnotatorKind.CODE, claims=CLAIMS)
FAULT = FaultFinding(FaultLayer.GENERATION, 0.9, "The number is another one.", ())


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """One kind is enough: the queries behind these pages are tested on both in test_drawn_queue."""
    return f"sqlite:///{tmp_path / 'groundwatch.db'}"


@pytest.fixture
def trace_id(add_trace: Any) -> str:
    return str(add_trace(1, JUDGED, FAULT, answer=ANSWER, context=DOCUMENTS, candidates=DOCUMENTS))


def console(engine: Engine, *, drawn: float, at: float = NOW) -> TestClient:
    """A browser at a console that draws this share for a second reading; another call is another person."""
    shares = RereadingConfig(second_reader_share=drawn, repeat_share=0.0)
    app = console_app(engine, ConsoleConfig(), now=lambda: at, candidate_key=b"k" * 32, labelling=shares)
    return TestClient(app, base_url=ORIGIN, follow_redirects=False)


@pytest.fixture
def client(engine: Engine) -> Iterator[TestClient]:
    with console(engine, drawn=0.0) as found:
        yield found


def post(client: TestClient, trace_id: str, **fields: str) -> Any:
    page = client.get("/review")
    shown = dict(re.findall(r'<input type="hidden" name="(claims_of|blind|keep|next)" value="([^"]*)"', page.text))
    form = {"csrf": client.cookies[CSRF_COOKIE], "fault_layer": "generation", "back": "review", **shown, **fields}
    return client.post(f"/traces/{trace_id}/decision", data=form, headers={"origin": ORIGIN})


def test_the_whole_label_comes_through_the_form(engine: Engine, client: TestClient, trace_id: str) -> None:
    start = TEXT.index("团队版")
    piece = {"document": "document-1", "start": start, "end": start + 3, "quote": "团队版"}
    answer = post(
        client,
        trace_id,
        decision="confirm",
        claim_1="SUPPORTED",
        claim_2="NOT_MENTIONED",
        criterion_citations="pass",
        answerability="FULL",
        expected_behavior="ANSWER",
        reference_answer="50 MB.",
        key_points="50 MB\r\nTeam edition",
        forbidden_claims="It is free.",
        evidence=json.dumps([piece]),
        evidence_text="up to 50 MB\u202e can",
    )
    assert answer.status_code == 303
    with engine.connect() as connection:
        said = connection.execute(select(judgements).where(judgements.c.annotator_kind == "HUMAN")).all()
        document = orjson.loads(str(connection.scalar(select(candidates.c.document))))
    assert {row.criterion: row.label for row in said} == {
        "citations": "pass",
        "faithfulness": "fail",
        "any_failure": "fail",
    }
    detail = orjson.loads(said[-1].detail)
    assert [(claim["start"], claim["verdict"]) for claim in detail["claims"]] == [
        (0, "SUPPORTED"),
        (13, "NOT_MENTIONED"),
    ]
    kept = [(e["document_id"], e["start"], e["end"]) for e in detail["expectation"]["evidence"]]
    assert kept == [("upload", start, start + 3), ("upload", 6, 22)]
    assert document["expectation"]["forbidden_claims"] == ["It is free."], "the person says that claim 1 is right"
    assert [point["text"] for point in document["expectation"]["key_points"]] == ["50 MB", "Team edition"]
    again = client.get(f"/traces/{trace_id}").text
    assert 'name="claim_2" value="NOT_MENTIONED" checked' in again
    assert 'name="answerability" value="FULL" checked' in again
    assert ">50 MB.</textarea>" in again


def test_a_selection_that_does_not_fit_changes_nothing(engine: Engine, client: TestClient, trace_id: str) -> None:
    piece = {"document": "document-1", "start": 0, "end": 5, "quote": "Filez"}
    answer = post(client, trace_id, decision="confirm", evidence=json.dumps([piece]))
    assert (answer.status_code, "select it again" in answer.text) == (400, True)
    with engine.connect() as connection:
        assert connection.execute(select(reviews)).all() == []


def test_a_blind_page_shows_what_the_user_saw_and_nothing_that_anybody_said(
    engine: Engine, trace_id: str, add_trace: Any
) -> None:
    add_trace(2, JUDGED, FAULT, answer=ANSWER, context=DOCUMENTS, candidates=DOCUMENTS)  # the same failure again
    with engine.begin() as connection:
        row = {"feedback_id": "f", "trace_id": trace_id, "name": "thumbs", "sentiment": "negative", "score": 0.0}
        connection.execute(
            feedback.insert().values(**row, label="down", comment="WRONG!", received_at=NOW, position=0)
        )
    seeing, blind = (console(engine, drawn=share).get("/review").text for share in (0.0, 1.0))
    tells = [
        "The number is another one.",
        "WRONG!",
        "local:claims-1",
        "contradicted</span>",
        "number conflict",
        "(judge)",
        "its user complained",
        "like this in the queue",
        "▼",
        'name="fault_layer" value="generation" data-key="4" checked',
    ]
    for words in tells:
        assert words in seeing, words
        assert words not in blind, words
    for words in ("Up to 70 MB.", "Upload limits", "Files up to 50 MB", 'name="claim_1"', 'name="blind" value="yes"'):
        assert words in blind, words


def test_the_page_of_a_trace_says_that_it_should_be_read_blind(engine: Engine, trace_id: str) -> None:
    client, words = console(engine, drawn=0.0), "was drawn to be read blind"
    assert words not in client.get(f"/traces/{trace_id}").text
    assert words in console(engine, drawn=1.0).get(f"/traces/{trace_id}").text
    with engine.begin() as connection:
        second_look.keep(connection, trace_id, [second_look.SecondLook(second_look.PEOPLE, 0.1, True, unsure=False)])
    assert words in client.get(f"/traces/{trace_id}").text
    post(client, trace_id, decision="reject")
    assert words not in client.get(f"/traces/{trace_id}").text


def test_two_people_who_differ_are_both_shown_and_a_third_settles(engine: Engine, trace_id: str) -> None:
    first, second, third = (console(engine, drawn=1.0, at=NOW + n) for n in range(3))
    assert "reading=" not in post(first, trace_id, decision="confirm").headers["location"]
    assert trace_id not in first.get("/review").text, "not for who read it"
    assert "it was chosen for people at random" in second.get("/review").text, (
        "who read it before is no secret to keep"
    )
    answer = post(second, trace_id, decision="reject", note="it is right")
    assert "reading=second&agrees=no" in answer.headers["location"]
    assert "another decision than before" in second.get(answer.headers["location"]).text
    with engine.connect() as connection:
        candidate_id = connection.scalar(select(candidates.c.candidate_id))
    assert "Waits for a person to read it" in third.get(f"/candidates/{candidate_id}").text
    with engine.begin() as connection:
        connection.execute(candidates.update().values(redaction_confirmed=True))
    assert "Held: readers differ on the failure" in third.get(f"/candidates/{candidate_id}").text
    page = third.get("/review").text
    for words in (
        "two readings of it differ",
        "What people said",
        "✕ failed",
        "✓ was right",
        "it is right",
        "blind ·",
    ):
        assert words in page, words
    assert "reading=settled" in post(third, trace_id, decision="confirm").headers["location"]
    with engine.connect() as connection:
        document = orjson.loads(str(connection.scalar(select(candidates.c.document))))
        assert connection.scalar(select(reviews.c.decision)) == "confirmed"
    assert document["review"]["agreement"] == pytest.approx(2 / 3)
    assert len(document["review"]["reviewers"]) == 3


def test_filters_survive_a_decision_and_the_way_from_page_to_page(client: TestClient, trace_id: str) -> None:
    page = client.get("/review?layer=generation&why=failed&version=1.4.2").text
    assert 'href="/traces?version=1.4.2&amp;layer=generation&amp;why=failed&amp;app=manual-assistant"' in page
    kept = re.search(r'name="keep" value="([^"]*)"', page)
    assert kept is not None
    answer = post(client, trace_id, decision="reject", keep=kept[1].replace("&amp;", "&"))
    location = answer.headers["location"]
    assert all(words in location for words in ("layer=generation", "why=failed", "version=1.4.2"))
    assert "Only a part of the queue was asked for" in client.get(location).text
    odd = post(client, trace_id, decision="reject", keep="item=x&evil=1&app=y").headers["location"]
    assert odd.startswith("/review?app=y&trace=")


@pytest.mark.parametrize("path", ["/", "/traces", "/review", "/versions", "/objectives", "/candidates"])
def test_every_page_says_how_much_waits(client: TestClient, trace_id: str, path: str) -> None:
    assert '<span class="pill" id="nav-review">1</span>' in client.get(path).text


def test_asking_again_is_a_word_of_its_own(engine: Engine, client: TestClient, trace_id: str) -> None:
    with engine.begin() as connection:
        row = {"feedback_id": "r", "trace_id": trace_id, "name": "reask", "sentiment": "neutral", "score": 0.7}
        connection.execute(feedback.insert().values(**row, label="reask", comment="", received_at=NOW, position=0))
    for path in ("/traces", f"/traces/{trace_id}", "/review"):
        assert "asked again" in client.get(path).text, path
