"""The monitor as it runs: receiver, span log, pipeline and SQLite in one process, fed over HTTP from another.

    python tests/bench/bench_monitor.py                 # everything, one JSON line each
    python tests/bench/bench_monitor.py --only speed --profile pipeline.prof

speed: traces a second until they are decided, CPU by part, latency of acknowledgements. parts: CPU of each step of
one trace, alone, on one thread. memory: what an undecided trace holds. flat: memory of the process over --minutes of
load. ledger: bytes on disk of one decided trace. scrape: how long /metrics takes at 2,000 series.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import multiprocessing
import multiprocessing.connection
import os
import random
import socket
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import uvicorn
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from prometheus_client import CollectorRegistry, generate_latest
from sqlalchemy import func, select

from groundwatch import names
from groundwatch_alerts.estimate_metrics import TallyCollector
from groundwatch_collector import decision_store, otlp, signals, strata
from groundwatch_collector.assembly import Assembler, Pending
from groundwatch_collector.decision import DecideConfig, Decision
from groundwatch_collector.garbage import look_less_often
from groundwatch_collector.intake_metrics import IntakeMetrics
from groundwatch_collector.limits import Limits
from groundwatch_collector.mapping import to_lazy_trace
from groundwatch_collector.pipeline import Pipeline
from groundwatch_collector.ragtrace import Outcome, RagTrace
from groundwatch_collector.receiver import asgi_app
from groundwatch_collector.spanlog import SpanLog
from groundwatch_collector.storage import add_to_tally, open_engine, reader
from groundwatch_collector.strata import STRATA
from groundwatch_collector.tables import ledger, traffic_tally
from groundwatch_collector.traffic_metrics import TrafficMetrics
from groundwatch_deploy import migrations

TEXT = " ".join("".join(topics.values()).split())  # the Python manual: real text
PLACE = b"TRACE-ID-IS-HERE"  # 16 bytes, replaced in every request
GRACE_SECONDS = 0.5
MEASURES = ("speed", "parts", "memory", "flat", "ledger", "scrape")
EPOCH = DecideConfig().rate_table().epoch


def one_trace() -> bytes:
    """A question with six spans and about 26 KB of text, in the shape that the SDK sends."""
    stages: dict[str, dict[str, Any]] = {
        "rewrite": {names.REWRITTEN_QUERY: TEXT[100:160]},
        "candidates": {names.CANDIDATES: documents(20)},
        "rerank": {names.RERANKED: documents(10)},
        "context": {names.CONTEXT: documents(8)},
        "answer": {names.RESPONSE_MODEL: "model-1", names.INPUT_TOKENS: 1200, names.OUTPUT_TOKENS: 90},
        "request": {names.QUERY: TEXT[100:180], names.ANSWER: TEXT[600:1000], names.OUTCOME: "answered"},
    }
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    resource_spans.resource.attributes.append(attribute(names.SERVICE_NAME, "bench"))
    resource_spans.resource.attributes.append(attribute(names.SERVICE_VERSION, "1.0"))
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name = names.SCOPE_NAME
    root = bytes([len(stages)] * 8)
    start = time.time_ns()
    for number, (stage, attributes) in enumerate(stages.items(), start=1):
        span = scope_spans.spans.add(trace_id=PLACE, span_id=bytes([number] * 8), name=stage)
        span.parent_span_id = b"" if stage == "request" else root
        span.start_time_unix_nano = start
        span.end_time_unix_nano = start + 300_000_000
        span.attributes.append(attribute(names.STAGE, stage))
        span.attributes.extend(attribute(key, value) for key, value in attributes.items())
    return request.SerializeToString()


def documents(count: int) -> str:
    found = [
        {
            "id": f"manual-{rank}",
            "rank": rank + 1,
            "score": 9.5 - rank / 4,
            "content": TEXT[600 * rank : 600 * rank + 600],
        }
        for rank in range(count)
    ]
    return json.dumps(found)


def attribute(key: str, value: str | int) -> KeyValue:
    held = AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=value)
    return KeyValue(key=key, value=held)


# The monitor's process.


def serve(
    folder: str,
    bound: socket.socket,
    control: multiprocessing.connection.Connection,
    config: DecideConfig,
    profile: str,
) -> None:
    """Answer each message on *control* with a measurement, until it is False."""
    look_less_often()  # as `groundwatch serve` does
    engine = open_engine(f"sqlite:///{Path(folder) / 'groundwatch.db'}")
    migrations.upgrade(engine)
    registry = CollectorRegistry()
    log = SpanLog(Path(folder) / "spanlog")
    traffic = TrafficMetrics(registry)
    pipeline = Pipeline(log, engine, config, traffic, salt=b"a salt for the bench", now=time.time)
    app: Any = asgi_app(log, Limits(), IntakeMetrics(registry))
    server = uvicorn.Server(
        uvicorn.Config(
            app, http="httptools", loop="uvloop", ws="none", lifespan="off", access_log=False, log_level="error"
        )
    )
    stop = threading.Event()
    run: Any = profiled(pipeline.run, profile) if profile else pipeline.run
    threads = [
        threading.Thread(target=server.run, kwargs={"sockets": [bound]}, name="receiver"),
        threading.Thread(target=run, args=(stop,), name="pipeline"),
    ]
    for thread in threads:
        thread.start()
    while control.recv():
        control.send(measurement(threads, engine, registry))
    stop.set()
    server.should_exit = True
    for thread in threads:
        thread.join()
    log.close()
    engine.dispose()


def profiled(run: Any, path: str) -> Any:
    def watched(stop: threading.Event) -> None:
        profiler = cProfile.Profile()
        profiler.runcall(run, stop)
        profiler.dump_stats(path)

    return watched


def measurement(threads: list[threading.Thread], engine: Any, registry: CollectorRegistry) -> dict[str, float]:
    with reader(engine).connect() as connection:
        decided = connection.execute(select(func.count()).select_from(ledger)).scalar_one()
    cpu = {thread.name: time.clock_gettime(time.pthread_getcpuclockid(thread.ident or 0)) for thread in threads}
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    pending = registry.get_sample_value("groundwatch_pending_traces") or 0
    held = registry.get_sample_value("groundwatch_pending_bytes") or 0
    process = time.process_time()
    rss = pages * os.sysconf("SC_PAGE_SIZE")
    found = {"decided": decided, "rss": rss, "pending": pending, "pending_bytes": held}
    return {**cpu, **found, "process": process, "objects": sys.getallocatedblocks()}


class Monitor:
    """The other process, seen from here."""

    def __init__(self, folder: str, config: DecideConfig, profile: str = "") -> None:
        bound = socket.create_server(("127.0.0.1", 0))
        self.port = bound.getsockname()[1]
        self._control, there = multiprocessing.Pipe()
        arguments = (folder, bound, there, config, profile)
        self._process = multiprocessing.get_context("fork").Process(target=serve, args=arguments)
        self._process.start()
        bound.close()
        self.ask()

    def ask(self) -> dict[str, float]:
        self._control.send(True)
        answer: dict[str, float] = self._control.recv()
        return answer

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def kill(self) -> None:
        """As a crash would."""
        self._process.kill()
        self._process.join()

    def close(self) -> None:
        self._control.send(False)
        self._process.join()


# The load.


async def send_many(port: int, body: bytes, connections: int, count: int) -> list[float]:
    """Send *count* traces, each connection waiting for its acknowledgement; return how long each one took."""
    left = [count]
    results = await asyncio.gather(*[one_sender(port, body, left) for _ in range(connections)])
    return [taken for result in results for taken in result]


async def one_sender(port: int, body: bytes, left: list[int]) -> list[float]:
    streams = await asyncio.open_connection("127.0.0.1", port)
    head = b"POST /v1/traces HTTP/1.1\r\nHost: bench\r\nContent-Type: application/x-protobuf\r\n"
    head += b"Content-Length: %d\r\n\r\n"
    taken = []
    while left[0] > 0:
        left[0] -= 1
        request = head % len(body) + body.replace(PLACE, random.randbytes(16))
        started = time.perf_counter()
        streams[1].write(request)
        answer = await streams[0].readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"the collector answered {answer[:60]!r}")
        length = answer.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
        await streams[0].readexactly(int(length))
        taken.append(time.perf_counter() - started)
    streams[1].close()
    return taken


# What is measured.


def speed(arguments: argparse.Namespace) -> dict[str, Any]:
    body = one_trace()
    rounds = []
    for _ in range(arguments.rounds):
        with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
            monitor = Monitor(folder, DecideConfig(grace_seconds=GRACE_SECONDS), arguments.profile)
            try:
                asyncio.run(send_many(monitor.port, body, arguments.connections, 200))  # warm
                wait_until_decided(monitor, 200)
                rounds.append(one_round(monitor, body, arguments))
            finally:
                monitor.close()
    middle = sorted(rounds, key=lambda entry: entry["traces_per_second"])[len(rounds) // 2]
    return {
        "what": "speed",
        "body_bytes": len(body),
        "spans": 6,
        "traces": arguments.traces,
        "rounds": len(rounds),
    } | middle


def one_round(monitor: Monitor, body: bytes, arguments: argparse.Namespace) -> dict[str, Any]:
    before = monitor.ask()
    started = time.perf_counter()
    taken = asyncio.run(send_many(monitor.port, body, arguments.connections, arguments.traces))
    acknowledged = time.perf_counter() - started
    wait_until_decided(monitor, before["decided"] + arguments.traces)
    decided = time.perf_counter() - started - GRACE_SECONDS  # waiting for late spans is not work
    after = monitor.ask()
    cpu = {
        name: (after[name] - before[name]) / arguments.traces * 1e6 for name in ("receiver", "pipeline", "process")
    }
    cuts = statistics.quantiles(taken, n=100)
    return {
        "connections": arguments.connections,
        "traces_per_second": round(arguments.traces / decided),
        "acknowledged_per_second": round(arguments.traces / acknowledged),
        "cpu_us_per_trace": {name: round(value) for name, value in cpu.items()},
        "traces_per_cpu_second": round(1e6 / cpu["process"]),
        "ack_p50_ms": round(cuts[49] * 1000, 2),
        "ack_p99_ms": round(cuts[98] * 1000, 2),
        "rss_mb": round(after["rss"] / 2**20),
    }


def wait_until_decided(monitor: Monitor, count: float) -> None:
    deadline = time.monotonic() + 120
    while monitor.ask()["decided"] < count:
        if time.monotonic() > deadline:
            raise SystemExit(f"after two minutes {monitor.ask()['decided']} of {count} traces are decided")
        time.sleep(0.02)


def parts(arguments: argparse.Namespace) -> dict[str, Any]:
    """Many traces at a time through one step after the other, so that none finds the last one's bytes in a cache."""
    body, config, rounds = one_trace(), DecideConfig(), []
    cuts, order, noticer = config.cuts(), config.order(), config.noticer("bench")
    metrics = TrafficMetrics(CollectorRegistry())
    for _ in range(10):
        taken: dict[str, float] = {}
        bodies = [body.replace(PLACE, random.randbytes(16)) for _ in range(500)]
        each(taken, "protobuf runtime", ExportTraceServiceRequest.FromString, bodies)
        found = each(taken, "decode", lambda one: otlp.decode(one, "protobuf").spans, bodies)
        assembler = Assembler(config.assembly())
        each(taken, "assemble", lambda spans, to=assembler: to.add(spans, 0, 1.0), found)
        traces = each(taken, "map", lambda pending: to_lazy_trace(list(pending.spans.values())), assembler.drain())
        each(taken, "lists", lambda trace: (trace.shown_texts, trace.ranking_scores), traces)
        each(taken, "new kinds", lambda trace: noticer.notice(trace, 1.0), traces)
        noticer.committed()
        each(taken, "score", lambda trace: strata.classify(trace, signals.measure(trace), cuts, order=order), traces)
        each(taken, "metrics", lambda trace: metrics.decided("not_sampled", "hash", trace), traces)
        rounds.append(taken)
    middle = {name: round(statistics.median(one[name] for one in rounds), 1) for name in rounds[0]}
    return {"what": "parts", "body_bytes": len(body), "cpu_us_per_trace": middle}


