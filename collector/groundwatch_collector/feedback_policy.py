"""What feedback may do: from where it is taken, how much judging it may cause, and until when it moves its trace."""

from __future__ import annotations

from dataclasses import dataclass

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


@dataclass(frozen=True)
class FeedbackPolicy:
    """Feedback of users: who may send it from a browser, how much judging it may cause, and how long it counts."""

    allowed_origins: tuple[str, ...] = ()  # pages that may post from a browser, with a token: "https://shop.example"
    late_share: float = 0.2  # of all judged traces, the most that feedback may cause together
    subject_negatives_per_minute: int = 5  # complaints of one person; more within a minute is a burst, quarantined
    subject_negatives_per_hour: int = 30  # likewise within an hour
    app_negatives_per_minute: int = 120  # likewise of one app, whoever sends them
    settle_after_seconds: float = DAY  # feedback moves its trace until then; the settled family is written after it

    def __post_init__(self) -> None:
        if not 0.0 < self.late_share < 1.0:
            raise ValueError(f"late_share: found {self.late_share}, accepted: between 0 and 1")
        for name in ("subject_negatives_per_minute", "subject_negatives_per_hour", "app_negatives_per_minute"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: found {getattr(self, name)}, accepted: 1 or more")
        if not HOUR <= self.settle_after_seconds <= 7 * DAY:
            raise ValueError(
                f"settle_after_seconds: found {self.settle_after_seconds:g}, "
                "accepted: 3600 (an hour) to 604800 (7 days)"
            )
