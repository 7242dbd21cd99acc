"""What the release check counts as an SDK's own, and which licences may pass. The rest is `make release-check`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def release_check() -> Any:
    folder = str(Path(__file__).parents[2] / "deploy")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("release_check")
    finally:
        sys.path.remove(folder)


@pytest.mark.parametrize(
    ("licence", "refused"),
    [
        ("GPL-3.0-only", True),
        ("GNU General Public License v3 (GPLv3)", True),
        ("AGPL-3.0", True),
        ("GNU Affero General Public License", True),
        ("MIT OR GPL-2.0", True),  # a person has to look
        ("LGPL-3.0-only", False),
        ("GNU Lesser General Public License v3 (LGPLv3)", False),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", False),
    ],
)
def test_licences_that_reach_into_importing_code_are_refused(release_check, licence, refused):
    assert bool(release_check.COPYLEFT.search(licence)) == refused


def test_the_closure_follows_requirements_and_leaves_extras_out(release_check):
    needs = {
        "a": ["B_c>=1", "d; extra == 'more'", "missing"],
        "b-c": ["e[fast]>=2"],
        "d": [],
        "e": ["a"],
    }
    found = {name: {"requires": requires} for name, requires in needs.items()}
    assert release_check.closure(found, ["a"]) == {"a", "b-c", "e"}


def test_a_part_that_the_bill_of_materials_leaves_out_is_named(release_check):
    installed = ["groundwatch 0.1.0", "pydantic-core 2.50.5", "six 1.17"]
    assert release_check.missing_parts(installed, ["pydantic_core", "Six"]) == []
    assert release_check.missing_parts(installed, ["pydantic_core"]) == ["six 1.17"]


def test_a_report_keeps_what_is_wrong(release_check):
    report = release_check.Report()
    report.require(True, "not this")
    report.require(False, "this")
    assert report.wrong == ["this"]