def each(taken: dict[str, float], name: str, step: Any, given: list[Any]) -> list[Any]:
    started = time.thread_time()
    found = [step(one) for one in given]
    taken[name] = (time.thread_time() - started) / len(given) * 1e6
    return found


def memory(arguments: argparse.Namespace) -> dict[str, Any]:
    """Undecided traces only: nothing becomes due."""
    body, count = one_trace(), min(arguments.traces, 4000)
    config = DecideConfig(grace_seconds=3600, max_age_seconds=3600, max_pending_bytes=2**40)
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        monitor = Monitor(folder, config)
        try:
            asyncio.run(send_many(monitor.port, body, 8, 500))
            before = settled(monitor, 500)
            asyncio.run(send_many(monitor.port, body, 8, count))
            after = settled(monitor, 500 + count)
        finally:
            monitor.close()
    per_trace = (after["rss"] - before["rss"]) / count
    return {
        "what": "memory",
        "pending": count,
        "body_bytes": len(body),
        "rss_bytes_per_pending_trace": round(per_trace),
        "ratio_to_body": round(per_trace / len(body), 2),
        "accounted_bytes_per_trace": round((after["pending_bytes"] - before["pending_bytes"]) / count),
    }


def flat(arguments: argparse.Namespace) -> dict[str, Any]:
    """A steady load, with traces under way all the time; memory once in a tenth of the run."""
    body, seen, objects, sent = one_trace(), [], [], 0
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        monitor = Monitor(folder, DecideConfig(grace_seconds=GRACE_SECONDS))
        try:
            # More than the decided ids that are remembered: what is bounded is full, the allocator has its arenas.
            asyncio.run(send_many(monitor.port, body, 8, 21_000))
            for _ in range(10):
                until = time.monotonic() + arguments.minutes * 6
                while time.monotonic() < until:
                    second = time.monotonic() + 1
                    asyncio.run(send_many(monitor.port, body, 8, arguments.rate))
                    sent += arguments.rate
                    time.sleep(max(0.0, second - time.monotonic()))
                found = monitor.ask()
                seen.append(round(found["rss"] / 2**20, 1))
                objects.append(round(found["objects"]))
        finally:
            monitor.close()
    return {
        "what": "flat",
        "minutes": arguments.minutes,
        "traces": sent,
        "body_bytes": len(body),
        "rss_mb": seen,
        "python_objects": objects,
    }


