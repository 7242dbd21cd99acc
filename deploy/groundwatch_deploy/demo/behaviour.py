"""What a deployed version of the application does, faults included.

The faults are in the program, as a bad deploy brings them; nothing here writes telemetry or verdicts.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

Incident = Literal["rerank-cut", "invented-numbers", "over-refusal"]
INCIDENTS: Final[tuple[Incident, ...]] = get_args(Incident)
HEALTHY_VERSION: Final = "v1.4.0"
BAD_VERSION: Final = "v1.5.0"

INJECTED_LAYER: Final[dict[Incident, str]] = {
    "rerank-cut": "rerank",
    "invented-numbers": "generation",
    "over-refusal": "refusal",
}


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One deployed version. The defaults are the healthy one, which is good but not perfect."""

    version: str = HEALTHY_VERSION
    refuse_below: float = 0.6  # confidence under which the answerer says that it found nothing
    invented_number_rate: float = 0.05  # where there is one, the generator writes another number than it read
    spurious_refusal_rate: float = 0.013  # the generator declines although it has an answer
    search_failure_rate: float = 0.06  # one call of the search backend; it is called a second time
    cancelled_rate: float = 0.008  # the user closes the window before the answer
    rerank_input_limit_bytes: int | None = None  # passages above are passed over


def deployed(incident: Incident | None) -> Behaviour:
    """The healthy version, or the next one with *incident* in it."""
    healthy = Behaviour()
    if incident is None:
        return healthy
    changes: dict[Incident, Behaviour] = {
        # The new reranking model accepts short inputs only, and nobody noticed.
        "rerank-cut": replace(healthy, rerank_input_limit_bytes=440),
        # The new prompt lost the instruction to quote figures as they stand.
        "invented-numbers": replace(healthy, invented_number_rate=0.4),
        # The threshold was tuned for another scale of scores.
        "over-refusal": replace(healthy, refuse_below=0.85),
    }
    return replace(changes[incident], version=BAD_VERSION)


_WHOLE_NUMBER = re.compile(r"(?<![\w.,:#\[-])\d{1,3}(?:,\d{3})+(?![\w.:])|(?<![\w.,:#\[-])\d+(?![\w:-]|[.,]\d)")


def invent_number(sentence: str, rng: random.Random) -> str | None:
    """*sentence* with one of its numbers made up, or None when it has none to change."""
    places = list(_WHOLE_NUMBER.finditer(sentence))
    if not places:
        return None
    place = rng.choice(places)
    value = int(place[0].replace(",", ""))
    options = [value * 2, value * 3, value + 5, value * 10, max(1, value // 2)]
    made_up = [option for option in options if not re.search(rf"(?<!\d){option}(?!\d)", sentence.replace(",", ""))]
    if not made_up:
        return None
    new = rng.choice(made_up)
    written = f"{new:,}" if "," in place[0] else str(new)
    return sentence[: place.start()] + written + sentence[place.end() :]
