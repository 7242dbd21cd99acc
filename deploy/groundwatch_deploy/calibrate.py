"""`groundwatch calibrate`: how far a judge can be believed, on labelled data."""

from __future__ import annotations

import argparse
import sys

from groundwatch_deploy.cli import Misused, say
from groundwatch_deploy.config import ConfigError, load_secrets
from groundwatch_deploy.serve import llm_judge
from groundwatch_deploy.settings import load
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
    settings = load(arguments.config)
    if not settings.judge.llm_model:
        raise ConfigError("--judge llm needs [judge] llm_model in the file given with --config")
    return llm_judge(settings.judge, load_secrets(settings.server.data_directory).llm_api_key)


def _progress(done: int, total: int) -> None:
    if done == total or done % 200 == 0:
        say(f"judged {done} of {total}")
    sys.stderr.flush()
