"""`groundwatch calibrate`: how far a judge can be believed, on labelled data."""

from __future__ import annotations

import argparse
import sys

from groundwatch_deploy.cli import Misused, say
from groundwatch_deploy.config import ConfigError
from groundwatch_deploy.judge_option import configured_model
from groundwatch_scorer import calibration
from groundwatch_scorer.judgement import Judge


def command(arguments: argparse.Namespace) -> int:
    """Print the report; the rows come from a file in the documented schema."""
    try:
        judge = _judge(arguments)
        print(calibration.run(arguments.data, arguments.json, judge, _progress, arguments.report))
    except (ConfigError, ValueError, OSError) as error:
        raise Misused(str(error)) from error
    return 0


def _judge(arguments: argparse.Namespace) -> Judge | None:
    if arguments.judge == "local":
        return None  # the default of calibration, which is also refitted without each source in turn
    return configured_model(arguments.config)


def _progress(done: int, total: int) -> None:
    if done == total or done % 200 == 0:
        say(f"judged {done} of {total}")
    sys.stderr.flush()
