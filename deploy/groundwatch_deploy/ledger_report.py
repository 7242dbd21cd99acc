"""`groundwatch ledger`: account for every trace that was ever acknowledged."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from groundwatch_collector.ledger import LedgerReport, report
from groundwatch_collector.spanlog import SpanLog
from groundwatch_collector.storage import open_engine, reader
from groundwatch_deploy.cli import Failed, Misused, emit
from groundwatch_deploy.config import ConfigError
from groundwatch_deploy.data_trouble import explained
from groundwatch_deploy.kafka_spans import read_topic
from groundwatch_deploy.settings import Settings, load


def command(arguments: argparse.Namespace) -> int:
    """Print the account; exit 1 when it does not add up or something was lost."""
    try:
        settings = load(arguments.config, data_directory=arguments.data_dir)
    except ConfigError as error:
        raise Misused(str(error)) from error
    folder = settings.server.data_directory
    is_local = not settings.kafka.bootstrap_servers
    if is_local and not (folder / "spanlog").is_dir():
        raise Misused(f"{folder}: no span log here; give the monitor's data directory with --data-dir")
    if not settings.server.has_database:
        raise Misused(f"{folder}: no database here; `groundwatch serve` builds it again from the span log")
    try:
        with explained(settings.server):
            account = read_account(settings)
    except ConfigError as error:
        raise Misused(str(error)) from error
    emit(as_dict(account), arguments.json, lambda: as_text(account))
    if not account.adds_up:
        raise Failed("the ledger does not add up")
    if account.lost:
        raise Failed(f"{sum(account.lost.values())} traces are lost")
    return 0


def read_account(settings: Settings) -> LedgerReport:
    """Read the span log and the tables apart from each other; safe while the monitor runs."""
    engine = open_engine(settings.server.url)
    if settings.kafka.bootstrap_servers:
        try:
            return read_topic(engine, settings.kafka, settings.limits)
        finally:
            engine.dispose()
    log = SpanLog.open_read_only(settings.server.data_directory / "spanlog")
    try:
        return report(reader(engine), log, settings.limits)
    finally:
        log.close()
        engine.dispose()


def as_dict(account: LedgerReport) -> dict[str, Any]:
    """The account for machines: each part, and whether they add up."""
    whole = dataclasses.asdict(account)
    return whole | {"waiting": account.waiting, "lost_total": sum(account.lost.values()), "adds_up": account.adds_up}


def as_text(account: LedgerReport) -> str:
    """The account for people."""
    rows = [
        ("received", account.received, "distinct traces in the span log or the ledger"),
        ("= judged", account.judged, ""),
        ("+ unscored", account.unscored, "sampled, but no verdict could be had"),
        ("+ not sampled", account.not_sampled, ""),
        *((f"+ skipped: {reason}", count, "") for reason, count in sorted(account.skipped.items())),
        ("+ undecided", account.undecided, "still being assembled"),
        ("+ waiting for judge", account.waiting_for_judge, ""),
        *((f"+ lost: {reason}", count, "") for reason, count in sorted(account.lost.items())),
        *(() if account.lost else (("+ lost", 0, ""),)),
    ]
    lines = [f"{name:<28}{count:>10}  {note}".rstrip() for name, count, note in rows]
    lines += [f"dead letters ({reason}): {count}" for reason, count in sorted(account.dead_letters.items())]
    lines += [f"lost, for example: {trace_id}" for trace_id in account.lost_examples]
    if account.damaged_log_bytes:
        lines.append(f"unreadable bytes in the span log: {account.damaged_log_bytes}")
    return "\n".join([*lines, "adds up" if account.adds_up else f"DOES NOT ADD UP (doubled: {account.doubled})"])
