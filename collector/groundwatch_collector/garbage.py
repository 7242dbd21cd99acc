"""Let Python look for garbage less often: a collector makes many long-lived objects and next to no cycles."""

from __future__ import annotations

import gc

YOUNG, MIDDLE, OLD = 10_000, 20, 20  # Python's own are 700, 10, 10


def look_less_often() -> None:
    """For a process of its own, before it begins its work: what exists by now is never looked at again.

    Every undecided trace is hundreds of objects, and each look at the young ones finds them all alive.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
