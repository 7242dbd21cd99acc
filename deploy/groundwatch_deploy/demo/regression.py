"""The demo application behind `groundwatch gate`: its regression set, and a function that answers one question.

`python -m groundwatch_deploy.demo.regression FILE` writes the set; then
`groundwatch gate --set FILE --python groundwatch_deploy.demo.regression:ask`. With GROUNDWATCH_DEMO_INCIDENT set to
one of the demo's incidents the bad version answers, and GROUNDWATCH_DEMO_SEED draws its luck.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from groundwatch_deploy.demo import corpus, questions, words
from groundwatch_deploy.demo.app import RagApp, SearchUnavailable
from groundwatch_deploy.demo.behaviour import INCIDENTS, deployed
from groundwatch_deploy.demo.corpus import Passage
from groundwatch_deploy.demo.questions import Question
from groundwatch_deploy.demo.retrieval import Index

_ANSWERABILITY: Final = {"full": "FULL", "partly": "PARTIAL", "nowhere": "NONE"}
_BEHAVIOUR: Final = {"full": "ANSWER", "partly": "PARTIAL_WITH_CAVEAT", "nowhere": "ABSTAIN"}


def main(arguments: Sequence[str]) -> int:
    """Write the set to the one path of *arguments*."""
    if len(arguments) != 1:
        print("usage: python -m groundwatch_deploy.demo.regression FILE", file=sys.stderr)
        return 2
    lines = [json.dumps(document, ensure_ascii=False, sort_keys=True) for document in candidates()]
    Path(arguments[0]).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    print(f"{len(lines)} items written to {arguments[0]}", file=sys.stderr)
    return 0


def candidates() -> list[dict[str, Any]]:
    """The demo's bank of questions in the candidate format. They are ours, not a user's: origin ``synthetic``."""
    passages = {passage.id: passage for passage in _index_passages()}
    return [_candidate(question, passages) for question in questions.load(tuple(passages.values())).questions]


@cache
def _index_passages() -> tuple[Passage, ...]:
    return tuple(corpus.load())


def _candidate(question: Question, passages: Mapping[str, Passage]) -> dict[str, Any]:
    name = hashlib.sha256(question.id.encode()).hexdigest()
    gold = [passages[passage] for passage in sorted(question.gold)][:1]  # one place that holds it is enough
    points = [{"id": "k1", "text": _said(question, passage), "required": True} for passage in gold]
    return {
        "schema_version": 1,
        "candidate_id": f"rc_{name[:24]}",
        "lang": "zh" if question.chinese else "en",
        "question": {"text": question.text},
        "evidence": {
            "retrieved": [],
            "expected_anchors": [{"id": "a1", "exact": _sentence(question, p), "role": "SUPPORTS"} for p in gold],
        },
        "answer": {"observed": ""},
        "expectation": {
            "answerability": _ANSWERABILITY[question.answerable],
            "expected_behavior": _BEHAVIOUR[question.answerable],
            "key_points": points,
        },
        "fault": {"layer": "UNKNOWN", "type": "none"},
        "family": {"family_id": f"fam_{name[:12]}", "method": "question", "support": question.weight},
        "split": "DEV",
        "review": {"status": "REVIEWED", "failure_confirmed": False, "redaction_confirmed": True},
        "redaction": {
            "status": "CLEAN",
            "policy_version": "none",
            "detectors": [{"name": "none_needed", "version": "1", "ok": True}],
            "counts": {},
            "residual": {"flags": []},
            "repro": {"checked": True, "same": None},
        },
        "provenance": {"trace_hmac": name, "key_id": "demo", "source": "MANUAL"},
        "governance": {"license": "Apache-2.0", "consent": "NOT_PERSONAL", "export_allowed": True},
        "ext": {"x_origin": "synthetic"},
    }


def _said(question: Question, passage: Passage) -> str:
    """What a right answer says, in the words of the document."""
    found = question.key.search(passage.text) if question.key else None
    assert found is not None  # that is how gold passages are chosen
    return found[0]


def _sentence(question: Question, passage: Passage) -> str:
    said = _said(question, passage)
    return next((sentence for sentence in words.sentences(passage.text) if said in sentence), said)


def ask(request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer the question of *request* with the version that the environment names."""
    app, seed = _app(os.environ.get("GROUNDWATCH_DEMO_INCIDENT", "")), os.environ.get("GROUNDWATCH_DEMO_SEED", "0")
    return answer(app, request, random.Random(f"{seed}:{request['item_id']}"))  # noqa: S311 - the demo's luck


@cache
def _app(incident: str) -> RagApp:
    known = next((name for name in INCIDENTS if name == incident), None)
    if incident and known is None:
        raise ValueError(f"GROUNDWATCH_DEMO_INCIDENT is {incident!r}; accepted: {', '.join(INCIDENTS)}")
    return RagApp(deployed(known), Index(_index_passages()))


def answer(app: RagApp, request: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """One reply in the gate's form. Extra documents go before what was found, where they disturb most."""
    query = app.rewrite(request["question"])
    try:
        found = app.search(query, rng)
    except SearchUnavailable:
        found = app.search(query, rng)
    extra = _holding(request.get("extra_documents", ()))
    context = [*extra, *app.select_context(app.rerank(query, found))]
    written = app.write(request["question"], query, context, rng)
    return {
        "answer": written.text,
        "outcome": "refused" if written.refused else "partial" if written.partial else "answered",
        "retrieved": [{"id": hit.passage.id, "text": hit.passage.text} for hit in found],
        "context": [{"id": passage.id, "text": passage.text} for passage in context],
    }


def _holding(texts: Sequence[str]) -> list[Passage]:
    """The passage that each of *texts* stands in: the demo answers from its own corpus only."""
    return list(dict.fromkeys(next(p for p in _index_passages() if text in p.text) for text in texts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
