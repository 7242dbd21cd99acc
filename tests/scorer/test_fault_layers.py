"""The layer finder on traces with a known broken stage; bench_fault_layer.py prints the table of the docs."""

from __future__ import annotations

import broken_stages
import pytest

from groundwatch_scorer import fault
from groundwatch_scorer.answerability import rewrite_lost
from groundwatch_scorer.local_judge import LocalJudge


@pytest.mark.parametrize("language", ["en", "zh"])
def test_nine_in_ten_broken_stages_are_named(language):
    judge = LocalJudge()
    cases = [case for case in broken_stages.cases() if case.language == language]
    found = [fault.find(case.trace, judge.assess(case.trace)) for case in cases]
    right = [f is not None and f.layer.value == c.layer for f, c in zip(found, cases, strict=True)]
    assert len(cases) >= 150
    assert sum(right) >= 0.9 * len(cases)
    unseen = [r for r, case in zip(right, cases, strict=True) if not case.seen]
    assert sum(unseen) >= 0.9 * len(unseen)


@pytest.mark.parametrize(
    ("asked", "searched", "lost"),
    [
        ("how long are deleted files kept", "deleted files retention", False),
        ("how long are deleted files kept", "printer colour profile", True),
        ("已删除的文件保留多久", "删除文件保留期限", False),
        ("已删除的文件保留多久", "打印机颜色配置", True),
        ("已删除的文件保留多久", "retention of deleted files", False),
        ("why", "retention of deleted files", False),
        ("how long are deleted files kept", None, False),
    ],
)
def test_a_rewrite_that_asks_something_else(asked, searched, lost):
    assert rewrite_lost(asked, searched) is lost
