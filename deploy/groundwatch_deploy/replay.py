"""`groundwatch replay`: recorded production traffic through the whole monitor, with the result at the end."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, func, select

from groundwatch_alerts import estimator, tallies
from groundwatch_collector.kafka_settings import KafkaConfig
from groundwatch_collector.ledger import LedgerReport, report
from groundwatch_collector.limits import Limits
from groundwatch_collector.otlp import Rejected, decode
from groundwatch_collector.storage import reader
from groundwatch_collector.tables import traffic_tally
from groundwatch_deploy.cli import Failed, Misused, emit, say
from groundwatch_deploy.config import ConfigError
from groundwatch_deploy.ledger_report import as_dict as ledger_dict
from groundwatch_deploy.ledger_report import as_text as ledger_text
from groundwatch_deploy.recordings import Recorded, Unreadable, read
from groundwatch_deploy.serve import Monitor, judging_everything
from groundwatch_deploy.settings import Settings, load
from groundwatch_scorer.judgement import Criterion

KINDS = {"protobuf": "otlp_protobuf", "json": "otlp_json"}
PROGRESS_EVERY = 1_000


@dataclass(slots=True)
class Taken:
    """What was read from the files."""

    requests: int = 0
    spans: int = 0
    rejected_spans: int = 0
    refused: Counter[str] = dataclasses.field(default_factory=Counter)  # by reason; nothing of these was stored


def command(arguments: argparse.Namespace) -> int:
    """Feed the files in, decide and judge everything, print what is known. Exit 1 when nothing could be read."""
    with contextlib.ExitStack() as stack:
        try:
            settings = _settings(arguments, stack)
            monitor = stack.enter_context(Monitor(settings))
        except (ConfigError, ValueError) as error:
            raise Misused(str(error)) from error
        taken = _take(monitor, arguments.files, settings.limits)
        monitor.pipeline.drain()
        while monitor.scorer.step():
            pass
        account = report(reader(monitor.engine), monitor.log, settings.limits)
        result = _result(monitor.engine, taken, account, monitor.judges[0].identifier)
    emit(result, arguments.json, lambda: _text(result, account))
    if not taken.spans:
        raise Failed("nothing in these files could be read as OTLP traces")
    return 0


def _settings(arguments: argparse.Namespace, stack: contextlib.ExitStack) -> Settings:
    folder = arguments.data_dir
    if folder is None and arguments.config is None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="groundwatch-replay-")))
    settings = load(arguments.config, data_directory=folder, ingest_port=0, console_port=0, metrics_port=0)
    settings = replace(settings, kafka=KafkaConfig())  # a replay is read to its end, here
    # A recording is at hand whole: unless told otherwise, every trace of it is judged.
    return settings if arguments.config else judging_everything(settings)


def _take(monitor: Monitor, files: Sequence[Path], limits: Limits) -> Taken:
    taken = Taken()
    for path in files:
        try:
            _take_file(monitor, read(path, limits.max_decompressed_bytes), limits, taken)
        except Unreadable as error:
            raise Misused(str(error)) from error
    say(f"read {taken.requests} requests with {taken.spans} spans")
    return taken


def _take_file(monitor: Monitor, recorded: Iterable[Recorded], limits: Limits, taken: Taken) -> None:
    for item in recorded:
        try:
            decoded = decode(item.body, item.encoding, limits)
        except Rejected as rejected:
            taken.refused[rejected.reason] += 1
            say(f"{item.where}: refused, {rejected.message}")
            continue
        monitor.log.append(KINDS[item.encoding], item.body).result()
        taken.requests += 1
        taken.spans += len(decoded.spans)
        taken.rejected_spans += sum(decoded.rejected.values())
        if taken.requests % PROGRESS_EVERY == 0:
            say(f"read {taken.requests} requests with {taken.spans} spans ...")
            while monitor.pipeline.step(0):  # keeps the log's backlog and the memory flat
                pass


def _result(engine: Engine, taken: Taken, account: LedgerReport, judge: str) -> dict[str, Any]:
    return {
        "requests": taken.requests,
        "spans": taken.spans,
        "rejected_spans": taken.rejected_spans,
        "refused_requests": dict(taken.refused),
        "outcomes": _outcomes(engine),
        "estimates": {app: _estimate(engine, app, judge) for app in tallies.apps(engine)},
        "ledger": ledger_dict(account),
    }


def _outcomes(engine: Engine) -> dict[str, int]:
    query = select(traffic_tally.c.outcome, func.sum(traffic_tally.c.received)).group_by(traffic_tally.c.outcome)
    with reader(engine).connect() as connection:
        return {outcome: int(count) for outcome, count in connection.execute(query)}


def _estimate(engine: Engine, app: str, judge: str) -> dict[str, Any] | None:
    found = estimator.estimate(tallies.sums(engine, app=app, criterion=Criterion.ANY_FAILURE, judge=judge))
    if found is None:
        return None
    names = ("rate", "low", "judged", "failed", "traffic", "raw_mean")
    return {name: getattr(found, name) for name in names} | {"high": found.high_shown}


def _text(result: Mapping[str, Any], account: LedgerReport) -> str:
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(result["outcomes"].items())) or "none"
    lines = [f"outcomes: {outcomes}", ""]
    for app, found in result["estimates"].items():
        lines.append(f"{app}: {_sentence(found)}")
    return "\n".join([*lines, "", ledger_text(account)])


def _sentence(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "no verdict: no completed request has question, answer and context as text"
    return (
        f"{found['rate']:.1%} of answers fail ({found['low']:.1%} - {found['high']:.1%}), "
        f"{found['judged']} judged of {found['traffic']:.0f} seen"
    )
