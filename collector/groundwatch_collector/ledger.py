"""Audit: read the span log again, on its own, and compare what was received with what the tables say became of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, Engine, Row, func, select

from groundwatch_collector import otlp, refused, tables
from groundwatch_collector.decision_store import committed_position
from groundwatch_collector.limits import Limits, Rejected
from groundwatch_collector.spanlog import LogReader, LogRecord
from groundwatch_collector.storage import reader

_EXAMPLES = 20
DEAD_LETTER = "dead_letter"  # in place of a verdict, in the rows that stand for removed ones


@dataclass(frozen=True, slots=True)
class LedgerReport:
    """Where every received trace is. The parts are counted apart from each other and then added up."""

    received: int  # distinct traces in the log or the ledger
    judged: int
    unscored: int  # sampled, but no verdict could be had
    not_sampled: int
    skipped: Mapping[str, int]  # by reason
    undecided: int  # in the log, at or after the committed position
    waiting_for_judge: int
    lost: Mapping[str, int]  # by reason
    doubled: int  # more in the tallies than in the ledger
    tally_received: int  # sum of traffic_tally.received
    ledger_traffic: int  # ledger rows that are traffic: not skipped
    dead_letters: Mapping[str, int]  # records that can never be read, by reason; their traces have no known id
    damaged_log_bytes: int = 0  # log bytes that cannot be read any more
    late: int = 0  # of the sampled traces: brought back by late feedback
    lost_examples: Sequence[str] = field(default=())

    @property
    def waiting(self) -> int:
        return self.undecided + self.waiting_for_judge

    @property
    def adds_up(self) -> bool:
        """Whether every received trace is somewhere, once."""
        parts = self.judged + self.unscored + self.not_sampled + sum(self.skipped.values()) + self.waiting
        total = parts + sum(self.lost.values())
        return total == self.received and self.doubled == 0 and self.tally_received == self.ledger_traffic


def report(engine: Engine, log: LogReader, limits: Limits | None = None) -> LedgerReport:
    """Compare the span log with the tables. Safe while the monitor runs: the log is read before the tables."""
    last_seen, end = _traces_in(log.records(), limits or Limits())
    del end
    with reader(engine).begin() as connection:
        return _compare(connection, last_seen, sum(log.damage.values()))


def compared(engine: Engine, seen: Mapping[str, bool]) -> LedgerReport:
    """The same for a log that was read elsewhere: *seen* says of each trace in it whether it may be undecided yet."""
    with reader(engine).begin() as connection:
        return _compare(connection, {trace_id: int(waits) for trace_id, waits in seen.items()}, 0, low=1)


def _traces_in(records: Iterable[LogRecord], limits: Limits) -> tuple[dict[str, int], int]:
    """Position of the last record of each trace, and of the last record read."""
    found: dict[str, int] = {}
    position = 0
    for record in records:
        position = record.position
        for trace_id in trace_ids_of(record, limits):
            found[trace_id] = position
    return found, position


def trace_ids_of(record: LogRecord, limits: Limits) -> set[str]:
    """The traces that *record* brought spans of."""
    if record.kind == "feedback":
        return set()
    try:
        decoded = otlp.decode(record.body, "json" if record.kind == "otlp_json" else "protobuf", limits)
    except Rejected:
        return set()  # it is among the dead letters
    return {span.trace_id for span in decoded.spans}


def _compare(
    connection: Connection, last_seen: Mapping[str, int], damaged: int, *, low: int | None = None
) -> LedgerReport:
    verdicts = {row.trace_id: row for row in connection.execute(select(*_LEDGER_COLUMNS))}
    states = {row.trace_id: row for row in connection.execute(select(*_SAMPLED_COLUMNS))}
    low = committed_position(connection) if low is None else low
    absent = {trace_id: position for trace_id, position in last_seen.items() if trace_id not in verdicts}
    vanished = sorted(trace_id for trace_id, position in absent.items() if position < low)
    unqueued = sorted(t for t, row in verdicts.items() if row.verdict == "sampled" and t not in states)
    found = _states(states[trace_id].state for trace_id in states if trace_id in verdicts)
    tally = connection.execute(select(func.coalesce(func.sum(tables.traffic_tally.c.received), 0))).scalar_one()
    skipped = _states(row.reason for row in verdicts.values() if row.verdict == "skipped")
    traffic = len(verdicts) - sum(skipped.values())
    given_up = {reason: skipped.pop(reason, 0) for reason in refused.REASONS}
    present = LedgerReport(
        received=len(verdicts.keys() | last_seen.keys()),
        judged=found.get("judged", 0),
        unscored=found.get("unscored", 0),
        not_sampled=sum(1 for row in verdicts.values() if row.verdict == "not_sampled"),
        skipped=skipped,
        undecided=len(absent) - len(vanished),
        waiting_for_judge=found.get("waiting", 0) + found.get("leased", 0),
        lost=_added(given_up, {"not_in_ledger": len(vanished), "not_queued": len(unqueued)}),
        doubled=max(0, int(tally) - traffic),
        tally_received=int(tally),
        ledger_traffic=traffic,
        dead_letters=_dead_letters(connection),
        damaged_log_bytes=damaged,
        late=sum(1 for row in states.values() if row.family == "late"),
        lost_examples=tuple((vanished + unqueued)[:_EXAMPLES]),
    )
    return _with_removed(present, list(connection.execute(select(tables.ledger_base))))


def _with_removed(present: LedgerReport, base: Sequence[Row[Any]]) -> LedgerReport:
    """Add the traces whose rows retention has removed."""
    traces = [row for row in base if row.verdict != DEAD_LETTER]
    traffic = sum(row.traces for row in traces if row.verdict != "skipped")

    def of(**wanted: str) -> int:
        return sum(row.traces for row in traces if all(getattr(row, k) == v for k, v in wanted.items()))

    unqueued = of(verdict="sampled", state="")
    skipped = {row.reason for row in traces} - set(refused.REASONS)
    ledger_traffic = present.ledger_traffic + traffic
    return replace(
        present,
        received=present.received + sum(row.traces for row in traces),
        judged=present.judged + of(state="judged"),
        unscored=present.unscored + of(state="unscored"),
        not_sampled=present.not_sampled + of(verdict="not_sampled"),
        skipped=_added(present.skipped, {reason: of(verdict="skipped", reason=reason) for reason in skipped}),
        lost=_added(
            present.lost, {"not_queued": unqueued} | {reason: of(reason=reason) for reason in refused.REASONS}
        ),
        doubled=max(0, present.tally_received - ledger_traffic),
        ledger_traffic=ledger_traffic,
        dead_letters=_added(
            present.dead_letters, {row.reason: row.traces for row in base if row.verdict == DEAD_LETTER}
        ),
        late=present.late + of(family="late"),
    )


def _added(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    keys = [*counts, *(key for key in more if key not in counts)]
    return {key: total for key in keys if (total := counts.get(key, 0) + more.get(key, 0))}


_LEDGER_COLUMNS = (tables.ledger.c.trace_id, tables.ledger.c.verdict, tables.ledger.c.reason)
_SAMPLED_COLUMNS = (
    tables.sampled_traces.c.trace_id,
    tables.sampled_traces.c.state,
    tables.sampled_traces.c.family,
)


def _states(words: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return counts


def _dead_letters(connection: Connection) -> dict[str, int]:
    reason = tables.dead_letters.c.reason
    return {row[0]: row[1] for row in connection.execute(select(reason, func.count()).group_by(reason))}
