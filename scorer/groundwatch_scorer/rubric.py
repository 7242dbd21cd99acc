"""The instructions that an LLM judge is given: versioned text, because a changed word is a changed measure."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources

VERSION = "rubric-v1"


@lru_cache(maxsize=1)
def rubric() -> str:
    """The text of the current version. Change it only together with :data:`VERSION` and its file name."""
    return resources.files(__package__).joinpath("rubric_v1.md").read_text(encoding="utf-8")
