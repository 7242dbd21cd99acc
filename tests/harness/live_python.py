"""The Python with the real frameworks and instrumentors: an environment of its own, as they hold other versions back.

    python tests/harness/live_python.py build

It is kept in ~/.cache/groundwatch-live, or is the one that GROUNDWATCH_LIVE_PYTHON names.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
FOLDER = Path.home() / ".cache" / "groundwatch-live"
CONSTRAINTS = REPO / "tests" / "live" / "constraints.txt"


def path() -> Path:
    return Path(os.environ.get("GROUNDWATCH_LIVE_PYTHON", FOLDER / "bin" / "python"))


def packages() -> list[str]:
    """The optional group ``live`` of pyproject.toml."""
    project = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]
    return list(map(str, project["optional-dependencies"]["live"]))


def build() -> None:
    stamp = FOLDER / "built-for.txt"
    wanted = "\n".join([*packages(), CONSTRAINTS.read_text("utf-8")])
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(FOLDER)], check=True)
    install = [str(FOLDER / "bin" / "python"), "-m", "pip", "install", "-q", "-c", str(CONSTRAINTS)]
    subprocess.run([*install, *packages()], check=True)
    stamp.write_text(wanted, "utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["build"]:
        sys.exit(__doc__)
    build()
