"""`groundwatch redact`: one file without its personal data, or the measure of how well that works."""

from __future__ import annotations

import argparse
import json

from groundwatch_deploy.cli import Failed, Misused, emit, say
from groundwatch_review.redaction import evaluate_file, redact_file


def command(arguments: argparse.Namespace) -> int:
    """Print the redacted text on stdout and the report on stderr; exit 1 when the text is held back (BLOCKED)."""
    if (arguments.file is None) == (arguments.evaluate is None):
        raise Misused("redact: give one FILE to redact, or --evaluate FILE to measure")
    try:
        return _evaluate(arguments) if arguments.evaluate else _redact(arguments)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Misused(f"{arguments.evaluate or arguments.file}: cannot be used ({error})") from error


def _evaluate(arguments: argparse.Namespace) -> int:
    report = evaluate_file(arguments.evaluate, models=not arguments.rules_only, unseen_names=arguments.unseen_names)
    emit(report, arguments.json, lambda: json.dumps(report, ensure_ascii=False, indent=2))
    return 0


def _redact(arguments: argparse.Namespace) -> int:
    text, report = redact_file(arguments.file)
    if report["status"] == "BLOCKED":
        # A text that may still hold personal data is not a result.
        raise Failed(f"BLOCKED ({', '.join(report['reasons'])}); nothing was printed")
    emit({"text": text, **report}, arguments.json, lambda: text)
    say(f"{report['status']}: {report['counts'] or 'nothing found'}; a person still has to read it")
    return 0
