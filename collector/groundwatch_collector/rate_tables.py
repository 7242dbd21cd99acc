"""The rate table of each epoch: planned once, written before it is used, the same for every replica and restart.

An epoch is a span of time by the start of traces. Its table is written at most once: whoever comes first writes it,
all others read that row. A decision is made only under a table that is durable.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

import orjson
from sqlalchemy import Connection, Engine, func, select

from groundwatch_collector import rate_table_store, rates, tables
from groundwatch_collector.capped_rates import UNPLANNED, CappedRates
from groundwatch_collector.feedback_cap import ComplaintCap
from groundwatch_collector.feedback_policy import FeedbackPolicy
from groundwatch_collector.sampling import RateTable
from groundwatch_collector.shedding import shed_between
from groundwatch_collector.storage import reader
from groundwatch_collector.tables import rate_tables

logger = logging.getLogger(__name__)

_HISTORY = rates.DAY + rates.RECENT
LOOK_BACK = 28 * rates.DAY  # of verdicts


class JudgedSource(Protocol):
    """What is known of the judge's work. The scorer's tables are not the collector's: who knows both passes it."""

    def verdicts(self, since: float, until: float) -> Sequence[rates.Verdicts]:
        """Verdicts on traces that started in [since, until), grouped as finely as a day at most."""

    def usd_per_trace(self) -> float | None:
        """Mean price of what was judged lately; None where it is not known."""


class NothingJudged:
    """A source that knows nothing: every stratum is then equally uncertain."""

    def verdicts(self, since: float, until: float) -> Sequence[rates.Verdicts]:
        return ()

    def usd_per_trace(self) -> float | None:
        return None


class InForce(NamedTuple):
    """Of an epoch's table, for whoever watches the budget."""

    start: int
    budget_per_day: float
    left: float
    sampled_today: int


class Rates(Protocol):
    """Rate tables by time."""

    @property
    def current(self) -> RateTable | None:
        """The table that holds now; None before the first `prepare`."""

    def prepare(self, now: float) -> InForce | None:
        """Called before decisions are made. What holds from now on, None where nothing has changed."""

    def table(self, started_at: float) -> RateTable:
        """The table for a trace that started then."""


class FixedRates:
    """One table for ever, whatever is complained of."""

    def __init__(self, table: RateTable) -> None:
        self.current: RateTable | None = table
        self._table = table

    def prepare(self, now: float) -> InForce | None:
        return None

    def table(self, started_at: float) -> RateTable:
        return self._table


