"""What the span log costs in Kafka, and how 1, 2 and 4 collectors share a topic: python tests/bench/bench_kafka.py

A real Apache Kafka on this machine takes --traces traces of six spans and 26 KB, one request each, through the
receiver's end; then 1, 2 and 4 collector processes decide the same topic, each time in a new group and a new
database. Prints one JSON line: traces produced per second and CPU per trace; for each number of collectors the
traces decided per second, their CPU seconds, and a digest of the sample set (the same for all).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from concurrent.futures import Future
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "harness")]

import bench_ingest  # noqa: E402
import kafka_broker  # noqa: E402
import kafka_worker  # noqa: E402
from prometheus_client import CollectorRegistry  # noqa: E402
from sqlalchemy import Engine, func, select  # noqa: E402

from groundwatch_collector.kafka_metrics import KafkaMetrics  # noqa: E402
from groundwatch_collector.kafka_producer import KafkaLog  # noqa: E402
from groundwatch_collector.kafka_settings import KafkaConfig, KafkaSecrets  # noqa: E402
from groundwatch_collector.limits import Limits  # noqa: E402
from groundwatch_collector.storage import metadata, open_engine, reader  # noqa: E402
from groundwatch_collector.tables import ledger, partition_positions  # noqa: E402

TOPIC, PARTITIONS = "bench", 4
_UNDER_WAY = 64  # requests that wait for their acknowledgement, as with 64 connections
_TICKS = os.sysconf("SC_CLK_TCK")


def produce(broker: kafka_broker.Broker, traces: int) -> dict[str, float]:
    config = KafkaConfig(bootstrap_servers=broker.bootstrap, topic=TOPIC)
    log = KafkaLog(config, KafkaSecrets(), Limits(), KafkaMetrics(CollectorRegistry()), now=time.time)
    log.wait_ready(30)
    body = bench_ingest.one_trace()
    waiting: deque[Future[int]] = deque()
    started, cpu = time.perf_counter(), time.process_time()
    for number in range(traces):
        trace_id = hashlib.sha256(b"%d" % number).digest()[:16]
        waiting.append(log.append("otlp_protobuf", body.replace(b"t" * 16, trace_id)))
        if len(waiting) == _UNDER_WAY:
            waiting.popleft().result(60)
    for future in waiting:
        future.result(60)
    seconds = time.perf_counter() - started
    cpu = time.process_time() - cpu
    log.close()
    return {"traces_per_second": round(traces / seconds), "cpu_us_per_trace": round(cpu / traces * 1e6)}


def consume(broker: kafka_broker.Broker, traces: int, collectors: int, folder: Path) -> dict[str, Any]:
    """Decide the whole topic with *collectors* processes; the clock starts when each has its partitions."""
    url = f"sqlite:///{folder / f'{collectors}.db'}"
    engine = open_engine(url)
    metadata.create_all(engine)
    settings = {"bootstrap_servers": broker.bootstrap, "topic": TOPIC, "group_id": f"bench-{collectors}"}
    running = [
        subprocess.Popen(
            [sys.executable, kafka_worker.__file__, json.dumps(settings), url, str(folder / f"{collectors}-{n}.json")]
        )
        for n in range(collectors)
    ]
    try:
        _until(lambda: _count(engine, partition_positions) == PARTITIONS)
        started, cpu = time.perf_counter(), sum(_cpu_seconds(p.pid) for p in running)
        _until(lambda: _count(engine, ledger) >= traces)
        seconds = time.perf_counter() - started
        cpu = sum(_cpu_seconds(p.pid) for p in running) - cpu
    finally:
        for process in running:
            process.kill()
            process.wait()
    sample = _sample(engine)
    engine.dispose()
    return {
        "traces_per_second": round(traces / seconds),
        "cpu_us_per_trace": round(cpu / traces * 1e6),
        "sample": sample,
    }


def _until(condition: Any, seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("it did not happen in time")
        time.sleep(0.05)


def _count(engine: Engine, table: Any) -> int:
    with reader(engine).connect() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def _sample(engine: Engine) -> str:
    with reader(engine).connect() as connection:
        query = select(ledger.c.trace_id).where(ledger.c.verdict == "sampled").order_by(ledger.c.trace_id)
        chosen = list(connection.execute(query).scalars())
    return f"{len(chosen)} traces, {hashlib.sha256(''.join(chosen).encode()).hexdigest()[:12]}"


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=4000)
    options = parser.parse_args()
    broker = kafka_broker.Broker()
    try:
        broker.start()
        broker.create_topic(TOPIC, PARTITIONS)
        result: dict[str, Any] = {"traces": options.traces, "cpus": os.cpu_count(), "load": os.getloadavg()[0]}
        result["produce"] = produce(broker, options.traces)
        with tempfile.TemporaryDirectory() as scratch:
            for collectors in (1, 2, 4):
                result[f"collectors_{collectors}"] = consume(broker, options.traces, collectors, Path(scratch))
    finally:
        broker.remove()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
