"""Whether a trained model would beat the hand weights of the local judge. Not part of ``make bench``.

Run: ``python tests/bench/study_trained_judge.py judge_dev.jsonl.gz`` (needs scikit-learn and numpy). Each source, or
each fifth of the families, is judged by a model trained without it; sources and labels weigh the same in training.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from groundwatch_scorer import calibration
from groundwatch_scorer.calibration_metrics import auroc, balanced_accuracy
from groundwatch_scorer.evidence import Library, Weights, flattened
from groundwatch_scorer.evidence_signals import claim_signals
from groundwatch_scorer.judgement import Assessment
from groundwatch_scorer.local_judge import RULES, LocalJudge
from groundwatch_scorer.text import tokens

PIECE = {"en": 4, "zh": 3}  # characters
FOLDS = 5


def features(row: calibration.Row, reading: Assessment) -> list[float]:
    """Of the worst claim, and their means over all claims; the first is the probability of the hand weights."""
    trace = calibration.trace_of(row)
    library = Library([d for d in trace.context or () if d.text])
    weights = Weights(library.passages)
    texts = [passage.flat for passage in library.passages]
    pieces = set().union(*(_pieces(text, row["lang"]) for text in texts))
    pairs = {pair for text in texts for pair in _pairs(text)}
    found: list[list[float]] = []
    for claim in reading.claims:
        wanted = frozenset(tokens(claim.text))
        weighed = weights.weigh(wanted)
        missing = [w for token, w in zip(weighed.order, weighed.weight, strict=True) if not library.has(token)]
        signals = claim_signals(claim.text, library, weights, library.best_window(wanted, weights), wanted)
        own, together = _pieces(flattened(claim.text), row["lang"]), _pairs(claim.text)
        found.append(
            [
                claim.unsupported_probability,
                signals.recall,
                signals.context_recall,
                *(float(getattr(signals, rule)) for rule in RULES),
                len(own & pieces) / max(1, len(own)),
                len(together & pairs) / max(1, len(together)),
                max(missing, default=0.0),
                np.log1p(len(wanted)),
            ]
        )
    mean = np.mean(found, axis=0)
    return [*max(found), *mean, np.log1p(len(found)), np.log1p(sum(map(len, texts))), float(row["lang"] == "zh")]


def _pieces(text: str, language: str) -> set[str]:
    size = PIECE[language]
    return {text[i : i + size] for i in range(len(text) - size + 1)}


def _pairs(text: str) -> set[tuple[str, str]]:
    words = tokens(text)
    return set(pairwise(words))


def predictions(x: Any, y: Any, sources: Any, may_train: Any, groups: Any, boosted: bool) -> Any:
    """The probability of every row by a model that saw nothing of its group."""
    said = np.zeros(len(y))
    for group in sorted(set(groups)):
        held = groups == group
        train = may_train & ~held
        scale = StandardScaler().fit(x[train])
        model = (
            GradientBoostingClassifier(
                n_estimators=80, max_depth=2, learning_rate=0.08, subsample=0.7, random_state=0
            )
            if boosted
            else LogisticRegression(C=0.05, max_iter=2000)
        )
        model.fit(scale.transform(x[train]), y[train], sample_weight=_even(sources[train], y[train]))
        said[held] = model.predict_proba(scale.transform(x[held]))[:, 1]
    return said


def _even(sources: Any, y: Any) -> Any:
    weights = np.zeros(len(y))
    for source in set(sources):
        for label in (False, True):
            cell = (sources == source) & (y == label)
            weights[cell] = 1000 / max(8, cell.sum())
    return weights


def study(path: Path) -> Iterator[dict[str, Any]]:
    """Balanced accuracy and AUROC of each way to train, and of the hand weights beside it."""
    rows = [row for row in calibration.read_rows(path) if row.get("faithful") is not None]
    read = [(row, LocalJudge().assess(calibration.trace_of(row))) for row in rows]
    kept = [(row, reading) for row, reading in read if reading.claims]
    x = np.array([features(row, reading) for row, reading in kept])
    y = np.array([row["faithful"] == 0 for row, _reading in kept])
    sources = np.array([row["source"] for row, _reading in kept])
    permissive = np.array([bool(row["permissive"]) for row, _reading in kept])
    families = np.array([_fold(str(row.get("family"))) for row, _reading in kept])
    yield {"method": "hand weights", **_figures(y, x[:, 0])}
    for rows_used, may_train in (("permissive", permissive), ("all", np.ones(len(y), dtype=bool))):
        for left_out, groups in (("source", sources), ("family", families)):
            for boosted in (False, True):
                said = predictions(x, y, sources, may_train, groups, boosted)
                name = {"method": "boosting" if boosted else "logistic", "rows": rows_used, "left_out": left_out}
                yield {**name, **_figures(y, said), "with_hand_weights": _figures(y, (said + x[:, 0]) / 2)}


def _fold(family: str) -> int:
    return int(hashlib.sha256(family.encode()).hexdigest(), 16) % FOLDS


def _figures(truths: Any, said: Any) -> dict[str, float | None]:
    pairs = list(zip(truths.tolist(), said.tolist(), strict=True))
    return {"balanced_accuracy": balanced_accuracy([(t, s >= 0.5) for t, s in pairs]), "auroc": auroc(pairs)}


if __name__ == "__main__":
    for line in study(Path(sys.argv[1])):
        print(json.dumps(line))
