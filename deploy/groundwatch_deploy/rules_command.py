"""`groundwatch rules`: write the rules of this deployment, check them, and say how often they would have fired."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from groundwatch_alerts import preview as past
from groundwatch_alerts import tallies
from groundwatch_alerts.alertmanager import CONFIG_FILE, alertmanager_files
from groundwatch_alerts.change_monitor import freeze
from groundwatch_alerts.objectives import QUALITY
from groundwatch_alerts.rule_files import problems
from groundwatch_alerts.rule_set import alert_groups, recording_groups, rule_files
from groundwatch_collector.storage import open_engine
from groundwatch_deploy.cli import Failed, Misused, emit, say
from groundwatch_deploy.config import ConfigError
from groundwatch_deploy.settings import Settings, load
from groundwatch_scorer import local_judge

_MOST_DAYS = 3_660
_LEAST_NAME, _MOST_NAME = 12, 40  # characters of an application's name in a table


def render(arguments: argparse.Namespace) -> int:
    """Write every file into ``--out``, or print them."""
    files = _files(_settings(arguments))
    if arguments.out is None:
        emit(files, arguments.json, lambda: "\n".join(files.values()).rstrip())
        return 0
    try:
        written = _write(files, arguments.out)
    except OSError as error:
        raise Failed(f"{arguments.out}: cannot be written ({error.strerror})") from error
    emit({"written": written}, arguments.json, lambda: "\n".join(written))
    return 0


def check(arguments: argparse.Namespace) -> int:
    """Exit 1 with one line for each thing that is wrong. promtool looks too, where it is installed."""
    settings = _settings(arguments)
    found = _unknown_judges(settings)
    found += problems([*recording_groups(settings.objectives), *alert_groups(settings.objectives, settings.alerts)])
    with tempfile.TemporaryDirectory() as folder:
        written = _write(_files(settings), Path(folder))
        rules = [path for path in written if Path(path).name in rule_files((), settings.alerts)]
        found += _tool("promtool", "check", "rules", *rules)
        found += _tool("amtool", "check-config", str(Path(folder) / CONFIG_FILE))
    emit({"problems": found}, arguments.json, lambda: "\n".join(found) or "the rules are good")
    if found:
        raise Failed(f"{len(found)} problems in the rules")
    return 0


def _unknown_judges(settings: Settings) -> list[str]:
    """Objectives whose judge gives no verdict here: no alert of theirs could ever fire, not even that it is blind."""
    known = _judges(settings)
    return [
        f"[objectives.{item.name}] judge: {item.judge!r} judges nothing here; accepted: {', '.join(known)}"
        for item in settings.objectives
        if item.judge and item.judge not in known
    ]


def _judges(settings: Settings) -> list[str]:
    """Those that the configuration names, and those whose verdicts the database holds, where there is one."""
    known = [local_judge.IDENTIFIER]
    if settings.judge.llm_model:
        # Half a second of imports that most deployments never need.
        from groundwatch_deploy.serve import rubric_of  # noqa: PLC0415
        from groundwatch_scorer.llm_judge import identifier_of  # noqa: PLC0415

        known.append(identifier_of(settings.judge.llm_model, rubric_of(settings.judge).version))
    if settings.server.has_database:
        engine = open_engine(settings.server.url)
        try:
            known += [name for name in tallies.judges(engine) if name not in known]
        except SQLAlchemyError as error:
            say(f"groundwatch: judges of the database are not known ({type(error).__name__})")
        finally:
            engine.dispose()
    return known


def preview(arguments: argparse.Namespace) -> int:
    """Print each alert with how often and how long it would have fired in the last ``--days``."""
    settings = _settings(arguments)
    if not settings.objectives:
        say("groundwatch: no objectives, so only changes are looked at; name some and give the file with --config")
    with _database(settings, arguments) as engine:
        until = time.time()
        judge = _headline(tallies.judges(engine))
        since = until - arguments.days * 86_400
        found = past.preview(engine, settings.objectives, settings.alerts, judge, since=since, until=until)
    history = max((one.days for one in found), default=0.0)
    looked = {"since": since, "until": until, "days_asked": arguments.days, "days_of_history": history}
    rows = [dataclasses.asdict(one) | {"a_week": one.a_week} for one in found]
    span = f"{_when(since)} to {_when(until)} UTC, {arguments.days:g} days asked, {history:.1f} days of history found"
    emit({**looked, "judge": judge, "alerts": rows}, arguments.json, lambda: "\n".join([span, *_table(found)]))
    return 0


def _headline(known: Sequence[str]) -> str:
    """The judge that alerts hear where an objective names none: the local one, as `serve` has it."""
    return local_judge.IDENTIFIER if local_judge.IDENTIFIER in known else next(iter(known), "")


def baseline(arguments: argparse.Namespace) -> int:
    """Put the last ``--days`` in the place of the frozen baseline, for every judge of the app."""
    settings = _settings(arguments)
    if arguments.criterion not in QUALITY:
        raise Misused(f"--criterion: {arguments.criterion!r}; accepted: {', '.join(QUALITY)}")
    with _database(settings, arguments) as engine:
        judges = tallies.judges(engine, arguments.app)
        if not judges:
            raise Misused(f"--app: {arguments.app!r} has no verdicts; accepted: {', '.join(tallies.apps(engine))}")
        key = (arguments.app, arguments.criterion)
        frozen = [name for name in judges if freeze(engine, *key, name, days=arguments.days, now=time.time())]
    if not frozen:
        raise Failed(f"too little was judged in {arguments.days:g} days; take more with --days")
    emit({"frozen": frozen}, arguments.json, lambda: f"frozen anew for {', '.join(frozen)}")
    return 0


@contextlib.contextmanager
def _database(settings: Settings, arguments: argparse.Namespace) -> Iterator[Engine]:
    if not 0 < arguments.days <= _MOST_DAYS:
        raise Misused(f"--days: {arguments.days:g}; accepted: more than 0, at most {_MOST_DAYS}")
    if not settings.server.has_database:
        raise Misused(f"{settings.server.data_directory}: no database here; give the data directory with --data-dir")
    engine = open_engine(settings.server.url)
    try:
        yield engine
    finally:
        engine.dispose()


def _table(found: Sequence[past.Fired]) -> list[str]:
    width = max([_LEAST_NAME, *(len(_name(one.app)) for one in found)])
    head = f"{'app':<{width}} {'alert':<30} {'criterion':<18} {'days':>5} {'times':>6} {'a week':>7} {'hours':>7}"
    return [f"{head}  first (UTC)", *(_row(one, width) for one in found)]


def _name(app: str) -> str:
    """An application's name came with its traces: it is cut, and nothing in it may steer the terminal."""
    plain = "".join(c if c.isprintable() else "?" for c in app)
    return plain if len(plain) <= _MOST_NAME else f"{plain[: _MOST_NAME - 1]}…"


