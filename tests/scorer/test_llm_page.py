"""docs/llm-judge.md names every reason and flag, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from groundwatch_scorer.llm_judge import FLAGS, UNSCORED_REASONS

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "llm-judge.md").read_text(encoding="utf-8")


def test_every_reason_is_explained() -> None:
    table = TEXT.split("| reason | what it means |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == UNSCORED_REASONS


def test_every_flag_is_named() -> None:
    listed = TEXT.split("Flags: ")[1].split(". They")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == FLAGS
