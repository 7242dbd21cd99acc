"""The documentation as a site: each page can be reached, and the navigation names no page that is not there."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

REPO = Path(__file__).parents[2]


def pages(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    for inner in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ():
        yield from pages(inner)


def test_the_navigation_and_the_pages_are_the_same():
    docs = REPO / "docs"
    named = list(pages(yaml.safe_load((REPO / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    written = [*docs.glob("*.md"), *(docs / "concepts").glob("*.md"), docs / "runbooks" / "README.md"]
    assert sorted(named) == sorted(str(page.relative_to(docs)) for page in written)


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="pip install mkdocs-material")
def test_the_site_is_built_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
