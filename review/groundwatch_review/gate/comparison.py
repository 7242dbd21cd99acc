"""Two runs over the same set, pair by pair.

The test is a sign-flip permutation test of the mean difference per family (Fisher 1935; exact where at most twelve
families differ, else seeded draws). On scores of 0 and 1 it is McNemar's exact test (McNemar 1947), and computed so.
The interval is a paired percentile bootstrap over families (Efron 1979). Several scores are tested at once, so p
values are adjusted by Holm (1979): the chance that noise alone blocks is at most ``alpha`` for all of them together.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from groundwatch_review.gate.running import ItemResult
from groundwatch_review.gate.scores import GATING, LAYER_OF

EXECUTION = "execution_success"
_EXACT_UP_TO = 12  # families that differ: 2^12 sign patterns
_DRAWS = 20_000
_RESAMPLES = 1_000
_SEED = 20_250_101


@dataclass(frozen=True, slots=True)
class Change:
    """One score before and after. ``low``..``high``: 95 % interval of the difference; ``p`` one-sided, adjusted."""

    name: str
    layer: str
    pairs: int  # items with the score in both runs
    families: int
    before: float | None
    after: float | None
    worse: int  # items
    better: int
    low: float | None = None
    high: float | None = None
    p: float | None = None  # None: not a score that blocks, or nothing to test
    blocks: bool = False

    @property
    def difference(self) -> float | None:
        return None if self.before is None or self.after is None else self.after - self.before

    @property
    def relative(self) -> float | None:
        """Change as a share of the value before."""
        return None if not self.before or self.difference is None else self.difference / self.before


def compare(before: Sequence[ItemResult], after: Sequence[ItemResult], alpha: float = 0.05) -> list[Change]:
    """Every score, and whether its drop is significant at *alpha* over all scores that block."""
    paired = pairs(before, after)
    changes = [_change(name, layer, _values(paired, name)) for name, layer in LAYER_OF.items()]
    executed = [(b.family, float(b.executed), float(a.executed)) for b, a in paired]
    changes.append(_change(EXECUTION, "execution", executed))
    return _decided(changes, alpha)


def pairs(before: Sequence[ItemResult], after: Sequence[ItemResult]) -> list[tuple[ItemResult, ItemResult]]:
    """(before, after) of each item that both runs asked, in the order of the later one.

    An item whose question or expectation was changed in between is no pair: the ruler moved, not the application.
    """
    known = {result.item_id: result for result in before}
    asked_twice = [(known[result.item_id], result) for result in after if result.item_id in known]
    return [(old, new) for old, new in asked_twice if not _changed(old, new)]


def _changed(old: ItemResult, new: ItemResult) -> bool:
    return "" != old.digest != new.digest


@dataclass(frozen=True, slots=True)
class SetChange:
    """How the set differs from the one of the baseline. What is not ``same`` is left out of the comparison."""

    same: int
    changed: tuple[str, ...] = ()  # ids: question or expectation are others
    added: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    unknown: bool = False  # the baseline holds no digests: a change of an item cannot be seen


def set_change(before: Sequence[ItemResult], after: Sequence[ItemResult]) -> SetChange:
    """Compare the items themselves, by id and digest."""
    old, new = ({result.item_id: result for result in results} for results in (before, after))
    return SetChange(
        same=len(pairs(before, after)),
        changed=tuple(name for name, result in new.items() if name in old and _changed(old[name], result)),
        added=tuple(name for name in new if name not in old),
        gone=tuple(name for name in old if name not in new),
        unknown=any(not result.digest for result in before),
    )


@dataclass(frozen=True, slots=True)
class ItemChange:
    """One score of one item that came out differently; None: not applicable."""

    item_id: str
    score: str
    before: float | None
    after: float | None

    @property
    def rise(self) -> float | None:
        return None if self.before is None or self.after is None else self.after - self.before


def item_changes(before: Sequence[ItemResult], after: Sequence[ItemResult]) -> list[ItemChange]:
    """Everything that moved, the largest drops first; what became applicable or ceased to be stands at the end."""
    found = [
        ItemChange(now.item_id, name, was.scores.get(name), now.scores.get(name))
        for was, now in pairs(before, after)
        for name in LAYER_OF
        if was.scores.get(name) != now.scores.get(name)
    ]
    return sorted(found, key=lambda change: 2.0 if change.rise is None else change.rise)


_Values = Sequence[tuple[str, float, float]]  # (family, before, after)


def _values(paired: Sequence[tuple[ItemResult, ItemResult]], name: str) -> _Values:
    found: list[tuple[str, float, float]] = []
    for b, a in paired:
        old, new = b.scores.get(name), a.scores.get(name)
        if old is not None and new is not None:
            found.append((b.family, old, new))
    return found


def _change(name: str, layer: str, values: _Values) -> Change:
    if not values:
        return Change(name, layer, 0, 0, None, None, 0, 0)
    per_family = _by_family(values)
    low, high = bootstrap(per_family)
    gates = name in GATING or name == EXECUTION
    return Change(
        name,
        layer,
        pairs=len(values),
        families=len(per_family),
        before=fmean(old for _, old, _ in values),
        after=fmean(new for _, _, new in values),
        worse=sum(new < old for _, old, new in values),
        better=sum(new > old for _, old, new in values),
        low=low,
        high=high,
        p=drop_p_value(per_family) if gates else None,
    )


def _by_family(values: _Values) -> list[float]:
    """Mean difference of each family: its members fail together and are no independent evidence."""
    grouped: Mapping[str, list[float]] = defaultdict(list)
    for family, old, new in values:
        grouped[family].append(new - old)
    return [fmean(group) for group in grouped.values()]


def drop_p_value(differences: Sequence[float]) -> float:
    """Chance of a mean difference as low as this, if each family's difference had either sign alike."""
    moved = [abs(value) for value in differences if value]
    seen = sum(differences)
    if not moved:
        return 1.0
    if len(set(moved)) == 1:
        return _mcnemar(better=sum(value > 0 for value in differences), discordant=len(moved))
    if len(moved) <= _EXACT_UP_TO:
        signs = itertools.product((-1, 1), repeat=len(moved))
        sums = [sum(s * m for s, m in zip(pattern, moved, strict=True)) for pattern in signs]
        return sum(total <= seen + 1e-12 for total in sums) / len(sums)
    draw = random.Random(_SEED)  # noqa: S311 - a seeded test statistic, not a secret
    as_low = sum(_flipped(moved, draw.getrandbits(len(moved))) <= seen + 1e-12 for _ in range(_DRAWS))
    return (1 + as_low) / (1 + _DRAWS)


