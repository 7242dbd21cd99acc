"""`groundwatch compare`: two versions of an application on live traffic, by every criterion."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from sqlalchemy import Connection

from groundwatch_alerts import tallies
from groundwatch_alerts.version_comparison import MIN_JUDGED
from groundwatch_alerts.version_metrics import CriterionCompared, Pair, compared, pair_of
from groundwatch_collector.storage import open_engine, reader
from groundwatch_deploy.cli import Misused, emit
from groundwatch_deploy.config import ConfigError
from groundwatch_deploy.settings import load_with_database
from groundwatch_scorer.judgement import Criterion


def command(arguments: argparse.Namespace) -> int:
    """Print the comparison; exit 0 whatever it says, as it may be asked for at any time."""
    try:
        settings = load_with_database(arguments.config, data_directory=arguments.data_dir)
        engine = open_engine(settings.server.url)
        try:
            app = _app(arguments.app, tallies.apps(engine))
            judge = _judge(arguments.judge, list(tallies.judges(engine, app)))
            with reader(engine).connect() as connection, connection.begin():
                pair, rows = _compare(connection, app, judge, arguments)
        finally:
            engine.dispose()
    except (ConfigError, ValueError) as error:
        raise Misused(str(error)) from error
    result = {**dataclasses.asdict(pair), "judge": judge, "criteria": [_as_dict(row) for row in rows]}
    emit(result, arguments.json, lambda: _text(pair, judge, rows))
    return 0


def _app(named: str, known: list[str]) -> str:
    if named in known or (not named and len(known) == 1):
        return named or known[0]
    raise Misused(f"--app {named or '(not given)'}; accepted: {', '.join(known) or 'none yet: nothing came in'}")


def _judge(named: str, known: list[str]) -> str:
    """The judge that was asked for, else the first. Raises :class:`Misused` for one that judged nothing."""
    if named and named not in known:
        raise Misused(f"--judge {named}: it judged nothing here; accepted: {', '.join(known) or 'none yet'}")
    return named or next(iter(known), "")


def _compare(
    connection: Connection, app: str, judge: str, arguments: argparse.Namespace
) -> tuple[Pair, list[CriterionCompared]]:
    if arguments.criterion not in ("", *Criterion):
        raise ValueError(f"--criterion {arguments.criterion}: accepted: {', '.join(Criterion)}")
    pair = pair_of(connection, app, arguments.a, arguments.b)
    if pair is None:
        raise ValueError(f"{app} has no two versions to compare yet")
    rows = compared(connection, pair, judge)
    return pair, [row for row in rows if arguments.criterion in ("", row.criterion)]


def _as_dict(row: CriterionCompared) -> dict[str, Any]:
    return {
        "criterion": row.criterion,
        "judged": [0 if e is None else e.judged for e in (row.a, row.b)],
        "rates": [None if e is None else e.rate for e in (row.a, row.b)],
        "comparison": None if row.result is None else dataclasses.asdict(row.result) | {"clear": row.result.clear},
    }


def _text(pair: Pair, judge: str, rows: list[CriterionCompared]) -> str:
    head = f"{pair.app}: {pair.b} against {pair.a}, all traffic, judged by {judge or 'nobody yet'}"
    return "\n".join([head, *(f"  {row.criterion:<18} {_line(row, pair)}" for row in rows)])


def _line(row: CriterionCompared, pair: Pair) -> str:
    c = row.result
    if c is None:
        judged = " and ".join("0" if e is None else str(e.judged) for e in (row.a, row.b))
        return f"too few verdicts: {judged}, {MIN_JUDGED} of each are needed"
    said = f"{c.rate_a:6.1%} -> {c.rate_b:6.1%}   {c.difference:+.1%} ({c.low:+.1%} to {c.high:+.1%})"
    if not c.clear:
        return f"{said}   not told apart"
    return f"{said}   {pair.b} fails {'more' if c.difference > 0 else 'less'} often"
