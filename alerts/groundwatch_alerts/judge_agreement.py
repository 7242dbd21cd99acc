"""How far a judge agrees with people beyond chance: Cohen's kappa, from labels that were drawn with known chances."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MIN_LABELS = 50
MIN_OF_EACH = 5
"""Of people's failures and of their passes: kappa hangs on the rarer of the two."""
_Z95 = 1.959964


@dataclass(frozen=True, slots=True)
class Pair:
    """One trace with both verdicts. *weight* is the number of requests that it stands for."""

    judge_failed: bool
    people_failed: bool
    weight: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """Kappa with a 95 % interval, all of requests and not of labels."""

    kappa: float
    low: float
    high: float


def agreement(pairs: Sequence[Pair], *, min_labels: int = MIN_LABELS) -> Agreement | None:
    """None where there are fewer than *min_labels* pairs, or ``MIN_OF_EACH`` of people's verdicts either way.

    The variance is that of the linearised estimate, for weights from drawing (Lin, Kim, Williamson and Lesser,
    Survey Methodology 38, 2012); with equal weights it is that of Fleiss, Cohen and Everitt (1969). It is taken with
    one more disagreement of mean weight either way: pairs that all agree are no proof of a perfect judge.
    """
    failed = sum(pair.people_failed for pair in pairs)
    if len(pairs) < min_labels or min(failed, len(pairs) - failed) < MIN_OF_EACH:
        return None
    kappa = _Table(pairs).kappa
    mean = math.fsum(pair.weight for pair in pairs) / len(pairs)
    margin = _Z95 * standard_error([*pairs, Pair(True, False, mean), Pair(False, True, mean)])
    return Agreement(kappa, max(-1.0, kappa - margin), min(1.0, kappa + margin))


def standard_error(pairs: Sequence[Pair]) -> float:
    """Of kappa, as if each pair had been drawn by itself. Both verdicts must occur among people's."""
    table = _Table(pairs)
    squares = math.fsum((pair.weight * table.influence(pair)) ** 2 for pair in pairs)
    return math.sqrt(squares * len(pairs) / (len(pairs) - 1)) / table.whole


class _Table:
    """The weighted shares that kappa is made of."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.whole = math.fsum(pair.weight for pair in pairs)
        self._agree = self._share(pair for pair in pairs if pair.judge_failed is pair.people_failed)
        self._judge = self._share(pair for pair in pairs if pair.judge_failed)
        self._people = self._share(pair for pair in pairs if pair.people_failed)
        self._beyond = 1.0 - self._judge * self._people - (1.0 - self._judge) * (1.0 - self._people)

    def _share(self, pairs: Iterable[Pair]) -> float:
        return math.fsum(pair.weight for pair in pairs) / self.whole

    @property
    def kappa(self) -> float:
        return 1.0 - (1.0 - self._agree) / self._beyond

    def influence(self, pair: Pair) -> float:
        """Derivative of kappa by the weight of *pair*, times the whole weight."""
        agree = (pair.judge_failed is pair.people_failed) - self._agree
        judge = (2.0 * self._people - 1.0) * (pair.judge_failed - self._judge)
        people = (2.0 * self._judge - 1.0) * (pair.people_failed - self._people)
        return (agree - (1.0 - self.kappa) * (judge + people)) / self._beyond
