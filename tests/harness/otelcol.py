"""A real OpenTelemetry Collector with `tail_sampling` and the Kafka exporter, built from its Go modules.

`python tests/harness/otelcol.py build` builds it once, into GROUNDWATCH_OTELCOL_HOME or
~/.cache/groundwatch-otelcol; Go must be there. `... run CONFIG.yaml` starts it with a configuration and waits.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

VERSION = "0.155.0"
_STABLE = "1.61.0"  # the number that modules of the same release have which are past 1.0
_CONTRIB = "github.com/open-telemetry/opentelemetry-collector-contrib"
MANIFEST = f"""dist:
  name: otelcol
  version: {VERSION}
  output_path: ./half
receivers:
  - gomod: go.opentelemetry.io/collector/receiver/otlpreceiver v{VERSION}
processors:
  - gomod: {_CONTRIB}/processor/tailsamplingprocessor v{VERSION}
exporters:
  - gomod: go.opentelemetry.io/collector/exporter/otlphttpexporter v{VERSION}
  - gomod: {_CONTRIB}/exporter/kafkaexporter v{VERSION}
providers:
  - gomod: go.opentelemetry.io/collector/confmap/provider/envprovider v{_STABLE}
  - gomod: go.opentelemetry.io/collector/confmap/provider/fileprovider v{_STABLE}
"""


def home() -> Path:
    given = os.environ.get("GROUNDWATCH_OTELCOL_HOME")
    return Path(given) if given else Path.home() / ".cache" / "groundwatch-otelcol"


def binary() -> Path:
    return home() / VERSION / "otelcol"


def is_available() -> bool:
    """Whether it was built. Building takes minutes, so that no test does it."""
    return binary().is_file()


def build() -> Path:
    """The program; built the first time. Safe for several processes at once."""
    folder = binary().parent
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_available():
            (folder / "manifest.yaml").write_text(MANIFEST)
            builder = f"go.opentelemetry.io/collector/cmd/builder@v{VERSION}"
            subprocess.run(["go", "run", builder, "--config", "manifest.yaml"], cwd=folder, check=True)
            (folder / "half" / "otelcol").rename(binary())
            shutil.rmtree(folder / "half")
    return binary()


class Collector:
    """One collector with a folder of its own. *pipeline*: YAML of processors, exporters and the service."""

    def __init__(self, pipeline: str) -> None:
        import torture  # needs our packages, which building does not

        self.folder = Path(tempfile.mkdtemp(prefix="groundwatch-otelcol-"))
        self.port = torture.free_port()
        receivers = f"receivers:\n  otlp:\n    protocols:\n      http:\n        endpoint: 127.0.0.1:{self.port}\n"
        (self.folder / "config.yaml").write_text(receivers + pipeline)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            command = [str(binary()), "--config", f"file:{self.folder / 'config.yaml'}"]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + 30
        while not self._answers():
            if time.monotonic() > deadline or self._process.poll() is not None:
                self.kill()
                raise RuntimeError(f"the OpenTelemetry Collector did not start: {self.log[-2000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """As a crash would: nothing is flushed."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answers(self) -> bool:
        with closing(socket.socket()) as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("build", "run"))
    parser.add_argument("config", nargs="?", type=Path)
    options = parser.parse_args()
    print(build(), file=sys.stderr)
    if options.what == "run":
        if options.config is None:
            parser.error("run: the path of a configuration is missing")
        os.execv(binary(), [str(binary()), "--config", f"file:{options.config}"])


if __name__ == "__main__":
    main()
