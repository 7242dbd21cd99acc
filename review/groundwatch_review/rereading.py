"""Which traces are read blind and twice: by a second person, and by the same person again some days later.

A keyed hash of the trace id draws them, with a known chance that is kept beside the trace. So the same key draws the
same traces again, and nobody chooses what their agreement is measured on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from groundwatch_scorer.second_look import Chances, Choice, SecondLook

SECOND: Final = "people:second"
REPEAT: Final = "people:repeat"
DAY_SECONDS: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class RereadingConfig:
    """How much is read twice, and when a person reads the same again."""

    second_reader_share: float = 0.1  # of all labelled traces, 0 to 1: read blind by a second person
    repeat_share: float = 0.05  # of all labelled traces, 0 to 1: read blind again by the same person
    repeat_after_days: float = 7.0  # when; the text of a trace must still be kept then ([retention] raw_days)

    def __post_init__(self) -> None:
        for name in ("second_reader_share", "repeat_share"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}; accepted: 0 to 1")
        if self.repeat_after_days < 0:
            raise ValueError(f"repeat_after_days is {self.repeat_after_days}; accepted: 0 or more")


class Rereading:
    """The draw of one deployment. Without a key nothing is drawn: anybody could foretell it."""

    def __init__(self, key: bytes, config: RereadingConfig) -> None:
        salt = hashlib.sha256(b"labelling:" + key).digest()
        asked = {SECOND: config.second_reader_share, REPEAT: config.repeat_share}
        self.shares = {name: share if key else 0.0 for name, share in asked.items()}
        self._choices = [Choice(name, Chances(share, share), salt) for name, share in self.shares.items() if share]
        self.repeat_after_seconds = config.repeat_after_days * DAY_SECONDS

    def looks(self, trace_id: str) -> Sequence[SecondLook]:
        """Both draws, chosen or not: a share is known only where the others are kept too."""
        return [choice.look(trace_id, unsure=False) for choice in self._choices]

    def is_drawn(self, trace_id: str) -> bool:
        """Whether somebody will read it twice, so that its first reading has to be blind already."""
        return any(look.chosen for look in self.looks(trace_id))
