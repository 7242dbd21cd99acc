"""`groundwatch gate`: ask the next version the regression set, and block it on a significant drop."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from groundwatch_deploy.cli import DONE, FAILED, Misused, emit, say
from groundwatch_deploy.config import ConfigError
from groundwatch_deploy.judge_option import configured_model
from groundwatch_deploy.own_files import found_here_too
from groundwatch_review.gate import anchors, baseline, items, makeup, noise, report, running, targets, verdict
from groundwatch_review.gate.scores import Scorer
from groundwatch_scorer.judgement import Judge
from groundwatch_scorer.local_judge import LocalJudge

NOT_MEASURED = 3

_EXIT = {"passed": DONE, "measured": DONE, "blocked": FAILED, "not_measured": NOT_MEASURED}


def command(arguments: argparse.Namespace) -> int:
    """Exit 0: passed or measured, 1: blocked, 2: misused, 3: too few questions got a reply."""
    try:
        return _gate(arguments)
    except (ConfigError, items.BadSet, targets.BadTarget, baseline.BadBaseline, OSError) as error:
        raise Misused(str(error)) from error


def _gate(arguments: argparse.Namespace) -> int:
    before = baseline.load(arguments.baseline) if arguments.baseline else None
    asked = items.read_set(arguments.set)
    asker = running.Asker(
        _target(arguments), running.AskPolicy(arguments.timeout, arguments.retries, arguments.parallel)
    )
    judge = _judge(arguments)
    scorer = Scorer(judge, arguments.k)
    results = tuple(running.run(asked, asker, scorer, _told))
    run = baseline.Run(results, arguments.k, judge.identifier, arguments.app_version)
    if before is not None:
        baseline.check_comparable(before, run)
    found = verdict.decide(
        run,
        makeup.makeup(asked),
        before,
        alpha=arguments.alpha,
        broken_anchors=anchors.broken(asked, anchors.read_corpus(arguments.corpus)) if arguments.corpus else (),
        noise=noise.noise_curve(asked, arguments.noise, asker, scorer) if arguments.noise else (),
    )
    if arguments.save_baseline:
        baseline.save(arguments.save_baseline, run)
    text = report.markdown(found)
    for path in arguments.report:
        path.write_text(report.page(text) if path.suffix == ".html" else text, encoding="utf-8")
    emit(asdict(found), arguments.json, lambda: report.markdown(found, most_items=arguments.worst))
    return _EXIT[found.decision]


def _target(arguments: argparse.Namespace) -> targets.Target:
    if arguments.url:
        return targets.HttpTarget(arguments.url)
    if arguments.command:
        return targets.CommandTarget(arguments.command)
    found_here_too()
    return targets.PythonTarget(arguments.python)


def _judge(arguments: argparse.Namespace) -> Judge:
    return LocalJudge() if arguments.judge == "local" else configured_model(arguments.config)


def _told(done: int, total: int) -> None:
    if done == total or done % 50 == 0:
        say(f"asked {done} of {total}")
