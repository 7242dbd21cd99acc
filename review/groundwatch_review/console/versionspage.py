"""Two versions side by side: the same comparison as the metrics, the alert and `groundwatch compare`."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from groundwatch_alerts.estimator import Estimate
from groundwatch_alerts.version_comparison import MIN_JUDGED, Comparison
from groundwatch_alerts.version_metrics import CriterionCompared, Pair, compared, first_seen, pair_of
from groundwatch_scorer.judgement import Criterion

from .. import queries
from .overview import Figure, figure


@dataclass(frozen=True, slots=True)
class Line:
    criterion: str
    a: Figure | None
    b: Figure | None
    result: Comparison | None  # None: too few verdicts
    said: str
    tone: str  # bad | good | calm | unknown


@dataclass(frozen=True, slots=True)
class VersionsPage:
    app: str
    versions: tuple[str, ...]
    judge: str
    pair: Pair | None  # None: the app has one version only
    lines: tuple[Line, ...]
    sentence: str
    tone: str


def read(connection: Connection, app: str, a: str, b: str, min_judged: int = MIN_JUDGED) -> VersionsPage:
    """Compare *a* and *b* of *app*; a version that is not known, or the same twice, leaves the choice to the page."""
    known = list(first_seen(connection, app))
    a, b = (version if version in known and a != b else "" for version in (a, b))
    pair = pair_of(connection, app, a, b)
    judge = next(iter(queries.judges(connection, app, Criterion.ANY_FAILURE)), "")
    rows = [] if pair is None else compared(connection, pair, judge)
    lines = tuple(_line(row, min_judged) for row in rows)
    sentence, tone = _sentence(pair, lines)
    return VersionsPage(app, tuple(known), judge, pair, lines, sentence, tone)


def _line(row: CriterionCompared, min_judged: int) -> Line:
    said, tone = _said(row.result, row.a, row.b, min_judged)
    return Line(row.criterion, figure(row.a), figure(row.b), row.result, said, tone)


def _said(c: Comparison | None, a: Estimate | None, b: Estimate | None, min_judged: int) -> tuple[str, str]:
    if c is None:
        fewer = min(0 if e is None else e.judged for e in (a, b))
        return f"too few verdicts: {fewer} of {min_judged}", "unknown"
    if not c.clear:
        return "not told apart", "calm"
    return ("fails more often", "bad") if c.difference > 0 else ("fails less often", "good")


def _sentence(pair: Pair | None, lines: tuple[Line, ...]) -> tuple[str, str]:
    if pair is None:
        return "There is only one version so far: nothing to compare.", "unknown"
    for tone, words in (("bad", "fails more often than"), ("good", "fails less often than")):
        named = ", ".join(line.criterion.replace("_", " ") for line in lines if line.tone == tone)
        if named:
            return f"Version {pair.b} {words} {pair.a}: {named}.", tone
    if all(line.result is None for line in lines):
        return f"Not enough judged yet to compare {pair.b} with {pair.a}.", "unknown"
    return f"Version {pair.b} is not told apart from {pair.a} so far.", "calm"
