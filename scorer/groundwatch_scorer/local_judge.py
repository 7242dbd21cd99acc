"""The local judge: hand-weighted rules over shared words and numbers. No key, no download, the same each time."""

from __future__ import annotations

import json
import math
import re
import time
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib import resources

from groundwatch_collector.ragtrace import Document, RagTrace

from . import answerability, refusal
from .answerability import Question
from .citation_marks import with_plain_marks
from .evidence import NUMERAL, Library, Weights, Window, flattened, number_template
from .evidence_signals import Signals, claim_signals
from .judgement import (
    AnnotatorKind,
    Answerability,
    Assessment,
    CitationVerdict,
    ClaimVerdict,
    Evidence,
    Refusal,
    Verdict,
)
from .text import MARKERS, Sentence, is_chinese, is_cjk, sentences, tokens
from .text_numbers import covered, quantities

IDENTIFIER = "local-v1"
VERBATIM_PROBABILITY = 0.03  # a sentence copied from the context; the rest is for what the copy leaves out
CONFLICT_PROBABILITY = 0.95  # a copied sentence with another number in it
_CODE_PROBABILITY = 0.5  # a copied line of code with another number
_SUPPORTED_BELOW = 0.25
_NOT_MENTIONED_FROM = 0.7
_LONGEST_ANSWER = 20_000  # characters that are read
_MOST_CLAIMS = 60
_CITATION_MARGIN = 0.1  # a cited passage supports if no other covers the claim better by more than this
_LEFT_OUT_FROM = 0.75  # recall of a passage outside the context, from which it is shown as what was missed
_LEFT_OUT_BY = 0.25  # and how much more of the claim it must cover than the context does
_SHORTEST_COPY = 6  # characters
_SHORTEST_TEMPLATE = 12  # characters beside the numbers, a Chinese one for two: "# million" stands everywhere
_LEAD_IN = re.compile(r"[:：]\s*$")
_LEAD_IN_TOKENS = 8
_LEAD_IN_PAIRS = 14  # of Chinese characters: about as many words


@dataclass(frozen=True, slots=True)
class Calibration:
    """Score to probability, as fitted; see docs/judging.md for the rows and the command."""

    weights: dict[str, float]
    intercept: float
    slope: float

    def probability(self, value: float) -> float:
        """Chance that a claim of this score is not supported, at even odds beforehand."""
        return 1 / (1 + math.exp(-(self.intercept + self.slope * value)))


@lru_cache(maxsize=1)
def calibrated() -> Calibration:
    """The shipped numbers."""
    raw = json.loads(resources.files(__package__).joinpath("local_calibration.json").read_text(encoding="utf-8"))
    return Calibration(raw["weights"], raw["platt"]["intercept"], raw["platt"]["slope"])


class LocalJudge:
    """Judges by words and numbers that answer and documents share."""

    @property
    def identifier(self) -> str:
        return IDENTIFIER

    def assess(self, trace: RagTrace) -> Assessment:
        """Read *trace*. Never raises: a defect of this judge becomes a reading that counts as missing."""
        started = time.perf_counter()
        try:
            reading = _Reading(trace).assessment()
        except Exception as error:  # a judge must not stop the queue; the class name is enough to find the bug
            reading = Assessment(
                IDENTIFIER, AnnotatorKind.CODE, unscored_reason=f"judge_error:{type(error).__name__}"
            )
        return _with_latency(reading, time.perf_counter() - started)


def _with_latency(reading: Assessment, seconds: float) -> Assessment:
    return replace(reading, latency_seconds=seconds)


@dataclass(frozen=True, slots=True)
class _Judged:
    claim: ClaimVerdict
    library: Library | None
    window: Window | None


