"""The database of a deployment and its audit trail, for commands that somebody starts on the machine."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, Engine

from groundwatch_collector.storage import open_engine
from groundwatch_deploy import migrations
from groundwatch_deploy.cli import Misused
from groundwatch_deploy.config import ConfigError, load_secrets
from groundwatch_deploy.data_trouble import explained
from groundwatch_deploy.settings import Settings, load
from groundwatch_review import audit
from groundwatch_review.accounts import User
from groundwatch_review.audit import Action, AuditLog

ACTOR = "command"
"""In the trail: whoever may start commands on the machine. Who that was, the machine's own log knows."""


@dataclass(frozen=True, slots=True)
class Desk:
    settings: Settings
    engine: Engine
    trail: AuditLog
    audit_key: bytes
    now: Callable[[], float]

    def note(self, connection: Connection, action: Action, user: User, detail: str = "") -> None:
        """Write what is done to *user* into the trail, within the transaction that does it."""
        audit.append(
            connection, self.audit_key, self.now(), actor=ACTOR, action=action, about=user.user_id, detail=detail
        )


def note_export(desk: Desk, what: str, *, holdout: bool) -> None:
    """Write into the trail that candidates are about to leave, those of the hold-out set apart."""
    desk.trail.append(ACTOR, Action.EXPORT, detail=what)
    if holdout:
        desk.trail.append(ACTOR, Action.EXPORT_HOLDOUT, detail=what)


@contextlib.contextmanager
def opened(arguments: argparse.Namespace, now: Callable[[], float] = time.time) -> Iterator[Desk]:
    """Open and migrate the database of the command's options. Raises :class:`Misused` where there is none."""
    try:
        settings = load(arguments.config, data_directory=arguments.data_dir)
        server = settings.server
        if not server.has_database:
            raise ConfigError(f"{server.data_directory}: no database here; give --data-dir, or start it once")
        key = load_secrets(server.data_directory).audit_key
    except ConfigError as error:
        raise Misused(str(error)) from error
    with explained(server):
        engine = open_engine(server.url)
        try:
            migrations.upgrade(engine)
            yield Desk(settings, engine, AuditLog(engine, key, now), key, now)
        finally:
            engine.dispose()
