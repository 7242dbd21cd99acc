"""Which parts of the monitor a process runs: all of them, or one role each where one machine is outgrown."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from groundwatch_deploy.config import ConfigError

if TYPE_CHECKING:
    from groundwatch_deploy.settings import Settings


class Role(StrEnum):
    """COLLECTOR and SCORER run as often as needed; CONSOLE and EXPORTER once.

    COLLECTOR takes OTLP and decides; SCORER judges; CONSOLE shows; EXPORTER gives the sums of the database to
    Prometheus, settles late feedback and keeps house. The metrics of a process itself are served by every role.
    """

    COLLECTOR = "collector"
    SCORER = "scorer"
    CONSOLE = "console"
    EXPORTER = "exporter"


ALL = frozenset(Role)


def roles_of(settings: Settings) -> frozenset[Role]:
    """The roles of ``[server] roles``. Raises :class:`ConfigError` for one that is unknown or cannot stand alone."""
    roles = _named(settings.server.roles) or ALL
    if roles == ALL:
        return roles
    if not settings.server.database_url:
        raise ConfigError(
            "[server] roles: processes of different roles share a database, and SQLite in the data directory belongs "
            "to one process; set [server] database_url"
        )
    if Role.EXPORTER in roles and Role.COLLECTOR not in roles and not settings.kafka.bootstrap_servers:
        raise ConfigError(
            "[server] roles: an exporter that is not the collector cannot see how far back the span log on the "
            "collector's disk goes; set [kafka] bootstrap_servers, or give one process both roles"
        )
    return roles


def _named(names: Sequence[str]) -> frozenset[Role]:
    unknown = [name for name in names if name not in set(Role)]
    if unknown:
        raise ConfigError(f"[server] roles: {unknown[0]!r} is unknown; accepted: {', '.join(Role)}")
    return frozenset(Role(name) for name in names)
