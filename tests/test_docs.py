"""The documents hold together: links lead somewhere, commands that they name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from groundwatch_deploy.cli import main

REPO = Path(__file__).resolve().parent.parent
PAGES = [REPO / "README.md", REPO / "README.zh.md", REPO / "CHANGELOG.md", *sorted((REPO / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPO)))
def test_relative_links_lead_to_files(page):
    targets = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPO)))
def test_commands_in_the_docs_exist(page, capsys):
    names = set(re.findall(r"^(?:\$ )?groundwatch ([a-z]+)\b", page.read_text(encoding="utf-8"), re.M))
    for name in names:
        with pytest.raises(SystemExit) as stopped:
            main([name, "--help"])
        assert stopped.value.code == 0, name
    capsys.readouterr()


def test_make_targets_in_the_readme_exist():
    named = set(re.findall(r"\bmake ([a-z]+)\b", (REPO / "README.md").read_text(encoding="utf-8")))
    targets = set(re.findall(r"^([a-z-]+):", (REPO / "Makefile").read_text(encoding="utf-8"), re.M))
    assert named <= targets
