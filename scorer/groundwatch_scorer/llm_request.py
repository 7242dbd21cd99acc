"""What is put before the model: passages, numbered sentences and a control sentence, as one JSON object."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from groundwatch_collector.ragtrace import Document, RagTrace
from groundwatch_scorer.citation_marks import with_plain_marks
from groundwatch_scorer.local_judge import is_claim
from groundwatch_scorer.text import is_chinese, sentences, tokens

Redact = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Passage:
    id: str  # "c1", "r1": ours, so that document ids stay here
    document: Document
    sent: str  # its text as the model sees it: redacted, perhaps cut
    where: Literal["context", "candidates"]


@dataclass(frozen=True, slots=True)
class Line:
    """One sentence of the answer, or the control sentence."""

    id: str
    text: str  # as the model sees it
    start: int  # offsets in the answer
    end: int
    claim: bool  # by our own rules it asserts something, so that the judge must come to a verdict
    control: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    nonce: str
    question: str
    chunks: tuple[Passage, ...]
    retrieved: tuple[Passage, ...]
    lines: tuple[Line, ...]
    cited: Mapping[str, tuple[str, ...]]  # sentence id -> chunk ids
    context_cut: bool
    answer_cut: bool

    def passage(self, passage_id: str) -> Passage | None:
        return next((p for p in (*self.chunks, *self.retrieved) if p.id == passage_id), None)

    def document(self) -> str:
        """The user message. Data only: nothing of a trace stands outside of this object."""
        return json.dumps(
            {
                "nonce": self.nonce,
                "question": self.question,
                "chunks": [{"id": p.id, "text": p.sent} for p in self.chunks],
                "retrieved": [{"id": p.id, "text": p.sent} for p in self.retrieved],
                "sentences": [{"id": line.id, "text": line.text} for line in self.lines],
                "citations": {sentence: list(chunks) for sentence, chunks in self.cited.items()},
            },
            ensure_ascii=False,
        )


@dataclass(frozen=True, slots=True)
class Limits:
    context_characters: int
    candidate_characters: int
    sentences: int


def build(trace: RagTrace, nonce: str, limits: Limits, redact: Redact) -> Request:
    """Lay *trace* out for the model. Raises only what *redact* raises."""
    answer = trace.answer or ""
    context = [d for d in trace.context or () if d.text]
    kept = _within(context, limits.context_characters, _wanted(trace), {c.document_id for c in trace.citations})
    chunks = _passages(kept, "c", "context", redact)
    known = {d.id for d in context} | {d.text for d in context}
    others = [d for d in trace.candidates or () if d.text and d.id not in known and d.text not in known]
    retrieved = _passages(_first(others, limits.candidate_characters), "r", "candidates", redact)
    plain = with_plain_marks(answer, trace)  # a citation mark after a full stop is no sentence of its own
    spans = sentences(plain)
    lines = [
        Line("", redact(answer[s.start : s.end]), s.start, s.end, is_claim(plain[s.start : s.end], s))
        for s in spans[: limits.sentences]
    ]
    numbered = _with_control(lines, nonce, chinese=is_chinese(answer))
    return Request(
        nonce=nonce,
        question=redact(trace.query or ""),
        chunks=chunks,
        retrieved=retrieved,
        lines=numbered,
        cited=_cited(trace, numbered, chunks),
        context_cut=kept != context or any(d.cut or d.text is None for d in trace.context or ()),
        answer_cut=len(spans) > limits.sentences,
    )


def control_sentence(nonce: str, *, chinese: bool) -> str:
    """A statement that no passage supports. A judge that supports it supports anything."""
    number = 10_000 + int(nonce[:8], 16) % 90_000
    name = "".join("bdfgklmnprstvz"[int(c, 16) % 14] + "aeiou"[int(c, 16) % 5] for c in nonce[:4]).capitalize()
    if chinese:
        return f"据{name}档案馆统计,这份资料的手抄本共有 {number} 册。"
    return f"The {name} archive holds {number} handwritten copies of this material."


def _with_control(lines: Sequence[Line], nonce: str, *, chinese: bool) -> tuple[Line, ...]:
    """Put the control sentence where the nonce says, and number all alike."""
    at = int(nonce, 16) % (len(lines) + 1)
    control = Line("", control_sentence(nonce, chinese=chinese), 0, 0, claim=True, control=True)
    mixed = [*lines[:at], control, *lines[at:]]
    return tuple(
        Line(f"s{i}", line.text, line.start, line.end, line.claim, line.control) for i, line in enumerate(mixed, 1)
    )


def _passages(
    documents: Sequence[Document], letter: str, where: Literal["context", "candidates"], redact: Redact
) -> tuple[Passage, ...]:
    return tuple(Passage(f"{letter}{i}", d, redact(d.text or ""), where) for i, d in enumerate(documents, 1))


def _wanted(trace: RagTrace) -> frozenset[str]:
    return frozenset(tokens(f"{trace.query or ''}\n{trace.answer or ''}"))


def _within(documents: Sequence[Document], budget: int, wanted: frozenset[str], cited: set[str]) -> list[Document]:
    """Whole documents up to *budget* characters: the cited ones, then those that share most words, in their order."""
    if sum(len(d.text or "") for d in documents) <= budget:
        return list(documents)
    shared = {id(d): len(wanted.intersection(tokens((d.text or "")[:budget]))) for d in documents}
    ranked = sorted(documents, key=lambda d: (d.id not in cited, -shared[id(d)], d.rank))
    kept = {id(d) for d in _first(ranked, budget)}
    if not kept:  # not one fits: the beginning of the best is better than nothing
        return [replace(ranked[0], text=(ranked[0].text or "")[:budget])]
    return [d for d in documents if id(d) in kept]


def _first(documents: Sequence[Document], budget: int) -> list[Document]:
    kept: list[Document] = []
    for document in documents:
        budget -= len(document.text or "")
        if budget >= 0:
            kept.append(document)
    return kept


def _cited(trace: RagTrace, lines: Sequence[Line], chunks: Sequence[Passage]) -> dict[str, tuple[str, ...]]:
    answer = trace.answer or ""
    ids = {p.document.id: p.id for p in chunks}
    found: dict[str, tuple[str, ...]] = {}
    for line in lines:
        text = answer[line.start : line.end]
        named = {
            ids[c.document_id]: None
            for c in trace.citations
            if c.marker and c.marker in text and c.document_id in ids
        }
        if named and not line.control:
            found[line.id] = tuple(named)
    return found
