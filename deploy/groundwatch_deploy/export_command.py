"""`groundwatch export`: the confirmed, redacted candidates in our format or another tool's."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from groundwatch_deploy.cli import Misused, emit
from groundwatch_deploy.desk_database import Desk, note_export, opened
from groundwatch_deploy.own_files import found_here_too
from groundwatch_review.desk import Refused
from groundwatch_review.export import ExportReport, export


def command(arguments: argparse.Namespace) -> int:
    """Write the file and its manifest; what is held back is counted by reason."""
    try:
        with opened(arguments) as desk:
            report = _export(desk, arguments)
    except Refused as error:
        raise Misused(str(error)) from error
    emit(dataclasses.asdict(report), arguments.json, lambda: _text(report, arguments.file))
    return 0


def _export(desk: Desk, arguments: argparse.Namespace) -> ExportReport:
    if ":" in arguments.format:
        found_here_too()
    note_export(desk, arguments.format[:40], holdout=arguments.holdout is not None)
    return export(
        desk.engine,
        arguments.file,
        desk.now(),
        layout=arguments.format,
        holdout=arguments.holdout,
        policy=desk.settings.candidates,
    )


def _text(report: ExportReport, path: Path) -> str:
    held = ", ".join(f"{count} {reason}" for reason, count in sorted(report.held.items())) or "none"
    hidden = f", {report.holdout_written} of the hold-out set beside it" if report.holdout_written else ""
    return f"{report.written} candidates written to {path}{hidden}; held back: {held}"
