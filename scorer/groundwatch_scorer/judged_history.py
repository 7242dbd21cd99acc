"""What the planner of sampling rates needs to know of the judge's work, read from the committed sums."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Engine, func, select

from groundwatch_collector.rates import DAY, Verdicts
from groundwatch_collector.storage import reader
from groundwatch_scorer.judgement import Criterion
from groundwatch_scorer.tables import judgements, verdict_tally

_NEWEST = 10_000  # judgements that the mean cost is taken over


class JudgedHistory:
    """Verdicts of one judge on one criterion, for the collector's planner. The headline's judge and criterion."""

    def __init__(self, engine: Engine, judge: str, criterion: Criterion = Criterion.ANY_FAILURE) -> None:
        self._engine = reader(engine)
        self._judge = judge
        self._criterion = criterion

    def verdicts(self, since: float, until: float) -> Sequence[Verdicts]:
        """Sums by day and stratum, of traces that started in [since, until)."""
        tally = verdict_tally.c
        day = (tally.bucket_start - tally.bucket_start % DAY).label("day")
        query = (
            select(day, tally.stratum, func.sum(tally.judged), func.sum(tally.failed))
            .where(tally.bucket_start >= since, tally.bucket_start < until)
            .where(tally.criterion == str(self._criterion), tally.judge == self._judge)
            .group_by(day, tally.stratum)
            .order_by(day, tally.stratum)
        )
        with self._engine.connect() as connection:
            return [
                Verdicts(int(at) + DAY / 2, name, float(n), float(y)) for at, name, n, y in connection.execute(query)
            ]

    def usd_per_trace(self) -> float | None:
        """Mean cost of a trace, over all judges and the newest judgements; None where none of them has a cost."""
        columns = (judgements.c.trace_id, judgements.c.criterion, judgements.c.cost_usd)
        newest = select(*columns).order_by(judgements.c.id.desc()).limit(_NEWEST).subquery()
        # One reading gives one row a criterion; the headline's carries the cost of the whole reading.
        query = select(func.sum(newest.c.cost_usd), func.count(newest.c.trace_id.distinct())).where(
            newest.c.criterion == str(Criterion.ANY_FAILURE), newest.c.cost_usd.is_not(None)
        )
        with self._engine.connect() as connection:
            total, traces = connection.execute(query).one()
        return float(total) / int(traces) if traces else None
