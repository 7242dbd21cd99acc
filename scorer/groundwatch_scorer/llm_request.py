"""What is put before the model: passages, numbered sentences and a control sentence, as one JSON object."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
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
    sentences: int  # of one call
    calls: int  # for one answer, at most


@dataclass(frozen=True, slots=True)
class Material:
    """What of a trace is put before the model, without what differs from call to call."""

    question: str
    chunks: tuple[Passage, ...]
    retrieved: tuple[Passage, ...]
    lines: tuple[Line, ...]  # not numbered yet, and without the control sentence
    cited: tuple[tuple[str, ...], ...]  # chunk ids, per line
    chinese: bool
    context_cut: bool
    answer_cut: bool

    def parts(self, sentences: int) -> tuple[Material, ...]:
        """The answer in runs of at most *sentences*, as even as can be; each with all the passages."""
        count = max(1, -(-len(self.lines) // sentences))
        ends = [round(len(self.lines) * (i + 1) / count) for i in range(count)]
        return tuple(
            replace(
                self,
                lines=self.lines[start:end],
                cited=self.cited[start:end],
                answer_cut=self.answer_cut and end == ends[-1],
            )
            for start, end in zip([0, *ends], ends, strict=False)
        )

    def digest(self) -> str:
        """The same for two traces exactly where the model would read the same."""
        seen = [
            self.question,
            [p.sent for p in self.chunks],
            [p.sent for p in self.retrieved],
            [[line.text, line.claim] for line in self.lines],
            self.cited,
            self.chinese,
        ]
        return sha256(json.dumps(seen).encode()).hexdigest()

    def request(self, nonce: str) -> Request:
        """Put the control sentence where *nonce* says, and number all alike."""
        at = int(nonce, 16) % (len(self.lines) + 1)
        control = Line("", control_sentence(nonce, chinese=self.chinese), 0, 0, claim=True, control=True)
        mixed = [*self.lines[:at], control, *self.lines[at:]]
        named = [*self.cited[:at], (), *self.cited[at:]]
        numbered = tuple(replace(line, id=f"s{i}") for i, line in enumerate(mixed, 1))
        return Request(
            nonce=nonce,
            question=self.question,
            chunks=self.chunks,
            retrieved=self.retrieved,
            lines=numbered,
            cited={line.id: chunks for line, chunks in zip(numbered, named, strict=True) if chunks},
            context_cut=self.context_cut,
            answer_cut=self.answer_cut,
        )


def lay_out(trace: RagTrace, limits: Limits, redact: Redact) -> Material:
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
    lines = tuple(
        Line("", redact(answer[s.start : s.end]), s.start, s.end, is_claim(plain[s.start : s.end], s))
        for s in spans[: limits.sentences * limits.calls]
    )
    return Material(
        question=redact(trace.query or ""),
        chunks=chunks,
        retrieved=retrieved,
        lines=lines,
        cited=_cited(trace, lines, chunks),
        chinese=is_chinese(answer),
        context_cut=kept != context or any(d.cut or d.text is None for d in trace.context or ()),
        answer_cut=len(spans) > limits.sentences * limits.calls,
    )


def control_sentence(nonce: str, *, chinese: bool) -> str:
    """A statement that no passage supports. A judge that supports it supports anything."""
    number = 10_000 + int(nonce[:8], 16) % 90_000
    name = "".join("bdfgklmnprstvz"[int(c, 16) % 14] + "aeiou"[int(c, 16) % 5] for c in nonce[:4]).capitalize()
    if chinese:
        return f"据{name}档案馆统计,这份资料的手抄本共有 {number} 册。"
    return f"The {name} archive holds {number} handwritten copies of this material."


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


def _cited(trace: RagTrace, lines: Sequence[Line], chunks: Sequence[Passage]) -> tuple[tuple[str, ...], ...]:
    """The chunks that each line names as its source."""
    ids = {p.document.id: p.id for p in chunks}
    return tuple(_named(trace, line, ids) for line in lines)


def _named(trace: RagTrace, line: Line, ids: Mapping[str, str]) -> tuple[str, ...]:
    text = (trace.answer or "")[line.start : line.end]
    found = (ids[c.document_id] for c in trace.citations if c.marker and c.marker in text and c.document_id in ids)
    return tuple(dict.fromkeys(found))
