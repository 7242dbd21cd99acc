"""Everything that one consumer remembers of feedback: recent complaints, and the chance of late ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Connection, Engine

from groundwatch_collector import decision_store, feedback_votes
from groundwatch_collector.feedback_bursts import Bursts
from groundwatch_collector.feedback_cap import ComplaintCap
from groundwatch_collector.feedback_policy import FeedbackPolicy
from groundwatch_collector.feedback_votes import Vote
from groundwatch_collector.ragtrace import Feedback
from groundwatch_collector.storage import reader


class FeedbackDesk:
    """Not for use by several threads at a time."""

    def __init__(self, engine: Engine, policy: FeedbackPolicy) -> None:
        self._engine = engine
        self._policy = policy
        self._cap = ComplaintCap(engine, policy)
        self._bursts: Bursts | None = None  # read from the database when it is first needed

    @property
    def horizon_seconds(self) -> float:
        return self._policy.settle_after_seconds

    def forget(self) -> None:
        """Believe the database again: what was weighed may not have been committed."""
        self._bursts = None

    def weigh(
        self, given: Sequence[tuple[int, Feedback]], app_in_hand: Callable[[str], str], now: float
    ) -> list[Vote]:
        """What becomes of each record of feedback. *app_in_hand* names the app of a trace that is not decided."""
        if not given:
            return []
        with reader(self._engine).connect() as connection:
            stored = feedback_votes.known(connection, given)
            decided = apps(connection, [feedback.trace_id for _, feedback in given])
        if self._bursts is None:
            self._bursts = Bursts(self._policy, feedback_votes.complaints_before(self._engine, now, apps))

        def app_of(feedback: Feedback) -> str:
            return decided.get(feedback.trace_id) or app_in_hand(feedback.trace_id)

        return feedback_votes.weigh(given, stored, self._bursts, app_of)

    def late_chance(self, base: float, now: float) -> tuple[float, str]:
        """The chance of a complaint after the decision, at most *base*, and the name of its epoch."""
        most, epoch = self._cap.chance(now)
        return min(base, most), f"late-{epoch}"


def apps(connection: Connection, trace_ids: Sequence[str]) -> Mapping[str, str]:
    """The app of those of *trace_ids* that are decided."""
    return {trace_id: row.app for trace_id, row in decision_store.decided(connection, trace_ids).items()}
