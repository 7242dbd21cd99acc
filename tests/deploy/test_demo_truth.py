"""The truth by construction: what the program did, against what the documents hold."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from groundwatch_deploy.demo import corpus, questions, traffic, truth, users
from groundwatch_deploy.demo.app import Answer, RagApp, Reply
from groundwatch_deploy.demo.behaviour import (
    BAD_VERSION,
    HEALTHY_VERSION,
    INCIDENTS,
    INJECTED_LAYER,
    Behaviour,
    deployed,
    invent_number,
)
from groundwatch_deploy.demo.retrieval import Hit, Index
from groundwatch_deploy.demo.truth import Truth, TruthFile

REQUESTS = 400


@pytest.fixture(scope="module")
def index():
    return Index(corpus.load())


@pytest.fixture(scope="module")
def bank():
    return questions.load(corpus.load())


def run(index: Any, bank: Any, incident: Any = None, seed: int = 1) -> list[Any]:
    app = RagApp(deployed(incident), index)
    return [traffic.handle(app, planned) for planned in traffic.plan(bank, app.behaviour.version, seed, REQUESTS)]


@pytest.fixture(scope="module")
def served(index, bank):
    """Each version's requests under one seed."""
    return {incident: run(index, bank, incident) for incident in (None, *INCIDENTS)}


def first_sentence(answer: Any) -> str:
    return re.split(r" \[\d+\]", answer.text)[0]


def facts(handled: Any) -> list[Any]:
    return [(h.planned.trace_id, h.reply.answer, replace(h.truth, started_at=0.0), h.reaction) for h in handled]


def test_the_healthy_version_fails_seldom_but_does_fail(served):
    failed, completed = truth.failure_rate(h.truth for h in served[None])
    assert 0.02 <= failed / completed <= 0.10


@pytest.mark.parametrize("incident", INCIDENTS)
def test_each_incident_fails_often_and_in_its_layer(served, incident):
    truths = [h.truth for h in served[incident]]
    failed, completed = truth.failure_rate(truths)
    layers = Counter(t.layer for t in truths if t.failed)
    assert failed / completed > 0.15
    assert layers.most_common(1)[0][0] == INJECTED_LAYER[incident]
    assert {t.version for t in truths} == {BAD_VERSION}


def test_a_seed_means_the_same_requests(index, bank, served):
    assert facts(run(index, bank)) == facts(served[None])
    assert facts(run(index, bank, seed=2)) != facts(served[None])


def test_trace_ids_are_distinct_across_versions(served):
    ids = [h.planned.trace_id for incident in (None, "rerank-cut") for h in served[incident]]
    assert len(set(ids)) == len(ids)
    assert all(len(trace_id) == 32 for trace_id in ids)


def test_rerank_cut_leaves_the_evidence_among_the_candidates_only(served):
    cut = [h for h in served["rerank-cut"] if h.truth.layer == "rerank"]
    assert cut
    for handled in cut:
        gold = handled.planned.question.gold
        assert gold & {hit.passage.id for hit in handled.reply.candidates}
        assert not gold & {passage.id for passage in handled.reply.context}


def test_an_invented_number_stands_in_no_passage_of_the_answer(served):
    invented = [h for h in served["invented-numbers"] if h.truth.why == "invented_number"]
    assert invented
    for handled in invented:
        said = first_sentence(handled.reply.answer)
        assert not any(said in passage.text for passage in handled.reply.context)


def test_answers_of_the_healthy_version_are_quotes(served):
    for handled in served[None]:
        answer = handled.reply.answer
        if answer is None or answer.refused or answer.invented:
            continue
        texts = {passage.id: passage.text for passage in handled.reply.context}
        assert answer.cited
        assert all(source in texts for source, _marker in answer.cited)
        assert first_sentence(answer) in "\n".join(texts.values())


def test_errors_and_cancellations_are_not_failures_of_an_answer():
    lost = Truth("a" * 32, "full-1", "v1", 0.0, "error", False)
    bad = Truth("b" * 32, "full-1", "v1", 0.0, "refused", True, "refusal")
    assert truth.failure_rate([lost, bad, replace(lost, outcome="cancelled")]) == (1, 1)


def reply_to(
    question: Any, index: Any, *, answer: Answer, in_candidates: bool = True, in_context: bool = True
) -> Reply:
    gold = [index.entries[name].passage for name in sorted(question.gold)]
    other = index.entries["manual-en:webhooks"].passage
    return Reply(
        question.text,
        outcome="refused" if answer.refused else "answered",
        candidates=[Hit(p, 1.0) for p in (gold if in_candidates else [other])],
        reranked=[Hit(p, 1.0) for p in (gold if in_context else [other])],
        context=gold if in_context else [other],
        answer=answer,
    )


