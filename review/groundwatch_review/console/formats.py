"""How figures and times are written. Templates use these as filters."""

from __future__ import annotations

import json
from datetime import UTC, datetime


def percent(share: float | None, digits: int | None = None) -> str:
    """A share as per cent, with one digit below 10 % so that 0.4 and 0.6 do not look the same."""
    if share is None:
        return "–"
    value = 100 * share
    if digits is None:
        digits = 1 if 0 < abs(value) < 9.95 else 0
    return f"{value:.{digits}f} %"


def percent_range(low: float, high: float) -> str:
    """An interval with one unit: "26–37 %". Where every request was judged there is none, and "53–53 %" would look
    like certainty about the next ones."""
    if low == high:
        return "all judged"
    digits = 1 if 0 < 100 * low < 9.95 or 0 < 100 * high < 9.95 else 0
    return f"{100 * low:.{digits}f}–{100 * high:.{digits}f} %"


def indented(text: str) -> str:
    """JSON as people read it; what is none stays as it is."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=1)
    except ValueError:
        return text


def points(difference: float) -> str:
    """A difference of two shares, signed, in percentage points."""
    return f"{'+' if difference >= 0 else '−'}{abs(100 * difference):.1f} pp"


def points_range(low: float, high: float) -> str:
    """The interval of a difference; none where every request of both versions was judged."""
    if low == high:
        return "all judged"
    return f"{points(low).removesuffix(' pp')} to {points(high)}"


def count(number: float | None) -> str:
    return "–" if number is None else f"{number:,.0f}"


def seconds(duration: float | None) -> str:
    """A duration with the unit that gives two or three digits."""
    if duration is None:
        return "–"
    if duration < 0.001:
        return f"{1e6 * duration:.0f} µs"
    if duration < 1:
        return f"{1000 * duration:.0f} ms" if duration >= 0.01 else f"{1000 * duration:.1f} ms"
    return f"{duration:.2f} s" if duration < 60 else f"{duration / 60:.1f} min"


def step(width_seconds: int) -> str:
    """A whole number of the largest unit that divides it."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if width_seconds % size == 0:
            return f"{width_seconds // size} {unit}"
    return f"{width_seconds} s"


def money(usd: float | None) -> str:
    return "–" if usd is None else f"${usd:.4f}" if usd < 1 else f"${usd:,.2f}"


def moment(unix: float) -> str:
    """A time to the second, in UTC: the same on every screen of a team in an incident."""
    return _utc(unix).strftime("%Y-%m-%d %H:%M:%S")


def clock(unix: float, span: float) -> str:
    """A label on a time axis that covers *span* seconds."""
    if span <= 600:
        return _utc(unix).strftime("%H:%M:%S")
    return _utc(unix).strftime("%H:%M" if span <= 2 * 86_400 else "%d %b")


def iso(unix: float) -> str:
    return _utc(unix).strftime("%Y-%m-%dT%H:%M:%SZ")


def ago(unix: float, now: float) -> str:
    """Age in the largest unit that fits."""
    age = max(0.0, now - unix)
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if age >= size:
            return f"{age // size:.0f} {unit} ago"
    return f"{age:.0f} s ago"


def probability(value: float | None) -> str:
    if value is None:
        return "–"
    return "1" if value >= 1 else f"{value:.3g}"


def _utc(unix: float) -> datetime:
    try:
        return datetime.fromtimestamp(unix, UTC)
    except (ValueError, OverflowError, OSError):  # an app's clock can say anything
        return datetime.fromtimestamp(0, UTC)


def words(name: str) -> str:
    """A closed-set word for people: ``not_applicable`` reads "not applicable"."""
    return name.replace("_", " ")
