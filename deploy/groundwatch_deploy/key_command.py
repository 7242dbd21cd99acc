"""`groundwatch key NAME`: a new write-only ingest key. It is shown once; the configuration holds its hash only."""

from __future__ import annotations

import argparse

from groundwatch_collector.intake_keys import new_ingest_key
from groundwatch_deploy.cli import Misused, emit


def command(arguments: argparse.Namespace) -> int:
    try:
        key, line = new_ingest_key(arguments.name)
    except ValueError as error:
        raise Misused(f"NAME: {error}") from error
    emit({"project": arguments.name, "key": key, "ingest_keys": [line]}, arguments.json, lambda: _text(key, line))
    return 0


def _text(key: str, line: str) -> str:
    return (
        f"{key}\n\n"
        "That is the key. It is not kept anywhere and not shown again: give it to the sender, for example as\n"
        '  OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20KEY"\n\n'
        "The collector needs its hash only, in groundwatch.toml:\n"
        f'  [server]\n  ingest_keys = ["{line}"]'
    )
