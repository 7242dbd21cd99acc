"""How far people agree with each other and with themselves, as gauges. No reviewer has a label of their own here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from sqlalchemy import Engine

from groundwatch_alerts.minutely import MinutelyCollector
from groundwatch_collector.storage import reader

from . import readings
from .label_agreement import MIN_PAIRS, Line, measure

_GAUGES = {
    "groundwatch_reviewers_kappa": (
        f"Cohen's kappa of two blind readings by people; absent below {MIN_PAIRS} pairs or 5 of either kind. "
        "between: two_people, or same_person some days later",
        "kappa",
    ),
    "groundwatch_reviewers_kappa_low": ("Lower end of its 95 % interval", "low"),
    "groundwatch_reviewers_kappa_high": ("Upper end of its 95 % interval", "high"),
}


class LabelAgreementCollector(MinutelyCollector):
    """Read from the database at most once a minute."""

    def __init__(self, engine: Engine, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        super().__init__(clock)

    def _forget(self) -> None:
        self._found: list[tuple[str, Line]] = []

    def _read(self) -> None:
        with reader(self._engine).connect() as connection:
            found = measure(readings.blind(connection))
        parts = {"two_people": found.between, "same_person": found.stability}
        self._found = [(name, line) for name, lines in parts.items() for line in lines]

    def _families(self) -> Iterator[Metric]:
        labels = ["criterion", "between"]
        for name, (text, part) in _GAUGES.items():
            gauge = GaugeMetricFamily(name, text, labels=labels)
            for between, line in self._found:
                if line.kappa is not None:
                    gauge.add_metric([line.criterion, between], getattr(line.kappa, part))
            yield gauge
        pairs = GaugeMetricFamily("groundwatch_reviewers_pairs", "Traces with two such labels", labels=labels)
        for between, line in self._found:
            pairs.add_metric([line.criterion, between], line.pairs)
        yield pairs
        yield CounterMetricFamily(
            "groundwatch_reviewers_kappa_read_errors",
            "Scrapes that could not read people's labels and left groundwatch_reviewers_kappa out",
            value=self._errors,
        )
