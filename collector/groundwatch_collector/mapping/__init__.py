"""Read the spans of one request, whatever convention wrote them, into one :class:`RagTrace`."""

from __future__ import annotations

from groundwatch_collector.mapping.dispatch import to_lazy_trace, to_ragtrace
from groundwatch_collector.mapping.tree import identity

__all__ = ["identity", "to_lazy_trace", "to_ragtrace"]
