"""How a guest behaves: nothing is raised into the host, and a problem is told once."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

logger = logging.getLogger("groundwatch")

P = ParamSpec("P")
R = TypeVar("R")

MAX_PROBLEMS = 256  # distinct problems remembered; a bound, because some names come from the host

_told: set[str] = set()
_internal_errors = 0


def tell_once(problem: str, message: str, *details: object) -> None:
    """Log *message* the first time that *problem* is met."""
    if problem in _told or len(_told) >= MAX_PROBLEMS:
        return
    _told.add(problem)
    logger.warning(message, *details)


def already_told(problem: str) -> None:
    """Remember *problem* as told: the caller has said it in its own words."""
    _told.add(problem)


def settled(problem: str) -> bool:
    """Forget *problem*, so that it is told again when it comes back. True when it had been told."""
    if problem not in _told:
        return False
    _told.discard(problem)
    return True


def note_internal_error(where: str, error: BaseException) -> None:
    """Count a defect of ours. Only its type is logged: a message may carry the host's data."""
    global _internal_errors  # noqa: PLW0603
    _internal_errors += 1
    tell_once(
        f"internal:{where}:{type(error).__name__}",
        "groundwatch could not record %s (%s); the application is not affected",
        where,
        type(error).__name__,
    )


def internal_errors() -> int:
    return _internal_errors


def quiet(method: Callable[P, R]) -> Callable[P, R | None]:
    """Wrap a recording method: an exception inside it, misuse included, is counted and returns None."""

    @functools.wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return method(*args, **kwargs)
        except Exception as error:
            note_internal_error(method.__name__, error)
            return None

    return guarded
