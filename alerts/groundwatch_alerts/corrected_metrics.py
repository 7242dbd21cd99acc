"""The corrected rate as gauges: an estimate of two phases cannot be put together from counters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from sqlalchemy import Engine

from groundwatch_alerts import corrected_rows, tallies
from groundwatch_alerts.corrected import REASONS, Corrected, Refused
from groundwatch_alerts.minutely import MinutelyCollector

WINDOW_SECONDS = 7 * 86_400
"""Few traces are read twice: a shorter window holds too few."""

_MOST_APPS = 50
_Key = tuple[str, str, str]  # app, judge, second

_GAUGES = {
    "rag_corrected_fail_rate": ("Failure rate of the last 7 days as the second judge would have it", "rate"),
    "rag_corrected_fail_rate_lcb95": ("Lower end of its 95 % interval", "low"),
    "rag_corrected_fail_rate_ucb95": ("Upper end of its 95 % interval", "high"),
    "rag_corrected_judge_sensitivity": ("Share of failures that the first judge finds", "sensitivity"),
    "rag_corrected_judge_false_positive_rate": (
        "Share of good answers that the first judge calls failed",
        "false_positive_rate",
    ),
    "rag_corrected_answered_share": ("Share of the chosen traces that have a second verdict", "answered_share"),
}


class CorrectedCollector(MinutelyCollector):
    """Exports the corrected rate of each app by each second judge, or the reason why there is none.

    Read from the database at most once a minute. *judges* are the first judge and those that may read second.
    """

    def __init__(
        self,
        engine: Engine,
        judges: Sequence[str],
        *,
        now: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._first, *self._others = judges
        self._now = now
        super().__init__(clock)

    def _forget(self) -> None:
        self._found: dict[_Key, Corrected | Refused] = {}

    def _read(self) -> None:
        self._found = dict(self._rates())

    def _rates(self) -> Iterator[tuple[_Key, Corrected | Refused]]:
        since = self._now() - WINDOW_SECONDS
        for second in corrected_rows.seconds(self._others, self._engine):
            for app in tallies.apps(self._engine)[:_MOST_APPS]:
                found = corrected_rows.read(self._engine, app=app, judge=self._first, second=second, since=since)
                yield (app, self._first, second), found

    def _families(self) -> Iterator[Metric]:
        for name, (text, part) in _GAUGES.items():
            values = ((key, getattr(f, part)) for key, f in self._found.items() if isinstance(f, Corrected))
            yield _gauge(name, text, values)
        yield _gauge(
            "rag_corrected_labels",
            "Second verdicts on traces that were chosen for one",
            ((key, found.labels) for key, found in self._found.items()),
        )
        refused = GaugeMetricFamily(
            "rag_corrected_refused",
            "1 where there is no corrected rate, by why",
            labels=["app", "judge", "second", "reason"],
        )
        for key, found in self._found.items():
            for reason in REASONS:
                refused.add_metric([*key, reason], isinstance(found, Refused) and found.reason == reason)
        yield refused
        yield CounterMetricFamily(
            "groundwatch_corrected_read_errors",
            "Scrapes that could not read the second verdicts and left rag_corrected_* out",
            value=self._errors,
        )


def _gauge(name: str, text: str, values: Iterable[tuple[_Key, float]]) -> Metric:
    gauge = GaugeMetricFamily(name, text, labels=["app", "judge", "second"])
    for key, value in values:
        gauge.add_metric(list(key), value)
    return gauge
