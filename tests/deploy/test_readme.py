"""What the README shows can be used as it stands there."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from groundwatch_deploy.cli import _parser
from groundwatch_deploy.serve import judging_everything
from groundwatch_deploy.settings import load

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_configuration_that_is_shown_is_accepted(tmp_path):
    (block,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    (tmp_path / "try.toml").write_text(block)
    assert load(tmp_path / "try.toml").decide.budget_judged_per_day == 300


def test_judging_everything_leaves_no_stratum_out():
    assert set(judging_everything(load(None)).decide.rates.values()) == {1.0}


@pytest.mark.parametrize(
    "page", sorted(p.relative_to(ROOT) for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
)
def test_every_link_to_a_file_leads_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)", (ROOT / page).read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (ROOT / page).parent.joinpath(link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", ["README.md", "README.zh.md"])
def test_the_commands_that_are_listed_are_those_that_there_are(page):
    table = (ROOT / page).read_text(encoding="utf-8").split("| `groundwatch ...` |")[1].split("\n## ")[0]
    listed = [
        name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall("`([a-z]+)`", row)
    ]
    found = next(action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction))
    assert sorted(listed) == sorted(found.choices)


def test_both_languages_show_the_same_figures():
    pages = [README, (ROOT / "README.zh.md").read_text(encoding="utf-8")]
    english, chinese = (re.findall(r"^(?:v1\.|The fault|Ledger:).*$", page, re.MULTILINE) for page in pages)
    assert english == chinese and len(english) == 4
