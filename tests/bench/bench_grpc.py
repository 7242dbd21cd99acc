"""The gRPC door beside the HTTP one, same payload, same span log. Run it: python tests/bench/bench_grpc.py

Each door in a process of its own, one after the other, so that the ratio is of the same machine in the same minute.
Prints one JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import multiprocessing
import multiprocessing.connection
import socket
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import bench_ingest
from prometheus_client import CollectorRegistry

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def serve(directory: str, port: int, control: multiprocessing.connection.Connection) -> None:
    from groundwatch_collector.grpc_intake import GrpcServer
    from groundwatch_collector.intake_door import IntakeDoor
    from groundwatch_collector.intake_keys import IngestKeys
    from groundwatch_collector.intake_metrics import IntakeMetrics
    from groundwatch_collector.limits import Limits
    from groundwatch_collector.spanlog import SpanLog

    with SpanLog(Path(directory)) as log:
        server = GrpcServer(
            IntakeDoor(log, Limits(), IntakeMetrics(CollectorRegistry()), IngestKeys()), "127.0.0.1", port
        )
        server.start()
        control.send(True)
        while control.recv():
            control.send((time.process_time(), log.appended_records))
        server.stop()


async def send_many(port: int, body: bytes, calls: int, seconds: float) -> list[float]:
    from grpc import aio

    async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        export = channel.unary_unary(EXPORT)
        until = time.perf_counter() + seconds

        async def one() -> list[float]:
            taken = []
            while (started := time.perf_counter()) < until:
                await export(body)
                taken.append(time.perf_counter() - started)
            return taken

        return [taken for result in await asyncio.gather(*[one() for _ in range(calls)]) for taken in result]


def measure(arguments: argparse.Namespace, directory: str) -> dict[str, Any]:
    body = bench_ingest.one_trace()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(directory, port, there))
    process.start()
    here.recv()
    sent = gzip.compress(body, 1) if arguments.gzip else body
    asyncio.run(send_many(port, sent, arguments.connections, 1.0))  # warm
    here.send(True)
    cpu, records = here.recv()
    started = time.perf_counter()
    taken = asyncio.run(send_many(port, sent, arguments.connections, arguments.seconds))
    wall = time.perf_counter() - started
    here.send(True)
    cpu_after, records_after = here.recv()
    here.send(False)
    process.join()
    if records_after - records != len(taken):
        raise SystemExit(f"{len(taken)} acknowledged, but {records_after - records} durable")
    cuts = statistics.quantiles(taken, n=100)
    return {
        "traces_per_second": round(len(taken) / wall),
        "traces_per_server_cpu_second": round(len(taken) / (cpu_after - cpu)),
        "p50_ms": round(cuts[49] * 1000, 2),
        "p99_ms": round(cuts[98] * 1000, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=32, help="HTTP connections, and gRPC calls at once")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--gzip", action="store_true")
    arguments = parser.parse_args()
    arguments.rounds = 1
    found: dict[str, Any] = {}
    for name, door in (("http", bench_ingest.measure), ("grpc", measure)):
        with tempfile.TemporaryDirectory() as directory:
            found[name] = door(arguments, directory)
    per_cpu = [found[name]["traces_per_server_cpu_second"] for name in ("grpc", "http")]
    print(json.dumps(found | {"grpc_to_http_per_cpu_second": round(per_cpu[0] / per_cpu[1], 2)}))


if __name__ == "__main__":
    main()
