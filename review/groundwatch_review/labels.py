"""What a person says of one trace: a verdict on each claim and criterion, and what a right answer would have been.

Read from a form without trust: every value is of a closed set or bounded, and every passage is checked against the
text of the document that it is said to come from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

import orjson

from groundwatch_collector.ragtrace import Document, RagTrace
from groundwatch_scorer.criteria import read_detail
from groundwatch_scorer.judgement import (
    AnnotatorKind,
    ClaimVerdict,
    Criterion,
    Evidence,
    FaultLayer,
    Verdict,
)

from .labelling_policy import ANSWERABILITY, BEHAVIOURS, CRITERIA, VERSION

NOTE_LIMIT_CHARACTERS = 4000
TEXT_LIMIT_CHARACTERS = 8000  # of a reference answer
POINTS_LIMIT = 20
POINT_LIMIT_CHARACTERS = 1000
PASSAGES_LIMIT = 20
PASSAGE_LIMIT_CHARACTERS = 4000

CRITERION_LABELS: Final = ("pass", "fail", "not_applicable")
_DECLINING: Final = ("ABSTAIN", "CLARIFY")
_UNSUPPORTED: Final = {Verdict.SUPPORTED: 0.0, Verdict.UNCERTAIN: 0.5}


class Refused(ValueError):
    """The decision cannot be recorded; the message says what was found and what is accepted."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a right answer would have been. "" and () mean that the person said nothing of it."""

    answerability: str = ""  # FULL | PARTIAL | NONE
    expected_behavior: str = ""  # ANSWER | PARTIAL_WITH_CAVEAT | ABSTAIN | CLARIFY
    reference_answer: str = ""
    key_points: tuple[str, ...] = ()
    forbidden_claims: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()  # passages that a right retriever must bring


@dataclass(frozen=True, slots=True)
class Label:
    decision: Literal["confirmed", "rejected"]
    fault_layer: str = ""  # of a confirmed failure
    note: str = ""
    claims: tuple[ClaimVerdict, ...] = ()  # those that the person judged
    criteria: Mapping[str, str] = field(default_factory=dict)  # criterion -> pass | fail | not_applicable
    expectation: Expectation = Expectation()

    @property
    def headline(self) -> str:
        return "fail" if self.decision == "confirmed" else "pass"

    def detail(self, reading: str, *, blind: bool) -> dict[str, Any]:
        """Kept with the judgement, in the words of a judge's detail where both say the same."""
        fault = {"layer": self.fault_layer, "confidence": 1.0, "explanation": self.note, "evidence": []}
        return {
            "fault": fault if self.decision == "confirmed" else None,
            "claims": [asdict(claim) for claim in self.claims],
            "expectation": asdict(self.expectation),
            "labelling": {"policy": VERSION, "reading": reading, "blind": blind},
        }


def checked(label: Label) -> Label:
    """*label* as it may be stored. Raises :class:`Refused` for what is of no closed set, too long, or no sense."""
    if label.decision == "confirmed" and label.fault_layer not in tuple(FaultLayer):
        raise Refused(f"fault layer {label.fault_layer[:40]!r} is not known; accepted: {', '.join(FaultLayer)}")
    _at_most("the note", label.note, NOTE_LIMIT_CHARACTERS)
    for name, given in label.criteria.items():
        _one_of(f"criterion {name[:40]!r}", name, [rule.name for rule in CRITERIA])
        _one_of(f"the label of {name}", given, CRITERION_LABELS)
    _check_expectation(label.expectation)
    return label


def _check_expectation(expected: Expectation) -> None:
    _one_of("answerability", expected.answerability, ("", *ANSWERABILITY))
    _one_of("expected behaviour", expected.expected_behavior, ("", *BEHAVIOURS))
    if expected.answerability == "NONE" and expected.expected_behavior not in ("", *_DECLINING):
        raise Refused(
            "nothing that was retrieved answers the question (NONE), so the expected behaviour is ABSTAIN or CLARIFY"
        )
    _at_most("the reference answer", expected.reference_answer, TEXT_LIMIT_CHARACTERS)
    for name, texts in (("key points", expected.key_points), ("forbidden claims", expected.forbidden_claims)):
        if len(texts) > POINTS_LIMIT:
            raise Refused(f"{len(texts)} {name}; accepted: up to {POINTS_LIMIT}, one a line")
        for text in texts:
            _at_most(f"one of the {name}", text, POINT_LIMIT_CHARACTERS)
    if len(expected.evidence) > PASSAGES_LIMIT:
        raise Refused(f"{len(expected.evidence)} expected passages; accepted: up to {PASSAGES_LIMIT}")


