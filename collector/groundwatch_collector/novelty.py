"""Notice questions of a kind that an application has not been asked before, in English and Chinese.

Each question is compared with *leaders*: the first question of each kind. One that is near none becomes a leader, and
its kind counts as new until it was asked often enough or has become old. How far from everything known a kind must
be to be called new follows from the budget that is left, a share of traffic: the scarcer it is, the farther. Labels
depend on the order of arrival: they are stored, never recomputed.

The state holds hashed features only, is bounded, and can be written down and read back.
"""

from __future__ import annotations

import math
from array import array
from collections import OrderedDict
from dataclasses import dataclass
from heapq import nlargest
from typing import Any, Final

from groundwatch_collector import question_features as features

STATE_VERSION: Final = 2
_HEAVIEST = 40  # features of a question that look for near leaders
_LEADER_KEYS = 96  # features that a leader keeps
_VERIFIED = 3  # near leaders that are compared in full
_DECAY_AT = 20_000  # questions after which old ones count half in the document frequencies
_IDF_POWER = 2  # each of two vectors is weighted by the inverse document frequency


@dataclass(frozen=True, slots=True)
class NoveltySettings:
    """What counts as new, and how much of it."""

    budget: float = 0.02  # share of an application's traffic that may be called new
    warm_up: int = 500  # questions of an application before any is new
    hits: int = 20  # a kind is new until it was asked this often ...
    seconds: float = 86_400.0  # ... or for this long
    leaders: int = 1_024  # kinds remembered for one application; the one not asked for longest goes first
    nearness: float = 0.35  # cosine to its leader from which a question is of a known kind
    apps: int = 16  # applications with a memory of their own; further ones are never new
    burst: int = 60  # unused budget that is kept, in questions

    def __post_init__(self) -> None:
        if not 0.0 < self.budget <= 0.5:
            raise ValueError(f"novelty budget: found {self.budget}, accepted: above 0 and up to 0.5")
        if not 0.0 < self.nearness < 1.0:
            raise ValueError(f"novelty nearness: found {self.nearness}, accepted: between 0 and 1")
        for name in ("hits", "leaders", "apps", "burst"):
            if getattr(self, name) < 1:
                raise ValueError(f"novelty {name}: found {getattr(self, name)}, accepted: 1 or more")
        if self.warm_up < 0 or self.seconds < 0:
            raise ValueError("novelty warm-up and seconds: accepted: 0 or more")


@dataclass(frozen=True, slots=True)
class Sight:
    """What was seen in one question."""

    novel: bool  # the label
    first: bool = False  # it became a leader
    nearness: float = 0.0  # cosine to the nearest leader
    over_budget: bool = False  # it would have been novel, had the budget allowed


KNOWN: Final = Sight(False)


@dataclass(slots=True)
class _Leader:
    keys: array[int]
    norm: float  # of its weights when it was last compared
    hits: int
    first_at: float
    nearness: float  # to the nearest leader, when it was first asked
    new: bool  # False for good when it has been asked often enough, is old, or came during warm-up


