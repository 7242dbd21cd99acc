"""Checks of `groundwatch doctor` on a monitor's own machine: disk, database, files, judge. Nothing is changed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, make_url, text
from sqlalchemy.exc import SQLAlchemyError

from groundwatch_collector import decision_store
from groundwatch_collector.spanlog import SpanLog
from groundwatch_collector.storage import open_engine
from groundwatch_deploy import migrations
from groundwatch_deploy.cli import not_installed
from groundwatch_deploy.config import JudgeConfig, ServerConfig
from groundwatch_deploy.doctor_network import backlog
from groundwatch_deploy.findings import Finding, fail, ok, warn
from groundwatch_deploy.settings import Settings
from groundwatch_scorer.address_guard import EndpointRefused

if TYPE_CHECKING:
    from openai import OpenAI

DAY = 86_400.0
_GIB = 2**30
_START = "start `groundwatch serve` on it once"


def is_running(server: ServerConfig) -> bool:
    """Whether a process holds the span log of this data directory."""
    lock = server.data_directory / "spanlog" / "lock"
    try:
        descriptor = os.open(lock, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # let go of when it is closed below
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def check_here(settings: Settings, api_key: bytes, *, running: bool) -> list[Finding]:
    """Everything that can be known without the network, except for the judge's endpoint."""
    server = settings.server
    if not server.data_directory.is_dir():
        return [fail("data directory", f"{server.data_directory} does not exist", f"give --data-dir, or {_START}")]
    over_kafka = bool(settings.kafka.bootstrap_servers)
    findings = [check_topic_disk(server)] if over_kafka else [check_disk(server), check_retention(settings)]
    findings += [*check_files(server), *check_database(server, has_log=not running and not over_kafka)]
    return [*findings, *check_judge(settings.judge, api_key)]


def check_disk(server: ServerConfig) -> Finding:
    """Whether the disk has room for what the span log may still grow to."""
    free = shutil.disk_usage(server.data_directory).free
    used = sum(file.stat().st_size for file in (server.data_directory / "spanlog").glob("*") if file.is_file())
    room = max(0, server.log_max_bytes - used)
    found = f"{free / _GIB:.1f} GiB free, the span log may grow by {room / _GIB:.1f} GiB"
    if free < min(room, _GIB):
        return fail("disk", found, "free space: below 1 GiB the database may not be written")
    if free < room:
        return warn("disk", found, "free space, or lower [server] log_max_bytes")
    return ok("disk", found)


def check_topic_disk(server: ServerConfig) -> Finding:
    """Over Kafka only the database and the keys are here."""
    free = shutil.disk_usage(server.data_directory).free
    if free < _GIB:
        return fail("disk", f"{free / _GIB:.1f} GiB free", "free space: the database may not be written")
    return ok("disk", f"{free / _GIB:.1f} GiB free; the spans are in Kafka, whose topic says how long")


def check_retention(settings: Settings) -> Finding:
    """Late feedback brings a trace back from the span log: payloads have to be kept for as long as it may come."""
    horizon = settings.feedback.settle_after_seconds
    kept = settings.server.log_max_age_seconds
    found = f"raw traces are kept for {kept / DAY:.1f} days, feedback counts for {horizon / DAY:.1f}"
    if kept < horizon:
        return fail(
            "retention", found, "raise [server] log_max_age_seconds to at least the time that feedback counts"
        )
    return ok("retention", found)


def check_files(server: ServerConfig) -> Iterator[Finding]:
    """Keys must be their owner's alone; what users asked should be."""
    folder = server.data_directory
    keys = [path for path in (folder / "sampling.salt", folder / "candidate.key") if path.exists()]
    keys += [Path(server.tls_key)] if server.tls_key else []
    closed = [*(path for path in keys if not os.access(path, os.R_OK)), *_not_writable(folder)]
    if closed:
        names = " ".join(map(str, closed))
        advice = f"run this as the user of the monitor; if you do: chown -R {_user()} {folder}"
        yield fail("access", f"the user {_user()} cannot use {names}", advice)
    open_keys = [path for path in keys if _mode(path) & 0o077]
    if open_keys:
        names = " ".join(map(str, open_keys))
        yield fail("key files", f"others on this machine can read {names}", f"run: chmod 600 {names}")
    else:
        yield ok("key files", f"{len(keys)} key files are readable by their owner only")
    database = make_url(server.url)
    data = [folder, *([Path(database.database)] if database.drivername == "sqlite" and database.database else [])]
    open_data = [path for path in data if path.exists() and _mode(path) & 0o077]
    if open_data:
        names = " ".join(map(str, open_data))
        yield warn("data files", f"others on this machine can open {names}", f"run: chmod go-rwx {names}")
    else:
        yield ok("data files", "the data is readable by its owner only")


