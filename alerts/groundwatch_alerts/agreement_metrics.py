"""How far each judge agrees with people, as gauges: kappa cannot be put together from counters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from sqlalchemy import Engine

from groundwatch_alerts import agreement_rows
from groundwatch_alerts.judge_agreement import Agreement, agreement
from groundwatch_alerts.minutely import MinutelyCollector

WINDOW_SECONDS = 28 * 86_400
"""People label few traces a week, and a judge's agreement with them moves slowly."""

_GAUGES = {
    "groundwatch_judge_kappa": (
        "Cohen's kappa of a judge and people on any failure over 28 days; absent below 50 labels or 5 of either kind",
        "kappa",
    ),
    "groundwatch_judge_kappa_low": ("Lower end of its 95 % interval", "low"),
    "groundwatch_judge_kappa_high": ("Upper end of its 95 % interval", "high"),
}


class AgreementCollector(MinutelyCollector):
    """Exports the agreement with people of each of *judges*. Read from the database at most once a minute."""

    def __init__(
        self,
        engine: Engine,
        judges: Sequence[str],
        *,
        now: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._judges = judges
        self._now = now
        super().__init__(clock)

    def _forget(self) -> None:
        self._found: dict[str, Agreement] = {}
        self._labels: dict[str, int] = {}

    def _read(self) -> None:
        pairs = agreement_rows.read(self._engine, since=self._now() - WINDOW_SECONDS)
        self._labels = {judge: len(pairs.get(judge, [])) for judge in self._judges}
        found = {judge: agreement(pairs.get(judge, [])) for judge in self._judges}
        self._found = {judge: known for judge, known in found.items() if known is not None}

    def _families(self) -> Iterator[Metric]:
        for name, (text, part) in _GAUGES.items():
            yield _gauge(name, text, ((judge, getattr(found, part)) for judge, found in self._found.items()))
        yield _gauge(
            "groundwatch_judge_kappa_labels",
            "Traces drawn for people in 28 days that both they and the judge passed or failed",
            self._labels.items(),
        )
        yield CounterMetricFamily(
            "groundwatch_judge_kappa_read_errors",
            "Scrapes that could not read people's verdicts and left groundwatch_judge_kappa out",
            value=self._errors,
        )


def _gauge(name: str, text: str, values: Iterable[tuple[str, float]]) -> Metric:
    gauge = GaugeMetricFamily(name, text, labels=["judge"])
    for judge, value in values:
        gauge.add_metric([judge], value)
    return gauge
