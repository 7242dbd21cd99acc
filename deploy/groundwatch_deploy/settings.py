"""`groundwatch.toml` as one frozen object per service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from groundwatch_collector.decision import DecideConfig
from groundwatch_collector.feedback_policy import FeedbackPolicy
from groundwatch_collector.kafka_settings import KafkaConfig
from groundwatch_collector.limits import Limits
from groundwatch_deploy.config import ConfigError, JudgeConfig, ServerConfig, build, read_file, refuse_unknown
from groundwatch_deploy.retention import RetentionConfig
from groundwatch_review.candidates import CandidatePolicy
from groundwatch_review.console import ConsoleConfig


@dataclass(frozen=True, slots=True)
class Settings:
    server: ServerConfig = field(default_factory=ServerConfig)
    limits: Limits = field(default_factory=Limits)
    kafka: KafkaConfig = field(default_factory=KafkaConfig)
    decide: DecideConfig = field(default_factory=DecideConfig)
    feedback: FeedbackPolicy = field(default_factory=FeedbackPolicy)
    judge: JudgeConfig = field(default_factory=JudgeConfig)
    console: ConsoleConfig = field(default_factory=ConsoleConfig)
    candidates: CandidatePolicy = field(default_factory=CandidatePolicy)
    retention: RetentionConfig = field(default_factory=RetentionConfig)


SECTIONS: Mapping[str, type[Any]] = {
    "server": ServerConfig,
    "limits": Limits,
    "kafka": KafkaConfig,
    "decide": DecideConfig,
    "feedback": FeedbackPolicy,
    "judge": JudgeConfig,
    "console": ConsoleConfig,
    "candidates": CandidatePolicy,
    "retention": RetentionConfig,
}


def load(path: Path | None, **server_overrides: Any) -> Settings:
    """Read *path* (or take the defaults) and put the command line's options for ``[server]`` on top.

    Raises :class:`ConfigError` for anything unknown or of the wrong type; nothing is started before.
    """
    tables = read_file(path) if path else {}
    where = str(path) if path else "defaults"
    refuse_unknown(tables, SECTIONS, where)
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{where}: {name!r} must be a table, written as [{name}]")
    built = {name: build(kind, tables.get(name, {}), f"[{name}]") for name, kind in SECTIONS.items()}
    given = {name: value for name, value in server_overrides.items() if value is not None}
    built["server"] = replace(built["server"], **given)  # checked again: the options may be wrong as well
    return Settings(**built)
