"""Notice that somebody asks nearly the same question again soon after an answer: a weak sign that it did not help.

Within one session only. The memory is bounded and lasts minutes; it is not kept over a restart. English and Chinese.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from dataclasses import dataclass

from groundwatch_collector import question_features as features
from groundwatch_collector.ragtrace import RagTrace

_STOP_WORDS = """
    a an the is are was were be do does did can could would should will i you we it my your our me of in on at to for
    from with and or what which who when where how why please tell that this there have has had get so again ok
    的 了 吗 呢 吧 是 我 你 请 问 请问 什么 怎么 怎样 如何 多少 一下 告诉 可以 能
"""
_STOP = frozenset(key for word in _STOP_WORDS.split() for key in features.keys(word))
_MAX_KEYS = 128  # of one remembered question


@dataclass(frozen=True, slots=True)
class ReaskSettings:
    """What counts as asking again."""

    seconds: float = 600.0  # from the end of the earlier answer to the start of the later question
    similarity: float = 0.5  # share of the features that both questions have, from 0 to 1
    sessions: int = 10_000  # sessions remembered; the one silent for longest goes first
    per_session: int = 3  # questions remembered of each

    def __post_init__(self) -> None:
        if not 0.0 < self.similarity <= 1.0:
            raise ValueError(f"re-asking similarity: found {self.similarity}, accepted: above 0 and up to 1")
        if self.seconds < 0 or self.sessions < 1 or self.per_session < 1:
            raise ValueError("re-asking: accepted: seconds from 0, sessions and questions of a session from 1")


@dataclass(frozen=True, slots=True)
class Reask:
    """A question that was asked again."""

    earlier_trace_id: str
    similarity: float


@dataclass(frozen=True, slots=True)
class _Asked:
    trace_id: str
    keys: array[int]
    started_at: float
    ended_at: float


class Reasking:
    """The last questions of each session."""

    def __init__(self, settings: ReaskSettings) -> None:
        self._settings = settings
        self._sessions: OrderedDict[tuple[str, str], deque[_Asked]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def see(self, trace: RagTrace) -> Reask | None:
        """The question that this one repeats, if any; the nearest one counts. It is remembered in any case."""
        if not trace.session or not trace.query:
            return None
        end = trace.started_at + max(0.0, trace.duration_seconds)
        asked = _Asked(trace.trace_id, content_keys(trace.query), trace.started_at, end)
        if not asked.keys:
            return None
        before = self._remembered((trace.app, trace.session))
        found = max((self._reask(old, asked) for old in before), key=lambda r: r.similarity, default=None)
        if all(old.trace_id != asked.trace_id for old in before):  # a partition that moved is read again
            before.append(asked)
        return found if found is not None and found.similarity >= self._settings.similarity else None

    def _remembered(self, place: tuple[str, str]) -> deque[_Asked]:
        if place in self._sessions:
            self._sessions.move_to_end(place)
            return self._sessions[place]
        if len(self._sessions) >= self._settings.sessions:
            self._sessions.popitem(last=False)
        return self._sessions.setdefault(place, deque(maxlen=self._settings.per_session))

    def _reask(self, old: _Asked, new: _Asked) -> Reask:
        """Similarity 0 where the answer had not been given yet (a double click), or where it was too long ago."""
        waited = new.started_at - old.ended_at
        timely = 0.0 <= waited <= self._settings.seconds and old.trace_id != new.trace_id
        return Reask(old.trace_id, similarity(old.keys, new.keys) if timely else 0.0)


def content_keys(text: str) -> array[int]:
    """Features of *text* without those of words that every question has; all of them where nothing else is left."""
    every = features.keys(text)
    telling = [key for key in every if key not in _STOP] or list(every)
    return array("H", telling[:_MAX_KEYS])


def similarity(one: array[int], other: array[int]) -> float:
    """Shared features over the mean number of features (Dice), from 0 to 1."""
    left, right = set(one), set(other)
    return 2 * len(left & right) / (len(left) + len(right)) if left and right else 0.0
