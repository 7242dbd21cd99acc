"""`groundwatch serve` on a topic: two whole monitors share one, and a missing broker or client is said in words."""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import kafka_broker
import pytest
import torture
from sqlalchemy import delete, func, select

from groundwatch_collector.decision import DecideConfig
from groundwatch_collector.kafka_settings import KafkaConfig, KafkaMissing, KafkaSecrets, client_options
from groundwatch_collector.tables import ledger, partition_positions, traffic_tally
from groundwatch_deploy import ledger_report
from groundwatch_deploy.config import ConfigError, ServerConfig
from groundwatch_deploy.serve import Monitor
from groundwatch_deploy.settings import Settings, load

SALT = b"a salt for tests"


@pytest.fixture
def broker() -> Iterator[kafka_broker.Broker]:
    with kafka_broker.running() as made:
        made.create_topic("groundwatch-spans", 2)
        yield made


def settings(folder: Path, kafka: KafkaConfig, database_url: str = "") -> Settings:
    server = ServerConfig(
        data_directory=folder,
        database_url=database_url,
        ingest_port=0,
        console_port=0,
        metrics_port=0,
    )
    return Settings(server=server, kafka=kafka, decide=DecideConfig(grace_seconds=0.3))


@pytest.mark.service("kafka")
@pytest.mark.service("postgresql")
@pytest.mark.parametrize("new_database", ["postgresql"], indirect=True)
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_two_monitors_share_a_topic_and_a_database_and_go_on_with_a_topic_that_is_made_anew(
    broker, new_database, tmp_path, caplog
):
    url = new_database("kafka")
    kafka = KafkaConfig(bootstrap_servers=broker.bootstrap, session_timeout_seconds=3.0, probe_seconds=0.1)
    with contextlib.ExitStack() as running:
        monitors = [
            running.enter_context(Monitor(settings(tmp_path / name, kafka, url), salt=SALT))
            for name in ("one", "two")
        ]
        addresses = [monitor.start() for monitor in monitors]
        until(lambda: [partitions(where.metrics) for where in addresses] == [1.0, 1.0])
        ids = [f"{number:032x}" for number in range(1, 41)]
        with httpx.Client() as client:
            for number, trace in enumerate(ids):
                answer = client.post(
                    f"{addresses[number % 2].ingest}/v1/traces",
                    content=torture.body([trace]),
                    headers={"content-type": "application/x-protobuf"},
                )
                assert answer.status_code == 200
        engine = monitors[0].engine
        until(lambda: count(engine, select(func.count()).select_from(ledger)) == 40)
        assert count(engine, select(func.sum(traffic_tally.c.received))) == 40
        assert count(engine, select(func.count(partition_positions.c.owner.distinct()))) == 2
        with pytest.raises(ConfigError, match="Kafka topic"):
            assert monitors[0].log
        account = ledger_report.read_account(monitors[0].settings)
        assert (account.received, account.adds_up, dict(account.lost)) == (40, True, {})
        with engine.begin() as connection:  # the audit reads the topic on its own: it misses what is not there
            connection.execute(delete(ledger).where(ledger.c.trace_id == ids[7]))
        account = ledger_report.read_account(monitors[0].settings)
        assert dict(account.lost) == {"not_in_ledger": 1}
    broker.delete_topic("groundwatch-spans")
    broker.create_topic("groundwatch-spans", 2)
    with Monitor(settings(tmp_path / "one", kafka, url), salt=SALT) as monitor:
        ingest = monitor.start().ingest
        for number in range(41, 51):
            assert torture.post(ingest, torture.body([f"{number:032x}"]))
        until(lambda: count(monitor.engine, select(func.count()).select_from(ledger)) == 49)  # one was deleted above
    assert "was the topic made anew? Reading from its beginning" in caplog.text
    gc.collect()


def partitions(url: str) -> float:
    text = httpx.get(f"{url}/metrics").text
    (line,) = [line for line in text.splitlines() if line.startswith("groundwatch_kafka_assigned_partitions ")]
    return float(line.split()[1])


def count(engine: Any, query: Any) -> int:
    with engine.connect() as connection:
        return int(connection.execute(query).scalar_one() or 0)


def until(condition: Any, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


def test_a_missing_client_is_answered_with_the_line_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "kafka", None)
    monkeypatch.setenv("GROUNDWATCH_SAMPLING_SALT", "ab" * 16)
    kafka = KafkaConfig(bootstrap_servers="127.0.0.1:9")
    with pytest.raises(ConfigError, match=r'pip install "groundwatch\[kafka\]"'):
        Monitor(settings(tmp_path / "one", kafka))
    assert issubclass(KafkaMissing, Exception)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('bootstrap_servers = "broker"', "host:port"),
        ('encoding = "jaeger"', "accepted: otlp_proto, otlp_json"),
        ('security_protocol = "SASL_SSL"', "sasl_mechanism"),
        ("max_message_bytes = 0", "more than 0"),
        ('sasl_password = "x"', "unknown key 'sasl_password'"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_the_start(tmp_path, line, said):
    path = tmp_path / "groundwatch.toml"
    path.write_text(f"[kafka]\n{line}\n")
    with pytest.raises(ConfigError, match=said):
        load(path)


def test_passwords_come_from_the_environment_and_are_never_printed():
    secrets = KafkaSecrets.read({"GROUNDWATCH_KAFKA_PASSWORD": "hidden-word"})
    config = replace(
        KafkaConfig(bootstrap_servers="a:1, b:2"),
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_username="watcher",
    )
    options = client_options(config, secrets)
    assert (options["sasl_plain_password"], options["bootstrap_servers"]) == ("hidden-word", ["a:1", "b:2"])
    assert "hidden-word" not in repr(secrets) + repr(config)
