"""A salt that was lost is not silently replaced by another one of the same version."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import insert

from groundwatch_collector import sampling, tables
from groundwatch_deploy.config import ConfigError, ServerConfig
from groundwatch_deploy.demo.sampling_rates import SALT_OF_THE_DEMO
from groundwatch_deploy.salt_check import refuse_another_salt, refuse_own_salt
from groundwatch_deploy.serve import Monitor
from groundwatch_deploy.settings import load

OLD, NEW = b"the salt of last year", b"the salt of this year"


def row(number: int, salt: bytes, version: int) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for column in tables.ledger.columns:
        kind = column.type.python_type
        values[column.name] = "" if kind is str else kind(0)
    trace_id = f"{number:032x}"
    drawn = {"trace_id": trace_id, "u56": sampling.u56(trace_id, salt), "salt_version": version}
    return values | drawn | {"started_at": float(number)}


def test_another_salt_of_the_same_version_is_refused_by_name(engine):
    with engine.begin() as connection:
        connection.execute(insert(tables.ledger), [row(1, OLD, 1), row(2, NEW, 2)])
    refuse_another_salt(engine, OLD, 1)
    refuse_another_salt(engine, NEW, 2)
    refuse_another_salt(engine, NEW, 3)
    with pytest.raises(ConfigError, match=r"\[decide\] salt_version: 1, but .* put back sampling\.salt"):
        refuse_another_salt(engine, NEW, 1)


def test_data_of_the_demo_is_called_so(engine):
    """Its data directory holds a salt of its own that was never used: putting that back would not help."""
    with engine.begin() as connection:
        connection.execute(insert(tables.ledger), [row(1, bytes.fromhex(SALT_OF_THE_DEMO), 1)])
    with pytest.raises(
        ConfigError, match=f"data of `groundwatch demo`.*GROUNDWATCH_SAMPLING_SALT={SALT_OF_THE_DEMO}"
    ):
        refuse_another_salt(engine, NEW, 1)
    refuse_another_salt(engine, bytes.fromhex(SALT_OF_THE_DEMO), 1)


def test_a_monitor_whose_salt_file_was_deleted_does_not_start(tmp_path):
    settings = load(None, data_directory=tmp_path, ingest_port=0, console_port=0, metrics_port=0)
    with Monitor(settings) as monitor:
        salt = monitor.secrets.sampling_salt.value
        with monitor.engine.begin() as connection:
            connection.execute(insert(tables.ledger), [row(1, salt, 1)])
    with Monitor(settings):
        pass
    (tmp_path / "sampling.salt").unlink()
    with pytest.raises(ConfigError, match="salt_version"):
        Monitor(settings)


def test_a_collector_on_kafka_makes_no_salt_of_its_own(tmp_path, monkeypatch):
    monkeypatch.delenv("GROUNDWATCH_SAMPLING_SALT", raising=False)
    shared = load(None, data_directory=tmp_path, ingest_port=0, console_port=0, metrics_port=0)
    kafka = replace(shared.kafka, bootstrap_servers="127.0.0.1:9")
    with pytest.raises(ConfigError, match=r"GROUNDWATCH_SAMPLING_SALT: not set; .* share one salt"):
        Monitor(replace(shared, kafka=kafka))
    assert not (tmp_path / "sampling.salt").exists()
    refuse_own_salt(ServerConfig(data_directory=tmp_path), {"GROUNDWATCH_SAMPLING_SALT": "ab" * 16})
    (tmp_path / "sampling.salt").write_text("ab" * 16)  # brought here from another machine
    refuse_own_salt(ServerConfig(data_directory=tmp_path), {})
