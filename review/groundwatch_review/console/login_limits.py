"""How many passwords may be tried, by name and address together and by each alone; bounded, and fails closed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

WINDOW_SECONDS: Final = 900.0

TRIES: Final[Mapping[str, int]] = {
    "pair": 5,  # one person at one place who forgot
    "name": 30,  # guesses from many places; higher, so that nobody locks a person out from a single one
    "address": 30,  # guesses at many names
}
"""Tries without success in a window."""

KEYS_LIMIT: Final = 10_000
"""Beyond so many names and addresses at once all newcomers share one count of each kind."""


@dataclass(slots=True)
class _Count:
    since: float
    tries: int = 0


@dataclass
class LoginLimits:
    """Counts in this process: a restart forgives, which costs an attacker a restart he cannot cause."""

    now: Callable[[], float]
    keys_limit: int = KEYS_LIMIT
    _counts: dict[tuple[str, str], _Count] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, name: str, address: str) -> float:
        """Count one try before the password is looked at; return the seconds to wait, 0 when it may go on.

        A try that may not go on is not counted: waiting always ends.
        """
        now = self.now()
        with self._lock:
            counts = [(kind, self._count(kind, key, now)) for kind, key in _keys(name, address)]
            waits = [WINDOW_SECONDS - (now - count.since) for kind, count in counts if count.tries >= TRIES[kind]]
            if waits:
                return max(1.0, *waits)
            for _kind, count in counts:
                count.tries += 1
        return 0.0

    def forgive(self, name: str, address: str) -> None:
        """The password was right: this person at this place starts again, and did not guess at others."""
        with self._lock:
            for kind, key in _keys(name, address):
                count = self._counts.get((kind, key))
                if count is not None:
                    count.tries = 0 if kind == "pair" else max(0, count.tries - 1)

    def _count(self, kind: str, key: str, now: float) -> _Count:
        count = self._counts.get((kind, key))
        if count is None and len(self._counts) >= self.keys_limit:
            self._drop_old(now)
            if len(self._counts) >= self.keys_limit:
                key = "(others)"
                count = self._counts.get((kind, key))
        if count is None or now - count.since >= WINDOW_SECONDS:
            count = self._counts[kind, key] = _Count(now)
        return count

    def _drop_old(self, now: float) -> None:
        for key in [key for key, count in self._counts.items() if now - count.since >= WINDOW_SECONDS]:
            del self._counts[key]


def _keys(name: str, address: str) -> tuple[tuple[str, str], ...]:
    name = name[:64]
    return ("pair", f"{name}\n{address}"), ("name", name), ("address", address)