def settled(monitor: Monitor, pending: int) -> dict[str, float]:
    while (found := monitor.ask())["pending"] < pending:
        time.sleep(0.05)
    return found


def ledger_bytes(arguments: argparse.Namespace) -> dict[str, Any]:
    """Growth of the file by 100,000 decided traces that were not sampled, with random ids as in life."""
    count, batch = 100_000, 1000
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        path = Path(folder) / "groundwatch.db"
        engine = open_engine(f"sqlite:///{path}")
        migrations.upgrade(engine)
        sizes = [database_bytes(engine, path)]
        started, cpu = time.perf_counter(), time.process_time()
        for first in range(0, count, batch):
            decisions = [decision(number) for number in range(first, first + batch)]
            with engine.begin() as connection:
                decision_store.add_decisions(connection, decisions, now=1_790_000_000.0, bucket_seconds=60)
        taken, cpu = time.perf_counter() - started, time.process_time() - cpu
        sizes.append(database_bytes(engine, path))
        shares = part_bytes(path)
        engine.dispose()
    return {
        "what": "ledger",
        "rows": count,
        "bytes_per_row": round((sizes[1] - sizes[0]) / count, 1),
        "of_which": {name: round(size / count, 1) for name, size in shares.items()},
        "rows_per_second": round(count / taken),
        "cpu_us_per_row": round(cpu / count * 1e6, 1),
    }


