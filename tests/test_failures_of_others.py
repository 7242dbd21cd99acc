"""The page of failures of others names a test for each, and each exists."""

from __future__ import annotations

import re
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
PAGE = REPO / "docs/concepts/failures-of-others.md"
ROW = re.compile(r"^\| (\d+) \|.*\[`(test_\w+)`\]\(\.\./\.\./(tests/[\w/]+\.py)\) \|$", re.M)


def test_every_failure_has_a_test_and_every_named_test_exists():
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert [int(number) for number, _, _ in rows] == list(range(1, 35))
    missing = [name for _, name, path in rows if f"\ndef {name}(" not in (REPO / path).read_text(encoding="utf-8")]
    assert not missing
