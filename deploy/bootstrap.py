"""Make the project's own virtual environment: `python3 deploy/bootstrap.py EXTRA`.

Standard library only. Where the distribution split `ensurepip` off (Debian and Ubuntu without python3-venv), the
pip of this Python puts one into the environment. Which package index is asked is pip's own configuration, always.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
VENV = REPO / ".venv"
EVERY_SECONDS = 10.0  # how long it may be silent
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def main(extra: str) -> None:
    stamp = VENV / f".groundwatch-{extra}"
    wanted = _fingerprint(extra)
    if PYTHON.exists() and stamp.exists() and stamp.read_text() == wanted:
        return
    started = time.monotonic()
    _say(f"setting up {VENV.name} with groundwatch[{extra}], once; one to three minutes, most of them of the network")
    if not PYTHON.exists():
        _make_venv()
    # --no-input and a pinned constraints file: the same versions on every machine.
    _install("-c", "constraints.txt", "-e", f".[{extra}]")
    stamp.write_text(wanted)
    _say(f"ready after {time.monotonic() - started:.0f} s")


def _fingerprint(extra: str) -> str:
    digest = hashlib.sha256(f"{extra} {REPO}".encode())
    for name in ("pyproject.toml", "constraints.txt"):
        digest.update((REPO / name).read_bytes())
    return digest.hexdigest()


def _make_venv() -> None:
    if importlib.util.find_spec("ensurepip") is not None:
        _run(sys.executable, "-m", "venv", VENV)
        return
    if importlib.util.find_spec("pip") is None:
        raise SystemExit(
            "this Python has neither ensurepip nor pip, so that nothing can be installed; on Debian and Ubuntu: "
            "apt-get install python3-venv"
        )
    _say("this Python has no ensurepip (python3-venv is not installed); its own pip is used instead")
    _run(sys.executable, "-m", "venv", "--without-pip", VENV)
    _run(sys.executable, "-m", "pip", "--python", PYTHON, "install", "--quiet", "--no-input", "pip")


def _install(*wanted: str) -> None:
    """By pip, whose hundreds of lines are told as where it is, and in full where it fails."""
    command = [str(PYTHON), "-m", "pip", "install", "--no-input", "--progress-bar", "off", *wanted]
    started = time.monotonic()
    with subprocess.Popen(command, cwd=REPO, stdout=subprocess.PIPE, text=True) as pip:
        assert pip.stdout is not None
        progress = Progress()
        reader = threading.Thread(target=progress.follow, args=(pip.stdout,), daemon=True)
        reader.start()
        while not _ended(pip):
            _say(f"{time.monotonic() - started:.0f} s: {progress.step}")
        reader.join()
    if pip.returncode:
        raise SystemExit("\n".join([*progress.last_lines, f"failed: {' '.join(command)}"]))


def _ended(process: subprocess.Popen[str]) -> bool:
    try:
        process.wait(EVERY_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


class Progress:
    """Where pip is, from what it prints."""

    def __init__(self) -> None:
        self.step = "pip starts"
        self.last_lines: deque[str] = deque(maxlen=20)
        self._found = 0

    def follow(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.last_lines.append(line.rstrip())
            verb, _space, rest = line.strip().partition(" ")
            if verb == "Collecting":
                self._found += 1
                self.step = f"looking for {rest.split(' ')[0]} (package {self._found})"
            elif verb == "Downloading":
                self.step = f"downloading {rest} (package {self._found})"
            elif line.startswith("Installing collected packages"):
                self.step = f"installing {line.count(',') + 1} packages"


def _run(*command: str | Path) -> None:
    done = subprocess.run([str(part) for part in command], cwd=REPO, check=False)
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(str(part) for part in command)}")


def _say(text: str) -> None:
    print(f"bootstrap: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    if sys.version_info < (3, 11):
        raise SystemExit(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}")
    main(sys.argv[1] if len(sys.argv) > 1 else "demo")
