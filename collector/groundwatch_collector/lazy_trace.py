"""A trace whose fields are read when somebody asks for them.

Every trace is counted, few are stored: most never need their texts of documents, labels and notes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, Final

from groundwatch_collector.ragtrace import RagTrace

_FIELDS: Final = tuple(field.name for field in fields(RagTrace))


class LazyTrace(RagTrace):
    """Stands for a whole trace; what reading a field raises comes when the field is first asked for."""

    __slots__ = ("read",)

    read: Callable[[str], Any]

    def __init__(self, read: Callable[[str], Any], **known: Any) -> None:
        """*read*: the value of a field by its name. *known*: fields that cost nothing to know."""
        give = object.__setattr__  # the class is frozen for everybody else
        give(self, "read", read)
        for name, value in known.items():
            give(self, name, value)

    def __getattr__(self, name: str) -> Any:
        """Python comes here for a slot that is still empty."""
        if name not in _FIELDS:
            raise AttributeError(name)
        value = self.read(name)
        object.__setattr__(self, name, value)
        return value

    @property
    def shown_texts(self) -> Sequence[str] | None:
        found: Sequence[str] | None = self.read("shown_texts")
        return found

    @property
    def ranking_scores(self) -> Sequence[float | None] | None:
        found: Sequence[float | None] | None = self.read("ranking_scores")
        return found


def changed(trace: RagTrace, **changes: Any) -> RagTrace:
    """*trace* with other values in some fields; the rest is still read on demand."""
    if not isinstance(trace, LazyTrace):
        return replace(trace, **changes)
    return LazyTrace(lambda name: getattr(trace, name), **changes)


def whole(trace: RagTrace) -> RagTrace:
    """*trace* with every field read, as it can be stored, compared and changed."""
    return RagTrace(**{name: getattr(trace, name) for name in _FIELDS}) if isinstance(trace, LazyTrace) else trace