class _Reading:
    """One trace while it is read."""

    def __init__(self, trace: RagTrace) -> None:
        self.trace = trace
        self.answer = (trace.answer or "")[:_LONGEST_ANSWER]
        self.plain = with_plain_marks(self.answer, trace)  # what is read; the answer itself is what is shown
        self.context = Library(_with_text(trace.context))
        sent = {d.id for d in trace.context or ()}
        self.left_out = Library([d for d in _with_text(trace.candidates) if d.id not in sent], "candidates")
        self.has_context = trace.context is not None and (not trace.context or bool(self.context.documents))
        self.truncated = _is_truncated(trace, self.context)
        self.question = Question(trace.query, trace.rewritten_query)
        everything = {p.text: p for library in (self.context, self.left_out) for p in library.passages}.values()
        self.weights = Weights(everything)
        self._relevances: dict[tuple[str | None, str | None], float | None] = {}
        self.claim_weights = Weights(self.context.passages, self.question.tokens)

    def assessment(self) -> Assessment:
        refused = refusal.classify(self.plain)
        judged = (
            [] if refused is Refusal.FULL or not self.has_context else [self._judge(span) for span in self.claims]
        )
        context_relevance = self._relevance(self.trace.context)
        candidate_relevance = self._relevance(self.trace.candidates)
        return Assessment(
            identifier=IDENTIFIER,
            annotator_kind=AnnotatorKind.CODE,
            claims=tuple(j.claim for j in judged),
            refusal=refused,
            answerability=_answerability(self.question, self.trace.context, context_relevance),
            candidates_answerability=_answerability(self.question, self.trace.candidates, candidate_relevance),
            answer_relevance=self._answer_relevance(refused, judged),
            context_relevance=context_relevance,
            candidate_relevance=candidate_relevance,
            citations=self._citations(judged),
            explanation=_explanation(refused, judged),
            flags=self._flags(),
        )

    def _flags(self) -> tuple[str, ...]:
        read_all = len(self.answer) == len(self.trace.answer or "") and len(self.claims) < _MOST_CLAIMS
        flags = (
            ("answer_cut", not read_all),
            ("context_truncated", self.truncated),
            ("context_not_captured", not self.has_context),
        )
        return tuple(name for name, holds in flags if holds)

    @cached_property
    def claims(self) -> list[Sentence]:
        spans = [span for span in sentences(self.plain) if is_claim(self.plain[span.start : span.end], span)]
        return spans[:_MOST_CLAIMS]

    def _judge(self, span: Sentence) -> _Judged:
        text = self.answer[span.start : span.end]
        bare = self.bare(span.start, span.end)
        wanted = frozenset(tokens(bare))
        window = self.window(bare, wanted)
        copied = copy_of(bare, self.context)
        if text != self.plain[span.start : span.end] and copy_of(MARKERS.sub("", text), self.context) == "same":
            copied = "same"  # what looks like a mark stands in the document too
        if copied == "same":
            verdict, probability, reason = Verdict.SUPPORTED, VERBATIM_PROBABILITY, "verbatim"
        elif copied == "other_number" and span.kind == "code":  # an example may well set another value
            verdict, probability, reason = Verdict.UNCERTAIN, _CODE_PROBABILITY, "number_conflict"
        elif copied == "other_number":
            verdict, probability, reason = Verdict.CONTRADICTED, CONFLICT_PROBABILITY, "number_conflict"
        elif not self.context.documents:
            verdict, probability, reason = Verdict.NOT_MENTIONED, 1.0, "no_context"
        else:
            signals = self.signals(bare, wanted, window)
            probability = calibrated().probability(score(signals, calibrated().weights))
            verdict, reason = verdict_of(probability), reason_of(signals, probability)
        if verdict is Verdict.NOT_MENTIONED and self.truncated:
            verdict = Verdict.UNCERTAIN  # what was cut may mention it
        evidence, library, best = self._evidence(wanted, window, verdict, bare)
        claim = ClaimVerdict(text, span.start, span.end, verdict, round(probability, 4), reason, evidence)
        return _Judged(claim, library, best)

    def window(self, claim: str, wanted: frozenset[str]) -> Window | None:
        """The passage of the context that fits *claim* best, by its words and then by its numbers."""
        found = self.context.best_window(wanted, self.claim_weights)
        numbers = [q for q in quantities(claim) if not q.soft] if found else []
        return self.context.with_numbers(found, self.claim_weights.weigh(wanted), numbers) if found else None

    def bare(self, start: int, end: int) -> str:
        """That part of the answer without citation marks."""
        return MARKERS.sub("", self.plain[start:end])

    def signals(self, claim: str, wanted: frozenset[str], window: Window | None) -> Signals:
        return claim_signals(claim, self.context, self.claim_weights, window, wanted)

    def _evidence(
        self, wanted: frozenset[str], window: Window | None, verdict: Verdict, claim: str
    ) -> tuple[tuple[Evidence, ...], Library | None, Window | None]:
        """The best passage of the context; for a claim without support also a much better one that was left out."""
        found = () if window is None else (self.context.evidence(window),)
        if verdict in (Verdict.NOT_MENTIONED, Verdict.UNCERTAIN) and self.left_out.documents:
            least = max(_LEFT_OUT_FROM, (0.0 if window is None else window.recall) + _LEFT_OUT_BY)
            other = self.left_out.best_window(wanted, self.claim_weights, least=least)
            if other is not None and other.recall >= least and _numbers_in(claim, self.left_out, other):
                return (self.left_out.evidence(other), *found), self.left_out, other
        return found, self.context if window else None, window

    def _relevance(self, documents: tuple[Document, ...] | None) -> tuple[float | None, ...]:
        if documents is None:
            return ()
        return tuple(self._relevance_of(document) for document in documents)

    def _relevance_of(self, document: Document) -> float | None:
        """Of one document; the passages of the context are candidates too, and are read once."""
        key = (document.title, document.text)
        if key not in self._relevances:
            (known,) = answerability.relevance(self.question, Library((document,)), self.weights)
            self._relevances[key] = None if known is None else round(known, 4)
        return self._relevances[key]

    def _answer_relevance(self, refused: Refusal, judged: list[_Judged]) -> float | None:
        if refused is Refusal.FULL or not self.answer.strip():
            return None
        grounds = [
            (j.library, j.window.document, j.window.first, j.window.last)
            for j in judged
            if j.library is not None and j.window is not None
        ]
        share = answerability.answer_relevance(self.question, self.plain, grounds, self.weights)
        return None if share is None else round(share, 4)

    def _citations(self, judged: list[_Judged]) -> tuple[CitationVerdict, ...]:
        index = {document.id: i for i, document in enumerate(self.context.documents)}
        # A citation without a mark stands where the answer writes its document's number in the context.
        numbers = {document.id: f"[{n}]" for n, document in enumerate(self.trace.context or (), start=1)}
        marked = [(c.marker or numbers.get(c.document_id, ""), c.document_id) for c in self.trace.citations]
        return tuple(
            CitationVerdict(mark, name, self._supports(mark, index.get(name), judged)) for mark, name in marked
        )

    def _supports(self, marker: str, document: int | None, judged: list[_Judged]) -> bool | None:
        """Whether the cited document covers each claim that stands with the marker as well as the best one does."""
        if document is None:
            return None if not self.context.documents else False
        marked = [j for j in judged if marker and marker in j.claim.text]
        if not marked or any(j.claim.verdict is Verdict.UNCERTAIN for j in marked):
            return None
        return all(self._covers(j, document) for j in marked)

    def _covers(self, judged: _Judged, document: int) -> bool:
        wanted = frozenset(tokens(self.bare(judged.claim.start, judged.claim.end)))
        cited = self.context.best_window(wanted, self.claim_weights, only=document)
        best = self.context.best_window(wanted, self.claim_weights)
        if cited is None or best is None:
            return False
        return judged.claim.verdict is Verdict.SUPPORTED and cited.recall >= best.recall - _CITATION_MARGIN


