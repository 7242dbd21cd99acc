"""`groundwatch demo`: a real RAG application, a bad deploy, and what the monitor makes of it."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from groundwatch_collector.ledger import report
from groundwatch_collector.storage import reader
from groundwatch_deploy.cli import Failed, Misused, emit, say
from groundwatch_deploy.config import ConfigError
from groundwatch_deploy.data_trouble import explained
from groundwatch_deploy.demo import story
from groundwatch_deploy.demo.behaviour import Incident
from groundwatch_deploy.demo.sampling_rates import DEMO_RATES, SALT_OF_THE_DEMO
from groundwatch_deploy.serve import Monitor
from groundwatch_deploy.settings import Settings, load

LLM_VARIABLES = ("OPENAI_BASE_URL", "OPENAI_API_KEY")


def command(arguments: argparse.Namespace) -> int:
    """Run the story; with a console, keep it open until Ctrl-C. Exit 1 when the story could not be told."""
    plan = _plan(arguments)
    _point_at_model(plan)
    with contextlib.ExitStack() as stack:
        folder = arguments.data_dir or _temporary(stack)
        try:
            settings = _settings(arguments, folder)
            with explained(settings.server):
                monitor = stack.enter_context(Monitor(settings, salt=bytes.fromhex(SALT_OF_THE_DEMO)))
        except (ConfigError, ValueError) as error:
            raise Misused(str(error)) from error
        addresses = monitor.start()
        stack.enter_context(_stopped_by_signals())
        if not arguments.headless:
            say(
                f"\n  open {addresses.console}\n\nOTLP/HTTP {addresses.ingest}, metrics {addresses.metrics}/metrics\n"
            )
        told = _tell(monitor, addresses.ingest, folder, plan)
        emit(_json(told, addresses.as_dict()), arguments.json, lambda: story.as_table(told))
        if arguments.data_dir:
            again = f"GROUNDWATCH_SAMPLING_SALT={SALT_OF_THE_DEMO} groundwatch serve --data-dir {folder}"
            say(f"\nto look at it again later (its salt is the demo's, which everybody knows): {again}")
        if not arguments.headless:
            _stay(f"\nthe console stays at {addresses.console} until Ctrl-C")
    return 0


def _point_at_model(plan: story.Plan) -> None:
    """Say that a model is at hand. It is not called unasked: that costs money, and sends texts to somebody."""
    found = [name for name in LLM_VARIABLES if os.environ.get(name)]
    if found and not plan.llm:
        calls = plan.healthy_requests + plan.bad_requests
        say(f"{' and '.join(found)} found: with --llm that model writes the answers, about {calls} calls")


def _stay(until: str) -> None:
    """Say *until* and wait for Ctrl-C: asked for here, so not a failure as it is before the end."""
    with contextlib.suppress(KeyboardInterrupt):  # it may come as soon as the line can be read: before the wait
        say(until)
        threading.Event().wait()


def _temporary(stack: contextlib.ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="groundwatch-demo-")))


def _plan(arguments: argparse.Namespace) -> story.Plan:
    incidents = get_args(Incident.__value__) if hasattr(Incident, "__value__") else get_args(Incident)
    if arguments.incident and arguments.incident not in incidents:
        raise Misused(f"--incident {arguments.incident!r} is not known; accepted: {', '.join(incidents)}")
    changes: dict[str, Any] = {
        "incident": arguments.incident,
        "healthy_requests": arguments.healthy_requests,
        "bad_requests": arguments.incident_requests,
    }
    given = {name: value for name, value in changes.items() if value is not None}
    if any(isinstance(value, int) and value < 1 for value in given.values()):
        raise Misused("--healthy-requests and --incident-requests take 1 or more")
    return replace(story.Plan(seed=arguments.seed, llm=arguments.llm), **given)


def _settings(arguments: argparse.Namespace, folder: Path) -> Settings:
    """Demo rates and a quick pace: minutes here stand for days in production."""
    settings = load(
        None,
        data_directory=folder,
        ingest_port=0,
        console_port=0 if arguments.headless else arguments.console_port,
        metrics_port=0,
    )
    decide = replace(settings.decide, rates=DEMO_RATES, grace_seconds=1.5, idle_seconds=5.0, bucket_seconds=5)
    # The demo's corpus is public text and its users are made up: a candidate may be exported.
    candidates = replace(settings.candidates, consent="NOT_PERSONAL", license="demo data")
    console = replace(settings.console, refresh_seconds=3.0, default_window="1h")
    # The complaints of days arrive within a minute: by the clock of production that is a burst, and quarantined.
    feedback = replace(settings.feedback, app_negatives_per_minute=10_000)
    return replace(settings, decide=decide, candidates=candidates, console=console, feedback=feedback)


def _tell(monitor: Monitor, ingest: str, folder: Path, plan: story.Plan) -> story.Story:
    truth = folder / "truth"
    truth.mkdir(exist_ok=True)
    try:
        return story.run_story(
            ingest,
            monitor.engine,
            ledger_report=lambda: report(reader(monitor.engine), monitor.log),
            judge=monitor.judges[0].identifier,
            folder=truth,
            plan=plan,
            progress=say,
        )
    except story.StoryError as error:
        raise Failed(str(error)) from error


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does, so that the monitor closes its log in order."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _json(told: story.Story, addresses: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(story.as_json(told))
    return found | {"addresses": addresses}
