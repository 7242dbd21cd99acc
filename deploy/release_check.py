"""What a release must show, from what a user installs: `python deploy/release_check.py` (`make release-check`).

Builds wheel and sdist, installs the wheel into clean environments, runs the demo from it, measures sizes, reads the
licence of everything that comes along, lists it as an SBOM, and asks pip-audit for known vulnerabilities where its
database is reachable. Standard library only.
Everything is kept in build/release; exit 1 when something is not as it must be.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parent.parent
FOLDER = REPO / "build" / "release"
SDK_BYTES, MONITOR_BYTES = 5e6, 150e6  # the bounds of docs/releasing.md; the first is without pip's byte code
RUNTIME_EXTRAS = "monitor,demo,grpc,kafka,postgres"  # what a deployment may hold; `ner` brings models of its own
OURS = ("pip", "setuptools", "wheel")  # of the environment, not of the product
DEMO = ("demo", "--headless", "--json", "--healthy-requests", "300", "--incident-requests", "300")

# Runs in the measured environment: name, version and licence of each distribution, its bytes on the disk, and how
# many of them pip compiled.
INVENTORY = """
import importlib.metadata as m, json, os, re
def licence(d):
    given = d.metadata.get("License-Expression") or d.metadata.get("License") or ""
    named = [c.split(" :: ")[-1] for c in d.metadata.get_all("Classifier") or [] if c.startswith("License ::")]
    first = given.strip().splitlines()[0] if given.strip() else ""
    return first if first and len(first) < 60 else ", ".join(named) or first[:60]
def size(d, ending=""):
    paths = {os.path.realpath(d.locate_file(f)) for f in d.files or [] if str(f).endswith(ending)}
    return sum(os.path.getsize(p) for p in paths if os.path.isfile(p))
print(json.dumps([{"name": re.sub(r"[-_.]+", "-", d.metadata["Name"]).lower(), "version": d.version,
    "licence": licence(d), "bytes": size(d), "compiled": size(d, ".pyc"), "requires": d.requires or []}
    for d in m.distributions()]))
