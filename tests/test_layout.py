"""The shape of the repository itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import sharing_out

REPO = Path(__file__).resolve().parent.parent
PACKAGES = ("sdk", "collector", "scorer", "alerts", "review", "deploy")


def test_no_grab_bag_modules():
    """A module called utils can hold anything and soon does."""
    banned = {"utils", "util", "common", "core", "helpers", "helper", "types", "misc", "base"}
    found = [p for folder in PACKAGES for p in (REPO / folder).rglob("*.py") if p.stem in banned]
    assert found == []


def test_import_groundwatch_loads_no_service_code():
    """The SDK is a guest: importing it must not pull in the monitor or start anything."""
    script = (
        "import sys, threading; import groundwatch; "
        "heavy = ('groundwatch_', 'sqlalchemy', 'starlette', 'uvicorn', 'openai', 'prometheus_client', 'orjson',"
        " 'jinja2', 'jsonschema', 'numpy', 'opentelemetry.exporter', 'requests'); "
        "print([m for m in sys.modules if m.startswith(heavy)], threading.active_count())"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd="/")
    assert out.stdout.strip() == "[] 1"


def test_the_long_tests_that_begin_first_are_there():
    """A file that was renamed would come late, and keep one process busy when all others are done."""
    assert [file for file in sharing_out.LONG if not (REPO / file).is_file()] == []