SEATS = Answer("The Free edition has 3 seats and they cannot be extended. [1]", (("manual-en:seats", "[1]"),))
REFUSED = Answer("I could not find this in the documentation.", refused=True)


@pytest.mark.parametrize(
    ("changes", "layer"),
    [
        ({"answer": SEATS}, ""),
        ({"answer": REFUSED}, "refusal"),
        ({"answer": REFUSED, "in_context": False}, "rerank"),
        ({"answer": REFUSED, "in_context": False, "in_candidates": False}, "retrieval"),
        ({"answer": replace(SEATS, invented=True)}, "generation"),
        ({"answer": replace(SEATS, text="A seat can be given to another person. [1]")}, "generation"),
        ({"answer": replace(SEATS, cited=(("manual-en:guests", "[1]"),))}, "generation"),
    ],
)
def test_the_layer_is_where_it_went_wrong_first(index, bank, changes, layer):
    question = next(q for q in bank.questions if q.text == "how many seats are in the free edition?")
    decided = truth.decide(question, reply_to(question, index, **changes), trace_id="t", version="v", started_at=0.0)
    assert (decided.failed, decided.layer) == (bool(layer), layer)


def test_answering_what_stands_nowhere_is_a_failure(index, bank):
    question = next(q for q in bank.questions if q.answerable == "nowhere")
    answered = reply_to(question, index, answer=SEATS, in_context=False, in_candidates=False)
    refused = reply_to(question, index, answer=REFUSED, in_context=False, in_candidates=False)
    decided = [truth.decide(question, r, trace_id="t", version="v", started_at=0.0) for r in (answered, refused)]
    assert [(d.failed, d.layer) for d in decided] == [(True, "generation"), (False, "")]


@pytest.mark.parametrize(
    "sentence",
    [
        "A file may be up to 50 GB.",
        "团队版的已删除文件保留 90 天。",
        "It allows 3,000 requests per minute.",
        "It costs 7.50 euros in 2 steps.",
    ],
)
def test_an_invented_number_is_another_number(sentence):
    for seed in range(20):
        changed = invent_number(sentence, random.Random(seed))
        assert changed is not None
        assert changed != sentence
        assert [c for c in changed if not c.isdigit() and c != ","] == [
            c for c in sentence if not c.isdigit() and c != ","
        ]


@pytest.mark.parametrize("sentence", ["No figures here.", "Use AES-256 or TLS 1.3 at 9:00. [1]"])
def test_names_and_times_are_left_alone(sentence):
    assert invent_number(sentence, random.Random(1)) is None


def test_users_complain_mostly_where_they_were_failed(served):
    heard = [(h.truth.failed, h.reaction) for h in served["over-refusal"] if h.truth.completed]
    share = {
        failed: sum(r is not None and r.sentiment == "negative" for f, r in heard if f is failed)
        / sum(f is failed for f, _r in heard)
        for failed in (True, False)
    }
    assert 0.3 < share[True] < 0.6
    assert share[False] < 0.06
    assert all(0 <= r.delay_seconds <= users.MAX_DELAY_SECONDS for _f, r in heard if r is not None)


def test_what_was_written_is_read_back(tmp_path):
    happened = Truth(
        "a" * 32, "full-1", HEALTHY_VERSION, 1.5, "refused", True, "refusal", "refused_with_evidence", True
    )
    out = TruthFile(tmp_path / "truth.jsonl")
    out.add(happened)
    out.close()
    assert truth.read(tmp_path / "truth.jsonl") == [happened]
    assert json.loads((tmp_path / "truth.jsonl").read_text())["layer"] == "refusal"


def test_a_question_of_two_things_is_answered_in_half(index):
    app = RagApp(Behaviour(spurious_refusal_rate=0, invented_number_rate=0, cancelled_rate=0), index)
    query = "how many webhooks can a workspace have and do they support GraphQL?"
    rewritten = app.rewrite(query)
    hits = app.rerank(rewritten, index.candidates(rewritten, 12))
    answer = app.write(query, rewritten, app.select_context(hits), random.Random(1))
    assert answer.partial
    assert "40 webhooks. [1]" in answer.text
    assert answer.text.endswith("I could not find the rest in the documentation.")
