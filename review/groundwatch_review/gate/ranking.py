"""Scores of a ranked list against the evidence that a person marked. ``None``: no evidence was marked.

A passage brings an anchor when the anchor's text stands in it, after folding of case, width and spacing. Each anchor
counts once, at the first passage that brings it: three copies of one page are one piece of evidence.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Brought:
    """``gains[i]``: how many anchors the passage at rank i+1 brought first; ``relevant[i]``: whether it has any."""

    gains: tuple[int, ...]
    relevant: tuple[bool, ...]
    anchors: int


def folded(text: str) -> str:
    """NFKC, case-folded, without white space: what an anchor is looked for in."""
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())


def brought(passages: Sequence[str], anchors: Sequence[str]) -> Brought:
    """Which passage of the ranked list brings which anchor."""
    wanted = list(dict.fromkeys(folded(anchor) for anchor in anchors))
    seen: set[str] = set()
    gains: list[int] = []
    relevant: list[bool] = []
    for passage in map(folded, passages):
        here = {anchor for anchor in wanted if anchor in passage}
        gains.append(len(here - seen))
        relevant.append(bool(here))
        seen |= here
    return Brought(tuple(gains), tuple(relevant), len(wanted))


def hit_at_k(found: Brought, k: int) -> float | None:
    """1 if any of the first *k* passages brings evidence."""
    return None if not found.anchors else float(any(found.relevant[:k]))


def evidence_recall_at_k(found: Brought, k: int) -> float | None:
    """Share of the distinct anchors among the first *k* passages."""
    return None if not found.anchors else sum(found.gains[:k]) / found.anchors


def mrr_at_k(found: Brought, k: int) -> float | None:
    """1 over the rank of the first passage with evidence, 0 when none of the first *k* has any."""
    if not found.anchors:
        return None
    return next((1 / rank for rank, relevant in enumerate(found.relevant[:k], start=1) if relevant), 0.0)


def ndcg_at_k(found: Brought, k: int) -> float | None:
    """Discounted gain of new anchors over the best order of the same gains, missed anchors one each at its end."""
    if not found.anchors:
        return None
    missed = [1] * (found.anchors - sum(found.gains))
    ideal = sorted([*found.gains, *missed], reverse=True)
    best = _discounted(ideal[:k])
    return _discounted(found.gains[:k]) / best if best else 0.0


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def precision_at_k(found: Brought, k: int) -> float | None:
    """Passages with evidence among the first *k*, over the number that was returned, at most *k*."""
    if not found.anchors:
        return None
    shown = found.relevant[:k]
    return sum(shown) / len(shown) if shown else 0.0
