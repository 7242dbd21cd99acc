"""`groundwatch export`: the confirmed, redacted candidates in our format or another tool's."""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path

from groundwatch_collector.storage import open_engine
from groundwatch_deploy import migrations
from groundwatch_deploy.cli import Misused, emit
from groundwatch_deploy.config import ConfigError, load_secrets
from groundwatch_deploy.desk_database import ACTOR
from groundwatch_deploy.own_files import found_here_too
from groundwatch_deploy.settings import load_with_database
from groundwatch_review.audit import Action, AuditLog
from groundwatch_review.candidates import CandidatePolicy
from groundwatch_review.desk import Refused
from groundwatch_review.export import ExportReport, export


def command(arguments: argparse.Namespace) -> int:
    """Write the file and its manifest; what is held back is counted by reason."""
    try:
        settings = load_with_database(arguments.config, data_directory=arguments.data_dir)
        key = load_secrets(settings.server.data_directory).audit_key
        report = _export(settings.server.url, arguments, settings.candidates, key)
    except (ConfigError, Refused) as error:
        raise Misused(str(error)) from error
    emit(dataclasses.asdict(report), arguments.json, lambda: _text(report, arguments.file))
    return 0


def _export(url: str, arguments: argparse.Namespace, policy: CandidatePolicy, audit_key: bytes) -> ExportReport:
    if ":" in arguments.format:
        found_here_too()
    engine = open_engine(url)
    try:
        migrations.upgrade(engine)
        trail = AuditLog(engine, audit_key, time.time)
        trail.append(ACTOR, Action.EXPORT, detail=arguments.format[:40])
        if arguments.holdout is not None:
            trail.append(ACTOR, Action.EXPORT_HOLDOUT, detail=arguments.format[:40])
        return export(
            engine,
            arguments.file,
            time.time(),
            layout=arguments.format,
            holdout=arguments.holdout,
            policy=policy,
        )
    finally:
        engine.dispose()


def _text(report: ExportReport, path: Path) -> str:
    held = ", ".join(f"{count} {reason}" for reason, count in sorted(report.held.items())) or "none"
    hidden = f", {report.holdout_written} of the hold-out set beside it" if report.holdout_written else ""
    return f"{report.written} candidates written to {path}{hidden}; held back: {held}"
