"""What waits for another tool, as a gauge: the command that sends is over long before anybody looks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from sqlalchemy import Engine, func, select

from groundwatch_alerts.minutely import MinutelyCollector
from groundwatch_collector.storage import reader

from .tables import outbox


class OutboxCollector(MinutelyCollector):
    """Read from the database at most once a minute; no series before the first entry."""

    def __init__(self, engine: Engine, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        super().__init__(clock)

    def _forget(self) -> None:
        self._entries: Counter[tuple[str, str, str, str]] = Counter()

    def _read(self) -> None:
        columns = (outbox.c.destination, outbox.c.kind, outbox.c.state, outbox.c.reason)
        with reader(self._engine).connect() as connection:
            rows = connection.execute(select(*columns, func.count()).group_by(*columns)).all()
        self._forget()
        for destination, kind, state, reason, count in rows:
            tool = str(destination).partition(":")[0]  # the rest tells projects apart
            self._entries[tool, kind, state, reason if state == "failed" else ""] += count

    def _families(self) -> Iterator[Metric]:
        entries = GaugeMetricFamily(
            "groundwatch_outbox_entries",
            "Entries of the outbox of `groundwatch send`. state: waiting, removing, sent, removed, or failed with a "
            "reason; scores have no entry once they are sent",
            labels=["tool", "kind", "state", "reason"],
        )
        for key, count in self._entries.items():
            entries.add_metric(list(key), count)
        yield entries
        yield CounterMetricFamily(
            "groundwatch_outbox_read_errors",
            "Scrapes that could not read the outbox and left groundwatch_outbox_entries out",
            value=self._errors,
        )