def part_bytes(path: Path) -> dict[str, int]:
    """Bytes of the ledger and of each of its indexes."""
    with closing(sqlite3.connect(path)) as database:
        query = "SELECT name, sum(pgsize) FROM dbstat WHERE name LIKE '%ledger%' GROUP BY name HAVING count(*) > 1"
        return dict(database.execute(query))


def database_bytes(engine: Any, path: Path) -> int:
    raw = engine.raw_connection()
    raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    raw.close()
    return path.stat().st_size


def decision(number: int) -> Decision:
    started = 1_790_000_000.0 + number * 0.01 + random.random()
    trace = RagTrace(random.randbytes(16).hex(), "helpdesk", "2026.11.3", started, 1.25, Outcome.ANSWERED, "recorded")
    position = 40_000_000_000 + number * 26_000
    return Decision(
        pending=Pending(trace.trace_id, position, position, started, started),
        trace=trace,
        app=trace.app,
        version=trace.version,
        started_at=started,
        stratum="normal_b0",
        probability=0.01,
        u56=random.getrandbits(56),
        epoch=EPOCH,
        salt_version=1,
        verdict="not_sampled",
        reason="hash",
    )


def scrape(arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        engine = open_engine(f"sqlite:///{Path(folder) / 'groundwatch.db'}")
        migrations.upgrade(engine)
        rows = [
            {
                "bucket_start": 1_790_000_000 // 60 * 60 + minute * 60,
                "app": "helpdesk",
                "version": f"v{version}",
                "stratum": stratum,
                "outcome": "answered",
                "traces": 40.0,
                "received": 40,
            }
            for minute in range(24 * 60)
            for version in range(4)
            for stratum in STRATA
        ]
        with engine.begin() as connection:
            add_to_tally(connection, traffic_tally, rows)
        registry = CollectorRegistry()
        TrafficMetrics(registry)
        registry.register(TallyCollector(engine, judges=["local:claims-1"]))
        first = milliseconds(registry)
        cpu = time.process_time()
        taken = sorted(milliseconds(registry) for _ in range(50))
        cpu = (time.process_time() - cpu) / 50
        text = generate_latest(registry)
        engine.dispose()
    series = sum(1 for line in text.splitlines() if not line.startswith(b"#"))
    return {
        "what": "scrape",
        "series": series,
        "tally_rows": len(rows),
        "first_ms": round(first, 1),
        "cpu_ms": round(cpu * 1000, 1),
        "p50_ms": round(taken[25], 1),
        "p99_ms": round(taken[-1], 1),
        "bytes": len(text),
    }


def milliseconds(registry: CollectorRegistry) -> float:
    started = time.perf_counter()
    generate_latest(registry)
    return (time.perf_counter() - started) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=MEASURES)
    parser.add_argument("--traces", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3, help="the median round is printed")
    parser.add_argument("--minutes", type=float, default=1.0, help="of flat")
    parser.add_argument("--rate", type=int, default=100, help="traces a second of flat")
    parser.add_argument("--profile", default="", help="write a cProfile of the pipeline's thread here")
    parser.add_argument("--directory", help="where the data lies; default: a temporary folder")
    arguments = parser.parse_args()
    measures = {
        "speed": speed,
        "parts": parts,
        "memory": memory,
        "flat": flat,
        "ledger": ledger_bytes,
        "scrape": scrape,
    }
    for name, measure in measures.items():
        if arguments.only in (None, name):
            print(json.dumps(measure(arguments)), flush=True)


if __name__ == "__main__":
    main()
