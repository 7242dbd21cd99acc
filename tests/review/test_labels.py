"""What a person corrects is checked against the text, kept with the policy, and reaches the candidate and exports."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from exportable import KEY, NOW, POLICY, REVIEWER, add, make_trace, questions
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, select

from groundwatch_collector.ragtrace import Document
from groundwatch_review import candidates, desk, labelling_policy, labels
from groundwatch_review.erasure import erase
from groundwatch_review.export import export
from groundwatch_review.formats import FORMATS
from groundwatch_review.labels import Expectation, Label, Refused
from groundwatch_review.schema import problems
from groundwatch_review.tables import candidates as candidates_table
from groundwatch_review.tables import reviews
from groundwatch_scorer.judgement import ClaimVerdict, Evidence, Verdict
from groundwatch_scorer.tables import judgements

CANARY = "wang.lei@canary.example"
TEXT = "Uploads may be up to 20 MB."
SAID = (
    ClaimVerdict("Up to 500 MB.", 0, 13, Verdict.SUPPORTED, 0.1),
    ClaimVerdict("And it is free.", 14, 29, Verdict.SUPPORTED, 0.2),
)
TRACE = make_trace(1, "How large?", answer="Up to 500 MB. And it is free.")
EXPECTED = Expectation(
    answerability="FULL",
    expected_behavior="ANSWER",
    reference_answer=f"Files of up to 20 MB. {CANARY} knows more.",
    key_points=("It is 20 MB.", f"Ask {CANARY}."),
    forbidden_claims=("500 MB is allowed.",),
    evidence=(Evidence("d1", 0, 26, TEXT[:26]),),
)


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """One kind is enough: what is read and written here is plain text in columns that other tests try on both."""
    return f"sqlite:///{tmp_path / 'groundwatch.db'}"


def form(**changes: str) -> dict[str, str]:
    return {"decision": "confirm", "fault_layer": "generation", "note": "", **changes}


def read(**changes: str) -> Label:
    return labels.from_form(form(**changes), TRACE, SAID)


def selected(**changes: Any) -> str:
    return json.dumps([{"document": "document-1", "start": 0, "end": 7, "quote": "Uploads", **changes}])


# From a form


def test_only_what_was_set_is_a_label() -> None:
    assert read() == Label("confirmed", "generation")
    assert labels.from_form({"decision": "reject", "fault_layer": "rerank"}, TRACE, SAID) == Label("rejected")


def test_a_corrected_claim_keeps_its_place_and_decides_on_faithfulness() -> None:
    label = read(claim_1="CONTRADICTED")
    (claim,) = label.claims
    assert (claim.start, claim.end, claim.verdict, claim.reason) == (0, 13, Verdict.CONTRADICTED, "person")
    assert label.criteria == {"faithfulness": "fail"}
    assert read(claim_1="SUPPORTED").criteria == {}, "the other claim may be wrong"
    assert read(claim_1="SUPPORTED", claim_2="SUPPORTED").criteria == {"faithfulness": "pass"}
    assert read(claim_1="SUPPORTED", claim_2="UNCERTAIN").criteria == {}
    assert read(claim_1="CONTRADICTED", criterion_faithfulness="pass").criteria == {"faithfulness": "pass"}


def test_lines_are_points_and_a_browsers_line_breaks_are_plain_ones() -> None:
    expected = read(key_points="one\r\n\r\n two \r\none", reference_answer="a\r\nb").expectation
    assert expected.key_points == ("one", "two")
    assert expected.reference_answer == "a\nb"


def test_a_selected_passage_is_kept_as_document_and_offsets() -> None:
    assert read(evidence=selected()).expectation.evidence == (Evidence("d1", 0, 7, "Uploads"),)
    both = read(evidence=selected(), evidence_text=f"Uploads\r\n{TEXT[8:]}").expectation.evidence
    assert [(piece.start, piece.end) for piece in both] == [(0, 7), (8, 27)]


@pytest.mark.parametrize(
    "piece",
    [
        {"start": 1},
        {"end": 8},
        {"quote": "uploads"},
        {"start": -27, "end": -20},
        {"start": "0"},
        {"end": 10_000},
        {"document": "document-2"},
        {"document": "d1"},
        {"document": None},
    ],
)
def test_offsets_that_do_not_give_the_words_that_were_seen_are_refused(piece: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="selected passage"):
        read(evidence=selected(**piece))


def test_words_that_stand_in_no_document_are_refused() -> None:
    with pytest.raises(Refused, match="stand in no document"):
        read(evidence_text="Uploads may be up to 30 MB.")


def test_of_a_document_in_two_lists_the_text_that_was_sent_is_what_is_labelled() -> None:
    long, short = Document("d1", 1, 0.5, "Intro. Uploads."), Document("d1", 1, 0.5, "Uploads.")
    trace = make_trace(1, "How large?", candidates=(long,), context=(short,))
    label = labels.from_form(form(evidence=selected()), trace)
    assert label.expectation.evidence[0] == Evidence("d1", 0, 7, "Uploads", "context")


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"decision": "perhaps"}, "confirm, reject"),
        ({"fault_layer": "weather"}, "weather"),
        ({"claim_1": "MAYBE"}, "MAYBE"),
        ({"criterion_citations": "yes"}, "not_applicable"),
        ({"answerability": "SOME"}, "FULL, PARTIAL, NONE"),
        ({"expected_behavior": "SING"}, "CLARIFY"),
        ({"answerability": "NONE", "expected_behavior": "ANSWER"}, "ABSTAIN or CLARIFY"),
        ({"note": "n" * 4001}, "4001"),
        ({"reference_answer": "n" * 8001}, "8001"),
        ({"key_points": "\n".join(map(str, range(21)))}, "21 key points"),
        ({"forbidden_claims": "n" * 1001}, "1001"),
        ({"evidence": "[" * 100_000}, "cannot be read"),
        ({"evidence": "7"}, "cannot be read"),
        ({"evidence": "[7]"}, "no object"),
    ],
)
def test_what_cannot_be_a_label_is_refused_by_name(changes: dict[str, str], names: str) -> None:
    with pytest.raises(Refused, match=names):
        read(**changes)


@given(st.dictionaries(st.sampled_from([*form(), "evidence", "claim_1", "answerability"]), st.text()))
def test_no_form_breaks_the_reader(fields: dict[str, str]) -> None:
    try:
        label = labels.from_form(fields, TRACE, SAID)
    except Refused:
        return
    for piece in label.expectation.evidence:
        assert TEXT[piece.start : piece.end] == piece.quote


# Kept


def test_a_label_is_stored_with_the_policy_and_read_back(engine: Engine) -> None:
    add(engine, TRACE, confirm=False)
    label = Label("confirmed", "context", "cut", SAID[:1], {"faithfulness": "fail"}, EXPECTED)
    desk.decide(engine, TRACE.trace_id, label, REVIEWER, NOW + 1)
    with engine.connect() as connection:
        rows = [dict(row) for row in connection.execute(select(judgements)).mappings()]
    by_name = {row["criterion"]: row for row in rows[1:]}
    assert {name: row["label"] for name, row in by_name.items()} == {"faithfulness": "fail", "any_failure": "fail"}
    for row in by_name.values():
        kept = orjson.loads(row["detail"])["labelling"]
        assert kept == {"policy": labelling_policy.VERSION, "reading": "again", "blind": False}
    review = {"decision": "confirmed", "fault_layer": "context", "note": "cut", "reviewer": REVIEWER}
    again = labels.of_review(rows, {**review, "reviewed_at": NOW + 1})
    assert again is not None
    assert (again.claims, again.expectation) == (label.claims, EXPECTED)


def test_the_text_of_the_policy_cannot_change_under_its_version() -> None:
    digest = hashlib.sha256(labelling_policy.markdown().encode()).hexdigest()
    assert (labelling_policy.VERSION, digest[:16]) == ("labelling-1", "47aa9e86a039c7d3")


def test_the_manual_holds_the_policy() -> None:
    page = Path(__file__).parents[2] / "docs" / "labelling.md"
    assert labelling_policy.markdown() in page.read_text(encoding="utf-8")


def test_an_erasure_takes_what_people_wrote_of_the_trace_with_it(engine: Engine) -> None:
    add(engine, TRACE)
    desk.decide(engine, TRACE.trace_id, Label("confirmed", "rerank", CANARY, SAID, {}, EXPECTED), REVIEWER, NOW + 1)

    def words() -> str:
        with engine.connect() as connection:
            return repr(
                [connection.execute(select(table)).all() for table in (judgements, reviews, candidates_table)]
            )

    assert CANARY in words()
    assert TEXT[:26] in words()
    erase(engine, [TRACE.trace_id], NOW + 2)
    assert CANARY not in words()
    assert TEXT[:26] not in words()
    assert "It is 20 MB." not in words()


# Into the candidate and out


def label_and_make(engine: Engine, label: Label, at: float, number: int = 1) -> dict[str, Any]:
    desk.decide(engine, f"{number:032x}", label, REVIEWER, at)
    candidate_id = candidates.create(engine, f"{number:032x}", KEY, at, policy=POLICY, verdict=lambda _trace: "fail")
    return candidates.load(engine, candidate_id)


def test_a_correction_makes_the_candidate_anew_redacts_it_and_asks_for_another_tick(engine: Engine) -> None:
    candidate_id = add(engine, TRACE)
    before = candidates.load(engine, candidate_id)
    assert (before["revision"], before["review"]["status"]) == (1, "REVIEWED")
    document = label_and_make(engine, Label("confirmed", "generation", "", SAID[:1], {}, EXPECTED), NOW + 1)
    assert problems(document) == ()
    assert (document["candidate_id"], document["revision"]) == (candidate_id, 2)
    assert (document["review"]["status"], document["review"]["redaction_confirmed"]) == ("PENDING", False)
    assert (document["family"]["family_id"], document["split"]) == (before["family"]["family_id"], before["split"])
    assert document["expectation"] == {
        "answerability": "FULL",
        "expected_behavior": "ANSWER",
        "reference_answer": "Files of up to 20 MB. [[EMAIL_1]] knows more.",
        "key_points": [
            {"id": "k1", "text": "It is 20 MB.", "required": True},
            {"id": "k2", "text": "Ask [[EMAIL_1]].", "required": True},
        ],
        "forbidden_claims": ["500 MB is allowed."],
    }
    (anchor,) = document["evidence"]["expected_anchors"]
    assert anchor["exact"] == TEXT[:26]
    assert anchor["doc_hmac"] == document["evidence"]["retrieved"][0]["doc_hmac"]


def test_the_same_label_again_leaves_the_candidate_as_it_was(engine: Engine) -> None:
    candidate_id = add(engine, TRACE)
    document = label_and_make(engine, Label("confirmed", "generation"), NOW + 1)
    assert document == candidates.load(engine, candidate_id)
    assert (document["revision"], document["review"]["status"]) == (1, "REVIEWED")


def test_a_correction_reaches_the_candidate_also_when_the_key_is_another_by_now(engine: Engine) -> None:
    candidate_id = add(engine, TRACE)
    desk.decide(engine, TRACE.trace_id, Label("confirmed", "rerank"), REVIEWER, NOW + 1)
    other = b"another key of thirty-two bytes!"
    assert candidates.create(engine, TRACE.trace_id, other, NOW + 1, policy=POLICY) == candidate_id
    document = candidates.load(engine, candidate_id)
    assert (document["fault"]["layer"], document["revision"]) == ("RERANK", 2)


def test_another_layer_is_another_family(engine: Engine) -> None:
    before = candidates.load(engine, add(engine, TRACE))
    document = label_and_make(engine, Label("confirmed", "rerank"), NOW + 1)
    assert (document["fault"]["layer"], document["revision"]) == ("RERANK", 2)
    assert document["family"]["family_id"] != before["family"]["family_id"]


def test_a_person_overrules_the_judge_on_what_is_contradicted(engine: Engine) -> None:
    add(engine, TRACE)
    wrong = ClaimVerdict(SAID[0].text, 0, 13, Verdict.CONTRADICTED, 1.0)
    assert label_and_make(engine, Label("confirmed", "generation", "", (wrong,)), NOW + 1)["expectation"][
        "forbidden_claims"
    ] == ["Up to 500 MB."]
    right = ClaimVerdict(SAID[0].text, 0, 13, Verdict.SUPPORTED, 0.0)
    document = label_and_make(engine, Label("confirmed", "generation", "", (right,)), NOW + 2)
    assert "forbidden_claims" not in document["expectation"]


@pytest.mark.parametrize("name", ["jsonl", *FORMATS])
def test_every_format_carries_what_the_person_corrected(engine: Engine, tmp_path: Path, name: str) -> None:
    trace = make_trace(1, questions("DEV", 1)[0])
    candidate_id = add(engine, trace)
    label_and_make(engine, Label("confirmed", "generation", "", (), {}, EXPECTED), NOW + 1)
    candidates.confirm(engine, candidate_id, REVIEWER, NOW + 2)
    path = tmp_path / "set"
    assert export(engine, path, NOW + 3, layout=name).written == 1
    text = path.read_text(encoding="utf-8")
    cells = " ".join(next(csv.DictReader(text.splitlines(keepends=True))).values()) if name == "csv" else text
    for words in ("Files of up to 20 MB. [[EMAIL_", "It is 20 MB.", "500 MB is allowed.", TEXT[:26]):
        assert words in cells, words
    assert name in ("ragas", "csv") or labelling_policy.VERSION in text  # those two have no field for it
    assert CANARY not in text
