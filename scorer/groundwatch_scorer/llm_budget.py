"""What judging may cost in a day and ask of an endpoint in a minute. For several threads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_DAY_SECONDS = 86_400
_MINUTE_SECONDS = 60.0
LONGEST_WAIT_SECONDS = 30.0
"""For a place in the minute's budget. Longer, and the lease of the trace in hand would be at risk."""


def estimated_tokens(texts: Iterable[str]) -> int:
    """Three bytes a token is fewer than any tokenizer needs on average: the estimate errs to the dear side."""
    return sum(len(text.encode()) for text in texts) // 3


@dataclass(frozen=True, slots=True)
class Price:
    input_usd_per_million: float
    output_usd_per_million: float

    def of(self, input_tokens: int, output_tokens: int) -> float:
        return (input_tokens * self.input_usd_per_million + output_tokens * self.output_usd_per_million) / 1e6


class DailyBudget:
    """Spending of one UTC day against a limit. A limit needs a price: what is not known is not free.

    What calls in flight may cost at most is held back, so that several at once cannot pass the limit together.
    """

    def __init__(
        self, price: Price | None, max_usd_per_day: float | None, *, now: float, spent_usd: float = 0.0
    ) -> None:
        self.price = price
        self._limit = max_usd_per_day
        self._day = int(now // _DAY_SECONDS)
        self._spent = spent_usd
        self._held = 0.0
        self._lock = threading.Lock()

    def hold(self, now: float, input_tokens: int, output_tokens: int) -> str:
        """Keep room for a call of at most this size until :meth:`release`; or say why it may not be made now."""
        if self._limit is None:
            return ""
        if self.price is None:
            return "unknown_price"
        worst = self.price.of(input_tokens, output_tokens)
        with self._lock:
            self._turn(now)
            if self._spent + self._held + worst > self._limit:
                return "over_budget"
            self._held += worst
        return ""

    def release(self, input_tokens: int, output_tokens: int) -> None:
        """Give back what :meth:`hold` kept for a call of this size."""
        if self._limit is not None and self.price is not None:
            with self._lock:
                self._held = max(0.0, self._held - self.price.of(input_tokens, output_tokens))

    def spend(self, now: float, input_tokens: int, output_tokens: int) -> float | None:
        """Book a call; return its cost, None when the price is not known."""
        if self.price is None:
            return None
        cost = self.price.of(input_tokens, output_tokens)
        with self._lock:
            self._turn(now)
            self._spent += cost
        return cost

    def _turn(self, now: float) -> None:
        day = int(now // _DAY_SECONDS)
        if day != self._day:
            self._day, self._spent = day, 0.0


@dataclass(slots=True)
class Place:
    """One request of a minute: when it goes out, and how many tokens it counts for."""

    at: float
    tokens: int


class MinuteBudget:
    """Requests and tokens in any 60 seconds, at most so many of each; 0 is no limit. Who comes first goes first."""

    def __init__(
        self,
        requests: int,
        tokens: int,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._requests = requests
        self._tokens = tokens
        self._clock = clock
        self._sleep = sleep
        self._places: deque[Place] = deque()  # of the last minute and of what waits, in the order of going out
        self._lock = threading.Lock()

    def wait(self, tokens: int) -> Place | None:
        """Wait until a request of *tokens* fits; None, at once, where it would not within 30 seconds."""
        if not self._requests and not self._tokens:
            return Place(0.0, tokens)
        with self._lock:
            now = self._clock()
            at = self._next(now, tokens)
            if at is None or at - now > LONGEST_WAIT_SECONDS:
                return None
            place = Place(at, tokens)
            self._places.append(place)
        if at > now:
            self._sleep(at - now)
        return place

    def _next(self, now: float, tokens: int) -> float | None:
        """When a request of *tokens* may go out; None for never."""
        if self._tokens and tokens > self._tokens:
            return None
        while self._places and self._places[0].at <= now - _MINUTE_SECONDS:
            self._places.popleft()
        at = max(now, self._places[-1].at if self._places else now)
        within = deque(place for place in self._places if place.at > at - _MINUTE_SECONDS)
        while within and self._is_full(within, tokens):
            at = within.popleft().at + _MINUTE_SECONDS
        return at

    def _is_full(self, within: deque[Place], tokens: int) -> bool:
        if self._requests and len(within) >= self._requests:
            return True
        return bool(self._tokens) and sum(place.tokens for place in within) + tokens > self._tokens