def _one_of(what: str, found: str, accepted: Iterable[str]) -> None:
    known = list(accepted)
    if found not in known:
        raise Refused(f"{what} is {found[:40]!r}; accepted: {', '.join(name for name in known if name)}")


def _at_most(what: str, text: str, limit: int) -> None:
    if len(text) > limit:
        raise Refused(f"{what} has {len(text)} characters; accepted: up to {limit}")


# From a form


def from_form(form: Mapping[str, str], trace: RagTrace | None, said: Sequence[ClaimVerdict] = ()) -> Label:
    """The label in *form*. *said* are the claims that were shown, by number. Raises :class:`Refused`."""
    decision = form.get("decision", "")
    if decision not in ("confirm", "reject"):
        raise Refused(f"decision {decision[:40]!r} is not known; accepted: confirm, reject")
    confirmed = decision == "confirm"
    claims = tuple(_claims(form, said))
    return checked(
        Label(
            decision="confirmed" if confirmed else "rejected",
            fault_layer=form.get("fault_layer", "") if confirmed else "",
            note=_text(form, "note"),
            claims=claims,
            criteria=_criteria(form, claims, len(said)),
            expectation=Expectation(
                answerability=form.get("answerability", ""),
                expected_behavior=form.get("expected_behavior", ""),
                reference_answer=_text(form, "reference_answer"),
                key_points=_lines(form, "key_points"),
                forbidden_claims=_lines(form, "forbidden_claims"),
                evidence=() if trace is None else tuple(_passages(form, trace)),
            ),
        )
    )


def _text(form: Mapping[str, str], name: str) -> str:
    return form.get(name, "").replace("\r\n", "\n").strip()  # browsers send line breaks of a form as CR LF


def _lines(form: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(line.strip() for line in _text(form, name).split("\n") if line.strip()))


def _claims(form: Mapping[str, str], said: Sequence[ClaimVerdict]) -> Iterable[ClaimVerdict]:
    for number, claim in enumerate(said, 1):
        given = form.get(f"claim_{number}", "")
        if given:
            _one_of(f"the verdict on claim {number}", given, tuple(Verdict))
            verdict = Verdict(given)
            yield ClaimVerdict(
                text=claim.text,
                start=claim.start,
                end=claim.end,
                verdict=verdict,
                unsupported_probability=_UNSUPPORTED.get(verdict, 1.0),
                reason="person",
            )


def _criteria(form: Mapping[str, str], claims: Sequence[ClaimVerdict], shown: int) -> dict[str, str]:
    """What was ticked; faithfulness also follows from the claims, where those leave no doubt."""
    given = {rule.name: form.get(f"criterion_{rule.name}", "") for rule in CRITERIA}
    found = {name: label for name, label in given.items() if label}
    if Criterion.FAITHFULNESS not in found:
        verdicts = [claim.verdict for claim in claims]
        if Verdict.CONTRADICTED in verdicts or Verdict.NOT_MENTIONED in verdicts:
            found[Criterion.FAITHFULNESS] = "fail"
        elif verdicts and len(verdicts) == shown and set(verdicts) == {Verdict.SUPPORTED}:
            found[Criterion.FAITHFULNESS] = "pass"
    return found


def places(trace: RagTrace) -> dict[str, str]:
    """By document id, the name of its place on a page: an id is a stranger's text."""
    names: dict[str, str] = {}
    for documents in (trace.context, trace.reranked, trace.candidates):
        for document in documents or ():
            names.setdefault(document.id, f"document-{len(names) + 1}")
    return names


def readable(trace: RagTrace) -> dict[str, Document]:
    """By id, the document whose text is shown and labelled: of one in several lists, what the model was sent."""
    lists = (trace.candidates, trace.reranked, trace.context)
    return {document.id: document for found in lists for document in found or () if document.text is not None}


