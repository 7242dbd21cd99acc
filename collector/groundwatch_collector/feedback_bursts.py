"""Notice when complaints come faster than people make them. What is beyond the bound is stored and moves nothing.

A burst is known by when complaints arrived, never by the random numbers of their traces. So what it leaves out takes
precision from the stratum of complaints, and no estimate is biased by it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from groundwatch_collector.feedback_policy import HOUR, MINUTE, FeedbackPolicy

_REMEMBERED = 10_000  # subjects and apps; the one silent for longest is forgotten first


class Complaint(NamedTuple):
    subject: str  # "" when unknown: then only the app's bound holds
    app: str
    at: float  # Unix seconds, when the collector received it
    quarantined: bool = False


@dataclass(frozen=True, slots=True)
class _Bound:
    seconds: float
    most: int


class Bursts:
    """The complaints of the last hour, as times. Not for use by several threads at a time."""

    def __init__(self, policy: FeedbackPolicy, past: Iterable[Complaint] = ()) -> None:
        """*past*: complaints of the last hour, oldest first, so that a restart does not open the gate again."""
        self._of_subject = (
            _Bound(MINUTE, policy.subject_negatives_per_minute),
            _Bound(HOUR, policy.subject_negatives_per_hour),
        )
        self._of_app = (_Bound(MINUTE, policy.app_negatives_per_minute),)
        self._times: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()
        for complaint in past:
            self._note(complaint, subject_only=complaint.quarantined)

    def admit(self, complaint: Complaint) -> str:
        """Count *complaint*; return "" or what it is quarantined for: ``subject`` or ``app``.

        A quarantined one counts as well: a burst is over when it pauses, not when its next minute begins. What is
        held back for its subject does not fill the bound of the app, where others complain too.
        """
        if complaint.subject and self._full("subject", complaint.subject, complaint.at, self._of_subject):
            self._note(complaint, subject_only=True)
            return "subject"
        full = self._full("app", complaint.app, complaint.at, self._of_app)
        self._note(complaint)
        return "app" if full else ""

    def _full(self, kind: str, name: str, at: float, bounds: Iterable[_Bound]) -> bool:
        times = list(self._times.get((kind, name), ()))
        return any(len(times) - bisect_right(times, at - bound.seconds) >= bound.most for bound in bounds)

    def _note(self, complaint: Complaint, *, subject_only: bool = False) -> None:
        if complaint.subject:
            self._add("subject", complaint.subject, complaint.at, self._of_subject)
        if not subject_only:
            self._add("app", complaint.app, complaint.at, self._of_app)

    def _add(self, kind: str, name: str, at: float, bounds: Iterable[_Bound]) -> None:
        # More than the largest bound need not be remembered: full is full.
        times = self._times.setdefault((kind, name), deque(maxlen=max(bound.most for bound in bounds)))
        times.append(max(at, times[-1]) if times else at)  # a clock set back must not unsort them
        self._times.move_to_end((kind, name))
        if len(self._times) > _REMEMBERED:
            self._times.popitem(last=False)
