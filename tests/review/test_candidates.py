"""From a confirmed failure to a candidate that may leave, and everything that must stop it on the way."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, func, insert, select

from groundwatch_collector.ragtrace import Citation, Document, Outcome, RagTrace, Stage, to_json
from groundwatch_collector.tables import feedback, sampled_traces
from groundwatch_review import candidates, desk
from groundwatch_review.candidates import CandidatePolicy, build
from groundwatch_review.redaction import DETECTORS, RedactionLimits, redact_candidate
from groundwatch_review.redaction.placeholders import WITHHELD
from groundwatch_review.redaction.rules import Detector
from groundwatch_review.schema import problems
from groundwatch_review.tables import candidates as candidates_table
from groundwatch_scorer.criteria import detail
from groundwatch_scorer.judgement import (
    AnnotatorKind,
    Answerability,
    Assessment,
    ClaimVerdict,
    Evidence,
    FaultFinding,
    FaultLayer,
    Verdict,
)
from groundwatch_scorer.tables import judgements

KEY = b"k" * 32
NOW = 1_760_000_000.0
REVIEWER = "rv_0123456789abcdef"
TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
POLICY = CandidatePolicy(consent="CONTRACT", license="internal")
CANARY = "wang.lei@canary.example"


def make_trace(**changes: Any) -> RagTrace:
    documents = (
        Document("doc-1", 1, 0.9, f"Uploads may be up to 20 MB. Ask {CANARY} for more.", title=f"Limits by {CANARY}"),
        Document("doc-2", 2, 0.4, "Files are kept for 90 days."),
    )
    base = {
        "trace_id": TRACE_ID,
        "app": "manual",
        "version": "2.0.1",
        "started_at": NOW - 3600,
        "duration_seconds": 1.0,
        "outcome": Outcome.ANSWERED,
        "outcome_source": "recorded",
        "query": f"I am {CANARY}: how large may a file be?",
        "rewritten_query": f"file size limit {CANARY}",
        "candidates": documents,
        "context": documents[:1],
        "answer": f"Up to 500 MB, {CANARY}.",
        "citations": (Citation("doc-1", "[1]"), Citation("doc-1", "[2]"), Citation("gone", "[3]")),
        "stages": (Stage("answer", "00f067aa0ba902b7", "", "answer", NOW, 1.0),),
        "model": "demo-1",
        "session": "sess-55-11",
        "user_hash": "u" * 16,
    }
    return RagTrace(**{**base, **changes})


def judgement_row(**changes: Any) -> dict[str, Any]:
    answer = f"Up to 500 MB, {CANARY}."
    claim = ClaimVerdict(answer, 0, len(answer), Verdict.CONTRADICTED, 0.95, "number_conflict")
    assessment = Assessment(
        "local-1", AnnotatorKind.CODE, claims=(claim,), candidates_answerability=Answerability.FULL
    )
    quote = Evidence("doc-1", 0, 27, "Uploads may be up to 20 MB.")
    finding = FaultFinding(FaultLayer.GENERATION, 0.9, f"The number is not in the passage ({CANARY}).", (quote,))
    return {
        "trace_id": TRACE_ID,
        "criterion": "any_failure",
        "label": "fail",
        "score": None,
        "explanation": f"500 is not 20, says {CANARY}",
        "annotator_kind": "CODE",
        "identifier": "local-1",
        "judged_at": NOW,
        "cost_usd": None,
        "detail": orjson.dumps(detail(assessment, finding, ["contradicted_claim"])).decode(),
        **changes,
    }


REVIEW = {"decision": "confirmed", "fault_layer": "generation", "note": "", "reviewer": REVIEWER}


def always_fails(_trace: RagTrace) -> str:
    return "fail"


def make(trace: RagTrace | None = None, **changes: Any) -> dict[str, Any]:
    options = {"policy": POLICY, "verdict": always_fails, **changes}
    review = {**REVIEW, **options.pop("review", {})}
    voices = options.pop("feedback", [])
    return build(trace or make_trace(), [judgement_row()], review, voices, KEY, NOW, **options)


def store_trace(engine: Engine, trace: RagTrace, *, confirmed: bool = True) -> None:
    row = {
        "trace_id": trace.trace_id,
        "family": "fast",
        "payload": to_json(trace),
        "app": trace.app,
        "version": trace.version,
        "started_at": trace.started_at,
        "stratum": "normal_b0",
        "inclusion_probability": 0.1,
        "reason": "hash",
        "epoch": "e1",
        "state": "judged",
        "queued_at": NOW,
    }
    with engine.begin() as connection:
        connection.execute(insert(sampled_traces).values(**row))
        connection.execute(insert(judgements).values(**judgement_row(trace_id=trace.trace_id)))
    if confirmed:
        desk.confirm(engine, trace.trace_id, "generation", "", REVIEWER, NOW)


# The document


def test_a_candidate_has_the_published_shape_and_says_what_happened() -> None:
    document = make()
    assert problems(document) == ()
    assert document["redaction"]["status"] == "REDACTED"
    assert document["question"] == {
        "text": "I am [[EMAIL_1]]: how large may a file be?",
        "rewritten": "file size limit [[EMAIL_1]]",
    }
    assert document["answer"]["observed"] == "Up to 500 MB, [[EMAIL_1]]."
    assert document["answer"]["citations"] == [{"passage_ref": "p1"}]
    assert [p["ref"] for p in document["evidence"]["retrieved"]] == ["p1", "p2"]
    assert document["evidence"]["expected_anchors"][0]["exact"] == "Uploads may be up to 20 MB."
    assert document["expectation"] == {
        "answerability": "FULL",
        "expected_behavior": "ANSWER",
        "forbidden_claims": ["Up to 500 MB, [[EMAIL_1]]."],
    }
    assert document["fault"]["layer"] == "GENERATION"
    assert document["fault"]["type"] == "contradicted_claim"
    assert document["provenance"]["observed_week"] == "2025-W41"
    assert document["governance"]["export_allowed"] is False


@pytest.mark.parametrize("secret", [CANARY, TRACE_ID, "00f067aa0ba902b7", "sess-55-11", "doc-1", "u" * 16])
def test_nothing_that_names_a_person_or_the_trace_is_in_it(secret: str) -> None:
    repeated = make_trace(answer=f"trace {TRACE_ID} span 00f067aa0ba902b7 of sess-55-11 by {'u' * 16}: {CANARY}")
    assert secret not in json.dumps(make(repeated), ensure_ascii=False)


@pytest.mark.parametrize(
    ("layer", "word"),
    [
        ("retrieval", "RETRIEVAL"),
        ("rerank", "RERANK"),
        ("context", "CONTEXT"),
        ("generation", "GENERATION"),
        ("refusal", "GENERATION"),
        ("rewrite", "QUERY"),
        ("execution", "APPLICATION"),
    ],
)
def test_every_fault_layer_has_a_word_in_the_format(layer: str, word: str) -> None:
    assert set(candidates.LAYERS) == set(FaultLayer)
    assert make(review={"fault_layer": layer})["fault"]["layer"] == word


def test_a_question_that_nothing_answers_expects_an_abstention() -> None:
    nothing = Assessment("local-1", AnnotatorKind.CODE, candidates_answerability=Answerability.NONE)
    row = judgement_row(detail=orjson.dumps(detail(nothing, None)).decode())
    document = build(make_trace(), [row], REVIEW, [], KEY, NOW, verdict=always_fails)
    assert document["expectation"] == {"answerability": "NONE", "expected_behavior": "ABSTAIN"}
    assert problems(document) == ()


def test_an_unreadable_judgement_costs_detail_and_nothing_else() -> None:
    document = build(
        make_trace(), [judgement_row(detail='{"claims": [{}]}')], REVIEW, [], KEY, NOW, verdict=always_fails
    )
    assert problems(document) == ()
    assert document["expectation"]["answerability"] == "PARTIAL"


def test_a_complaint_is_the_source() -> None:
    assert make(feedback=[{"sentiment": "negative", "by": ""}])["provenance"]["source"] == "FEEDBACK"
    assert make(feedback=[{"sentiment": "positive", "by": ""}])["provenance"]["source"] == "SAMPLE"


def test_the_same_question_from_two_people_is_one_family_on_one_side_of_the_split() -> None:
    one = make(make_trace(query="How large may a file of a@example.com be?"))
    two = make(make_trace(trace_id="f" * 32, query="how large may a file of b@example.org be"))
    other = make(make_trace(query="How long are files kept?"))
    assert one["candidate_id"] != two["candidate_id"]
    assert (one["family"]["family_id"], one["split"]) == (two["family"]["family_id"], two["split"])
    assert other["family"]["family_id"] != one["family"]["family_id"]


def test_about_a_fifth_of_the_families_is_held_out() -> None:
    documents = [make(make_trace(query=f"question {number}?", context=(), candidates=())) for number in range(60)]
    share = sum(document["split"] == "HOLDOUT" for document in documents) / 60
    assert 0.05 <= share <= 0.40  # three standard errors around 0.2


def test_long_texts_are_cut_after_redaction_and_say_so() -> None:
    text = "word " * 5000 + "a@example.com"
    document = make(make_trace(answer=text))
    observed = document["answer"]["observed"]
    assert len(observed) <= 20_000
    assert observed.endswith("characters]")
    assert problems(document) == ()


def test_a_cut_never_leaves_half_a_placeholder() -> None:
    for shift in range(0, 12):
        text = "x " * 9975 + "y" * shift + " a@example.com" + " z" * 200
        observed = make(make_trace(answer=text))["answer"]["observed"]
        assert observed.count("[[") == observed.count("]]")


def test_language_is_coarse() -> None:
    assert [candidates.language(t) for t in ("How?", "怎么用API？", "как дела", "")] == ["en", "zh", "und", "und"]


def test_a_commit_id_as_version_does_not_hold_the_candidate_but_an_address_in_it_goes() -> None:
    commit = "3f2c1e9a7b6d5c4f8e0a1b2c3d4e5f6071829304"
    assert make(make_trace(version=commit))["answer"]["app_version"] == commit
    assert make(make_trace(version=f"built by {CANARY}"))["answer"]["app_version"] == "built by [[EMAIL_1]]"


# Doubt


def test_a_changed_verdict_blocks() -> None:
    document = make(verdict=lambda trace: "fail" if CANARY in (trace.answer or "") else "pass")
    assert document["redaction"]["repro"] == {
        "checked": True,
        "verdict_before": "fail",
        "verdict_after": "pass",
        "same": False,
    }
    assert document["redaction"]["status"] == "BLOCKED"
    assert "blocked:not_reproduced" in document["redaction"]["residual"]["flags"]
    assert problems(document) == ()


def test_a_verdict_that_fails_was_not_checked() -> None:
    def broken(_trace: RagTrace) -> str:
        raise RuntimeError(CANARY)

    document = make(verdict=broken)
    assert document["redaction"]["repro"] == {"checked": False}
    candidates.apply_policy(document, POLICY)
    assert document["governance"]["export_allowed"] is False


def test_the_verdict_sees_redacted_texts_in_every_list() -> None:
    seen: list[RagTrace] = []
    make(verdict=lambda trace: seen.append(trace) or "fail")  # type: ignore[func-returns-value]
    after = seen[1]
    assert CANARY not in to_json(after)
    assert (
        after.context is not None and after.context[0].text == "Uploads may be up to 20 MB. Ask [[EMAIL_1]] for more."
    )


def test_the_local_judge_is_the_default_and_agrees_with_itself() -> None:
    repro = make(verdict=candidates.local_verdict)["redaction"]["repro"]
    assert repro["checked"] is True
    assert repro["same"] is True


def test_a_question_that_was_not_captured_blocks() -> None:
    document = make(make_trace(query=None, rewritten_query=None))
    assert document["redaction"]["status"] == "BLOCKED"
    assert "blocked:question_not_captured" in document["redaction"]["residual"]["flags"]


def test_a_broken_detector_withholds_every_text() -> None:
    def broken(_view: object) -> list[Any]:
        raise RuntimeError

    document = make(detectors=(*DETECTORS, Detector("broken", "1", broken)))
    assert document["redaction"]["status"] == "BLOCKED"
    assert document["question"]["text"] == document["answer"]["observed"] == WITHHELD
    assert CANARY not in json.dumps(document)
    assert problems(document) == ()


def test_too_much_text_is_withheld() -> None:
    document = make(limits=RedactionLimits(max_bytes=50))
    assert document["redaction"]["residual"]["flags"] == ["blocked:too_large"]
    assert document["question"]["text"] == WITHHELD


def put(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        for key in parents:
            document = document[key]
        document[last] = value

    return change


@pytest.mark.parametrize("path", ["stray", "question.stray", "provenance.trace_id", "redaction_note"])
def test_an_unknown_key_blocks_and_is_not_kept(path: str) -> None:
    document = make()
    put(path, CANARY)(document)
    result = redact_candidate(document)
    assert result.status == "BLOCKED"
    assert any(reason.startswith("unknown_key:") for reason in result.reasons)
    assert CANARY not in json.dumps(result.document)


def test_an_unknown_key_below_a_list_blocks_too() -> None:
    document = make()
    document["evidence"]["retrieved"][0][CANARY] = {"deep": [CANARY]}
    result = redact_candidate(document)
    assert result.status == "BLOCKED"
    assert CANARY not in json.dumps(result.document)


def test_a_personal_key_of_a_free_mapping_blocks_and_goes() -> None:
    document = make()
    document["question"]["filters"] = {CANARY: "x", "tenant": [CANARY]}
    result = redact_candidate(document)
    assert result.status == "BLOCKED"
    assert CANARY not in json.dumps(result.document)


def test_odd_keys_do_not_hide_each_other() -> None:
    document = make()
    document["question"]["filters"] = {"a b": [CANARY, CANARY], "c d": CANARY, "e f": f"{CANARY}!"}
    result = redact_candidate(document)
    assert CANARY not in json.dumps(result.document)
    assert set(result.document["question"]["filters"]) == {"a b", "c d", "e f"}


def test_a_leaf_of_fixed_shape_cannot_carry_a_text() -> None:
    document = make()
    document["provenance"]["trace_hmac"] = CANARY
    result = redact_candidate(document)
    assert "bad_value:provenance.trace_hmac" in result.reasons
    assert CANARY not in json.dumps(result.document)


def test_a_second_redaction_changes_nothing() -> None:
    document = make()
    again = redact_candidate(document)
    assert again.document == document
    assert again.status == "REDACTED"


def test_a_second_redaction_never_lifts_a_block() -> None:
    blocked = make(verdict=lambda trace: str(hash(trace.answer)))
    again = redact_candidate(blocked)
    assert again.status == "BLOCKED"
    assert again.document == blocked


def test_a_second_redaction_finds_what_was_added_since() -> None:
    document = make()
    document["fault"]["reason"] = "ask b@example.org"
    again = redact_candidate(document)
    assert again.document["fault"]["reason"] == "ask [[EMAIL_2]]"


JSON_TEXT = st.one_of(
    st.text(max_size=30), st.sampled_from([CANARY, "[[EMAIL_1]]", '"}', "\\", "\ud83d", "13812345678"])
)


@settings(max_examples=50, deadline=None)
@given(JSON_TEXT, JSON_TEXT, JSON_TEXT)
def test_any_text_leaves_valid_json_of_the_same_shape(question: str, answer: str, document_text: str) -> None:
    documents = (Document("d", 1, None, document_text),)
    before = make_trace(query=question or "?", answer=answer, context=documents, candidates=documents)
    document = make(before)
    assert json.loads(json.dumps(document, ensure_ascii=False).encode()) == document
    assert CANARY not in json.dumps(document)
    assert len(document["evidence"]["retrieved"]) == 1


# The schema's own refusals


def released() -> dict[str, Any]:
    document = make()
    document["review"].update(status="REVIEWED", redaction_confirmed=True, reviewed_at="2025-10-09T08:53:20Z")
    candidates.apply_policy(document, POLICY)
    assert document["governance"]["export_allowed"] is True
    return document


MUST_FAIL = {
    "blocked but exportable": put("redaction.status", "BLOCKED"),
    "failure no longer reproduces": put("redaction.repro.same", False),
    "not checked": put("redaction.repro", {"checked": False}),
    "unknown field": put("extra", 1),
    "residual flags": put("redaction.residual.flags", ["digits:question.text"]),
    "not confirmed": put("review.redaction_confirmed", False),
    "pending": put("review.status", "PENDING"),
    "consent unknown": put("governance.consent", "UNKNOWN"),
    "a detector failed": lambda d: d["redaction"]["detectors"][0].update(ok=False),
    "raw trace id": put("provenance.trace_hmac", TRACE_ID),
    "an answer expected where none can be": put("expectation.answerability", "NONE"),
    "no date": put("governance.expires_at", "tomorrow"),
    "a date without zone": put("review.reviewed_at", "2025-10-09T08:53:20"),
}


@pytest.mark.parametrize("case", MUST_FAIL)
def test_the_schema_refuses(case: str) -> None:
    document = released()
    assert problems(document) == ()
    MUST_FAIL[case](document)
    assert problems(document) != ()


# Stored candidates


def test_a_confirmed_failure_is_created_once(engine: Engine) -> None:
    store_trace(engine, make_trace())
    first = candidates.create(engine, TRACE_ID, KEY, NOW)
    assert candidates.create(engine, TRACE_ID, KEY, NOW + 5) == first
    with engine.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(candidates_table)) == 1
        stored = connection.scalar(select(candidates_table.c.document))
    assert TRACE_ID not in str(stored)
    assert CANARY not in str(stored)


def test_feedback_rows_reach_the_candidate(engine: Engine) -> None:
    store_trace(engine, make_trace(query="Who is subject-77-hash?"))
    row = {"feedback_id": "f1", "trace_id": TRACE_ID, "name": "thumbs", "sentiment": "negative", "received_at": NOW}
    with engine.begin() as connection:
        connection.execute(insert(feedback).values(**row, position=1, by="subject-77-hash"))
    document = candidates.load(engine, candidates.create(engine, TRACE_ID, KEY, NOW))
    assert document["provenance"]["source"] == "FEEDBACK"
    assert document["question"]["text"] == "Who is [[ACCOUNT_ID_1]]?"


def test_what_no_person_confirmed_becomes_no_candidate(engine: Engine) -> None:
    store_trace(engine, make_trace(), confirmed=False)
    with pytest.raises(desk.Refused, match="no person confirmed"):
        candidates.create(engine, TRACE_ID, KEY, NOW)
    with pytest.raises(desk.Refused, match="not sampled"):
        candidates.create(engine, "0" * 32, KEY, NOW)


def test_confirming_releases_it_where_consent_is_known(engine: Engine) -> None:
    store_trace(engine, make_trace())
    candidate_id = candidates.create(engine, TRACE_ID, KEY, NOW, policy=POLICY)
    candidates.confirm(engine, candidate_id, "rv_aaaaaaaaaaaaaaaa", NOW + 60)
    document = candidates.load(engine, candidate_id)
    assert document["review"]["status"] == "REVIEWED"
    assert document["review"]["reviewers"] == [REVIEWER, "rv_aaaaaaaaaaaaaaaa"]
    assert document["governance"]["export_allowed"] is True
    assert problems(document) == ()


def test_consent_that_nobody_configured_keeps_it_here(engine: Engine) -> None:
    store_trace(engine, make_trace())
    candidate_id = candidates.create(engine, TRACE_ID, KEY, NOW)
    candidates.confirm(engine, candidate_id, REVIEWER, NOW)
    assert candidates.load(engine, candidate_id)["governance"]["export_allowed"] is False
    candidates.confirm(engine, candidate_id, REVIEWER, NOW, policy=POLICY)
    assert candidates.load(engine, candidate_id)["governance"]["export_allowed"] is True


def test_a_blocked_candidate_can_be_seen_and_not_confirmed(engine: Engine) -> None:
    store_trace(engine, make_trace(answer="The code is 73628194."))
    candidate_id = candidates.create(engine, TRACE_ID, KEY, NOW, policy=POLICY)
    assert candidates.load(engine, candidate_id)["answer"]["observed"] == "The code is 73628194."
    with pytest.raises(desk.Refused, match=r"digits:answer\.observed"):
        candidates.confirm(engine, candidate_id, REVIEWER, NOW)
    candidates.reject(engine, candidate_id, REVIEWER, NOW)
    assert candidates.load(engine, candidate_id)["review"]["status"] == "REJECTED"


def test_support_counts_the_family(engine: Engine) -> None:
    ids = []
    for number in range(3):
        trace = make_trace(trace_id=f"{number:032x}", query=f"How large may a file of u{number}@example.com be?")
        store_trace(engine, trace)
        ids.append(candidates.create(engine, trace.trace_id, KEY, NOW + number))
    assert candidates.load(engine, ids[0])["family"]["support"] == 3
    candidates.reject(engine, ids[2], REVIEWER, NOW)
    assert candidates.load(engine, ids[0])["family"]["support"] == 2


def test_bad_callers_are_told(engine: Engine) -> None:
    store_trace(engine, make_trace())
    candidate_id = candidates.create(engine, TRACE_ID, KEY, NOW)
    with pytest.raises(desk.Refused, match="reviewer"):
        candidates.confirm(engine, candidate_id, "Alice", NOW)
    with pytest.raises(KeyError, match="no candidate"):
        candidates.load(engine, "rc_none")
    with pytest.raises(ValueError, match="at least 16"):
        candidates.candidate_id(b"short", TRACE_ID)
    with pytest.raises(ValueError, match="accepted"):
        CandidatePolicy(consent="MAYBE")


def test_documents_are_not_shared_between_calls() -> None:
    document = make()
    before = copy.deepcopy(document)
    redact_candidate(document, [("PERSON", "large")])
    assert document == before
