"""What the candidate page shows: the redacted text with its placeholders, and what redaction did. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from markupsafe import Markup

from ..queries import CandidateRow
from ..redaction import doubtful_words
from ..second_person import Ticks
from .marking import Range, marked

PLACEHOLDER = re.compile(r"\[\[[A-Z_]{2,24}_[A-Z0-9]{1,6}\]\]")

HELD = {
    "": "ready to leave",
    "unconfirmed": "waits for a person to read it",
    "blocked": "blocked: redaction could not be completed",
    "rejected": "rejected by a person",
    "second_person": "hold-out set: waits for a second person",
    "holdout": "hold-out set: not part of this download",
    "failure_not_confirmed": "held: readers differ on the failure, or it was taken back",
    "consent_unknown": "held: nobody has recorded the right to use this traffic",
    "schema": "held: the format's own rules do not let it leave",
}


@dataclass(frozen=True, slots=True)
class TextPart:
    title: str
    text: Markup
    doubtful: int  # words in it that may be names


@dataclass(frozen=True)
class CandidatePage:
    row: CandidateRow
    placeholders: tuple[tuple[str, str, int], ...]  # (token, type, mentions)
    counts: tuple[tuple[str, int], ...]
    detectors: tuple[tuple[str, str, bool], ...]  # (name, version, ran)
    flags: tuple[str, ...]
    layer: str
    answerability: str
    language: str
    behavior: str
    revision: int
    readers: int  # people who read the trace or the candidate
    agreement: float | None  # of those who read the trace
    held: str  # why an export would leave it out; "" when it would not
    released_by: frozenset[str]  # people who ticked this revision of a hold-out candidate
    four_eyes: bool  # it takes two of them

    @property
    def question(self) -> TextPart:
        """The first part alone: a list shows no more, and to look through all passages takes long."""
        return _part(*next(_texts(self.row.document)))

    @cached_property
    def parts(self) -> tuple[TextPart, ...]:
        return tuple(_part(title, text) for title, text in _texts(self.row.document))

    @property
    def doubtful(self) -> int:
        """Words of the texts that may be names."""
        return sum(part.doubtful for part in self.parts)

    @property
    def held_words(self) -> str:
        return "ready to leave again" if not self.held and self.row.exported_at else HELD[self.held]


def candidate_page(row: CandidateRow, ticks: Ticks | None = None) -> CandidatePage:
    """Lay out one stored candidate. Odd or missing keys show as empty rather than fail.

    *ticks*: who released what of the hold-out set; without them nobody is waited for.
    """
    document = row.document
    redaction, review = _object(document, "redaction"), _object(document, "review")
    residual = _object(redaction, "residual")
    ticks = ticks or Ticks({}, needed=1)
    told = {**document, "candidate_id": row.candidate_id}
    return CandidatePage(
        row=row,
        placeholders=tuple(
            (str(p.get("token")), str(p.get("type")), int(p.get("mentions") or 0))
            for p in _objects(redaction, "placeholders")
        ),
        counts=tuple((str(k), int(v)) for k, v in _object(redaction, "counts").items() if isinstance(v, int)),
        detectors=tuple(
            (str(d.get("name")), str(d.get("version")), d.get("ok") is True) for d in _objects(redaction, "detectors")
        ),
        flags=tuple(str(flag) for flag in residual.get("flags") or ()),
        layer=str(_object(document, "fault").get("layer") or ""),
        answerability=str(_object(document, "expectation").get("answerability") or ""),
        language=str(document.get("lang") or ""),
        behavior=str(_object(document, "expectation").get("expected_behavior") or ""),
        revision=revision if isinstance(revision := document.get("revision"), int) else 1,
        readers=len(review.get("reviewers") or ()),
        agreement=share if isinstance(share := review.get("agreement"), int | float) else None,
        held=_held(row, missing=ticks.is_missing(told)),
        released_by=ticks.released_by(told),
        four_eyes=told.get("split") == "HOLDOUT" and ticks.needed > 1,
    )


def _held(row: CandidateRow, *, missing: bool) -> str:
    governance = _object(row.document, "governance")
    checks = {
        "rejected": _object(row.document, "review").get("status") == "REJECTED",
        "blocked": row.redaction_status == "BLOCKED",
        "unconfirmed": not row.redaction_confirmed,
        "failure_not_confirmed": row.decision != "confirmed",
        "consent_unknown": governance.get("consent") in (None, "UNKNOWN"),
        "second_person": missing,
        "holdout": row.document.get("split") == "HOLDOUT",
        "schema": governance.get("export_allowed") is not True,
    }
    return next((reason for reason, holds in checks.items() if holds), "")


def _part(title: str, text: str) -> TextPart:
    left = doubtful_words(text)
    return TextPart(title, highlighted(text, left), len(left))


def highlighted(text: str, left: Iterable[tuple[int, int]] = ()) -> Markup:
    """*text* with its placeholders marked, and the words *left* in it that may be names."""
    found = PLACEHOLDER.finditer(text)
    ranges = [Range(m.start(), m.end(), "placeholder", label="replaced by redaction") for m in found]
    doubtful = [Range(start, end, "quote", label="in no dictionary: a name?") for start, end in left]
    return marked(text, [*ranges, *doubtful])


def _texts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every text of the candidate that a stranger may have written, in reading order."""
    question, answer = _object(document, "question"), _object(document, "answer")
    yield "Question", str(question.get("text") or "")
    for turn in _objects(question, "history"):
        yield f"Earlier, {turn.get('role')}", str(turn.get("text") or "")
    if question.get("rewritten"):
        yield "Rewritten question", str(question["rewritten"])
    yield "Observed answer", str(answer.get("observed") or "")
    yield from _expected(_object(document, "expectation"))
    if reason := _object(document, "fault").get("reason"):
        yield "Reason", str(reason)
    for anchor in _objects(_object(document, "evidence"), "expected_anchors"):
        yield f"Expected passage {anchor.get('id')}", str(anchor.get("exact") or "")
    for passage in _objects(_object(document, "evidence"), "retrieved"):
        label = f"Passage {passage.get('ref')}"
        yield label, " · ".join(str(passage[k]) for k in ("doc_label", "section", "text") if passage.get(k))


def _expected(expectation: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if expectation.get("reference_answer"):
        yield "Reference answer", str(expectation["reference_answer"])
    for point in _objects(expectation, "key_points"):
        yield f"Key point {point.get('id')}", str(point.get("text") or "")
    for claim in expectation.get("forbidden_claims") or ():
        yield "Forbidden claim", str(claim)


def _object(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = parent.get(key)
    return found if isinstance(found, dict) else {}


def _objects(parent: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = parent.get(key)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
