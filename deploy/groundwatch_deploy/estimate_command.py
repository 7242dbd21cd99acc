"""`groundwatch estimate`: the failure rate of all traffic by criterion, and as people or a second judge have it."""

from __future__ import annotations

import argparse
import dataclasses
import time
from typing import Any

from sqlalchemy import Engine

from groundwatch_alerts import corrected_rows, tallies
from groundwatch_alerts.corrected import Corrected, Refused
from groundwatch_alerts.estimator import Estimate, estimate
from groundwatch_collector.storage import open_engine
from groundwatch_deploy.cli import Misused, emit
from groundwatch_deploy.config import ConfigError
from groundwatch_deploy.settings import load_with_database
from groundwatch_scorer.judgement import Criterion


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    criterion: str
    found: Estimate | None
    seconds: dict[str, Corrected | Refused]  # by who read again


def command(arguments: argparse.Namespace) -> int:
    """Print every criterion; exit 0 whatever the rates are."""
    if not arguments.days > 0:
        raise Misused(f"--days: {arguments.days}; accepted: more than 0")
    try:
        settings = load_with_database(arguments.config, data_directory=arguments.data_dir)
    except ConfigError as error:
        raise Misused(str(error)) from error
    engine = open_engine(settings.server.url)
    try:
        app = _app(arguments.app, tallies.apps(engine))
        judge = _judge(arguments.judge, tallies.judges(engine, app))
        lines = _lines(engine, app, judge, time.time() - arguments.days * 86_400)
    finally:
        engine.dispose()
    told = {"app": app, "judge": judge, "days": arguments.days, "criteria": [_as_dict(line) for line in lines]}
    head = f"{app}: last {arguments.days:g} days of all traffic, judged by {judge or 'nobody yet'}; 95 % intervals"
    emit(told, arguments.json, lambda: "\n".join([head, *(row for line in lines for row in _text(line))]))
    return 0


def _app(named: str, known: list[str]) -> str:
    if named in known:
        return named
    if not named and len(known) == 1:
        return known[0]
    raise Misused(f"--app {named or '(not given)'}; accepted: {', '.join(known) or 'none yet: nothing came in'}")


def _judge(named: str, known: list[str]) -> str:
    if named and named not in known:
        raise Misused(f"--judge {named}: it judged nothing here; accepted: {', '.join(known) or 'none yet'}")
    return named or next(iter(known), "")


def _lines(engine: Engine, app: str, judge: str, since: float) -> list[Line]:
    others = corrected_rows.seconds(corrected_rows.second_judges(engine), engine)
    return [
        Line(
            str(criterion),
            estimate(tallies.sums(engine, app=app, criterion=criterion, judge=judge, since=since)),
            {
                second: corrected_rows.read(
                    engine, app=app, judge=judge, second=second, since=since, criterion=criterion
                )
                for second in others
                if second != judge
            },
        )
        for criterion in Criterion
    ]


def _as_dict(line: Line) -> dict[str, Any]:
    f = line.found
    rate = None if f is None else {"rate": f.rate, "low": f.low, "high": f.high_shown, "judged": f.judged}
    seconds = {
        name: dataclasses.asdict(found) | ({"said": found.said} if isinstance(found, Refused) else {})
        for name, found in line.seconds.items()
    }
    return {"criterion": line.criterion, "as_judged": rate, "corrected": seconds}


def _text(line: Line) -> list[str]:
    f = line.found
    rate = "no verdict yet" if f is None else f"{_rate(f.rate, f.low, f.high_shown)}   {f.judged} judged"
    rows = [f"  {line.criterion:<18} {rate}"]
    for name, found in line.seconds.items():
        said = (
            f"{_rate(found.rate, found.low, found.high)}   {found.labels} second verdicts"
            if isinstance(found, Corrected)
            else f"no corrected rate: {found.said}"
        )
        rows.append(f"    by {name:<13} {said}")
    return rows if line.seconds else [*rows, "    nobody reads a second time: no correction of the judge's errors"]


def _rate(rate: float, low: float, high: float) -> str:
    return f"{rate:6.1%} ({low:.1%} to {high:.1%})"
