"""What judging may cost in a day, and what it has cost."""

from __future__ import annotations

from dataclasses import dataclass

_DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Price:
    input_usd_per_million: float
    output_usd_per_million: float

    def of(self, input_tokens: int, output_tokens: int) -> float:
        return (input_tokens * self.input_usd_per_million + output_tokens * self.output_usd_per_million) / 1e6


class DailyBudget:
    """Spending of one UTC day against a limit. A limit needs a price: what is not known is not free."""

    def __init__(
        self, price: Price | None, max_usd_per_day: float | None, *, now: float, spent_usd: float = 0.0
    ) -> None:
        self.price = price
        self._limit = max_usd_per_day
        self._day = int(now // _DAY_SECONDS)
        self._spent = spent_usd

    def refusal(self, now: float, input_tokens: int, output_tokens: int) -> str:
        """Why a call of at most this size may not be made now, or ""."""
        if self._limit is None:
            return ""
        if self.price is None:
            return "unknown_price"
        self._turn(now)
        return "over_budget" if self._spent + self.price.of(input_tokens, output_tokens) > self._limit else ""

    def spend(self, now: float, input_tokens: int, output_tokens: int) -> float | None:
        """Book a call; return its cost, None when the price is not known."""
        if self.price is None:
            return None
        self._turn(now)
        cost = self.price.of(input_tokens, output_tokens)
        self._spent += cost
        return cost

    def _turn(self, now: float) -> None:
        day = int(now // _DAY_SECONDS)
        if day != self._day:
            self._day, self._spent = day, 0.0
