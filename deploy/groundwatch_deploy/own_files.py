"""Python files of the user's own, which a command or the configuration names as ``module:function``."""

from __future__ import annotations

import sys
from pathlib import Path


def found_here_too() -> None:
    """Let Python find them in the folder where the command was started, after everything that is installed.

    Last, so that no file there can stand in for a library.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
