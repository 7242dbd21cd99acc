"""Families: what is one test, what is two, and that no family is on both sides of the split."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from exportable import NOW, add, make_trace
from sqlalchemy import Engine

from groundwatch_collector.ragtrace import Document
from groundwatch_review import candidates, families
from groundwatch_review.export import export

PAGE = "Uploads on the Team edition may be up to 500 MB; larger files are refused with an error. [table cut here]"
WORDS = [
    "how",
    "big",
    "upload",
    "team",
    "why",
    "limit",
    "file",
    "error",
    "refused",
    "what",
    "max",
    "size",
    "zip",
    "send",
]


def document(question: str, number: int = 1, layer: str = "GENERATION", page: str = "") -> dict[str, Any]:
    return {
        "candidate_id": f"rc_{number:024x}",
        "question": {"text": question},
        "evidence": {"retrieved": [{"text": page}] if page else []},
        "fault": {"layer": layer, "type": "claim_unsupported"},
        "family": {},
    }


def alike(left: dict[str, Any], right: dict[str, Any]) -> bool:
    families.assign(left)
    families.assign(right, [left])
    return bool(left["family"]["family_id"] == right["family"]["family_id"])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("How large may a file be?", "how large may a FILE be"),
        ("How large may the file of [[PERSON_1]] be?", "How large may the file of [[PERSON_7]] be?"),
        ("How can I reset my password?", "How do I reset my password?"),
        ("团队版最大能传多大的文件？", "团队版最大能传多大的文件呢"),
    ],
)
def test_the_same_question_in_other_words_is_one_family(left: str, right: str) -> None:
    assert alike(document(left), document(right, 2))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("What does error 404 mean?", "What does error 413 mean?"),
        ("How do I log in", "How do I log out"),
        ("", ""),
        ("How large may a file be?", "How long is a link valid?"),
    ],
)
def test_other_questions_are_other_families(left: str, right: str) -> None:
    first, second = document(left), document(right, 2)
    families.assign(first)
    families.assign(second, [first])
    assert second["family"]["near_duplicate_of"] is None


def test_another_fault_is_another_family() -> None:
    assert not alike(document("How large?"), document("How large?", 2, layer="RETRIEVAL"))


@pytest.mark.parametrize("new_database", ["sqlite"], indirect=True)
def test_one_broken_page_and_200_questions_are_one_family_with_support_200(engine: Engine, tmp_path: Path) -> None:
    rng = random.Random(7)
    documents = (Document("manual-17", 1, 0.9, PAGE),)
    ids = []
    for number in range(200):
        question = " ".join(rng.sample(WORDS, 7)) + "?"
        trace = make_trace(number, question, candidates=documents, context=documents)
        ids.append(add(engine, trace, at=NOW + number, confirm=number == 0))
    assert candidates.load(engine, ids[0])["family"]["support"] == 200
    assert candidates.load(engine, ids[199])["family"]["near_duplicate_of"] == ids[0]
    report = export(engine, tmp_path / "dev", NOW + 300, holdout=tmp_path / "holdout")
    assert report.written + report.holdout_written == 1
    (line,) = (json.loads(text) for name in ("dev", "holdout") for text in (tmp_path / name).read_text().splitlines())
    assert line["family"]["support"] == 200


def test_a_rejected_candidate_leads_no_family(engine: Engine) -> None:
    first = add(engine, make_trace(1, "How large may a file be?"))
    candidates.reject(engine, first, "rv_0123456789abcdef", NOW)
    second = add(engine, make_trace(2, "How large may a file be"), at=NOW + 1)
    assert candidates.load(engine, second)["family"]["near_duplicate_of"] is None


def test_a_family_is_never_on_both_sides() -> None:
    rng = random.Random(3)
    known: list[dict[str, Any]] = []
    for number in range(300):
        known.append(document(" ".join(rng.sample(WORDS, 3)), number))
        families.assign(known[-1], known[:-1])
    splits: dict[str, set[str]] = {}
    for item in known:
        splits.setdefault(item["family"]["family_id"], set()).add(item["split"])
    assert all(len(split) == 1 for split in splits.values())
    assert {"DEV", "HOLDOUT"} == set().union(*splits.values())
