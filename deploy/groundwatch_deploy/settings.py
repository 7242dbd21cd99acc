"""`groundwatch.toml` as one frozen object per service."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from groundwatch_alerts.objectives import AlertsConfig, Objective
from groundwatch_alerts.objectives import check as check_objectives
from groundwatch_collector.decision import DecideConfig
from groundwatch_collector.feedback_policy import FeedbackPolicy
from groundwatch_collector.kafka_settings import KafkaConfig
from groundwatch_collector.limits import Limits
from groundwatch_deploy.config import ConfigError, JudgeConfig, ServerConfig, build, read_file, refuse_unknown
from groundwatch_deploy.retention import RetentionConfig
from groundwatch_review.candidates import CandidatePolicy
from groundwatch_review.console import ConsoleConfig, OidcConfig
from groundwatch_review.rereading import RereadingConfig


@dataclass(frozen=True, slots=True)
class Settings:
    server: ServerConfig = field(default_factory=ServerConfig)
    limits: Limits = field(default_factory=Limits)
    kafka: KafkaConfig = field(default_factory=KafkaConfig)
    decide: DecideConfig = field(default_factory=DecideConfig)
    feedback: FeedbackPolicy = field(default_factory=FeedbackPolicy)
    judge: JudgeConfig = field(default_factory=JudgeConfig)
    console: ConsoleConfig = field(default_factory=ConsoleConfig)
    oidc: OidcConfig = field(default_factory=OidcConfig)
    labelling: RereadingConfig = field(default_factory=RereadingConfig)
    candidates: CandidatePolicy = field(default_factory=CandidatePolicy)
    retention: RetentionConfig = field(default_factory=RetentionConfig)
    alerts: AlertsConfig = field(default_factory=AlertsConfig)
    objectives: tuple[Objective, ...] = ()


SECTIONS: Mapping[str, type[Any]] = {
    "server": ServerConfig,
    "limits": Limits,
    "kafka": KafkaConfig,
    "decide": DecideConfig,
    "feedback": FeedbackPolicy,
    "judge": JudgeConfig,
    "console": ConsoleConfig,
    "oidc": OidcConfig,
    "labelling": RereadingConfig,
    "candidates": CandidatePolicy,
    "retention": RetentionConfig,
    "alerts": AlertsConfig,
}
NAMED = "objectives"
"""The one section that holds tables with names of the user's choice: ``[objectives.NAME]``."""


def load(path: Path | None, **server_overrides: Any) -> Settings:
    """Read *path* (or take the defaults) and put the command line's options for ``[server]`` on top.

    Raises :class:`ConfigError` for anything unknown or of the wrong type; nothing is started before.
    """
    tables = read_file(path) if path else {}
    where = str(path) if path else "defaults"
    _refuse_out_of_place(tables, where)
    refuse_unknown(tables, (*SECTIONS, NAMED), where)
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{where}: {name!r} must be a table, written as [{name}]")
    built = {name: build(kind, tables.get(name, {}), f"[{name}]") for name, kind in SECTIONS.items()}
    given = {name: value for name, value in server_overrides.items() if value is not None}
    built["server"] = replace(built["server"], **given)  # checked again: the options may be wrong as well
    return Settings(**built, objectives=_objectives(tables.get(NAMED, {})))


def _refuse_out_of_place(tables: Mapping[str, Any], where: str) -> None:
    """Raise :class:`ConfigError` for a key that is known, but in another section."""
    for name, table in {"": tables, **tables}.items():
        known = {*SECTIONS, NAMED} if not name else _keys(name)
        for key in table if isinstance(table, Mapping) and known else ():
            homes = [section for section in SECTIONS if key in _keys(section)] if key not in known else []
            if homes:
                place = f"[{name}]" if name else f"{where}, before any section"
                raise ConfigError(f"{place}: {key!r} is a key of {' and '.join(f'[{home}]' for home in homes)}")


def _keys(section: str) -> set[str]:
    return {field.name for field in dataclasses.fields(SECTIONS[section])} if section in SECTIONS else set()


def load_with_database(path: Path | None, **server_overrides: Any) -> Settings:
    """As :func:`load`, for what can only work on data that is there already. Raises :class:`ConfigError`."""
    settings = load(path, **server_overrides)
    if not settings.server.has_database:
        raise ConfigError(f"{settings.server.data_directory}: no database here; give --data-dir")
    return settings


def _objectives(tables: Mapping[str, Any]) -> tuple[Objective, ...]:
    found = []
    for name, table in tables.items():
        where = f"[{NAMED}.{name}]"
        if not isinstance(table, dict):
            raise ConfigError(f"[{NAMED}] {name!r} must be a table of its own, written as {where}")
        missing = [key for key in ("criterion", "objective") if key not in table]
        if missing:
            raise ConfigError(f"{where}: {missing[0]} is missing; every objective says its criterion and objective")
        if "name" in table:
            raise ConfigError(f"{where}: unknown key 'name'; the name is the {name!r} of {where}")
        found.append(build(Objective, {"name": name, **table}, where))
    try:
        check_objectives(found)
    except ValueError as error:
        raise ConfigError(f"[{NAMED}]: {error}") from error
    return tuple(found)
