"""Every promise of the security page names tests, and they exist."""

from __future__ import annotations

import re
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
PAGE = (REPO / "docs" / "security.md").read_text(encoding="utf-8")


def promises() -> list[str]:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    return [row for row in rows if not re.match(r"\| (threat|---) ", row)]


def test_every_promise_names_a_test_that_exists():
    assert len(promises()) > 20
    for row in promises():
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", row.rpartition(" | ")[2])
        assert named, row
        for path, name in named:
            assert re.search(rf"^(async )?def {name}\(", (REPO / path).read_text(encoding="utf-8"), re.M), (
                path,
                name,
            )