def scores(trace: RagTrace) -> list[float]:
    """The raw score of every claim of *trace* that is no copy: what the calibration is fitted on."""
    reading = _Reading(trace)
    found: list[float] = []
    for span in reading.claims:
        bare = reading.bare(span.start, span.end)
        if not copy_of(bare, reading.context):
            wanted = frozenset(tokens(bare))
            window = reading.window(bare, wanted)
            found.append(score(reading.signals(bare, wanted, window), calibrated().weights))
    return found


def is_claim(text: str, span: Sentence) -> bool:
    """Whether a sentence of an answer asserts something of the world, not of the documents or the talk itself."""
    bare = MARKERS.sub("", text)
    if span.kind == "heading" or refusal.is_courtesy(bare):
        return False
    words = tokens(bare)
    if not words and not quantities(bare):
        return False
    if _LEAD_IN.search(bare) and len(words) <= (_LEAD_IN_PAIRS if is_chinese(bare) else _LEAD_IN_TOKENS):
        return False
    return not refusal.declines(bare) or bool(refusal.after_turn(bare))


def copy_of(claim: str, library: Library) -> str:
    """Whether *claim* stands word for word in the documents: "same", "other_number" if only numbers differ, or ""."""
    flat = flattened(claim).strip(" .。!！;；")
    if len(flat) < _SHORTEST_COPY:
        return ""
    if any(flat in document.flat for document in library.passages):
        return "same"
    template = number_template(flat)
    if "#" not in template:
        return ""
    found = [n for document in library.passages for n in _numbers_at(template, document.flat, document.template)]
    if not found or not _says_enough(template):
        return ""
    return "same" if _plain_numbers(flat) in found else "other_number"


