"""What deploy/examples ships is accepted by the tools that will read it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import otelcol
import pytest

from groundwatch_deploy.serve import refuse_open_doors
from groundwatch_deploy.settings import load

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"


def accepted(*command: object, **environment: str) -> None:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, env=os.environ | environment
    )
    assert done.returncode == 0, done.stdout + done.stderr


def module(name: str) -> tuple[str, str, str]:
    return (sys.executable, "-m", name)


@pytest.mark.filterwarnings("default")
def test_the_compose_file_follows_the_compose_specification():
    file = EXAMPLES / "compose" / "compose.yaml"
    accepted(*module("check_jsonschema"), "--builtin-schema", "vendor.compose-spec", file)


@pytest.mark.parametrize("name", sorted(p.name for p in (EXAMPLES / "kubernetes").glob("[!k]*.yaml")))
def test_kubernetes_accepts_the_manifest(name):
    accepted(Path(sys.executable).with_name("kubernetes-validate"), "--strict", EXAMPLES / "kubernetes" / name)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit(tmp_path):
    unit = (EXAMPLES / "systemd" / "groundwatch.service").read_text()
    ready = tmp_path / "groundwatch.service"  # it looks for the program
    ready.write_text(unit.replace("/opt/groundwatch/bin/groundwatch", sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", ready], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.service("prometheus")
def test_prometheus_accepts_its_configuration():
    accepted("promtool", "check", "config", "--syntax-only", EXAMPLES / "compose" / "prometheus.yml")


@pytest.mark.service("otelcol")
@pytest.mark.parametrize("name", sorted(p.name for p in (EXAMPLES / "otelcol").glob("*.yaml")))
def test_the_collector_accepts_its_configuration(name):
    accepted(otelcol.binary(), "validate", "--config", EXAMPLES / "otelcol" / name, GROUNDWATCH_INGEST_KEY="x")


@pytest.mark.parametrize("name", ["compose/light.toml", "compose/cluster.toml", "kubernetes/groundwatch.toml"])
def test_the_monitor_accepts_its_configuration_once_a_key_is_in_it(name, tmp_path):
    ready = tmp_path / "groundwatch.toml"
    ready.write_text((EXAMPLES / name).read_text().replace("PUT-THE-SHA256-OF-YOUR-KEY-HERE", "0" * 64))
    refuse_open_doors(load(ready))
    with pytest.raises(ValueError, match="ingest_keys"):
        load(EXAMPLES / name)  # the placeholder is no key that anybody could use
