"""How big a deployment must be: plain arithmetic over the costs in :data:`MEASURED`, each with its source."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from groundwatch_deploy.cli import Misused, emit

DAY: Final = 86_400.0
BUSY: Final = 0.5  # share of a core that is planned for: the rest is for peaks, replays and a member that is away
DOUBLE: Final = 2  # members of each kind at least, once there is a cluster


@dataclass(frozen=True, slots=True)
class Cost:
    """One measured figure, its unit, and the command or page that it is from."""

    value: float
    unit: str
    source: str


MEASURED: Final[Mapping[str, Cost]] = {
    "embedded_cpu": Cost(0.78e-3, "CPU s a trace of 27 KB", "tests/bench/bench_monitor.py --only speed"),
    "kafka_receive_cpu": Cost(0.79e-3, "CPU s a trace of 27 KB", "tests/bench/bench_kafka.py"),
    "kafka_decide_cpu": Cost(1.2e-3, "CPU s a trace of 27 KB", "tests/bench/bench_kafka.py"),
    "judge_cpu": Cost(45e-3, "CPU s a judged trace, long Chinese ones", "tests/bench/bench_local_judge.py"),
    "ledger_bytes": Cost(284.0, "bytes a trace", "tests/bench/bench_monitor.py --only ledger"),
    "pending_ratio": Cost(1.2, "bytes of memory a byte of an undecided trace", "bench_monitor.py --only memory"),
    "process_bytes": Cost(150e6, "bytes of an idle process, with room", "tests/bench/bench_monitor.py --minutes"),
}
"""What the plan rests on. Taken on two shared cores: measure again on yours where it matters."""

_MEASURED_BYTES: Final = 27_000.0  # of the traces that the costs were measured with; costs grow with the size


@dataclass(frozen=True, slots=True)
class Load:
    """What comes in and what is wanted. Raises ``ValueError`` for what is not positive."""

    traces_per_second: float
    trace_bytes: float = 27_000.0
    judged_per_day: float = 1_000.0
    usd_per_judged_trace: float = 0.0
    log_days: float = 7.0
    ledger_days: float = 30.0
    pending_seconds: float = 10.0  # from the first span until a trace is decided

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 0 or (value == 0 and name in ("traces_per_second", "trace_bytes")):
                raise ValueError(f"{name} is {value:g}; expected more than 0")


@dataclass(frozen=True, slots=True)
class Plan:
    """``kind``: one process, or a cluster on Kafka and PostgreSQL. Bytes are before replication of Kafka."""

    kind: str
    collectors: int
    scorers: int
    partitions: int
    cores: int
    memory_bytes: float
    log_bytes: float
    ledger_bytes: float
    database_rows_per_second: float
    usd_per_day: float
    notes: tuple[str, ...]


def plan(load: Load) -> Plan:
    """The smallest deployment whose cores are at most half busy."""
    scale = load.trace_bytes / _MEASURED_BYTES
    judging = _judged_per_day(load) / DAY * _cost("judge_cpu")
    embedded = load.traces_per_second * _cost("embedded_cpu") * scale
    if embedded + judging <= BUSY:
        return _plan(load, "one process", collectors=1, scorers=0, partitions=0, cores=1)
    deciding = load.traces_per_second * (_cost("kafka_receive_cpu") + _cost("kafka_decide_cpu")) * scale
    collectors = max(DOUBLE, math.ceil(deciding / BUSY))
    scorers = max(DOUBLE, math.ceil(judging / BUSY))
    return _plan(
        load,
        "cluster",
        collectors=collectors,
        scorers=scorers,
        partitions=2 * collectors,
        cores=collectors + scorers + 1,
    )


def _judged_per_day(load: Load) -> float:
    return min(load.judged_per_day, load.traces_per_second * DAY)


def _cost(name: str) -> float:
    return MEASURED[name].value


def _plan(load: Load, kind: str, *, collectors: int, scorers: int, partitions: int, cores: int) -> Plan:
    per_second = load.traces_per_second * load.trace_bytes
    return Plan(
        kind=kind,
        collectors=collectors,
        scorers=scorers,
        partitions=partitions,
        cores=cores,
        memory_bytes=cores * _cost("process_bytes") + per_second * load.pending_seconds * _cost("pending_ratio"),
        log_bytes=per_second * DAY * load.log_days,
        ledger_bytes=load.traces_per_second * DAY * load.ledger_days * _cost("ledger_bytes"),
        database_rows_per_second=load.traces_per_second,
        usd_per_day=_judged_per_day(load) * load.usd_per_judged_trace,
        notes=_notes(load, kind),
    )


_ONE_DATABASE: Final = 10_000  # ledger rows a second; 12,700 were written alone (docs/capacity.md)


def _notes(load: Load, kind: str) -> tuple[str, ...]:
    found = ["On paper: the costs were measured on two shared cores, a cluster of this size was not."]
    if load.traces_per_second > _ONE_DATABASE:
        found.append(
            f"More than about {_ONE_DATABASE:,} traces/s are more ledger rows than one database was seen to take: "
            "run several deployments, each with its own applications, topic and database."
        )
    if kind == "cluster":
        found.append("Kafka and PostgreSQL are not among the cores; three brokers keep three times the log.")
    if load.judged_per_day > load.traces_per_second * DAY:
        found.append("More was to be judged than comes in: planned is every trace.")
    return tuple(found)


def command(arguments: argparse.Namespace) -> int:
    """`groundwatch size`: print the plan and what it rests on."""
    try:
        load = Load(
            arguments.traces_per_second,
            arguments.trace_kb * 1_000,
            arguments.judged_per_day,
            arguments.usd_per_judged_trace,
            arguments.log_days,
            arguments.ledger_days,
        )
    except ValueError as error:
        raise Misused(str(error)) from error
    found = plan(load)
    measured = {name: asdict(cost) for name, cost in MEASURED.items()}
    emit({"plan": asdict(found), "measured": measured}, arguments.json, lambda: text(found))
    return 0


def text(found: Plan) -> str:
    """The plan for a person."""
    members = (
        f"{found.collectors:,} collectors on {found.partitions:,} partitions, {found.scorers} scorers, 1 console"
    )
    lines = {
        "run": members if found.kind == "cluster" else found.kind,
        "cores": f"{found.cores:,}, at most half busy",
        "memory": _size(found.memory_bytes),
        "span log": _size(found.log_bytes),
        "ledger": _size(found.ledger_bytes),
        "judging": f"{found.usd_per_day:,.2f} USD a day",
    }
    shown = [f"{name:<10}{value}" for name, value in lines.items()]
    return "\n".join([*shown, "", *found.notes])


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if count < 1_000:
            return f"{count:.3g} {unit}"
        count /= 1_000
    return f"{count:,.0f} PB"
