"""Shared fixtures: services that are used when found, and the labelled data beside the project."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent
SHARED_DATA = Path(os.environ.get("GROUNDWATCH_SHARED_DATA", REPO.parent / "shared" / "data"))

SERVICES = {
    "prometheus": (("prometheus", "promtool"), "apt-get install prometheus"),
    "alertmanager": (("prometheus-alertmanager", "alertmanager"), "apt-get install prometheus-alertmanager"),
    "chromium": (("chromium", "google-chrome"), "apt-get install chromium"),
    "postgresql": (("/usr/lib/postgresql/15/bin/initdb", "initdb"), "apt-get install postgresql"),
    "kafka": (("java",), "a Java 17 runtime and the Kafka jars"),
}


def find_service(name: str) -> str | None:
    """Path of the first program that provides *name*, or None."""
    programs, _hint = SERVICES[name]
    return next((found for program in programs if (found := shutil.which(program))), None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("service"):
        name = marker.args[0]
        if find_service(name) is None:
            message = f"{name} is not on this machine; to run this test: {SERVICES[name][1]}"
            if os.environ.get("GROUNDWATCH_REQUIRE_SERVICES"):
                pytest.fail(f"GROUNDWATCH_REQUIRE_SERVICES is set, but {message}")
            pytest.skip(message)
    if item.get_closest_marker("shared_data") and not SHARED_DATA.is_dir():
        pytest.skip(f"the labelled data is not at {SHARED_DATA}; set GROUNDWATCH_SHARED_DATA to its folder")


@pytest.fixture
def shared_data() -> Path:
    return SHARED_DATA
