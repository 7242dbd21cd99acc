"""How much of the demo's traffic is judged, by stratum, and the salt of the draw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DEMO_RATES: Final[Mapping[str, float]] = {
    "incomplete": 0.5,
    "error_timeout": 0.5,
    "cancelled": 0.1,
    "feedback_neg": 1.0,
    "refusal": 0.6,
    "novel": 0.5,
    "normal_b0": 0.15,
    "normal_b1": 0.2,
    "normal_b2": 0.3,
    "normal_b3": 0.5,
}
"""Trouble is looked at far more often than calm: a few hundred judged, and a raw mean that is visibly wrong."""

SALT_OF_THE_DEMO: Final = "67726f756e6477617463682d64656d6f"
"""Fixed, so that the same seed chooses the same traces; and known to everybody, so never for real traffic."""
