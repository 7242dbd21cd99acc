"""Make the project's own virtual environment: `python3 deploy/bootstrap.py EXTRA`.

Standard library only, and works where the distribution split `ensurepip` off (Debian and Ubuntu without
python3-venv): pip is then fetched as a wheel from the configured package index and checked against the digest
that the index gives for it.
"""

from __future__ import annotations

import hashlib
import html.parser
import importlib.util
import os
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
VENV = REPO / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
WHEEL = re.compile(r"pip-(\d+(?:\.\d+)*)-py3-none-any\.whl$")


class _Wheels(html.parser.HTMLParser):
    """Links of a PEP 503 page that are released, unyanked pip wheels."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[tuple[int, ...], str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        href = values.get("href") or ""
        match = WHEEL.search(href.partition("#")[0])
        if tag == "a" and match and "data-yanked" not in values:
            self.found.append((tuple(int(part) for part in match[1].split(".")), href))


def main(extra: str) -> None:
    stamp = VENV / f".groundwatch-{extra}"
    wanted = _fingerprint(extra)
    if PYTHON.exists() and stamp.exists() and stamp.read_text() == wanted:
        return
    started = time.monotonic()
    _say(f"setting up {VENV.name} with groundwatch[{extra}] (once, about a minute) ...")
    if not PYTHON.exists():
        _make_venv()
    # --no-input and a pinned constraints file: the same versions on every machine.
    _run(PYTHON, "-m", "pip", "install", "--quiet", "--no-input", "-c", "constraints.txt", "-e", f".[{extra}]")
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
    _say("this Python has no ensurepip (python3-venv is not installed); fetching pip as a wheel")
    _run(sys.executable, "-m", "venv", "--without-pip", VENV)
    wheel = _download_pip()
    _run(PYTHON, f"{wheel}/pip", "install", "--quiet", "--no-index", wheel)


def _download_pip() -> Path:
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/") + "/pip/"
    wheels = _Wheels()
    with urllib.request.urlopen(index, timeout=60) as page:
        wheels.feed(page.read().decode())
    if not wheels.found:
        raise SystemExit("no pip wheel on the package index; install python3-venv and run this again")
    href, _, digest = max(wheels.found)[1].partition("#sha256=")
    with urllib.request.urlopen(urllib.parse.urljoin(index, href), timeout=120) as reply:
        body = reply.read()
    if digest and hashlib.sha256(body).hexdigest() != digest:
        raise SystemExit("the pip wheel does not match the digest that the package index gives for it")
    path = VENV / Path(urllib.parse.urlparse(href).path).name
    path.write_bytes(body)
    return path


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