"""
# A licence that would reach into the code that imports it. LGPL (psycopg) and MPL (certifi) do not.
COPYLEFT = re.compile(r"(?<![Ll])(GPL|AGPL)|(?<!Lesser )General Public License|Affero|SSPL|Commons Clause")


@dataclass
class Report:
    """What was found, and what is wrong with it."""

    found: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def require(self, is_so: bool, otherwise: str) -> None:
        if not is_so:
            self.wrong.append(otherwise)


def main() -> int:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    report = Report()
    wheel = build(report)
    measure(report, wheel)
    list_parts(report)
    run_demo(report)
    build_site(report)
    audit(report)
    (FOLDER / "report.json").write_text(json.dumps(report.found, indent=1) + "\n")
    print(json.dumps({name: value for name, value in report.found.items() if name != "licences"}, indent=1))
    for line in report.wrong:
        say(f"WRONG: {line}")
    return 1 if report.wrong else 0


def build(report: Report) -> Path:
    """The wheel that a user gets: built from the sdist, which must therefore hold everything."""
    python = environment("build")
    pip(python, "install", "hatchling")
    dist = FOLDER / "dist"
    run(python, "-m", "hatchling", "build", "-d", str(dist), cwd=REPO)
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    pip(python, "wheel", "--no-deps", "-w", str(FOLDER / "from-sdist"), str(sdist))
    (again,) = (FOLDER / "from-sdist").glob("*.whl")
    report.require(_names(wheel) == _names(again), "the wheel from the sdist holds other files than the wheel")
    report.found |= {"wheel_bytes": wheel.stat().st_size, "sdist_bytes": sdist.stat().st_size}
    report.found["wheel_files"] = len(_names(wheel))
    return again


def _names(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def measure(report: Report, wheel: Path) -> None:
    """Sizes on the disk after installation, byte code included, and the licences of everything."""
    sdk = installed("sdk", str(wheel))
    opentelemetry = closure(sdk, ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"))
    ours = [one for name, one in sdk.items() if name not in opentelemetry]
    beyond = total(ours) - sum(one["compiled"] for one in ours)
    monitor = total(installed("monitor", f"{wheel}[monitor]").values())
    report.found |= {"sdk_beyond_opentelemetry_bytes": beyond, "sdk_beyond_with_byte_code_bytes": total(ours)}
    report.found["sdk_with_opentelemetry_bytes"] = total(sdk.values())
    report.found["monitor_bytes"] = monitor
    report.require(beyond < SDK_BYTES, f"the SDK takes {beyond / 1e6:.1f} MB beyond OpenTelemetry")
    report.require(monitor < MONITOR_BYTES, f"the monitor takes {monitor / 1e6:.0f} MB")
    everything = installed("everything", f"{wheel}[{RUNTIME_EXTRAS}]")
    report.found["everything_bytes"] = total(everything.values())
    licences = {f"{name} {one['version']}": one["licence"] for name, one in sorted(everything.items())}
    report.found["licences"] = licences
    report.found["licences_counted"] = _counted(licences.values())
    for name, licence in licences.items():
        report.require(bool(licence), f"{name} names no licence")
        report.require(not COPYLEFT.search(licence), f"{name} is under {licence}")


def list_parts(report: Report) -> None:
    """The software bill of materials of a deployment with every extra, in CycloneDX: sbom.cdx.json."""
    python = environment("sbom")
    pip(python, "install", "cyclonedx-bom")
    written = FOLDER / "sbom.cdx.json"
    described = ("--pyproject", REPO / "pyproject.toml", "--output-reproducible", "--validate")
    tool = python.with_name("cyclonedx-py")
    run(tool, "environment", _python("everything"), *described, "--of", "JSON", "-o", written, cwd=FOLDER)
    parts = json.loads(written.read_text())["components"]
    missing = missing_parts(report.found["licences"], [part["name"] for part in parts])
    report.found["sbom_parts"] = len(parts)
    report.require(not missing, f"the SBOM leaves out {', '.join(missing)}")


def missing_parts(installed: Iterable[str], listed: Iterable[str]) -> list[str]:
    """Which of *installed*, each a name and a version, *listed* does not name; ours is what the list is of."""
    names = {re.sub(r"[-_.]+", "-", name).lower() for name in listed}
    return sorted(one for one in installed if one.rsplit(" ", 1)[0] not in {*names, "groundwatch"})


def _counted(words: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def installed(name: str, requirement: str) -> dict[str, dict[str, Any]]:
    """The distributions of a clean environment with *requirement*, by name."""
    python = environment(name)
    pip(python, "install", "-c", str(REPO / "constraints.txt"), requirement)
    listed = json.loads(run(python, "-c", INVENTORY, cwd=FOLDER))
    return {one["name"]: one for one in listed if one["name"] not in OURS}


def closure(found: Mapping[str, Mapping[str, Any]], roots: Iterable[str]) -> set[str]:
    """*roots* and everything that they require."""
    seen: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found and name not in seen:
            seen.add(name)
            needs = [need for need in found[name]["requires"] if "extra ==" not in need]
            waiting += [re.split(r"[^A-Za-z0-9._-]", need)[0] for need in needs]
    return seen


def total(distributions: Iterable[Mapping[str, Any]]) -> int:
    return sum(one["bytes"] for one in distributions)


def run_demo(report: Report) -> None:
    """The demo, from the installed wheel and away from the sources."""
    folder = FOLDER / "elsewhere"
    folder.mkdir()
    started = time.monotonic()
    told = json.loads(run(_python("everything").with_name("groundwatch"), *DEMO, cwd=folder))
    report.found["demo_seconds"] = round(time.monotonic() - started, 1)
    report.found["demo_ledger"] = told.get("ledger")
    report.require(bool((told.get("ledger") or {}).get("adds_up")), "the ledger of the demo does not add up")


def build_site(report: Report) -> None:
    """The documentation; a warning is a fault."""
    python = environment("docs")
    pip(python, "install", "mkdocs-material")
    command = [python, "-m", "mkdocs", "build", "--strict", "--site-dir", FOLDER / "site"]
    done = subprocess.run([*map(str, command)], cwd=REPO, capture_output=True, text=True, check=False)
    report.found["site_pages"] = len(list((FOLDER / "site").rglob("index.html")))
    warnings = [line for line in done.stderr.splitlines() if line.startswith("WARNING")]
    report.require(done.returncode == 0, f"mkdocs --strict: {'; '.join(warnings) or _last_line(done.stderr)}")


def audit(report: Report) -> None:
    """Known vulnerabilities of what was installed; "not reached" is no pass, and said."""
    python = environment("audit")
    pip(python, "install", "pip-audit")
    frozen = FOLDER / "requirements.txt"
    rows = [line.rsplit(" ", 1) for line in report.found["licences"]]
    frozen.write_text("".join(f"{name}=={version}\n" for name, version in rows if name != "groundwatch"))
    command = [python, "-m", "pip_audit", "-r", frozen, "--no-deps", "--disable-pip", "--format", "json"]
    done = subprocess.run(
        [*map(str, command), "--progress-spinner", "off"], capture_output=True, text=True, check=False
    )
    try:
        checked = json.loads(done.stdout)["dependencies"]
    except (json.JSONDecodeError, KeyError):
        report.found["vulnerabilities"] = f"not reached: {_last_line(done.stderr)}"
        return
    bad = [f"{one['name']} {one['version']}: {flaw['id']}" for one in checked for flaw in one.get("vulns", [])]
    report.found["vulnerabilities"] = {"packages": len(checked), "found": bad}
    report.require(not bad, f"known vulnerabilities: {', '.join(bad)}")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no output"])[-1][:200]


def environment(name: str) -> Path:
    """The Python of a new, empty virtual environment."""
    run(sys.executable, "-m", "venv", str(FOLDER / name), cwd=FOLDER)
    return _python(name)


def _python(name: str) -> Path:
    return FOLDER / name / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def pip(python: Path, *arguments: str) -> None:
    run(
        python,
        "-m",
        "pip",
        arguments[0],
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
        *arguments[1:],
        cwd=FOLDER,
    )


def run(program: Path | str, *arguments: str | Path, cwd: Path) -> str:
    """What the program prints. Raises ``SystemExit`` with its last words when it fails."""
    say(f"{Path(program).name} {' '.join(str(part) for part in arguments)[:100]}")
    done = subprocess.run([str(program), *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"failed with {done.returncode}: {Path(program).name}\n{done.stderr[-2000:]}")
    return done.stdout


def say(text: str) -> None:
    print(f"release-check: {' '.join(text.split())}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
