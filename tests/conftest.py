"""Shared fixtures: services that are used when found, and the labelled data beside the project."""

from __future__ import annotations

import gc
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import kafka_broker
import live_python
import oidc_provider
import otelcol
import pytest
import sharing_out
from hypothesis import settings
from sqlalchemy import Engine, create_engine, text

from groundwatch_collector.storage import metadata, open_engine

gc.disable()  # until everything is imported and collected, see pytest_collection_finish
# As Hypothesis has it here or in CI, without its deadline: beside other tests an example may take its time.
settings.register_profile("patient", settings(deadline=None))
settings.load_profile("patient")

REPO = Path(__file__).resolve().parent.parent
SHARED_DATA = Path(os.environ.get("GROUNDWATCH_SHARED_DATA", REPO.parent / "shared" / "data"))

SERVICES = {
    "prometheus": (("prometheus", "promtool"), "apt-get install prometheus"),
    "alertmanager": (("prometheus-alertmanager", "alertmanager"), "apt-get install prometheus-alertmanager"),
    "chromium": (("chromium", "google-chrome"), "apt-get install chromium"),
    "postgresql": (("/usr/lib/postgresql/15/bin/initdb", "initdb"), "apt-get install postgresql"),
    "openssl": (("openssl",), "apt-get install openssl"),
    "otelcol": ((str(otelcol.binary()),), "python tests/harness/otelcol.py build (with Go; a few minutes, once)"),
    "live": ((str(live_python.path()),), "python tests/harness/live_python.py build (a few minutes, once)"),
    "oidc_provider": ((str(oidc_provider.program()),), "python tests/harness/oidc_provider.py build (with npm)"),
    "kafka": (("java",), "apt-get install default-jre-headless maven (see tests/harness/kafka_broker.py)"),
    "actionlint": (
        ("actionlint", str(Path.home() / ".cache/groundwatch-actionlint/actionlint")),
        "GOBIN=~/.cache/groundwatch-actionlint go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12",
    ),
}


def find_service(name: str) -> str | None:
    """Path of the first program that provides *name*, or None."""
    programs, _hint = SERVICES[name]
    if name == "kafka" and not kafka_broker.is_available():
        return None  # Java alone is no broker
    return next((found for program in programs if (found := shutil.which(program))), None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("service"):
        name = marker.args[0]
        if find_service(name) is None:
            message = f"{name} is not on this machine; to run this test: {SERVICES[name][1]}"
            if os.environ.get("GROUNDWATCH_REQUIRE_SERVICES"):
                pytest.fail(f"GROUNDWATCH_REQUIRE_SERVICES is set, but {message}")
            pytest.skip(message)
    if item.get_closest_marker("shared_data") and not SHARED_DATA.is_dir():
        pytest.skip(f"the labelled data is not at {SHARED_DATA}; set GROUNDWATCH_SHARED_DATA to its folder")


def pytest_configure() -> None:
    """Temporary files go into memory where it has room: the tests commit thousands of times, and no power fails."""
    memory, room = Path("/dev/shm"), 4 * 2**30
    if "TMPDIR" in os.environ or not os.access(memory, os.W_OK) or os.statvfs(memory).f_flag & os.ST_NOEXEC:
        return
    if shutil.disk_usage(memory).free > room:
        os.environ["TMPDIR"] = tempfile.tempdir = str(memory)  # for what the tests start, and for the tests


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    return sharing_out.workers()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> sharing_out.HalfAtLongFiles | None:
    if config.option.dist != "load":  # something else was asked for
        return None
    config.option.loadscopereorder = False  # the order is ours
    return sharing_out.HalfAtLongFiles(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: sharing_out.turn(item.nodeid.partition("::")[0]))


def pytest_collection_finish() -> None:
    """Thousands of tests and what they import stay: a collection of garbage need not look at them each time."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    return SHARED_DATA


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    """A PostgreSQL cluster of its own, as the unprivileged user where the tests run as root."""
    initdb = next(
        (str(p) for p in sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))), shutil.which("initdb") or ""
    )
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="groundwatch-pg-"))
    folder.chmod(0o755)
    data, port = folder / "data", _free_port()
    if as_user:
        shutil.chown(folder, "postgres", "postgres")
    pg_ctl = str(Path(initdb).with_name("pg_ctl"))

    def run(*command: str) -> None:
        subprocess.run([*as_user, *command], check=True, stdout=subprocess.DEVNULL, cwd="/")

    run(initdb, "-D", str(data), "-A", "trust", "-U", "app", "--no-sync")
    options = f"-c listen_addresses=127.0.0.1 -p {port} -k {folder} -c fsync=off"
    run(pg_ctl, "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield f"postgresql+psycopg://app@127.0.0.1:{port}/postgres"
    finally:
        run(pg_ctl, "-D", str(data), "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


_schemas = count(1)


def _administer(url: str, *statements: str) -> None:
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service("postgresql"))])
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Call with a name for the URL of an empty database; each test that asks for it runs on both kinds.

    On PostgreSQL it is a schema of its own in the session's cluster.
    """
    if request.param == "sqlite":
        yield lambda name: f"sqlite:///{tmp_path / f'{name}.db'}"
        return
    cluster = request.getfixturevalue("postgresql_url")
    made: list[str] = []

    def make(name: str) -> str:
        made.append(f"test_{next(_schemas)}_{name}")
        _administer(cluster, f"CREATE SCHEMA {made[-1]}")
        return f"{cluster}?options=-csearch_path%3D{made[-1]}"

    yield make
    _administer(cluster, *(f"DROP SCHEMA {schema} CASCADE" for schema in made))


@pytest.fixture
def database_url(new_database: Callable[[str], str]) -> str:
    return new_database("groundwatch")


@pytest.fixture
def empty_engine(database_url: str) -> Iterator[Engine]:
    """A database without tables."""
    engine = open_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def engine(empty_engine: Engine) -> Engine:
    """A database with the tables of every package that the test has imported."""
    metadata.create_all(empty_engine)
    return empty_engine
