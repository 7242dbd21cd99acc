"""A Prometheus collector whose figures are too dear to be read from the database at every scrape."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

READ_EVERY_SECONDS = 60.0


class MinutelyCollector(Collector):
    """Reads at most once a minute. Where the database does not answer, it counts that and shows nothing old."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._read_at = -READ_EVERY_SECONDS
        self._errors = 0
        self._forget()

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not read the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        if self._clock() - self._read_at >= READ_EVERY_SECONDS:
            self._read_at = self._clock()
            try:
                self._read()
            except SQLAlchemyError:  # the other metrics of this process must still be seen
                self._forget()
                self._errors += 1
        yield from self._families()

    @abstractmethod
    def _read(self) -> None:
        """Fetch the figures. Raises what the database raises."""

    @abstractmethod
    def _forget(self) -> None:
        """Have no figures, as before the first reading."""

    @abstractmethod
    def _families(self) -> Iterator[Metric]:
        """The metrics of the last reading."""
