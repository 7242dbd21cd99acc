"""The scores of one reply, by layer. ``None`` is *not applicable* and never enters a mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from groundwatch_collector.ragtrace import Document, Outcome, RagTrace
from groundwatch_review.gate import ranking
from groundwatch_review.gate.items import Item
from groundwatch_review.gate.replies import Passage, Reply
from groundwatch_scorer.judgement import Assessment, Judge, Refusal, Verdict
from groundwatch_scorer.measures import average_precision
from groundwatch_scorer.text import sentences

Scores = Mapping[str, float | None]

LAYER_OF: Final[Mapping[str, str]] = {
    "hit_at_k": "retrieval",
    "evidence_recall_at_k": "retrieval",
    "mrr_at_k": "retrieval",
    "ndcg_at_k": "retrieval",
    "precision_at_k": "retrieval",
    "context_precision": "context",
    "context_recall": "context",
    "faithfulness": "generation",
    "answer_correctness": "generation",
    "refusal_correctness": "refusal",
}
"""Every score in the order of the report, and the layer of the application that it speaks of. All in [0, 1]."""

GATING: Final = (
    "evidence_recall_at_k",
    "context_recall",
    "faithfulness",
    "answer_correctness",
    "refusal_correctness",
)
"""The scores whose significant drop blocks: one or two a layer, so that the test for each keeps its strength."""

_DECLINES: Final = frozenset({"ABSTAIN", "CLARIFY"})


@dataclass(frozen=True, slots=True)
class Scorer:
    """Scores replies. *k*: how many of the retrieved passages count as found."""

    judge: Judge
    k: int

    def score(self, item: Item, reply: Reply) -> dict[str, float | None]:
        """One value for each name in :data:`LAYER_OF`."""
        reading = self.judge.assess(as_trace(item, reply))
        return {
            **self._retrieval(item, reply),
            **self._context(item, reply),
            "faithfulness": faithfulness(reading),
            "answer_correctness": self._answer(item, reply, reading),
            "refusal_correctness": refusal_correctness(item, reading),
        }

    def _retrieval(self, item: Item, reply: Reply) -> dict[str, float | None]:
        found = _brought(item, reply.retrieved)
        if found is None:
            return dict.fromkeys(name for name, layer in LAYER_OF.items() if layer == "retrieval")
        return {
            "hit_at_k": ranking.hit_at_k(found, self.k),
            "evidence_recall_at_k": ranking.evidence_recall_at_k(found, self.k),
            "mrr_at_k": ranking.mrr_at_k(found, self.k),
            "ndcg_at_k": ranking.ndcg_at_k(found, self.k),
            "precision_at_k": ranking.precision_at_k(found, self.k),
        }

    def _context(self, item: Item, reply: Reply) -> dict[str, float | None]:
        found = _brought(item, reply.context)
        return {
            "context_precision": None if found is None else average_precision(found.relevant),
            "context_recall": self._context_recall(item, reply),
        }

    def _context_recall(self, item: Item, reply: Reply) -> float | None:
        """Share of the sentences of the reference that were in what the model was sent; not Recall@K."""
        statements = _sentences(item.reference) or item.key_points
        if reply.context is None or not statements:
            return None
        return _share_stated(self.states(s, reply.context) for s in statements)

    def _answer(self, item: Item, reply: Reply, reading: Assessment) -> float | None:
        """Share of the expected points that the answer makes; 0 when it makes one that is forbidden."""
        expected = item.key_points or _sentences(item.reference)
        if item.behaviour in _DECLINES or not (expected or item.forbidden):
            return None
        if reading.refusal is Refusal.FULL:
            return 0.0
        said = (Passage("answer", reply.answer),)
        forbidden = [self.states(claim, said) for claim in item.forbidden]
        if any(forbidden):
            return 0.0
        if None in forbidden:
            return None
        return _share_stated(self.states(point, said) for point in expected) if expected else 1.0

    def states(self, statement: str, passages: Sequence[Passage]) -> bool | None:
        """Whether *passages* say *statement*: word for word, or as the judge reads it. None: it could not read."""
        if any(ranking.folded(statement).strip(".。!！") in ranking.folded(p.text) for p in passages):
            return True
        reading = self.judge.assess(_trace(query="", answer=statement, context=_documents(passages)))
        if reading.unscored_reason:
            return None
        return bool(reading.claims) and all(claim.verdict is Verdict.SUPPORTED for claim in reading.claims)


def faithfulness(reading: Assessment) -> float | None:
    """Supported claims over those that the judge decided; ``None`` for a refusal and an answer without a claim."""
    if reading.unscored_reason or reading.refusal is Refusal.FULL:
        return None
    decided = [claim.verdict for claim in reading.claims if claim.verdict is not Verdict.UNCERTAIN]
    return _share(verdict is Verdict.SUPPORTED for verdict in decided) if decided else None


def refusal_correctness(item: Item, reading: Assessment) -> float | None:
    """1 when the answer declines exactly where it should. A partial refusal is right where half can be answered."""
    if reading.unscored_reason:
        return None
    declined = reading.refusal is Refusal.FULL
    return float(declined == (item.behaviour in _DECLINES))


def as_trace(item: Item, reply: Reply) -> RagTrace:
    """The reply as the record that every judge reads."""
    return _trace(item.question, reply.answer, _documents(reply.context), _documents(reply.retrieved), reply.outcome)


def _trace(
    query: str,
    answer: str,
    context: tuple[Document, ...] | None,
    candidates: tuple[Document, ...] | None = None,
    outcome: str = "answered",
) -> RagTrace:
    return RagTrace(
        trace_id="0" * 32,
        app="gate",
        version="",
        started_at=0.0,
        duration_seconds=0.0,
        outcome=Outcome(outcome),
        outcome_source="recorded",
        query=query,
        answer=answer,
        context=context,
        candidates=candidates,
    )


def _documents(passages: Sequence[Passage] | None) -> tuple[Document, ...] | None:
    if passages is None:
        return None
    return tuple(Document(id=p.id, rank=rank, text=p.text) for rank, p in enumerate(passages, start=1))


def _brought(item: Item, passages: tuple[Passage, ...] | None) -> ranking.Brought | None:
    if passages is None or not item.evidence:
        return None
    return ranking.brought([p.text for p in passages], [anchor.text for anchor in item.evidence])


def _sentences(text: str) -> tuple[str, ...]:
    return tuple(text[span.start : span.end] for span in sentences(text))


def _share_stated(holds: Iterable[bool | None]) -> float | None:
    """None where the judge could not read one: a model that is away must not look like a bad answer."""
    values = list(holds)
    return None if None in values else _share(bool(value) for value in values)


def _share(holds: Iterable[bool]) -> float:
    values = list(holds)
    return sum(values) / len(values)