def _passages(form: Mapping[str, str], trace: RagTrace) -> Iterable[Evidence]:
    """Selected passages (JSON), and words that were pasted one passage a line."""
    documents = readable(trace)
    sent = {document.id for document in trace.context or ()}
    seen: set[tuple[str, int, int]] = set()
    placed = {place: documents[name] for name, place in places(trace).items() if name in documents}
    selected = [_selected(piece, placed) for piece in _pieces(form.get("evidence", ""))]
    pasted = [_pasted(line, documents) for line in _lines(form, "evidence_text")]
    for name, start, end in [*selected, *pasted]:
        if (name, start, end) in seen:
            continue
        seen.add((name, start, end))
        quote = (documents[name].text or "")[start:end]
        _at_most("an expected passage", quote, PASSAGE_LIMIT_CHARACTERS)
        yield Evidence(name, start, end, quote, "context" if name in sent else "candidates")


def _pieces(text: str) -> list[Any]:
    try:
        found = json.loads(text) if text else []
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or len(found) > PASSAGES_LIMIT:
        raise Refused(f"the selected passages cannot be read; accepted: a JSON list of up to {PASSAGES_LIMIT}")
    return found


def _selected(piece: Any, placed: Mapping[str, Document]) -> tuple[str, int, int]:
    """The offsets must give exactly the words that the person saw: the page may be older than the text."""
    if not isinstance(piece, dict):
        raise Refused("a selected passage is no object of document, start, end and quote")
    name = piece.get("document")
    start, end = (value if type(value) is int else -1 for value in (piece.get("start"), piece.get("end")))
    document = placed.get(name) if isinstance(name, str) else None
    if document is None:
        raise Refused("a selected passage names a document that this trace does not hold")
    text = document.text or ""
    if not 0 <= start < end <= len(text) or text[start:end] != piece.get("quote"):
        raise Refused("a selected passage is not what stands there in its document; select it again")
    return document.id, start, end


def _pasted(words: str, documents: Mapping[str, Document]) -> tuple[str, int, int]:
    for name, document in documents.items():
        start = (document.text or "").find(words)
        if start >= 0:
            return name, start, start + len(words)
    raise Refused(f"the words {words[:40]!r} stand in no document of this trace; paste them as they are there")


# From what was stored


def of_review(rows: Iterable[Mapping[str, Any]], review: Mapping[str, Any]) -> Label | None:
    """The label behind the current *review*, from the judgements of its trace; None for one of an older shape."""
    detail = _detail_of_review(rows, review)
    return None if detail is None else stored(detail, review)


def policy_of_review(rows: Iterable[Mapping[str, Any]], review: Mapping[str, Any]) -> str:
    """The version of the labelling policy under which the *review* was given; "" where nobody noted it."""
    detail = _detail_of_review(rows, review)
    try:
        noted = (orjson.loads(detail) if isinstance(detail, str) else detail or {})["labelling"]["policy"]
    except (ValueError, KeyError, TypeError):
        return ""
    return noted if isinstance(noted, str) and re.fullmatch(r"[a-z][a-z0-9.-]{0,39}", noted) else ""


def _detail_of_review(rows: Iterable[Mapping[str, Any]], review: Mapping[str, Any]) -> str | Mapping[str, Any] | None:
    """As the row has it: JSON, or what was read from it."""
    wanted = (f"reviewer:{review.get('reviewer')}", review.get("reviewed_at"))
    found = [
        row
        for row in rows
        if (row["annotator_kind"], row["criterion"]) == (AnnotatorKind.HUMAN, Criterion.ANY_FAILURE)
        and (row["identifier"], row["judged_at"]) == wanted
    ]
    detail: str | Mapping[str, Any] | None = found[-1]["detail"] if found else None
    return detail


def stored(detail: str | Mapping[str, Any], review: Mapping[str, Any]) -> Label | None:
    """What :meth:`Label.detail` wrote, read without trust; None when it is not that."""
    try:
        raw = orjson.loads(detail) if isinstance(detail, str) else detail
        expected = raw["expectation"]
        return Label(
            decision=review["decision"],
            fault_layer=str(review.get("fault_layer") or ""),
            note=str(review.get("note") or ""),
            claims=read_detail({"claims": raw["claims"]}).assessment.claims,
            expectation=Expectation(
                answerability=str(expected["answerability"]),
                expected_behavior=str(expected["expected_behavior"]),
                reference_answer=str(expected["reference_answer"]),
                key_points=tuple(map(str, expected["key_points"])),
                forbidden_claims=tuple(map(str, expected["forbidden_claims"])),
                evidence=tuple(Evidence(**passage) for passage in expected["evidence"]),
            ),
        )
    except (ValueError, KeyError, TypeError):
        return None
