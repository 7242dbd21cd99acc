"""What the collector remembers between traces, and notices in the next one: new kinds of question, re-asking.

A transaction that fails is tried again with the same traces. What was noticed in a trace is kept until its
transaction has committed, so that the second try writes the same labels and nothing is learnt twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, Engine

from groundwatch_collector import novelty_store
from groundwatch_collector.novelty import KNOWN, AppNovelty, Novelty, NoveltySettings, Sight
from groundwatch_collector.ragtrace import Feedback, RagTrace
from groundwatch_collector.reasking import Reask, Reasking, ReaskSettings
from groundwatch_collector.storage import reader

REASK_NAME: Final = "reask"
BY_COLLECTOR: Final = "collector"


@dataclass(frozen=True, slots=True)
class Noticed:
    """What earlier traces tell of this one."""

    sight: Sight | None = KNOWN  # None: too many applications, this one has no memory
    reask: Reask | None = None

    @property
    def novel(self) -> bool:
        return self.sight is not None and self.sight.novel


NOTHING: Final = Noticed()


class Noticer:
    """The memories of one consumer. Not for use by several threads at a time."""

    def __init__(
        self,
        novelty: NoveltySettings | None,
        reasking: ReaskSettings | None,
        *,
        save_seconds: float = 60.0,
        name: str = "pipeline",
    ) -> None:
        """None switches a memory off. *name*: the consumer, under which the memory is written down."""
        self._settings = novelty
        self._novelty = Novelty(novelty) if novelty is not None else None
        self._reasking = Reasking(reasking) if reasking is not None else None
        self._save_seconds = save_seconds
        self._name = name
        self._saved_at: float | None = None
        self._unsaved: set[str] = set()
        self._uncommitted: dict[str, Noticed] = {}

    def load(self, engine: Engine) -> None:
        """Begin with what an earlier process wrote down."""
        if self._settings is not None:
            with reader(engine).connect() as connection:
                known = novelty_store.load(connection, self._name, self._settings)
            self._novelty = Novelty(self._settings, known)

    def share(self, reasking: Reasking) -> None:
        """Use a memory of sessions that other consumers of the same thread use too."""
        if self._reasking is not None:
            self._reasking = reasking

    def notice(self, trace: RagTrace, now: float) -> Noticed:
        """*now*: when its first span was received, so that reading the log again gives the same labels."""
        if trace.trace_id not in self._uncommitted:
            self._uncommitted[trace.trace_id] = self._look(trace, now)
        return self._uncommitted[trace.trace_id]

    def _look(self, trace: RagTrace, now: float) -> Noticed:
        sight = self._novelty.see(trace.app, trace.query, now) if self._novelty is not None else KNOWN
        reask = self._reasking.see(trace) if self._reasking is not None else None
        return Noticed(sight, reask)

    def save_if_due(self, connection: Connection, now: float) -> None:
        """Write the memory down with the decisions of this transaction, at most every so many seconds."""
        if self._novelty is None:
            return
        self._saved_at = now if self._saved_at is None else self._saved_at
        if self._novelty.changed and now - self._saved_at >= self._save_seconds:
            self.save(connection, now)

    def save(self, connection: Connection, now: float) -> None:
        if self._novelty is not None:
            novelty_store.save(connection, self._name, self._changed(self._novelty), now)
            self._unsaved, self._saved_at = set(self._novelty.changed), now

    @staticmethod
    def _changed(novelty: Novelty) -> Iterator[tuple[str, AppNovelty]]:
        for app in sorted(novelty.changed):
            memory = novelty.app(app)
            if memory is not None:
                yield app, memory

    def committed(self) -> None:
        """The transaction is durable: what was noticed for it need not be remembered."""
        self._uncommitted.clear()
        if self._novelty is not None and self._unsaved:
            self._novelty.changed -= self._unsaved
            self._unsaved = set()

    def memory(self, app: str) -> AppNovelty | None:
        """The kinds of question of *app*, for gauges."""
        return self._novelty.app(app) if self._novelty is not None else None


def reask_feedback(trace: RagTrace, reask: Reask, sentiment: str, received_at: float) -> Feedback:
    """What *trace* says about the trace that it asks again. Its id makes it one report, however often noticed."""
    return Feedback(
        id=f"reask-{trace.trace_id}",
        trace_id=reask.earlier_trace_id,
        name=REASK_NAME,
        sentiment="negative" if sentiment == "negative" else "neutral",
        score=round(reask.similarity, 3),
        label=REASK_NAME,
        by=BY_COLLECTOR,
        received_at=received_at,
    )