@dataclass(frozen=True, slots=True)
class PlanConfig:
    """What the planner keeps to. Raises ``ValueError`` for what cannot be kept to."""

    budget: rates.Budget
    names: Sequence[str]  # of the strata
    salt_version: int
    cuts_version: str
    epoch_seconds: int = 300
    expected_per_day: float = 100_000.0
    feedback_share: float = 0.25
    usd_per_judged_trace: float | None = None  # configured price; else what was measured

    def __post_init__(self) -> None:
        if self.budget.judged_per_day <= 0 and self.usd_per_judged_trace is None:
            raise ValueError(
                "budget_usd_per_day: the price of a judged trace is not known; set usd_per_judged_trace, or "
                "budget_judged_per_day as well"
            )
        if not 0 < self.feedback_share <= 1:
            raise ValueError(f"budget_feedback_share: found {self.feedback_share}, accepted: above 0 and up to 1")
        if not self.expected_per_day > 0:
            raise ValueError(f"expected_traces_per_day: found {self.expected_per_day}, accepted: above 0")

    def epoch_start(self, at: float) -> int:
        return int(at // self.epoch_seconds) * self.epoch_seconds

    @property
    def kind(self) -> str:
        """Ends the id of every table that may be used with this configuration: same epochs, salt, cuts and strata."""
        named = (self.epoch_seconds, self.salt_version, self.cuts_version, tuple(sorted(self.names)))
        digest = blake2b(repr(named).encode(), digest_size=4).hexdigest()
        return f"-{digest}-cuts-{self.cuts_version}"

    def epoch_id(self, start: int) -> str:
        return f"e{start}{self.kind}"


def rates_of(
    plan: PlanConfig | None,
    fixed: RateTable,
    engine: Engine,
    judged: JudgedSource | None,
    feedback: FeedbackPolicy,
) -> Rates:
    """Planned rates where there is a budget, else the *fixed* ones, with a cap on complaints."""
    if plan is not None:
        return RatePlanner(engine, plan, judged or NothingJudged())
    return CappedRates(engine, fixed, ComplaintCap(engine, feedback))


class RatePlanner:
    """Rate tables by time. `prepare` first, then `table` for every trace; both from one thread."""

    def __init__(self, engine: Engine, config: PlanConfig, judged: JudgedSource) -> None:
        self._engine = engine
        self._config = config
        self._judged = judged
        self._past = rate_table_store.PastTables(self._read)
        self._start = -1
        self.current: RateTable | None = None
        self.why: Mapping[str, Any] = {}

    def prepare(self, now: float) -> InForce | None:
        """Make sure that the epoch of *now* has a durable table, planning it where nobody has.

        Raises what the database raises; nothing is half done then.
        """
        start = self._config.epoch_start(now)
        if start == self._start:
            return None
        row = rate_table_store.row(self._engine, self._config.epoch_id(start)) or self._write(start, now)
        sampled = self._sampled_today(now)
        self.current, self.why = rate_table_store.table_of(row), orjson.loads(row["why"])
        self._start = start
        return InForce(start, float(self.why["budget_per_day"]), float(self.why["left"]), sampled)

    def table(self, started_at: float) -> RateTable:
        """The table of the epoch in which a trace started, else the nearest older, else the first there is.

        Any durable table may be used, because none knows anything of a trace that is not decided.
        """
        if self.current is None:
            raise RuntimeError("prepare() comes before the first decision")
        start = self._config.epoch_start(started_at)
        return self.current if start >= self._start else self._past.table(start, self.current)

    def _sampled_today(self, now: float) -> int:
        midnight = int(now // rates.DAY) * rates.DAY
        with reader(self._engine).connect() as connection:
            return _sampled(connection, midnight, midnight + rates.DAY)

    def _read(self, start: int) -> RateTable | None:
        table = rate_tables.c
        usable = select(rate_tables).where(table.epoch.endswith(self._config.kind, autoescape=True)).limit(1)
        older = usable.where(table.start <= start).order_by(table.start.desc())
        first = usable.order_by(table.start)
        with reader(self._engine).connect() as connection:
            row = connection.execute(older).mappings().first() or connection.execute(first).mappings().first()
        return rate_table_store.table_of(row) if row is not None else None

    def _write(self, start: int, now: float) -> Mapping[Any, Any]:
        """Plan from committed data, write, and return what is written: perhaps another replica's row."""
        known = self._known(start)
        made = rates.plan(known, self._config.names)
        values = {
            "epoch": self._config.epoch_id(start),
            "start": start,
            "epoch_seconds": self._config.epoch_seconds,
            "salt_version": self._config.salt_version,
            "cuts_version": self._config.cuts_version,
            "rates": made.rates,
            "why": made.why,
            "planned_at": now,
        }
        return rate_table_store.write(self._engine, values)

    def _known(self, start: int) -> rates.Known:
        until = start - self._config.epoch_seconds
        midnight = start - start % rates.DAY
        verdicts = rates.decayed(self._judged.verdicts(until - LOOK_BACK, until), until)
        budget, set_by = self._budget()
        with reader(self._engine).connect() as connection:
            traffic = rates.Traffic(until, _traffic(connection, until, self._config.epoch_seconds))
            sampled = float(_sampled(connection, midnight, until)) if until > midnight else 0.0
            in_flight = self._in_flight(connection, max(until, midnight), start, traffic)
        return rates.Known(
            start=start,
            traffic=traffic,
            verdicts=verdicts,
            sampled_today=sampled,
            in_flight=in_flight,
            budget=budget,
            budget_set_by=set_by,
            expected_per_day=self._config.expected_per_day,
            feedback_share=self._config.feedback_share,
        )

    def _budget(self) -> tuple[float, str]:
        price = self._config.usd_per_judged_trace
        if price is None and self._config.budget.usd_per_day > 0:
            price = self._judged.usd_per_trace()
        judged, set_by = self._config.budget.judged(price)
        if set_by == "traces_price_unknown":
            logger.warning("the price of a judged trace is not known: only the budget in traces is kept")
        return judged, set_by

    def _in_flight(self, connection: Connection, since: int, start: int, traffic: rates.Traffic) -> float:
        """What the table before this one will have chosen up to *start*: too young to be counted."""
        if since >= start:
            return 0.0
        planned = rate_tables.c.start < start, rate_tables.c.cuts_version != UNPLANNED
        query = select(rate_tables.c.why).where(*planned).order_by(rate_tables.c.start.desc())
        why = connection.scalar(query.limit(1))
        if why is None:
            return 0.0
        last = orjson.loads(why)
        traces = rates.forecast(traffic, since, start, self._config.expected_per_day)
        return float(last["chosen_share"]) * traces


def _traffic(connection: Connection, until: int, epoch_seconds: int) -> dict[int, dict[str, float]]:
    tally = tables.traffic_tally.c
    epoch = (tally.bucket_start - tally.bucket_start % epoch_seconds).label("epoch")
    query = (
        select(epoch, tally.stratum, func.sum(tally.received))
        .where(tally.bucket_start >= until - _HISTORY - epoch_seconds, tally.bucket_start < until)
        .group_by(epoch, tally.stratum)
    )
    found: dict[int, dict[str, float]] = {}
    for start, stratum, received in connection.execute(query):
        found.setdefault(int(start), {})[stratum] = float(received)
    return found


def _sampled(connection: Connection, since: int, until: int) -> int:
    """What the hash chose: in the queue, judged, or shed. An overload must not raise the rates."""
    started = tables.sampled_traces.c.started_at
    query = select(func.count()).select_from(tables.sampled_traces).where(started >= since, started < until)
    return int(connection.scalar(query) or 0) + shed_between(connection, since, until)
