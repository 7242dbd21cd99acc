"""What the trace page shows, worked out from the stored record. Pure; tolerant of details that lack keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from groundwatch_collector.ragtrace import Document, RagTrace, Stage
from groundwatch_scorer.judgement import AnnotatorKind, Verdict

from ..labels import places, readable
from ..queries import JudgementRow, TraceRecord
from .marking import Range, marked, passage, visible
from .rankflow import RankFlow, rank_flow


@dataclass(frozen=True, slots=True)
class VerdictLook:
    """A verdict in words, a shape and a class: it must be readable without colour."""

    css: str
    icon: str
    label: str


LOOKS: Mapping[str, VerdictLook] = {
    Verdict.SUPPORTED: VerdictLook("supported", "✓", "supported"),
    Verdict.CONTRADICTED: VerdictLook("contradicted", "✕", "contradicted"),
    Verdict.NOT_MENTIONED: VerdictLook("not-mentioned", "∅", "not in the sources"),
    Verdict.UNCERTAIN: VerdictLook("uncertain", "?", "could not tell"),
}
UNREAD = VerdictLook("unread", "·", "yours to judge")
"""Of a claim whose verdict a blind reader must not see."""


@dataclass(frozen=True, slots=True)
class PassageCard:
    title: Markup
    where: str
    text: Markup
    anchor: str


@dataclass(frozen=True, slots=True)
class ClaimCard:
    number: int
    text: Markup
    look: VerdictLook
    reason: str
    unsupported_probability: float | None
    passages: tuple[PassageCard, ...]


@dataclass(frozen=True, slots=True)
class DocumentCard:
    anchor: str
    document: Document
    title: Markup
    text: Markup | None  # None: not captured
    places: str  # "candidates 3 · reranked 1 · context 1"
    evidence: bool
    in_context: bool
    relevance: float | None


@dataclass(frozen=True, slots=True)
class Bar:
    stage: Stage
    depth: int
    x: float  # in thousandths of the whole request
    width: float


@dataclass(frozen=True, slots=True)
class Fault:
    layer: str
    confidence: float | None
    explanation: Markup
    passages: tuple[PassageCard, ...]


@dataclass(frozen=True, slots=True)
class TracePage:
    record: TraceRecord
    trace: RagTrace
    judgement: JudgementRow | None
    label: str
    reasons: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]  # what the judge read in the trace, as (name, value)
    judge_flags: tuple[str, ...]
    query: Markup
    rewritten: Markup
    answer: Markup
    claims: tuple[ClaimCard, ...]
    fault: Fault | None
    flow: RankFlow | None
    documents: tuple[DocumentCard, ...]
    bars: tuple[Bar, ...]
    weight: float


def trace_page(record: TraceRecord, trace: RagTrace, *, blind: bool = False) -> TracePage:
    """Lay out one sampled trace with its newest verdict by a judge; *blind*: only with where its claims are."""
    judgement = record.headline
    detail = _Detail({} if judgement is None else judgement.detail)
    if blind:
        judgement, detail = None, detail.unread()
    anchors = places(trace)
    reader = _Passages(trace, anchors)
    claims = detail.claims()
    fault = detail.fault(reader)
    evidence = detail.evidence_ids()
    return TracePage(
        record=record,
        trace=trace,
        judgement=judgement,
        label="" if blind else record.row.label,
        reasons=detail.words("reasons"),
        facts=detail.facts(),
        judge_flags=detail.words("flags"),
        query=visible(trace.query),
        rewritten=visible(trace.rewritten_query),
        answer=marked(trace.answer, _claim_ranges(claims)),
        claims=tuple(_claim_card(number, claim, reader) for number, claim in enumerate(claims, 1)),
        fault=fault,
        flow=rank_flow(
            trace, evidence, detail.numbers("candidate_relevance"), detail.numbers("context_relevance"), anchors
        ),
        documents=_documents(trace, anchors, detail),
        bars=_bars(trace),
        weight=record.adjusted_count / record.row.inclusion_probability,
    )


class _Detail:
    """A judge's stored detail, read without trust: every key may be missing or odd."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._raw = raw

    def objects(self, key: str, inside: Mapping[str, Any] | None = None) -> list[Mapping[str, Any]]:
        found = (self._raw if inside is None else inside).get(key)
        return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []

    def unread(self) -> _Detail:
        places = [{key: claim.get(key) for key in ("text", "start", "end")} for claim in self.claims()]
        return _Detail({"claims": [{**place, "verdict": UNREAD.css} for place in places]})

    def words(self, key: str) -> tuple[str, ...]:
        found = self._raw.get(key)
        return tuple(str(item) for item in found) if isinstance(found, list) else ()

    def numbers(self, key: str) -> tuple[float | None, ...]:
        found = self._raw.get(key)
        return tuple(_number(item) for item in found) if isinstance(found, list) else ()

    def claims(self) -> list[Mapping[str, Any]]:
        return self.objects("claims")

    def evidence(self) -> list[Mapping[str, Any]]:
        fault = self._raw.get("fault")
        of_fault = self.objects("evidence", fault) if isinstance(fault, dict) else []
        return of_fault + [passage for claim in self.claims() for passage in self.objects("evidence", claim)]

    def evidence_ids(self) -> frozenset[str]:
        return frozenset(str(passage.get("document_id", "")) for passage in self.evidence())

    def fault(self, reader: _Passages) -> Fault | None:
        raw = self._raw.get("fault")
        if not isinstance(raw, dict) or not raw.get("layer"):
            return None
        return Fault(
            layer=str(raw["layer"]),
            confidence=_number(raw.get("confidence")),
            explanation=visible(str(raw.get("explanation") or "")),
            passages=tuple(reader.card(item) for item in self.objects("evidence", raw)),
        )

    def facts(self) -> tuple[tuple[str, str], ...]:
        names = {
            "refusal": "refusal in the text",
            "answerability": "answerable from the context",
            "candidates_answerability": "answerable from all candidates",
            "answer_relevance": "answers the question",
        }
        return tuple((name, _short(self._raw[key])) for key, name in names.items() if self._raw.get(key) is not None)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _short(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value).lower()


