"""`groundwatch audit`: check the chain of the audit trail, or print its entries."""

from __future__ import annotations

import argparse
import dataclasses
from datetime import UTC, datetime

from groundwatch_collector.storage import reader
from groundwatch_deploy.cli import FAILED, Misused, emit
from groundwatch_deploy.desk_database import opened
from groundwatch_review import audit
from groundwatch_review.audit import Entry, Verified


def verify(arguments: argparse.Namespace) -> int:
    """Exit 1 and name the first broken link when the chain does not hold."""
    noted = _noted(arguments.noted)
    with opened(arguments) as desk:
        found = audit.verify(desk.engine, desk.audit_key, noted=noted)
    emit(dataclasses.asdict(found), arguments.json, lambda: _verdict(found))
    return 0 if found.broken is None else FAILED


def listed(arguments: argparse.Namespace) -> int:
    """Print entries, newest last; --about finds those of a trace, candidate or user by its identifier."""
    with opened(arguments) as desk, reader(desk.engine).connect() as connection:
        about = desk.trail.name(arguments.about) if arguments.about else ""
        found = audit.newest(connection, limit=arguments.limit, about=about, actions=arguments.action)[::-1]
    emit([dataclasses.asdict(entry) for entry in found], arguments.json, lambda: "\n".join(map(_line, found)))
    return 0


def _noted(text: str) -> tuple[int, str] | None:
    if not text:
        return None
    number, _colon, digest = text.partition(":")
    if not number.isascii() or not number.isdigit() or len(digest) != 64:
        raise Misused(f"audit verify: --noted {text[:80]!r}; accepted: NUMBER:DIGEST as an earlier verify printed it")
    return int(number), digest


def _verdict(found: Verified) -> str:
    if found.broken is not None:
        return f"broken at entry {found.broken}: {found.why}; {found.entries} entries before it hold"
    return f"{found.entries} entries, the chain is whole\n{found.entries}:{found.head}"


def _line(entry: Entry) -> str:
    at = datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"{entry.seq:>7}  {at}  {entry.actor:<20} {entry.action:<18} {entry.about:<32}  {entry.detail}".rstrip()
