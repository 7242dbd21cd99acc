"""What deploy/examples ships is accepted by the tools that will read it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import otelcol
import pytest
import yaml  # type: ignore[import-untyped]

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


# KEDA has no validator that runs without a cluster: the fields of its API (keda.sh/v1alpha1) that are used here.
SCALED_OBJECT = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "keda.sh/v1alpha1"},
        "kind": {"const": "ScaledObject"},
        "spec": {
            "type": "object",
            "required": ["scaleTargetRef", "triggers"],
            "additionalProperties": False,
            "properties": {
                "scaleTargetRef": {"type": "object", "required": ["name"]},
                "minReplicaCount": {"type": "integer"},
                "maxReplicaCount": {"type": "integer"},
                "cooldownPeriod": {"type": "integer"},
                "triggers": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["type", "metadata"],
                        "properties": {
                            "type": {"const": "prometheus"},
                            "metadata": {
                                "type": "object",
                                "required": ["serverAddress", "query", "threshold"],
                                "additionalProperties": {"type": "string"},
                            },
                        },
                    },
                },
            },
        },
    },
}


def scaled_objects() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((EXAMPLES / "kubernetes-keda" / "scaledobjects.yaml").read_text()))


def test_keda_scales_deployments_that_there_are_by_metrics_that_there_are():
    metrics = (EXAMPLES.parents[1] / "docs" / "metrics.md").read_text()
    deployments = "".join(path.read_text() for path in (EXAMPLES / "kubernetes").glob("*.yaml"))
    for scaled in scaled_objects():
        jsonschema.validate(scaled, SCALED_OBJECT)
        assert f"kind: Deployment\nmetadata:\n  name: {scaled['spec']['scaleTargetRef']['name']}\n" in deployments
        (metric,) = re.findall(r"groundwatch_\w+", scaled["spec"]["triggers"][0]["metadata"]["query"])
        assert f"| `{metric}` |" in metrics


@pytest.mark.service("prometheus")
def test_prometheus_accepts_the_queries_for_keda(tmp_path):
    queries = [scaled["spec"]["triggers"][0]["metadata"]["query"] for scaled in scaled_objects()]
    rules = [{"record": f"keda:waiting:{number}", "expr": query} for number, query in enumerate(queries)]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "keda", "rules": rules}]}))
    accepted("promtool", "check", "rules", tmp_path / "rules.yaml")


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize(("folder", "by_processor", "by_backlog"), [("kubernetes", 2, 0), ("kubernetes-keda", 0, 2)])
def test_kustomize_builds_both_and_a_deployment_has_one_autoscaler(folder, by_processor, by_backlog):
    done = subprocess.run(["kubectl", "kustomize", EXAMPLES / folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kinds = [part["kind"] for part in yaml.safe_load_all(done.stdout)]
    assert (kinds.count("HorizontalPodAutoscaler"), kinds.count("ScaledObject")) == (by_processor, by_backlog)
    assert (kinds.count("PodDisruptionBudget"), kinds.count("NetworkPolicy")) == (2, 3)


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


def test_grafana_is_given_the_datasource_and_the_folder_of_our_dashboards():
    """Grafana itself was not at hand: what it is told here has to agree with the Compose file and the dashboards."""
    compose = yaml.safe_load((EXAMPLES / "compose" / "compose.yaml").read_text())["services"]
    mounts = dict(volume.split(":")[:2] for volume in compose["grafana"]["volumes"])
    provisioned = EXAMPLES / "compose" / "grafana"
    (source,) = yaml.safe_load((provisioned / "datasources" / "prometheus.yaml").read_text())["datasources"]
    (folder,) = yaml.safe_load((provisioned / "dashboards" / "groundwatch.yaml").read_text())["providers"]
    assert (source["type"], source["isDefault"], mounts["./grafana"]) == (
        "prometheus",
        True,
        "/etc/grafana/provisioning",
    )
    host, port = source["url"].removeprefix("http://").split(":")
    assert compose[host]["image"].startswith("prom/prometheus") and compose[host]["ports"] == [
        f"127.0.0.1:{port}:{port}"
    ]
    (dashboards,) = [here for here, there in mounts.items() if there == folder["options"]["path"]]
    found = list((EXAMPLES / "compose" / dashboards).resolve().glob("*.json"))
    assert len(found) == 8
    for path in found:
        variables = {one["name"]: one for one in json.loads(path.read_text())["templating"]["list"]}
        assert variables["datasource"]["query"] == source["type"], path.name


def test_the_image_brings_the_extra_of_everything_that_serve_can_be_configured_for():
    text = (EXAMPLES / "compose" / "Dockerfile").read_text(encoding="utf-8")
    built, installed = (set(found.split(",")) for found in re.findall(r'\[([a-z,]+)\]"', text))
    assert built == installed == {"monitor", "grpc", "kafka", "oidc", "postgres"}
