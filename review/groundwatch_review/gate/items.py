"""The regression set as it is read from a file: one confirmed failure a line, in the published candidate format."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Literal

from groundwatch_review.schema import problems

Behaviour = Literal["ANSWER", "PARTIAL_WITH_CAVEAT", "ABSTAIN", "CLARIFY"]

_BEHAVIOUR: Mapping[str, Behaviour] = {"FULL": "ANSWER", "PARTIAL": "PARTIAL_WITH_CAVEAT", "NONE": "ABSTAIN"}
_MOST_PROBLEMS = 5  # that a message names


class BadSet(ValueError):
    """The regression set cannot be used; the message names the file, the line and the rule."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A passage that a right answer rests on. ``role``: SUPPORTS, CONTRADICTS or DISTRACTOR."""

    id: str
    text: str
    role: str = "SUPPORTS"


@dataclass(frozen=True, slots=True)
class Item:
    """One question and what is expected of it. Empty tuples: a person did not say, and scores are not applicable."""

    id: str
    question: str
    language: str
    family: str
    status: str  # PENDING | REVIEWED
    answerability: str  # FULL | PARTIAL | NONE
    behaviour: Behaviour
    history: tuple[tuple[str, str], ...] = ()  # (role, text)
    anchors: tuple[Anchor, ...] = ()
    key_points: tuple[str, ...] = ()  # the required ones
    forbidden: tuple[str, ...] = ()
    reference: str = ""
    origin: str = "real"  # real | synthetic | adversarial: ``ext.x_origin``
    split: str = "DEV"
    distractors: tuple[str, ...] = ()  # passages that were retrieved and did not help

    @property
    def evidence(self) -> tuple[Anchor, ...]:
        return tuple(anchor for anchor in self.anchors if anchor.role == "SUPPORTS")

    @property
    def digest(self) -> str:
        """Of what is asked and what is expected: two runs can be compared on this item where it is the same."""
        ruler = (
            self.question,
            self.history,
            self.answerability,
            self.behaviour,
            tuple(map(astuple, self.anchors)),
            self.key_points,
            self.forbidden,
            self.reference,
            self.distractors,
        )
        return hashlib.sha256(json.dumps(ruler, ensure_ascii=False).encode()).hexdigest()[:16]


def read_set(path: Path) -> list[Item]:
    """The items of *path* that are not rejected. Raises :class:`BadSet`, naming the line, for anything else."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSet(f"{path}: not readable as UTF-8 JSON lines ({type(error).__name__})") from error
    found = list(_items(path, lines))
    twice = sorted(name for name, times in Counter(item.id for item in found).items() if times > 1)
    if twice:
        raise BadSet(f"{path}: candidate_id {twice[0]} is there more than once")
    if not found:
        raise BadSet(f"{path}: no item; expected candidates of `groundwatch export`, one a line")
    return found


def _items(path: Path, lines: list[str]) -> Iterator[Item]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            document = _document(line, f"{path}:{number}")
            if document["review"]["status"] != "REJECTED":
                yield from_candidate(document)


def _document(line: str, where: str) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except ValueError as error:
        raise BadSet(f"{where}: not JSON") from error
    wrong = problems(document)
    if wrong:
        raise BadSet(f"{where}: departs from the candidate format at {'; '.join(wrong[:_MOST_PROBLEMS])}")
    return dict(document)


def from_candidate(document: Mapping[str, Any]) -> Item:
    """Read a candidate that follows the schema."""
    expectation, evidence = document["expectation"], document["evidence"]
    return Item(
        id=document["candidate_id"],
        question=document["question"]["text"],
        language=document["lang"],
        family=document["family"]["family_id"],
        status=document["review"]["status"],
        answerability=expectation["answerability"],
        behaviour=expectation.get("expected_behavior") or _BEHAVIOUR[expectation["answerability"]],
        history=tuple((turn["role"], turn["text"]) for turn in document["question"].get("history", ())),
        anchors=tuple(
            Anchor(a["id"], a["exact"], a.get("role", "SUPPORTS")) for a in evidence.get("expected_anchors", ())
        ),
        key_points=tuple(p["text"] for p in expectation.get("key_points", ()) if p["required"]),
        forbidden=tuple(expectation.get("forbidden_claims", ())),
        reference=expectation.get("reference_answer", ""),
        origin=document.get("ext", {}).get("x_origin", "real"),
        split=document["split"],
        distractors=tuple(p["text"] for p in evidence["retrieved"] if p.get("relevant") is False and p.get("text")),
    )
