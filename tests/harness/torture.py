"""Kill -9 the whole monitor at random moments under load; then account for every acknowledged trace.

Run: `python tests/harness/torture.py --kills 20`. The last line is one JSON object: kills, acknowledged, in_ledger,
lost (acknowledged and not in the ledger), doubled (counted more than once in the traffic sums).
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from sqlalchemy import func, select

from groundwatch import names
from groundwatch_collector.storage import open_engine, reader
from groundwatch_collector.tables import ledger, traffic_tally


def body(trace_ids: list[str]) -> bytes:
    """A batch of small, complete RAG traces as OTLP protobuf."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    _set(resource.resource, names.SERVICE_NAME, "torture")
    _set(resource.resource, names.SERVICE_VERSION, "1")
    scope = resource.scope_spans.add()
    scope.scope.name = names.SCOPE_NAME
    end = time.time_ns()
    for trace_id in trace_ids:
        root = scope.spans.add(
            trace_id=bytes.fromhex(trace_id),
            span_id=bytes.fromhex(trace_id[:16]),
            name="invoke_workflow torture",
            start_time_unix_nano=end - 50_000_000,
            end_time_unix_nano=end,
        )
        _set(root, names.STAGE, "request")
        _set(root, names.QUERY, "how long are files kept")
        _set(root, names.ANSWER, "Files are kept for 30 days [1].")
        _set(root, names.OUTCOME, "answered")
        context = scope.spans.add(
            trace_id=bytes.fromhex(trace_id),
            span_id=bytes.fromhex(trace_id[16:]),
            parent_span_id=root.span_id,
            name="context",
            start_time_unix_nano=end - 40_000_000,
            end_time_unix_nano=end - 30_000_000,
        )
        _set(context, names.STAGE, "context")
        _set(context, names.CONTEXT, json.dumps([{"id": "d1", "rank": 1, "content": "Files are kept for 30 days."}]))
    return request.SerializeToString()


def _set(owner: object, key: str, value: str) -> None:
    pair = owner.attributes.add()  # type: ignore[attr-defined]
    pair.key = key
    pair.value.string_value = value


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Load:
    """Sends batches without pause and remembers which trace ids were acknowledged."""

    send: Callable[[bytes], bool]  # a batch; whether it was acknowledged
    rng: random.Random
    pause: float = 0.0  # seconds after each batch
    acknowledged: set[str] = field(default_factory=set)
    refused: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        retry: list[str] = []
        while not self.stop.is_set():
            # What was not acknowledged is sent again, as a real exporter does: duplicates are part of the test.
            batch = retry or [f"{self.rng.getrandbits(128):032x}" for _ in range(self.rng.randint(1, 20))]
            if self.send(body(batch)):
                self.acknowledged.update(batch)
                retry = batch if self.rng.random() < 0.1 else []
                self.stop.wait(self.pause)
            else:
                self.refused += 1
                retry = batch
                self.stop.wait(0.02)


def post(url: str, batch: bytes) -> bool:
    """Send *batch* over OTLP/HTTP."""
    headers = {"content-type": "application/x-protobuf"}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(f"{url}/v1/traces", data=batch, headers=headers), timeout=5
        ) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def start(data: Path, port: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "groundwatch_deploy", "serve", "--data-dir", str(data)]
    command += ["--ingest-port", str(port), "--console-port", "0", "--metrics-port", "0"]
    with (data.parent / "serve.log").open("ab") as log:
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)


def wait_ready(url: str, deadline: float) -> None:
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=2) as reply:
                if reply.status == 200:
                    return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the monitor did not become ready")


def account(url: str, acknowledged: set[str]) -> dict[str, int]:
    """What the database at *url* knows of the acknowledged traces."""
    engine = open_engine(url)
    with reader(engine).connect() as connection:
        decided = set(connection.execute(select(ledger.c.trace_id)).scalars())
        counted = connection.execute(select(func.coalesce(func.sum(traffic_tally.c.received), 0))).scalar_one()
    engine.dispose()
    return {
        "acknowledged": len(acknowledged),
        "in_ledger": len(decided),
        "lost": len(acknowledged - decided),
        "doubled": int(counted) - len(decided),
    }


def wait_decided(url: str, acknowledged: set[str], seconds: float) -> dict[str, int]:
    """The account as soon as nothing is missing, at the latest when nothing came for *seconds*: late is not lost."""
    best, deadline = -1, time.monotonic() + seconds
    while True:
        result = account(url, acknowledged)
        if result["in_ledger"] > best:
            best, deadline = result["in_ledger"], time.monotonic() + seconds
        if result["lost"] == 0 or time.monotonic() > deadline:
            return result
        time.sleep(0.5)


def torture(kills: int, seed: int, folder: Path, longest_life_seconds: float = 2.5) -> dict[str, int]:
    """Run the monitor under load, killing it *kills* times; return the account."""
    rng = random.Random(seed)
    data, port = folder / "data", free_port()
    data.mkdir(parents=True)
    url = f"http://127.0.0.1:{port}"
    load = Load(partial(post, url), random.Random(seed + 1))
    monitor = start(data, port)
    try:
        wait_ready(url, time.monotonic() + 60)
        thread = threading.Thread(target=load.run)
        thread.start()
        for number in range(kills):
            time.sleep(rng.uniform(0.05, longest_life_seconds))
            monitor.send_signal(signal.SIGKILL)
            monitor.wait()
            print(f"kill {number + 1}/{kills}: {len(load.acknowledged)} acknowledged", file=sys.stderr, flush=True)
            monitor = start(data, port)
            # Some lives end before they are ready: a crash during recovery is a crash too.
            if rng.random() < 0.7:
                wait_ready(url, time.monotonic() + 60)
        load.stop.set()
        thread.join()
        wait_ready(url, time.monotonic() + 60)
        result = wait_decided(f"sqlite:///{data / 'groundwatch.db'}", load.acknowledged, seconds=120)
        monitor.terminate()
        monitor.wait(30)
    finally:  # nothing is left running for the tests that follow, whatever ended this one
        load.stop.set()
        monitor.kill()
        monitor.wait()
    return {"kills": kills, "refused": load.refused, **result}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        outcome = torture(options.kills, options.seed, Path(scratch))
    print(json.dumps(outcome))
    sys.exit(0 if outcome["lost"] == 0 and outcome["doubled"] == 0 else 1)
