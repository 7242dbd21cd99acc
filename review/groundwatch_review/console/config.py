"""What the console may be told."""

from __future__ import annotations

from dataclasses import dataclass

WINDOWS = {"15m": 900, "1h": 3600, "6h": 6 * 3600, "24h": 86_400, "7d": 7 * 86_400, "30d": 30 * 86_400, "all": None}
"""Windows that a page can be asked for, in seconds. "all" is everything that is still kept."""

MONTH_SECONDS = 30 * 86_400


@dataclass(frozen=True, slots=True)
class ConsoleConfig:
    """What the console shows and who may come in. Users are made with `groundwatch user add`; without any, whoever is
    on this machine may do everything."""

    allowed_hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "::1")  # Host headers answered (DNS rebinding)
    default_window: str = "24h"  # one of 15m, 1h, 6h, 24h, 7d, 30d, all
    refresh_seconds: float = 10.0  # how often an open overview fetches itself again; 0 turns it off
    page_size: int = 50  # traces on one page of the list
    queue_limit: int = 200  # review items that are ordered at once; the count beside them is exact
    latency_limit: int = 100_000  # newest requests that the percentiles are taken over
    enough_judged: int = 30  # below this many verdicts no sentence is written about a rate
    session_idle_seconds: float = 3600.0  # a session that is not used for so long is over
    session_longest_seconds: float = 43_200.0  # every session is over after so long
    tls_in_front: bool = False  # true: a proxy in front speaks TLS, and nothing but it reaches the console
    collector_url: str = "http://127.0.0.1:4318"  # shown on the empty page: where an app is pointed to

    def __post_init__(self) -> None:
        if self.default_window not in WINDOWS:
            known = ", ".join(WINDOWS)
            raise ValueError(f"default_window is {self.default_window!r}; accepted: {known}")
        for name in ("page_size", "queue_limit", "latency_limit", "enough_judged"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; accepted: 1 or more")
        if self.refresh_seconds < 0:
            raise ValueError(f"refresh_seconds is {self.refresh_seconds}; accepted: 0 or more")
        if not 60 <= self.session_idle_seconds <= self.session_longest_seconds <= MONTH_SECONDS:
            raise ValueError(
                f"session_idle_seconds is {self.session_idle_seconds} and session_longest_seconds "
                f"{self.session_longest_seconds}; accepted: 60 or more, the first at most the second, that at "
                f"most {MONTH_SECONDS} (30 days)"
            )
