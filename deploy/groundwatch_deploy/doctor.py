"""`groundwatch doctor`: check a deployment, from the application's side or on the monitor's machine."""

from __future__ import annotations

import argparse
import importlib
import os
import ssl
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from groundwatch_deploy.cli import Failed, Misused, emit
from groundwatch_deploy.config import ConfigError
from groundwatch_deploy.doctor_network import (
    IngestDoor,
    check_console,
    check_grpc,
    check_ingest,
    check_kafka,
    check_metrics,
    tls_context,
    trouble_connecting,
)
from groundwatch_deploy.findings import Finding, fail, ok, warn
from groundwatch_deploy.servers import is_loopback

KEY_VARIABLE = "GROUNDWATCH_INGEST_KEY"
_ENTRY_POINTS = "opentelemetry_instrumentor"
# Prefixes of distributions that instrument the same libraries in different conventions.
_FAMILIES = (
    "openinference-instrumentation-",
    "opentelemetry-instrumentation-genai-",
    "opentelemetry-instrumentation-",
)


def command(arguments: argparse.Namespace) -> int:
    """Print every finding; exit 1 when one says fail."""
    context = _context(arguments)
    findings = [check_sdk(), check_instrumentors(_instrumentors())]
    if arguments.endpoint:
        door = IngestDoor(_url(arguments.endpoint), os.environ.get(KEY_VARIABLE, ""), context=context)
        findings += check_ingest(door)
    else:
        findings += _own_machine(arguments, context)
    emit(_as_dict(findings), arguments.json, lambda: _as_text(findings))
    failed = sum(finding.status == "fail" for finding in findings)
    if failed:
        raise Failed(f"{failed} of {len(findings)} checks failed")
    return 0


def _url(endpoint: str) -> str:
    if not endpoint.startswith(("http://", "https://")):
        raise Misused(f"--endpoint: found {endpoint!r}, accepted: http://HOST:PORT or https://HOST:PORT")
    return endpoint.rstrip("/").removesuffix("/v1/traces")


def _context(arguments: argparse.Namespace, trusted: Path | None = None) -> ssl.SSLContext:
    try:
        return tls_context(arguments.ca or trusted, arguments.client_certificate, arguments.client_key)
    except (OSError, ssl.SSLError) as error:
        raise Misused(f"--ca, --client-certificate, --client-key: {error}; accepted: PEM files") from error


def _own_machine(arguments: argparse.Namespace, context: ssl.SSLContext) -> Iterator[Finding]:
    # What the monitor needs is not installed beside every application.
    here = importlib.import_module("groundwatch_deploy.doctor_here")
    settings_module = importlib.import_module("groundwatch_deploy.settings")
    try:
        settings = settings_module.load(
            arguments.config,
            data_directory=arguments.data_dir,
            ingest_port=arguments.ingest_port,
            console_port=arguments.console_port,
            metrics_port=arguments.metrics_port,
        )
    except ConfigError as error:
        yield fail("configuration", str(error), "correct the file")
        return
    server = settings.server
    brokers = settings.kafka.bootstrap_servers
    # Over Kafka there is no lock on this disk that would tell.
    running = not trouble_connecting(_ingest_address(server)) if brokers else here.is_running(server)
    yield ok("monitor", f"{'runs' if running else 'does not run'} on {server.data_directory}")
    if running:
        if server.tls_certificate:
            context = _context(arguments, Path(server.tls_certificate))
        yield from _running(server, context)
    else:
        yield warn("endpoint", "not asked: the monitor does not run", "start it with `groundwatch serve`")
    if brokers:
        yield check_kafka(brokers)
    key = os.environ.get("GROUNDWATCH_LLM_API_KEY") or os.environ.get("OPENAI_API_KEY") or ""
    yield from here.check_here(settings, key.encode(), running=running)


def _running(server: Any, context: ssl.SSLContext) -> Iterator[Finding]:
    scheme = "https" if server.tls_certificate else "http"
    ingest = f"{scheme}://{_ingest_address(server)}"
    yield from check_ingest(IngestDoor(ingest, os.environ.get(KEY_VARIABLE, ""), context=context))
    if server.grpc_port:
        yield check_grpc(f"{scheme}://{_host(server.ingest_host)}:{server.grpc_port}")
    # As it is served: the console of this machine alone has no need of the certificate.
    console = "http" if is_loopback(server.console_host) else scheme
    yield check_console(f"{console}://{_host(server.console_host)}:{server.console_port}", context)
    yield from check_metrics(f"http://{_host(server.metrics_host)}:{server.metrics_port}")


def _ingest_address(server: Any) -> str:
    return f"{_host(server.ingest_host)}:{server.ingest_port}"


def _host(host: str) -> str:
    """An address to ask for a listener: every-interface addresses are asked on loopback."""
    known = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 (nothing is bound here)
    return known.get(host) or (f"[{host}]" if ":" in host else host)


def check_sdk() -> Finding:
    try:
        return ok("sdk", f"groundwatch {metadata.version('groundwatch')}, opentelemetry {_opentelemetry()}")
    except metadata.PackageNotFoundError as error:
        return fail("sdk", f"{error.name} is not installed", "run: pip install groundwatch")


def _opentelemetry() -> str:
    return metadata.version("opentelemetry-sdk")


def _instrumentors() -> list[tuple[str, str]]:
    """Name of the entry point and its distribution."""
    points = metadata.entry_points(group=_ENTRY_POINTS)
    return sorted((point.name, point.dist.name if point.dist else "") for point in points)


def check_instrumentors(installed: Sequence[tuple[str, str]]) -> Finding:
    """Which OpenTelemetry instrumentors are installed. Two for one library write every question twice."""
    if not installed:
        return ok("instrumentors", "none installed: only spans of the Groundwatch SDK or of the app's own code")
    by_library: dict[str, set[str]] = {}
    for name, distribution in installed:
        by_library.setdefault(_library(distribution or name), set()).add(distribution or name)
    doubled = sorted(", ".join(sorted(names)) for names in by_library.values() if len(names) > 1)
    listed = ", ".join(distribution or name for name, distribution in installed)
    if doubled:
        advice = "keep one for each library: with two, tokens and questions are counted twice"
        return warn("instrumentors", f"several for the same library: {'; '.join(doubled)}", advice)
    return ok("instrumentors", listed)


def _library(distribution: str) -> str:
    for prefix in _FAMILIES:
        if distribution.startswith(prefix):
            return distribution.removeprefix(prefix).removesuffix("-v2").replace("-", "").replace("_", "")
    return distribution


def _as_dict(findings: Sequence[Finding]) -> Mapping[str, Any]:
    worst = next((status for status in ("fail", "warn") if any(f.status == status for f in findings)), "ok")
    return {"status": worst, "checks": [finding.as_dict() for finding in findings]}


def _as_text(findings: Sequence[Finding]) -> str:
    lines = []
    for finding in findings:
        lines.append(f"{finding.status:<5}{finding.check:<16}{finding.found}")
        lines += [f"{'':<21}-> {finding.advice}"] if finding.advice else []
    return "\n".join(lines)
