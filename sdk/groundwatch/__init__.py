"""Groundwatch SDK: record what a RAG application did, off its request thread.

Importing this does nothing. ``configure()`` starts recording; until then every call is a no-op.
"""

from groundwatch.client import (
    configure,
    feedback,
    feedback_token,
    flush,
    redacting,
    request,
    shutdown,
    stats,
    traced,
)
from groundwatch.documents import Document
from groundwatch.handle import Request, Stage, current, wrap
from groundwatch.lane import FlushResult, Stats
from groundwatch.settings import ConfigurationError

__all__ = [
    "ConfigurationError",
    "Document",
    "FlushResult",
    "Request",
    "Stage",
    "Stats",
    "configure",
    "current",
    "feedback",
    "feedback_token",
    "flush",
    "redacting",
    "request",
    "shutdown",
    "stats",
    "traced",
    "wrap",
]
