"""One process runs everything, or the roles it is given; a split that could not work is refused before it starts."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest

from groundwatch_deploy.config import ConfigError, ServerConfig
from groundwatch_deploy.roles import ALL, Role, roles_of
from groundwatch_deploy.serve import Monitor
from groundwatch_deploy.settings import Settings

SALT = b"a salt for tests"


def settings(*roles: str, folder: Path = Path("unused"), url: str = "") -> Settings:
    server = ServerConfig(
        roles=roles, data_directory=folder, database_url=url, ingest_port=0, console_port=0, metrics_port=0
    )
    return Settings(server=server)


def test_without_a_role_a_process_does_everything():
    assert roles_of(settings()) == ALL


def test_an_unknown_role_is_named_with_those_that_exist():
    with pytest.raises(ConfigError, match=r"'judge' is unknown; accepted: collector, scorer, console, exporter"):
        roles_of(settings("judge"))


def test_roles_need_a_database_that_several_processes_can_use():
    with pytest.raises(ConfigError, match="database_url"):
        roles_of(settings("scorer"))


def test_an_exporter_must_see_the_span_log():
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        roles_of(settings("exporter", url="postgresql+psycopg://localhost/x"))
    assert roles_of(settings("exporter", "collector", url="postgresql+psycopg://localhost/x")) == {
        Role.EXPORTER,
        Role.COLLECTOR,
    }


def signs_of_life(metrics: str, sign: str) -> str:
    """What an idle process shows, once it shows *sign*: by its absence GroundwatchAbsent knows which role is gone."""
    deadline = time.monotonic() + 20
    while sign not in (shown := httpx.get(f"{metrics}/metrics").text):
        assert time.monotonic() < deadline, sign
        time.sleep(0.1)
    return shown


@pytest.mark.service("postgresql")
@pytest.mark.parametrize("new_database", ["postgresql"], indirect=True)
def test_a_scorer_judges_and_opens_no_door_but_its_metrics(new_database, tmp_path):
    with Monitor(settings("scorer", folder=tmp_path, url=new_database("roles")), salt=SALT) as monitor:
        addresses = monitor.start().as_dict()
        assert set(addresses) == {"metrics"}
        shown = signs_of_life(addresses["metrics"], "groundwatch_judge_queue_traces{")
    assert "groundwatch_tally_read_errors_total " not in shown
    assert "groundwatch_scorer" in shown or "groundwatch_judge" in shown
    assert "rag_traces_total" not in shown  # the sums of the deployment come from one process, the exporter


@pytest.mark.service("postgresql")
@pytest.mark.parametrize("new_database", ["postgresql"], indirect=True)
def test_a_collector_and_exporter_tells_the_sums_and_shows_no_console(new_database, tmp_path):
    roles = ("collector", "exporter")
    with Monitor(settings(*roles, folder=tmp_path, url=new_database("roles")), salt=SALT) as monitor:
        addresses = monitor.start().as_dict()
        assert set(addresses) == {"ingest", "metrics"}
        shown = signs_of_life(addresses["metrics"], "groundwatch_tally_read_errors_total ")
        assert "rag_inclusion_probability{" in shown
        assert "\ngroundwatch_log_end_position " in shown and "groundwatch_judge_queue_traces{" not in shown
