"""The measures of a calibration report, in plain Python. Pairs are (truth, said); True is the bad class."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

Pairs = Sequence[tuple[bool, bool]]
Scored = Sequence[tuple[bool, float]]

_RESAMPLES = 400
_SEED = 20_261_130
_BINS = 10


def binary(pairs: Pairs) -> dict[str, Any]:
    """Confusion, balanced accuracy, kappa and the F1 of the bad class with the base rate that it depends on."""
    tp = sum(truth and said for truth, said in pairs)
    fn = sum(truth and not said for truth, said in pairs)
    fp = sum(not truth and said for truth, said in pairs)
    tn = len(pairs) - tp - fn - fp
    sensitivity, specificity = _share(tp, tp + fn), _share(tn, tn + fp)
    return {
        "n": len(pairs),
        "base_rate": _share(tp + fn, len(pairs)),
        "confusion": {"true_positive": tp, "false_negative": fn, "false_positive": fp, "true_negative": tn},
        "sensitivity": sensitivity,
        "specificity": specificity,
        "precision": _share(tp, tp + fp),
        "balanced_accuracy": balanced_accuracy(pairs),
        "f1": _share(2 * tp, 2 * tp + fp + fn),
        "kappa": _kappa(tp, fn, fp, tn),
    }


def balanced_accuracy(pairs: Pairs) -> float | None:
    """Mean of sensitivity and specificity. None: one class is missing."""
    bad = [said for truth, said in pairs if truth]
    good = [not said for truth, said in pairs if not truth]
    return (sum(bad) / len(bad) + sum(good) / len(good)) / 2 if bad and good else None


def kappa(pairs: Pairs) -> float | None:
    """Agreement of label and judge beyond chance (Cohen). None: nothing to compare."""
    tp = sum(truth and said for truth, said in pairs)
    fn = sum(truth and not said for truth, said in pairs)
    fp = sum(not truth and said for truth, said in pairs)
    return _kappa(tp, fn, fp, len(pairs) - tp - fn - fp)


def share_true(values: Sequence[bool]) -> float | None:
    """Share of *values* that hold. None: there are none."""
    return _share(sum(values), len(values))


def auroc(scored: Scored) -> float | None:
    """Chance that a bad case scores above a good one, ties counted half. None: one class is missing."""
    bad = sum(truth for truth, _score in scored)
    good = len(scored) - bad
    if not bad or not good:
        return None
    ranks = 0.0
    ordered = sorted(scored, key=lambda pair: pair[1])
    start = 0
    while start < len(ordered):
        end = start
        while end < len(ordered) and ordered[end][1] == ordered[start][1]:
            end += 1
        ranks += sum(truth for truth, _score in ordered[start:end]) * (start + 1 + end) / 2
        start = end
    return (ranks - bad * (bad + 1) / 2) / (bad * good)


def reliability(scored: Scored, families: Sequence[str] | None = None) -> dict[str, Any]:
    """Stated against observed probability in ten bins, with the expected calibration error and the Brier score.

    With *families*, one per case, every bin also has the interval of what was observed.
    """
    bins: dict[int, list[tuple[bool, float]]] = defaultdict(list)
    groups: dict[int, list[str]] = defaultdict(list)
    for (truth, score), family in zip(scored, families or [""] * len(scored), strict=True):
        index = min(_BINS - 1, int(score * _BINS))
        bins[index].append((truth, score))
        groups[index].append(family)
    table: list[dict[str, Any]] = [
        {
            "from": index / _BINS,
            "n": len(members),
            "stated": sum(score for _truth, score in members) / len(members),
            "observed": sum(truth for truth, _score in members) / len(members),
            "observed_95": interval([truth for truth, _score in members], groups[index], share_true),
        }
        for index, members in sorted(bins.items())
    ]
    error = sum(row["n"] * abs(row["stated"] - row["observed"]) for row in table) / max(1, len(scored))
    brier = sum((score - truth) ** 2 for truth, score in scored) / max(1, len(scored))
    return {"expected_calibration_error": error, "brier": brier, "bins": table}


def interval(
    items: Sequence[Any], families: Sequence[str], measure: Callable[[Sequence[Any]], float | None]
) -> tuple[float, float] | None:
    """95 % bootstrap interval of *measure*, drawing whole families, since cases of one family are alike."""
    groups: dict[str, list[Any]] = defaultdict(list)
    for item, family in zip(items, families, strict=True):
        groups[family].append(item)
    members = list(groups.values())
    if len(members) < 2:
        return None
    rng = random.Random(_SEED)  # noqa: S311 - a fixed seed makes the report the same for everyone
    found: list[float] = []
    for _ in range(_RESAMPLES):
        drawn = [item for group in rng.choices(members, k=len(members)) for item in group]
        value = measure(drawn)
        if value is not None:
            found.append(value)
    if len(found) < _RESAMPLES // 2:
        return None
    found.sort()
    return found[int(0.025 * len(found))], found[min(len(found) - 1, int(0.975 * len(found)))]


def fit_logistic(values: Sequence[float], truths: Sequence[bool], weights: Sequence[float]) -> tuple[float, float]:
    """Weighted logistic regression on one value by Newton's method: (intercept, slope)."""
    a = b = 0.0
    for _ in range(50):
        g0 = g1 = h00 = h01 = h11 = 0.0
        for value, truth, weight in zip(values, truths, weights, strict=True):
            p = 1 / (1 + math.exp(-(a + b * value)))
            gradient, curvature = weight * (truth - p), weight * p * (1 - p)
            g0, g1 = g0 + gradient, g1 + gradient * value
            h00, h01, h11 = h00 + curvature, h01 + curvature * value, h11 + curvature * value * value
        determinant = h00 * h11 - h01 * h01
        if determinant <= 1e-12:
            break
        step_a, step_b = (h11 * g0 - h01 * g1) / determinant, (h00 * g1 - h01 * g0) / determinant
        a, b = a + step_a, b + step_b
        if abs(step_a) + abs(step_b) < 1e-9:
            break
    return a, b


def _kappa(tp: int, fn: int, fp: int, tn: int) -> float | None:
    n = tp + fn + fp + tn
    if not n:
        return None
    expected = ((tp + fn) * (tp + fp) + (tn + fp) * (tn + fn)) / (n * n)
    return (((tp + tn) / n) - expected) / (1 - expected) if expected < 1 else None


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
