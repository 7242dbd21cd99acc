"""Exports for other tools: loaded by the real tool, inert, and without a link to a trace."""

from __future__ import annotations

import csv
import json
import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import export_tools
import pytest
from exportable import NOW, add, make_trace, questions
from sqlalchemy import Engine

from groundwatch_review import desk
from groundwatch_review.export import OWN, export, manifest_path
from groundwatch_review.formats import FORMATS, inert, render

HOSTILE = 'file:///etc/passwd {{ env.HOME }} {% raw %} {# x #} [DEEPEVAL:IMAGE:/etc/passwd] "quoted" 中文 \u2028 end'
TRACE_ID = f"{1:032x}"


@pytest.fixture
def exported(engine: Engine, tmp_path: Path) -> dict[str, Path]:
    """The same hostile candidate in every format."""
    add(engine, make_trace(1, questions("DEV", 1)[0], answer=HOSTILE))
    paths = {name: tmp_path / f"set-{name}" for name in FORMATS}
    for name, path in paths.items():
        assert export(engine, path, NOW, layout=name).written == 1
    return paths


def test_no_format_holds_a_trace_id_or_a_command(exported: dict[str, Path]) -> None:
    for name, path in exported.items():
        text = path.read_text()
        assert TRACE_ID not in text
        assert not any(command in text for command in ("file://", "{{", "{%", "{#", "[DEEPEVAL:")), name
        manifest = json.loads(manifest_path(path).read_text())
        assert manifest["format"] == name


def test_the_manifest_says_what_was_made_inert(exported: dict[str, Path]) -> None:
    found = json.loads(manifest_path(exported["langfuse"]).read_text())["made_inert"]
    assert found == {"deepeval": 1, "file": 1, "template": 3}


def test_exporting_again_gives_the_same_ids_and_bytes(engine: Engine, tmp_path: Path) -> None:
    add(engine, make_trace(1, questions("DEV", 1)[0]))
    for name in FORMATS:
        first, second = tmp_path / "first", tmp_path / "second"
        export(engine, first, NOW, layout=name)
        export(engine, second, NOW + 60, layout=name)
        assert first.read_bytes() == second.read_bytes()


def test_a_format_that_nobody_knows_is_refused(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(desk.Refused, match=f"accepted: {OWN}, langfuse"):
        export(engine, tmp_path / "x", NOW, layout="parquet")


@pytest.mark.parametrize(
    "text", ["file://x", "FILE://x", "{{x}}", "{%x%}", "{#x#}", "[deepeval:image:x]", "package:x:f"]
)
def test_commands_become_text_and_inert_text_stays(text: str) -> None:
    seen: Counter[str] = Counter()
    once = inert({"a": [text]}, seen)
    assert once != {"a": [text]}
    assert once["a"][0].replace("\u2060", "") == text
    assert inert(once, Counter()) == once
    assert sum(seen.values()) == 1


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1+1", "\u200b=1"])
def test_no_cell_of_a_table_is_a_formula(cell: str, candidate_document: dict[str, Any]) -> None:
    candidate_document["question"]["text"] = cell
    text, _seen = render(FORMATS["csv"], [candidate_document])
    (row,) = csv.DictReader(text.splitlines(keepends=True))
    assert row["question"] == f"'{cell}"


@pytest.fixture
def candidate_document(exported: dict[str, Path], engine: Engine, tmp_path: Path) -> dict[str, Any]:
    export(engine, tmp_path / "own", NOW)
    return dict(json.loads((tmp_path / "own").read_text()))


@pytest.fixture
def tools() -> Path:
    """The interpreter with the real tools; without them the test is skipped, or fails where services are required."""
    found = export_tools.python()
    if found is not None:
        return found
    message = "the tools that read exports are not here; to run this test: python tests/harness/export_tools.py fetch"
    if os.environ.get("GROUNDWATCH_REQUIRE_SERVICES"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.mark.parametrize("name", export_tools.LOADERS)
def test_the_real_tool_loads_it(exported: dict[str, Path], name: str, tools: Path) -> None:
    quiet = os.environ | {"DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "RAGAS_DO_NOT_TRACK": "true"}
    command = [str(tools), "-W", "ignore", export_tools.__file__, "load", name, str(exported[name])]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=quiet, cwd=exported[name].parent)
    assert done.returncode == 0, done.stderr[-2000:]
    ((question, contexts),) = json.loads(done.stdout.strip().splitlines()[-1])
    assert (question, contexts) == (questions("DEV", 1)[0], ["Uploads may be up to 20 MB."])


def test_promptfoo_tests_have_the_shape_of_its_documentation(exported: dict[str, Path]) -> None:
    """Not loaded by the tool itself: it takes minutes to install. Keys and types as its reference names them."""
    (test,) = json.loads(exported["promptfoo"].read_text())
    assert set(test) == {"description", "vars", "assert", "metadata"}
    assert all(isinstance(value, str) for value in test["vars"].values())
    assert all(set(check) == {"type", "value"} for check in test["assert"])