def _says_enough(template: str) -> bool:
    width = sum(1 + is_cjk(c) for c in template if c.isalpha())
    return width >= _SHORTEST_TEMPLATE and bool(tokens(template))


def _plain_numbers(text: str) -> list[str]:
    return [n.replace(",", "") for n in NUMERAL.findall(text)]


def _numbers_at(template: str, flat: str, document_template: str) -> list[list[str]]:
    """The numbers that stand in the document wherever *template* occurs in it."""
    at = document_template.find(template)
    numbers = _plain_numbers(flat) if at >= 0 else []
    found: list[list[str]] = []
    while at >= 0:
        before = document_template.count("#", 0, at)
        found.append(numbers[before : before + template.count("#")])
        at = document_template.find(template, at + 1)
    return found


def score(signals: Signals, weights: dict[str, float]) -> float:
    """Hand-weighted sum of what speaks against a claim. Higher is worse."""
    return (
        weights["recall"] * (1 - signals.recall)
        + weights["context_recall"] * (1 - signals.context_recall)
        + sum(weights[name] for name in RULES if getattr(signals, name))
    )


RULES = (
    "number_conflict",
    "number_swapped",
    "number_absent",
    "number_elsewhere",
    "entity_absent",
    "negation_differs",
    "opposite",
    "relation_flip",
)


def verdict_of(probability: float) -> Verdict:
    """The verdict for a claim that is not a copy; contradiction is never read from words alone."""
    if probability < _SUPPORTED_BELOW:
        return Verdict.SUPPORTED
    return Verdict.NOT_MENTIONED if probability >= _NOT_MENTIONED_FROM else Verdict.UNCERTAIN


def reason_of(signals: Signals, probability: float) -> str:
    """The strongest of the signals, as a word of a closed set."""
    if probability < _SUPPORTED_BELOW:
        return "covered"
    return next((name for name in RULES if getattr(signals, name)), "low_overlap")


def _is_truncated(trace: RagTrace, context: Library) -> bool:
    """Whether some of the context's text is missing, so that absence from the rest proves nothing."""
    documents = trace.context or ()
    partly = any(d.cut or not d.text for d in documents) or any(p.cut for p in context.passages)
    return partly or "documents_cut" in trace.flags


def _numbers_in(claim: str, library: Library, window: Window) -> bool:
    there = library.window_quantities(window)
    return all(covered(q, there) for q in quantities(claim))


def _with_text(documents: tuple[Document, ...] | None) -> list[Document]:
    return [d for d in documents or () if d.text]


def _answerability(
    question: Question, documents: tuple[Document, ...] | None, relevances: tuple[float | None, ...]
) -> Answerability | None:
    return None if documents is None else answerability.answerability(question, relevances)


def _explanation(refused: Refusal, judged: list[_Judged]) -> str:
    if refused is Refusal.FULL:
        return "The answer declines."
    if not judged:
        return "The answer makes no claim that could be checked."
    counts = {v: sum(j.claim.verdict is v for j in judged) for v in Verdict}
    said = ", ".join(f"{n} {v.lower().replace('_', ' ')}" for v, n in counts.items() if n)
    return f"{len(judged)} claims: {said}."
