"""What the regression set consists of, and how small a change it can show at all."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from groundwatch_review.gate.items import Item


@dataclass(frozen=True, slots=True)
class Makeup:
    """Counts by kind. ``smallest_difference``: half-width of the 95 % interval of a 90 % score over all families."""

    items: int
    families: int
    status: Mapping[str, int]  # PENDING | REVIEWED
    origin: Mapping[str, int]  # real | synthetic | adversarial
    languages: Mapping[str, int]
    answerability: Mapping[str, int]
    split: Mapping[str, int]
    with_evidence: int
    with_reference: int  # a reference answer or key points
    only_forbidden: int  # neither, only claims that must not be made: any other answer passes for correct
    smallest_difference: float


def makeup(items: Sequence[Item]) -> Makeup:
    """Describe *items*, which must not be empty."""
    families = len({item.family for item in items})
    return Makeup(
        items=len(items),
        families=families,
        status=_counted(item.status for item in items),
        origin=_counted(item.origin for item in items),
        languages=_counted(item.language for item in items),
        answerability=_counted(item.answerability for item in items),
        split=_counted(item.split for item in items),
        with_evidence=sum(bool(item.evidence) for item in items),
        with_reference=sum(_has_reference(item) for item in items),
        only_forbidden=sum(bool(item.forbidden) and not _has_reference(item) for item in items),
        smallest_difference=smallest_difference(0.9, families),
    )


def _has_reference(item: Item) -> bool:
    return bool(item.reference or item.key_points)


def smallest_difference(rate: float, n: int) -> float:
    """Normal half-width of a 95 % interval: 100 items at 0.9 cannot tell changes below about 0.06 from noise."""
    return 1.959964 * math.sqrt(rate * (1 - rate) / n)


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