def _mcnemar(better: int, discordant: int) -> float:
    """Chance of at most *better* heads among *discordant* fair coins."""
    as_few: float = sum(math.comb(discordant, heads) for heads in range(better + 1)) / 2.0**discordant
    return as_few


def _flipped(moved: Sequence[float], signs: int) -> float:
    return sum(value if signs >> place & 1 else -value for place, value in enumerate(moved))


def bootstrap(differences: Sequence[float]) -> tuple[float, float]:
    """95 % percentile interval of the mean difference."""
    if not any(differences):
        return 0.0, 0.0
    draw, size = random.Random(_SEED), len(differences)  # noqa: S311
    means = sorted(sum(draw.choices(differences, k=size)) / size for _ in range(_RESAMPLES))
    return means[int(0.025 * _RESAMPLES)], means[int(0.975 * _RESAMPLES) - 1]


def _decided(changes: list[Change], alpha: float) -> list[Change]:
    adjusted = holm({change.name: change.p for change in changes if change.p is not None})
    return [_with_decision(change, adjusted.get(change.name), alpha) for change in changes]


def _with_decision(change: Change, p: float | None, alpha: float) -> Change:
    return replace(change, p=p, blocks=p is not None and p < alpha)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjusted p values of several tests (Holm 1979)."""
    adjusted: dict[str, float] = {}
    largest = 0.0
    for place, (name, p) in enumerate(sorted(p_values.items(), key=lambda entry: entry[1])):
        largest = max(largest, min(1.0, p * (len(p_values) - place)))
        adjusted[name] = largest
    return adjusted