def _not_writable(folder: Path) -> list[Path]:
    ours = (folder, folder / "spanlog", folder / "groundwatch.db")
    return [path for path in ours if path.exists() and not os.access(path, os.W_OK)]


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container's
        return str(os.geteuid())


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def check_database(server: ServerConfig, *, has_log: bool) -> Iterator[Finding]:
    """Reachable, writable and migrated; and how far the pipeline is, where a log is here and no monitor to ask."""
    where = make_url(server.url)
    shown = where.render_as_string(hide_password=True)
    if where.get_backend_name() == "sqlite" and not Path(where.database or "").is_file():
        yield fail("database", f"{shown} does not exist", _START)
        return
    try:
        engine = open_engine(server.url, busy_timeout_seconds=5)
    except ModuleNotFoundError:
        found, advice = not_installed("psycopg").split("; ")
        yield fail("database", found, advice)
        return
    try:
        yield _migrated(engine, shown)
        if has_log:
            yield from _stopped_log(engine, server)
    except SQLAlchemyError as error:
        # The driver's words only: a statement's parameters may be text of a trace.
        cause = str(getattr(error, "orig", None) or type(error).__name__).strip().splitlines()[0]
        yield fail("database", f"{shown}: {cause}", "correct [server] database_url, or start the database")
    finally:
        engine.dispose()


def _migrated(engine: Engine, shown: str) -> Finding:
    with engine.connect() as connection:
        scripts = ScriptDirectory.from_config(migrations.configuration(connection))
        found, newest = set(MigrationContext.configure(connection).get_current_heads()), set(scripts.get_heads())
        known = {script.revision for script in scripts.walk_revisions()}
        connection.rollback()
        if found - known:
            return fail("database", f"{shown} is of a newer version", "upgrade this installation of groundwatch")
        if found != newest:
            return fail(
                "database", f"{shown} has not all migrations", "start `groundwatch serve` of this version on it"
            )
        # A table that is never kept: the transaction is rolled back.
        connection.execute(text("CREATE TABLE groundwatch_doctor_probe (n INTEGER)"))
        connection.rollback()
    return ok("database", f"{shown} is migrated and writable")


def _stopped_log(engine: Engine, server: ServerConfig) -> Iterator[Finding]:
    folder = server.data_directory / "spanlog"
    if not folder.is_dir():
        yield fail("span log", f"{folder} does not exist", _START)
        return
    with SpanLog.open_read_only(folder) as log, engine.connect() as connection:
        position = decision_store.committed_position(connection)
        yield ok("span log", f"{(log.end_position - log.start_position) / 2**20:.1f} MiB of records")
        if position > log.end_position:
            yield warn(
                "pipeline", "the database remembers more than the span log holds", "was the spanlog folder replaced?"
            )
        else:
            yield backlog(log.end_position - max(position, log.start_position))


def check_judge(judge: JudgeConfig, api_key: bytes) -> Iterator[Finding]:
    """The local judge needs nothing; a model has to be reachable with its key."""
    if not judge.llm_model:
        yield ok("judge", "the local judge; no model is configured")
        return
    yield _model(judge, api_key)


def _model(judge: JudgeConfig, api_key: bytes) -> Finding:
    if not api_key and not judge.llm_base_url:
        return fail("judge", f"{judge.llm_model} has no key", "set GROUNDWATCH_LLM_API_KEY")
    try:
        with contextlib.closing(_client(judge, api_key)) as client:
            return _served(client, judge.llm_model)
    except EndpointRefused as error:  # when the client is made, or when the address is resolved
        return fail("judge", f"[judge] llm_base_url: {error}", "correct [judge] llm_base_url")


def _client(judge: JudgeConfig, api_key: bytes) -> OpenAI:
    from groundwatch_scorer.llm_endpoint import open_client  # noqa: PLC0415 (half a second)

    return open_client(
        judge.llm_base_url,
        api_key.decode(),
        timeout_seconds=10,
        max_retries=0,
        allow_private=judge.llm_allow_private_network,
    )


def _served(client: OpenAI, model: str) -> Finding:
    import openai  # noqa: PLC0415 (half a second that most deployments never need)

    try:
        names = [served.id for served in client.models.list()]
    except openai.AuthenticationError:
        return fail("judge", f"{model}: the key is refused", "set GROUNDWATCH_LLM_API_KEY to a good key")
    except openai.APIStatusError as error:  # some servers have no list of models
        return warn("judge", f"the endpoint answers {error.status_code} to a list of models", "send it one trace")
    except openai.APIConnectionError as error:
        return fail("judge", f"the endpoint does not answer: {type(error).__name__}", "check [judge] llm_base_url")
    if model in names:
        return ok("judge", f"{model} is served")
    return warn("judge", f"{model} is not among the {len(names)} served models", "check [judge] llm_model")
