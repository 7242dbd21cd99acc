"""The one sentence at the top of the overview. It claims only what the intervals carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from groundwatch_scorer.judgement import Criterion

from .formats import count, percent, percent_range

if TYPE_CHECKING:
    from .overview import Figure, VersionLine

ENOUGH_FAULTS = 5  # below this many failures with a named layer, none is called the most frequent

_FAIL = {
    Criterion.ANY_FAILURE: "of answers fail",
    Criterion.FAITHFULNESS: "of answers say something that their sources do not",
    Criterion.REFUSAL: "of answers refuse when they should not, or answer when they should refuse",
    Criterion.ANSWER_RELEVANCE: "of answers miss the question",
    Criterion.CONTEXT_RELEVANCE: "of answers were given passages that do not help",
    Criterion.CITATIONS: "of answers cite a passage that does not support them",
}


def summary(
    versions: Sequence[VersionLine], total: Figure | None, criterion: str, enough_judged: int
) -> tuple[str, str]:
    """(sentence, tone). Two versions are told apart only where their intervals do not overlap."""
    known = [line for line in versions if line.figure is not None and line.judged >= enough_judged]
    what = _FAIL[Criterion(criterion)]
    if total is None or total.judged < enough_judged or not known:
        judged = 0 if total is None else total.judged
        return f"Not enough judged yet to say: {_verdicts(judged)}, {enough_judged} are needed.", "unknown"
    if len(known) >= 2 and known[-1] is versions[-1]:
        return _compared(known[-2], known[-1], what)
    latest = versions[-1]
    unsure = "" if known[-1] is latest else f" Version {latest.version} has only {_verdicts(latest.judged)} so far."
    return f"About {_rate(total)} {what}.{unsure}", "calm"


def _compared(before: VersionLine, after: VersionLine, what: str) -> tuple[str, str]:
    old, new = before.figure, after.figure
    if old is None or new is None:
        raise ValueError("only versions with a figure can be compared")
    if new.low > old.high:
        said = f"Since version {after.version} about {_rate(new)} {what}, {_rate(old)} before{_layer(after)}."
        return said, "bad"
    if new.high < old.low:
        return f"Since version {after.version} only about {_rate(new)} {what}, {_rate(old)} before.", "good"
    same = f"Version {after.version} is not told apart from {before.version}"
    return f"{same}: about {_rate(new)} {what}, {_rate(old)} before.", "calm"


def _verdicts(n: int) -> str:
    return f"{count(n)} verdict{'' if n == 1 else 's'}"


def _rate(figure: Figure) -> str:
    return f"{percent(figure.rate)} ({percent_range(figure.low, figure.high)})"


def _layer(line: VersionLine) -> str:
    if not line.layers or sum(layer.judged for layer in line.layers) < ENOUGH_FAULTS:
        return ""
    return f"; most often at the {line.layers[0].layer} layer"
