"""A test whose service is missing is skipped, with a line that nobody overlooks, or fails where all are required."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
NEEDS_PROMETHEUS = "tests/alerts/test_rules.py"
HINT = "prometheus is not on this machine; to run this test: apt-get install prometheus"


def _run(folder: Path, **environment: str) -> tuple[int, str]:
    """Exit code and output of the test on a machine without any program."""
    kept = {name: value for name, value in os.environ.items() if name != "GROUNDWATCH_REQUIRE_SERVICES"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", NEEDS_PROMETHEUS],
        cwd=REPO,
        env=kept | {"PATH": str(folder), "COLUMNS": "200"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_a_skipped_test_says_how_to_get_its_service(tmp_path):
    code, said = _run(tmp_path)
    assert code == 0, said
    assert [line for line in said.splitlines() if line.startswith("SKIPPED") and HINT in line], said


def test_where_services_are_required_a_missing_one_is_a_failure(tmp_path):
    code, said = _run(tmp_path, GROUNDWATCH_REQUIRE_SERVICES="1")
    assert code == 1, said
    assert HINT in said
