"""A run as a file: saved as the baseline, read again for the next comparison."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from groundwatch_review.gate.comparison import pairs
from groundwatch_review.gate.running import ItemResult, Try

FORMAT: Final = "urn:groundwatch:gate-run:1"


class BadBaseline(ValueError):
    """The baseline cannot be compared with; the message says why."""


@dataclass(frozen=True, slots=True)
class Run:
    """``k`` and ``judge`` must be the same in two runs that are compared: other rulers give other numbers."""

    results: tuple[ItemResult, ...]
    k: int
    judge: str
    version: str = ""  # of the application, as the user names it


def save(path: Path, run: Run) -> None:
    """Write *run*, the answers left out: a baseline is kept in repositories."""
    results = [{key: value for key, value in asdict(r).items() if key != "answer"} for r in run.results]
    document = {"format": FORMAT, "k": run.k, "judge": run.judge, "version": run.version, "results": results}
    path.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def load(path: Path) -> Run:
    """Read what :func:`save` wrote. Raises :class:`BadBaseline`."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadBaseline(f"{path}: not readable as JSON ({type(error).__name__})") from error
    if not isinstance(raw, Mapping) or raw.get("format") != FORMAT:
        raise BadBaseline(f"{path}: not a saved run; expected format {FORMAT}")
    try:
        return Run(_results(raw["results"]), int(raw["k"]), str(raw["judge"]), str(raw.get("version", "")))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadBaseline(f"{path}: damaged at {type(error).__name__}: {error}") from error


def _results(raw: Sequence[Mapping[str, Any]]) -> tuple[ItemResult, ...]:
    return tuple(_result(entry) for entry in raw)


def _result(raw: Mapping[str, Any]) -> ItemResult:
    """One item as it was saved. Raises ``ValueError`` for what no run can have written."""
    tries = tuple(Try(**entry) for entry in raw["tries"])
    if not tries:
        raise ValueError(f"item {raw['item_id']} has no try")
    scores = {name: _score(value, name) for name, value in raw["scores"].items()}
    return ItemResult(raw["item_id"], raw["family"], tries, scores, digest=str(raw.get("digest", "")))


def _score(value: object, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"{name} is no number from 0 to 1")
    return float(value)


def check_comparable(before: Run, after: Run) -> None:
    """Raises :class:`BadBaseline` when two runs were measured with other rulers or share no item."""
    for name in ("k", "judge"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            raise BadBaseline(f"the baseline was measured with {name} {old}, this run with {new}; measure it again")
    if not pairs(before.results, after.results):
        raise BadBaseline("the baseline and this set have no item in common, or each of them was changed since")