def _row(one: past.Fired, width: int) -> str:
    name = f"{_name(one.app):<{width}} {one.alert:<30} {one.criterion:<18} {one.days:>5.1f}"
    if one.untold:
        return f"{name} {'-':>6} {'-':>7} {'-':>7}  {one.untold}"
    often = "-" if one.a_week is None else f"{one.a_week:.1f}"
    return f"{name} {one.times:>6} {often:>7} {one.hours:>7.1f}  {_when(one.first_at)}".rstrip()


def _when(at: float | None) -> str:
    return "" if at is None else time.strftime("%Y-%m-%d %H:%M", time.gmtime(at))


def _tool(name: str, *words: str) -> list[str]:
    """What a tool of Prometheus says against the files; nothing, and a remark, where it is not installed."""
    program = shutil.which(name)
    if program is None:
        say(f"groundwatch: {name} is not installed, so only Groundwatch's own checks were made")
        return []
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)  # noqa: S603 (own words)
    return [f"{name}: {line}" for line in (done.stdout + done.stderr).splitlines() if line] if done.returncode else []


def _files(settings: Settings) -> dict[str, str]:
    return rule_files(settings.objectives, settings.alerts) | alertmanager_files()


def _write(files: dict[str, str], folder: Path) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [str(folder / name) for name in files]


def _settings(arguments: argparse.Namespace) -> Settings:
    try:
        return load(arguments.config, data_directory=getattr(arguments, "data_dir", None))
    except ConfigError as error:
        raise Misused(str(error)) from error
