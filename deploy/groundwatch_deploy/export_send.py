"""`groundwatch send`: have the released candidates, and on request the verdicts, in Langfuse."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import os
import random
from collections.abc import Mapping
from urllib.parse import urlsplit

from groundwatch_deploy.cli import DONE, FAILED, Failed, Misused, emit
from groundwatch_deploy.desk_database import Desk, note_export, opened
from groundwatch_review import outbox
from groundwatch_review.langfuse import KeysRefused, Langfuse, Sent, send

_KEYS = ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY")


def command(arguments: argparse.Namespace) -> int:
    """Exit 0: the tool has everything that may leave, 1: something waits or was refused; the next run goes on."""
    try:
        with opened(arguments) as desk:
            sent = _send(desk, _langfuse(arguments.url, arguments.timeout), arguments)
    except KeysRefused as error:
        raise Failed(f"{error}; nothing was given up") from error
    except outbox.TooManyRemovals as error:
        raise Misused(
            f"send: {error}; is --config the right one? --remove-many takes them back all the same"
        ) from error
    emit(dataclasses.asdict(sent), arguments.json, lambda: _text(sent))
    return DONE if sent.is_complete else FAILED


def _langfuse(url: str, timeout_seconds: float) -> Langfuse:
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise Misused(
            f"send: --url is {url[:80]!r}; accepted: the address of Langfuse, like https://cloud.langfuse.com"
        )
    public, secret = (os.environ.get(name, "") for name in _KEYS)
    if not public or not secret:
        raise Misused(f"send: set {' and '.join(_KEYS)} in the environment")
    try:
        from langfuse.api import LangfuseAPI  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise Misused('send: the client of Langfuse is not installed: pip install "groundwatch[langfuse]"') from error
    # No redirects: whoever answers with one would be sent the keys.
    client = LangfuseAPI(
        base_url=url, username=public, password=secret, timeout=timeout_seconds, follow_redirects=False
    )
    project = hashlib.sha256(f"{url.rstrip('/')}|{public}".encode()).hexdigest()[:16]
    return Langfuse(client, f"langfuse:{project}")


def _send(desk: Desk, tool: Langfuse, arguments: argparse.Namespace) -> Sent:
    note_export(desk, "langfuse", holdout=arguments.holdout)
    if arguments.retry_failed:
        outbox.retry_failed(desk.engine, tool.name, desk.now())
    return send(
        desk.engine,
        tool,
        desk.now,
        policy=desk.settings.candidates,
        holdout=arguments.holdout,
        scores=arguments.scores,
        remove_many=arguments.remove_many,
        jitter=random.Random(),  # noqa: S311 (pauses)
    )


def _text(sent: Sent) -> str:
    def counted(counts: Mapping[str, int]) -> str:
        return ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing"

    lines = [f"this run: {counted(sent.done)}", f"outbox: {counted(sent.states)}", f"held back: {counted(sent.held)}"]
    if sent.not_planned:
        lines.append("more is to be sent than may wait at once: run this again")
    return "\n".join(lines)
