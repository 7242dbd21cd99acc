"""The record that the collector hands on: a trace and the known chance with which it was chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from groundwatch_collector.ragtrace import RagTrace

BLANK_PAYLOAD = "{}"
"""In place of a trace whose text was removed because its time was over."""


@dataclass(frozen=True, slots=True)
class SampledTrace:
    trace: RagTrace
    stratum: str
    inclusion_probability: float  # in (0, 1]
    reason: str  # closed set: "hash", "late_feedback", "late_error"
    epoch: str  # id of the rate table that gave the probability
    family: Literal["fast", "late"] = "fast"  # late: judged for people, never added to the fast estimate

    @property
    def weight(self) -> float:
        """How many requests of its stratum this trace stands for: adjusted count / inclusion probability."""
        return self.trace.adjusted_count / self.inclusion_probability
