"""Have a small, known share of readings made twice: a judge that contradicts itself is no measure.

The second reading decides nothing. Where it differs from the first, that is counted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from groundwatch_collector.ragtrace import COMPLETED, RagTrace
from groundwatch_collector.sampling import included, u56
from groundwatch_scorer.judgement import Assessment, Criterion, Judge, Judgement, read_again
from groundwatch_scorer.scorer_metrics import ScorerMetrics

_DAY_SECONDS = 86_400

ToJudgements = Callable[[RagTrace, Assessment, float], list[Judgement]]


@dataclass(frozen=True, slots=True)
class RepeatPlan:
    """How much of what a judge reads it reads twice."""

    share: float  # in (0, 1], of the traces that the judge reads
    per_day: int  # second readings of one judge in a UTC day, at most
    salt: bytes

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise ValueError(f"repeat_share: found {self.share!r}, accepted: 0 (nothing is read twice) to 1")
        if self.per_day < 1:
            raise ValueError(f"repeats_per_day: found {self.per_day!r}, accepted: 1 or more")


class Repeats:
    """Reads chosen traces a second time and counts what changed. What is chosen depends on the trace's id alone.

    For several threads.
    """

    def __init__(self, plan: RepeatPlan, metrics: ScorerMetrics, to_judgements: ToJudgements) -> None:
        self._plan = plan
        self._metrics = metrics
        self._to_judgements = to_judgements
        self._day = 0
        self._made: dict[str, int] = {}  # today, by judge
        self._lock = threading.Lock()

    def check(self, judge: Judge, trace: RagTrace, first: list[Judgement], now: float) -> list[Judgement]:
        """Return *first*, with what a second reading cost added to it: the money of this trace is kept there.

        Raises nothing: a judge that breaks the second time is counted.
        """
        if not self._chosen(judge.identifier, trace):
            return first
        if _verdict(first) is None:  # in trouble already: asking again would only cost
            self._miss(judge.identifier, "no_verdict")
            return first
        if not self._has_room(judge.identifier, now):
            self._miss(judge.identifier, "over_limit")
            return first
        try:
            again = read_again(judge, trace)
            second = self._to_judgements(trace, again, now)
        except Exception:  # the first reading stands whatever happens to the second
            self._miss(judge.identifier, "error")
            return first
        self._metrics.used(again)
        self._compare(judge.identifier, first, second)
        return [_with_cost(j, again.cost_usd) if j.criterion is Criterion.ANY_FAILURE else j for j in first]

    def _chosen(self, judge: str, trace: RagTrace) -> bool:
        if trace.outcome not in COMPLETED or not (trace.answer or "").strip():
            return False  # no judge reads it, so that agreement would be for nothing
        key = blake2b(f"repeat: {judge}".encode(), digest_size=32, key=self._plan.salt).digest()
        return included(u56(trace.trace_id, key), self._plan.share)

    def _has_room(self, judge: str, now: float) -> bool:
        day = int(now // _DAY_SECONDS)
        with self._lock:
            if day != self._day:
                self._day, self._made = day, {}
            made = self._made.get(judge, 0)
            self._made[judge] = made + (made < self._plan.per_day)
        return made < self._plan.per_day

    def _compare(self, judge: str, first: Sequence[Judgement], second: Sequence[Judgement]) -> None:
        one, two = _verdict(first), _verdict(second)
        if one is None or two is None:
            self._miss(judge, "no_verdict")
            return
        self._metrics.repeats.labels(judge).inc()
        self._metrics.repeat_changes.labels(judge).inc(one != two)

    def _miss(self, judge: str, reason: str) -> None:
        self._metrics.repeats_missed.labels(judge, reason).inc()


def _verdict(judgements: Sequence[Judgement]) -> str | None:
    """What the headline says; None where it says nothing because the judge was in trouble."""
    headline = next((j for j in judgements if j.criterion is Criterion.ANY_FAILURE), None)
    if headline is None or (headline.label == "unscored" and _reasons(headline) != ["abstained"]):
        return None
    return headline.label


def _reasons(judgement: Judgement) -> list[str]:
    return list(judgement.detail.get("reasons", ()))


def _with_cost(judgement: Judgement, cost_usd: float | None) -> Judgement:
    return judgement if cost_usd is None else replace(judgement, cost_usd=(judgement.cost_usd or 0.0) + cost_usd)