class _Passages:
    """Finds the document that a passage was taken from."""

    def __init__(self, trace: RagTrace, anchors: Mapping[str, str]) -> None:
        self._anchors = anchors
        self._documents: dict[str, Document] = {}
        for documents in (trace.candidates, trace.reranked, trace.context):  # the context's text is what was read
            for document in documents or ():
                if document.text is not None or document.id not in self._documents:
                    self._documents[document.id] = document

    def card(self, raw: Mapping[str, Any]) -> PassageCard:
        name = str(raw.get("document_id", ""))
        document = self._documents.get(name)
        start, end = raw.get("start"), raw.get("end")
        offsets = (start, end) if isinstance(start, int) and isinstance(end, int) else (0, 0)
        title = name if document is None or not document.title else document.title
        return PassageCard(
            title=visible(title),
            where=str(raw.get("where", "context")),
            text=passage(None if document is None else document.text, *offsets, str(raw.get("quote") or "")),
            anchor=self._anchors.get(name, ""),
        )


def _look(claim: Mapping[str, Any]) -> VerdictLook:
    if claim.get("verdict") == UNREAD.css:
        return UNREAD
    return LOOKS.get(str(claim.get("verdict")), LOOKS[Verdict.UNCERTAIN])


def _claim_ranges(claims: Sequence[Mapping[str, Any]]) -> list[Range]:
    ranges = []
    for number, claim in enumerate(claims, 1):
        start, end = claim.get("start"), claim.get("end")
        if isinstance(start, int) and isinstance(end, int):
            look = _look(claim)
            ranges.append(Range(start, end, f"claim claim-{look.css}", number, look.label))
    return ranges


def _claim_card(number: int, claim: Mapping[str, Any], reader: _Passages) -> ClaimCard:
    evidence = claim.get("evidence")
    passages = [item for item in evidence if isinstance(item, dict)] if isinstance(evidence, list) else []
    return ClaimCard(
        number=number,
        text=visible(str(claim.get("text") or "")),
        look=_look(claim),
        reason=str(claim.get("reason") or ""),
        unsupported_probability=_number(claim.get("unsupported_probability")),
        passages=tuple(reader.card(item) for item in passages),
    )


def _documents(trace: RagTrace, anchors: Mapping[str, str], detail: _Detail) -> tuple[DocumentCard, ...]:
    lists = {"candidates": trace.candidates, "reranked": trace.reranked, "context": trace.context}
    ranks = {name: {d.id: d.rank for d in reversed(documents or ())} for name, documents in lists.items()}
    held = readable(trace)
    any_text = {d.id: d for documents in lists.values() for d in documents or ()}
    relevance = _relevance(trace, detail)
    cards = []
    for name, anchor in anchors.items():
        document = held.get(name, any_text[name])
        quotes = [item for item in detail.evidence() if str(item.get("document_id")) == name]
        cards.append(
            DocumentCard(
                anchor=anchor,
                document=document,
                title=visible(document.title or document.id),
                text=None if document.text is None else marked(document.text, _quote_ranges(document.text, quotes)),
                places=" · ".join(f"{where} {at[name]}" for where, at in ranks.items() if name in at),
                evidence=bool(quotes),
                in_context=name in ranks["context"],
                relevance=relevance.get(name),
            )
        )
    return tuple(sorted(cards, key=lambda card: not card.evidence))


def _relevance(trace: RagTrace, detail: _Detail) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for documents, key in ((trace.candidates, "candidate_relevance"), (trace.context, "context_relevance")):
        found.update({d.id: value for d, value in zip(documents or (), detail.numbers(key), strict=False)})
    return found


def _quote_ranges(text: str, quotes: Sequence[Mapping[str, Any]]) -> list[Range]:
    ranges = []
    for item in quotes:
        start, end = item.get("start"), item.get("end")
        if isinstance(start, int) and isinstance(end, int) and text[start:end] == item.get("quote"):
            ranges.append(Range(start, end, "quote", label="passage that a verdict rests on"))
    return ranges


def _bars(trace: RagTrace) -> tuple[Bar, ...]:
    whole = max(trace.duration_seconds, 1e-9)
    depths: dict[str, int] = {}
    bars = []
    for stage in sorted(trace.stages, key=lambda s: (s.started_at, -s.duration_seconds)):
        depth = depths.get(stage.parent_id, -1) + 1
        depths[stage.span_id] = depth
        x = min(1.0, max(0.0, (stage.started_at - trace.started_at) / whole))
        width = min(1.0 - x, stage.duration_seconds / whole)
        bars.append(Bar(stage, depth, round(1000 * x, 1), max(3.0, round(1000 * width, 1))))
    return tuple(bars)


def is_person(judgement: JudgementRow) -> bool:
    return judgement.annotator_kind == AnnotatorKind.HUMAN.value