class AppNovelty:
    """The kinds of question of one application."""

    def __init__(self, settings: NoveltySettings) -> None:
        self._settings = settings
        self.questions = 0
        self._tokens = float(settings.burst)
        self._counted = 0.0  # questions in the document frequencies, old ones halved
        self._frequencies = array("d", bytes(8 * features.DIMENSIONS))
        self._leaders: OrderedDict[int, _Leader] = OrderedDict()  # least recently hit first
        self._next = 0
        self._index: list[list[int]] = [[] for _ in range(features.KEYS)]  # key -> leaders that have it

    @property
    def leaders(self) -> int:
        return len(self._leaders)

    @property
    def threshold(self) -> float:
        """A new kind is called so when the nearest known one was less near than this: all with a full budget."""
        return self._settings.nearness * self._tokens / self._settings.burst

    def nearness(self, text: str) -> float:
        """Cosine to the nearest leader. Nothing is learnt from it."""
        keys = features.keys(text)
        return self._nearest(self._weights(keys))[1] if keys else 0.0

    def see(self, text: str, now: float) -> Sight:
        """Sort *text* in and say whether its kind is new."""
        keys = features.keys(text)
        if not keys:
            return KNOWN
        weights = self._weights(keys)
        self._learn(keys)
        number, nearness = self._nearest(weights)
        first = number is None or nearness < self._settings.nearness
        leader = self._lead(weights, nearness, now) if first or number is None else self._hit(number, now)
        warm = self.questions >= self._settings.warm_up
        self.questions += 1
        if not warm:
            leader.new = False
            return Sight(False, first, nearness)
        novel = self._afford(leader)
        return Sight(novel, first, nearness, over_budget=leader.new and not novel)

    def _afford(self, leader: _Leader) -> bool:
        """A bucket of tokens makes the budget a bound, also when somebody sends nothing but noise."""
        self._tokens = min(float(self._settings.burst), self._tokens + self._settings.budget)
        if not leader.new or self._tokens < 1.0 or leader.nearness >= self.threshold:
            return False
        self._tokens -= 1.0
        return True

    # Document frequencies: what most questions share says little.

    def _weights(self, keys: tuple[int, ...]) -> dict[int, float]:
        """Weight of each key, heaviest first, at most as many as a leader keeps."""
        total, frequencies, log = self._counted + 1.5, self._frequencies, math.log
        weighted = [(log(total / (frequencies[key >> 1] + 0.5)), key) for key in keys]
        if len(weighted) > _LEADER_KEYS:
            weighted = nlargest(_LEADER_KEYS, weighted)
        return {key: max(idf, 0.05) ** _IDF_POWER for idf, key in sorted(weighted, reverse=True)}

    def _learn(self, keys: tuple[int, ...]) -> None:
        frequencies = self._frequencies
        for dimension in {key >> 1 for key in keys}:
            frequencies[dimension] += 1.0
        self._counted += 1.0
        if self._counted >= _DECAY_AT:
            self._counted /= 2
            self._frequencies = array("d", [value / 2 for value in frequencies])

    # Leaders.

    def _nearest(self, weights: dict[int, float]) -> tuple[int | None, float]:
        """The leader with the largest cosine, looked for by the heaviest features and then compared in full."""
        scores: dict[int, float] = {}
        get, index = scores.get, self._index
        for _, key in zip(range(_HEAVIEST), weights, strict=False):
            weight = weights[key]
            for number in index[key]:
                scores[number] = get(number, 0.0) + weight
        if not scores:
            return None, 0.0
        leaders = self._leaders
        near = nlargest(_VERIFIED, scores, key=lambda number: scores[number] / leaders[number].norm)
        own = math.sqrt(sum(weights.values()))
        cosines = [(self._cosine(weights, own, leaders[number]), number) for number in near]
        nearness, number = max(cosines)
        return number, nearness

    def _cosine(self, weights: dict[int, float], own: float, leader: _Leader) -> float:
        """Keys of the same dimension and the other sign can only be collisions; they count against each other."""
        total, frequencies, log = self._counted + 0.5, self._frequencies, math.log
        shared = square = 0.0
        for key in leader.keys:
            if key in weights:
                shared += weights[key]
                square += weights[key]
                continue
            square += max(log(total / (frequencies[key >> 1] + 0.5)), 0.05) ** _IDF_POWER
            if key ^ 1 in weights:
                shared -= weights[key ^ 1]
        leader.norm = math.sqrt(square)
        return shared / (own * leader.norm)

    def _hit(self, number: int, now: float) -> _Leader:
        leader = self._leaders[number]
        self._leaders.move_to_end(number)
        leader.hits += 1
        if leader.hits > self._settings.hits or now - leader.first_at > self._settings.seconds:
            leader.new = False
        return leader

    def _lead(self, weights: dict[int, float], nearness: float, now: float) -> _Leader:
        if len(self._leaders) >= self._settings.leaders:
            self._forget()
        leader = _Leader(array("H", weights), math.sqrt(sum(weights.values())), 1, now, nearness, True)
        self._insert(leader)
        return leader

    def _insert(self, leader: _Leader) -> None:
        self._leaders[self._next] = leader
        for key in leader.keys:
            self._index[key].append(self._next)
        self._next += 1

    def _forget(self) -> None:
        number, leader = self._leaders.popitem(last=False)
        for key in leader.keys:
            self._index[key].remove(number)

    # Writing down and reading back.

    def state(self) -> dict[str, Any]:
        """Everything that the next label depends on, as plain numbers."""
        return {
            "version": STATE_VERSION,
            "questions": self.questions,
            "tokens": self._tokens,
            "counted": self._counted,
            "frequencies": list(self._frequencies),
            "leaders": [
                [x.hits, x.first_at, x.nearness, x.new, x.norm, list(x.keys)] for x in self._leaders.values()
            ],
        }

    @classmethod
    def restore(cls, settings: NoveltySettings, state: dict[str, Any]) -> AppNovelty:
        """Raises ``ValueError``, ``KeyError`` or ``TypeError`` for what :meth:`state` did not write."""
        if state["version"] != STATE_VERSION or len(state["frequencies"]) != features.DIMENSIONS:
            raise ValueError(f"novelty state: found version {state['version']}, accepted: {STATE_VERSION}")
        made = cls(settings)
        made.questions = int(state["questions"])
        made._tokens = min(float(settings.burst), float(state["tokens"]))
        made._counted, made._frequencies = float(state["counted"]), array("d", state["frequencies"])
        if made._counted < 0 or min(made._frequencies) < 0:
            raise ValueError("novelty state: a negative count")
        for hits, first_at, nearness, new, norm, keys in state["leaders"][-settings.leaders :]:
            if not all(0 <= key < features.KEYS for key in keys) or not norm > 0:
                raise ValueError("novelty state: a leader that cannot be")
            made._insert(
                _Leader(array("H", keys), float(norm), int(hits), float(first_at), float(nearness), bool(new))
            )
        return made


class Novelty:
    """One memory for each application, up to a bound; an application beyond it is never new, and that is counted."""

    def __init__(self, settings: NoveltySettings, apps: dict[str, AppNovelty] | None = None) -> None:
        self._settings = settings
        self._apps: OrderedDict[str, AppNovelty] = OrderedDict(apps or {})
        self._seen_at: dict[str, float] = dict.fromkeys(self._apps, -math.inf)  # last question of each application
        self.changed: set[str] = set()  # applications whose state was not written down since

    def see(self, app: str, text: str | None, now: float) -> Sight | None:
        """None: this application has no memory, because too many others are active."""
        memory = self._memory(app, now)
        if memory is None:
            return None
        self._seen_at[app] = now
        if not text:
            return KNOWN
        self.changed.add(app)
        return memory.see(text, now)

    def app(self, name: str) -> AppNovelty | None:
        return self._apps.get(name)

    def _memory(self, app: str, now: float) -> AppNovelty | None:
        if app not in self._apps:
            if len(self._apps) >= self._settings.apps and not self._make_room(now):
                return None
            self._apps[app] = AppNovelty(self._settings)
        return self._apps[app]

    def _make_room(self, now: float) -> bool:
        """Only an application that was silent for long gives way: new names cost a sender nothing."""
        silent = min(self._seen_at, key=self._seen_at.__getitem__)
        if now - self._seen_at[silent] <= self._settings.seconds:
            return False
        del self._apps[silent], self._seen_at[silent]
        self.changed.discard(silent)
        return True
