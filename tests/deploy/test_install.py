"""What a customer gets with `pip install groundwatch`: OpenTelemetry, and nothing else that is ours."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # hatchling is installed for the editable install's sake only in an isolated build; build it the isolated way
    _pip("wheel", "--quiet", "--no-deps", "-w", str(folder), str(REPO))
    (built,) = folder.glob("groundwatch-*.whl")
    return built


def _pip(*arguments: str, python: str = sys.executable) -> str:
    command = [python, "-m", "pip", "--no-input", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        _unreachable(f"pip {arguments[0]} failed: {done.stderr.strip()[-400:]}")
    return done.stdout


def _unreachable(message: str) -> None:
    asked = f"{message} (is a package index reachable?)"
    if os.environ.get("GROUNDWATCH_REQUIRE_SERVICES"):
        pytest.fail(asked)
    pytest.skip(asked)


def test_the_wheel_names_only_opentelemetry(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith("METADATA")]
        metadata = archive.read(name).decode()
    required = re.findall(r"^Requires-Dist: ([A-Za-z0-9-]+)[^;\n]*$", metadata, re.M)
    assert sorted(required) == [
        "opentelemetry-api",
        "opentelemetry-exporter-otlp-proto-http",
        "opentelemetry-sdk",
    ]


def test_installing_it_alone_brings_opentelemetry_and_what_that_needs(wheel, tmp_path):
    """In a clean environment, without extras: every package beside ours belongs to OpenTelemetry's own closure."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    _pip("install", "--quiet", "-c", str(REPO / "constraints.txt"), str(wheel), python=python)
    installed = {
        re.sub(r"[-_.]+", "-", p["name"]).lower() for p in json.loads(_pip("list", "--format=json", python=python))
    }
    closure = _closure(python, "opentelemetry-exporter-otlp-proto-http") | _closure(python, "opentelemetry-sdk")
    assert installed - closure <= {"groundwatch", "pip", "setuptools"}
    assert not installed & {"sqlalchemy", "starlette", "openai", "prometheus-client", "orjson", "numpy"}
    out = subprocess.run(
        [tmp_path / "venv" / "bin" / "groundwatch", "serve"], capture_output=True, text=True, check=False
    )
    assert out.returncode == 1
    assert 'pip install "groundwatch[monitor]"' in out.stderr


def _closure(python: str, package: str) -> set[str]:
    """Names of *package* and everything it requires, as installed for *python*."""
    script = (
        "import importlib.metadata as m, re, sys\n"
        "seen, todo = set(), [sys.argv[1]]\n"
        "while todo:\n"
        "    name = re.sub(r'[-_.]+', '-', todo.pop()).lower()\n"
        "    if name in seen: continue\n"
        "    try: requires = m.requires(name) or []\n"
        "    except m.PackageNotFoundError: continue\n"
        "    seen.add(name)\n"
        "    todo += [re.match(r'[A-Za-z0-9._-]+', r)[0] for r in requires if 'extra ==' not in r]\n"
        "print(*seen)\n"
    )
    out = subprocess.run([python, "-c", script, package], capture_output=True, text=True, check=True)
    return set(out.stdout.split())


def _bootstrap(monkeypatch, folder: Path, *missing: str) -> ModuleType:
    """deploy/bootstrap.py, for an environment in *folder*, on a Python without the modules *missing*."""
    spec = importlib.util.spec_from_file_location("bootstrap", REPO / "deploy" / "bootstrap.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in missing else found(name))
    monkeypatch.setattr(module, "VENV", folder / "venv")
    monkeypatch.setattr(module, "PYTHON", folder / "venv" / "bin" / "python")
    return module


def test_a_python_without_ensurepip_makes_its_environment_with_its_own_pip(monkeypatch, tmp_path):
    """Debian without python3-venv. Only pip's own configuration says which index is asked."""
    module = _bootstrap(monkeypatch, tmp_path, "ensurepip")
    try:
        module._make_venv()
    except SystemExit as error:
        _unreachable(str(error))
    assert _pip("--version", python=str(module.PYTHON)).startswith("pip ")


def test_a_python_with_neither_is_told_what_to_install(monkeypatch, tmp_path):
    module = _bootstrap(monkeypatch, tmp_path, "ensurepip", "pip")
    with pytest.raises(SystemExit, match="apt-get install python3-venv"):
        module._make_venv()


def test_the_set_up_says_where_pip_is(monkeypatch, tmp_path):
    bootstrap = _bootstrap(monkeypatch, tmp_path)
    progress = bootstrap.Progress()
    steps = []
    for line in (
        "Obtaining file:///src",
        "Collecting sqlalchemy>=2.0 (from groundwatch==0.1.0)",
        "  Downloading sqlalchemy-2.1-py3-none-any.whl (2.1 MB)",
        "Installing collected packages: a, b, c",
    ):
        progress.follow([line + "\n"])
        steps.append(progress.step)
    assert steps == [
        "pip starts",
        "looking for sqlalchemy>=2.0 (package 1)",
        "downloading sqlalchemy-2.1-py3-none-any.whl (2.1 MB) (package 1)",
        "installing 3 packages",
    ]
    assert progress.last_lines[0] == "Obtaining file:///src"


def test_the_set_up_is_not_silent_and_says_why_it_failed(monkeypatch, tmp_path, capsys):
    """A real pip that cannot find what it is asked for, told of every hundredth of a second."""
    bootstrap = _bootstrap(monkeypatch, tmp_path)
    monkeypatch.setattr(bootstrap, "PYTHON", Path(sys.executable))
    monkeypatch.setattr(bootstrap, "EVERY_SECONDS", 0.01)
    with pytest.raises(SystemExit, match=r"failed: .* pip install .*--no-index"):
        bootstrap._install("--no-index", "groundwatch-that-is-nowhere")
    assert re.search(r"bootstrap: \d+ s: pip starts", capsys.readouterr().err)
