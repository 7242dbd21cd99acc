"""The noise curve: how faithful and right the answers stay as irrelevant documents are added to what is sent."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from groundwatch_review.gate.items import Item
from groundwatch_review.gate.ranking import folded
from groundwatch_review.gate.replies import Reply
from groundwatch_review.gate.running import Asker, in_parallel, request
from groundwatch_review.gate.scores import Scorer


@dataclass(frozen=True, slots=True)
class NoisePoint:
    """``answered``: replies; ``taken``: those whose context really holds what was added. Means over those alone."""

    added: int
    answered: int
    taken: int
    faithfulness: float | None
    answer_correctness: float | None


def noise_curve(
    items: Sequence[Item], counts: Sequence[int], asker: Asker, scorer: Scorer, seed: int = 0
) -> list[NoisePoint]:
    """One point for each of *counts*. The added documents are evidence and distractors of other families."""
    pool = _pool(items)
    return [
        _point(items, partial(_irrelevant, pool, count=count, seed=seed), count, asker, scorer) for count in counts
    ]


def _point(
    items: Sequence[Item], chosen: Callable[[Item], list[str]], count: int, asker: Asker, scorer: Scorer
) -> NoisePoint:
    def one(item: Item) -> tuple[bool, dict[str, float | None]] | None:
        extra = chosen(item)
        _tries, reply = asker.ask(request(item, extra))
        return None if reply is None else (_took(reply, extra), scorer.score(item, reply))

    replies = [r for r in in_parallel(one, items, asker.policy.parallel) if r is not None]
    taken = [scores for took, scores in replies if took]
    return NoisePoint(
        count, len(replies), len(taken), _mean(taken, "faithfulness"), _mean(taken, "answer_correctness")
    )


@dataclass(frozen=True, slots=True)
class _Passage:
    family: str
    text: str
    folded: str


def _pool(items: Sequence[Item]) -> list[_Passage]:
    """Every passage of the set with the family it came from, folded once."""
    return [
        _Passage(item.family, text, folded(text))
        for item in items
        for text in (*item.distractors, *(anchor.text for anchor in item.anchors))
    ]


def _irrelevant(pool: Sequence[_Passage], item: Item, *, count: int, seed: int) -> list[str]:
    """*count* passages of other families, the same ones in each run with this seed; fewer when there are no more."""
    own = {folded(anchor.text) for anchor in item.evidence}
    others = sorted({p.text for p in pool if p.family != item.family and p.folded not in own})
    chooser = random.Random(f"{seed}:{item.id}")  # noqa: S311 - which noise is added is no secret
    return chooser.sample(others, min(count, len(others)))


def _took(reply: Reply, extra: Sequence[str]) -> bool:
    sent = [folded(passage.text) for passage in reply.context or ()]
    return all(any(folded(text) in passage for passage in sent) for text in extra)


def _mean(scores: Sequence[dict[str, float | None]], name: str) -> float | None:
    values = [value for entry in scores if (value := entry[name]) is not None]
    return fmean(values) if values else None
