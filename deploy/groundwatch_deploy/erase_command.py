"""`groundwatch erase`: forget what somebody wrote."""

from __future__ import annotations

import argparse
import dataclasses
import re
from pathlib import Path

from sqlalchemy import Engine

from groundwatch_collector.storage import reclaim
from groundwatch_deploy.cli import Misused, emit
from groundwatch_deploy.desk_database import ACTOR, Desk, opened
from groundwatch_review import erasure
from groundwatch_review.audit import Action, AuditLog

_LOG = "the database's write-ahead log, which a running monitor is reading: it is emptied within the hour"


def command(arguments: argparse.Namespace) -> int:
    """Erase by trace or by person, and add what was done to erasures.jsonl in the data directory."""
    if sum(map(bool, (arguments.trace, arguments.subject, arguments.again))) != 1:
        raise Misused("erase: give --trace ID, once for each, or --subject USER, or --again after restoring a backup")
    wrong = [trace_id for trace_id in arguments.trace if not re.fullmatch(r"[0-9a-f]{32}", trace_id)]
    if wrong:
        raise Misused(f"erase: {wrong[0][:40]!r} is no trace id; accepted: 32 hexadecimal digits, small letters")
    with opened(arguments) as desk:
        done = _erase(desk, arguments)
    emit(dataclasses.asdict(done), arguments.json, lambda: _text(done))
    return 0


def _erase(desk: Desk, arguments: argparse.Namespace) -> erasure.Erasure:
    folder, now = desk.settings.server.data_directory, desk.now()
    _note(desk.trail, arguments)
    ids = _ids(desk.engine, folder, arguments)
    erasure.remember(folder, ids)
    done = erasure.erase(desk.engine, ids, now)
    if not reclaim(desk.engine):
        done = dataclasses.replace(done, not_reached=(*done.not_reached, _LOG))
    erasure.record(folder, done, now)
    return done


def _ids(engine: Engine, folder: Path, arguments: argparse.Namespace) -> list[str]:
    if arguments.again:
        return erasure.remembered(folder)
    return list(arguments.trace) or erasure.traces_of(engine, arguments.subject)


def _note(trail: AuditLog, arguments: argparse.Namespace) -> None:
    """One entry of the audit trail for each trace or person named; what it is about is a keyed digest."""
    how = "by trace" if arguments.trace else "by person" if arguments.subject else "again, after a restore"
    for asked in arguments.trace or [arguments.subject]:
        trail.append(ACTOR, Action.ERASURE, asked, how)


def _text(done: erasure.Erasure) -> str:
    exported = (
        f"; {len(done.exported)} of them had been exported: {', '.join(done.exported)}" if done.exported else ""
    )
    head = f"{done.traces} traces erased, {done.candidates} candidates removed{exported}"
    if done.unreadable_bodies:
        head += f"\n{done.unreadable_bodies} bodies of records that could not be read were dropped"
    return "\n".join([head, "Not reached:", *(f"- {place}" for place in done.not_reached)])
