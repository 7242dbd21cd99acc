"""The `groundwatch` command: results on stdout, the rest on stderr; exit 0 done, 1 failed, 2 misused."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

DONE, FAILED, MISUSED = 0, 1, 2


EXTRAS = {"psycopg": "postgres", "kafka": "kafka", "grpc": "grpc", "langfuse": "langfuse"}
"""What is imported when the configuration asks for it, and the extra that brings it."""


def not_installed(module: str) -> str:
    return f'{module} is not installed; run: pip install "groundwatch[{EXTRAS[module]}]"'


class Misused(Exception):
    """The command line or the configuration cannot be used; the message says what is accepted."""


class Failed(Exception):
    """The command was understood but did not succeed; the message says why."""


def say(text: str) -> None:
    """Progress and remarks go to stderr, so that stdout holds results only."""
    print(text, file=sys.stderr, flush=True)


def emit(result: Any, as_json: bool, text: Callable[[], str]) -> None:
    """Print a result: one JSON line, or the text for people."""
    print(json.dumps(result, ensure_ascii=False, allow_nan=False) if as_json else text(), flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = _parser().parse_args(argv)
    code = FAILED
    try:
        module, function = arguments.run.rsplit(".", 1)
        command = getattr(_load(module, arguments.extra), function)
        return int(command(arguments) or DONE)
    except Misused as error:
        code, said = MISUSED, str(error)
    except KeyboardInterrupt:
        said = "interrupted"
    except BrokenPipeError:
        return FAILED
    except Exception as error:
        said = _in_words(error)
        if not said:
            raise
    say(f"groundwatch: {said}")
    return code


def _in_words(error: Exception) -> str:
    """What to say instead of a traceback; "" for a fault of ours."""
    if isinstance(error, Failed):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        missing = (error.name or "").partition(".")[0]
        return not_installed(missing) if missing in EXTRAS else ""
    if "sqlalchemy" not in sys.modules:  # the SDK alone is installed, or nothing has asked a database
        return ""
    found: str = importlib.import_module("groundwatch_deploy.data_trouble").in_words(error)
    return found


def _load(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(f"groundwatch_deploy.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("groundwatch"):
            raise
        raise Failed(f'{error.name} is not installed; run: pip install "groundwatch[{extra}]"') from error


def installed_version() -> str:
    try:
        return version("groundwatch")
    except PackageNotFoundError:
        return "unknown (not installed)"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="groundwatch",
        description="How good are the answers of your RAG application right now, why do they fail, "
        "and which failures become test cases.",
        epilog="exit codes: 0 done, 1 failed, 2 misused",
    )
    parser.add_argument("--version", action="version", version=f"groundwatch {installed_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in (
        _serve,
        _demo,
        _replay,
        _inspect,
        _ledger,
        _doctor,
        _rules,
        _key,
        _user,
        _audit,
        _calibrate,
        _redact,
        _export,
        _send,
        _evaluations,
        _erase,
        _move,
        _compare,
        _estimate,
        _gate,
        _size,
    ):
        add(commands)
    return parser


def _command(commands: Any, name: str, run: str, text: str, extra: str = "monitor") -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    command.set_defaults(run=run, extra=extra)
    command.add_argument("--json", action="store_true", help="print the result as one JSON line")
    return command


def _with_config(command: argparse.ArgumentParser) -> None:
    command.add_argument("--config", type=Path, metavar="FILE", help="groundwatch.toml (default: built-in defaults)")


def _with_server_options(command: argparse.ArgumentParser) -> None:
    _with_config(command)
    command.add_argument("--data-dir", type=Path, metavar="DIR", help="where the span log and the database live")


def _with_port_options(command: argparse.ArgumentParser) -> None:
    for port, text in (("ingest", "OTLP/HTTP"), ("console", "the console"), ("metrics", "Prometheus metrics")):
        command.add_argument(f"--{port}-port", type=int, metavar="PORT", help=f"port of {text}; 0 takes any free one")


def _serve(commands: Any) -> None:
    command = _command(commands, "serve", "serve.command", "run the monitor, all in one process")
    _with_server_options(command)
    _with_port_options(command)
    command.add_argument(
        "--role",
        action="append",
        default=[],
        metavar="ROLE",
        help="collector, scorer, console or exporter, repeatable",
    )
    command.add_argument("--judge-everything", action="store_true", help="judge every trace: for a first look")
    command.add_argument("--check", action="store_true", help="check the configuration and stop")


def _demo(commands: Any) -> None:
    text = "a real RAG app, a bad deploy, and what Groundwatch says of it"
    command = _command(commands, "demo", "demo_command.command", text, "demo")
    command.add_argument("--headless", action="store_true", help="no console; run the story and stop")
    command.add_argument("--incident", metavar="NAME", help="rerank-cut, invented-numbers or over-refusal")
    command.add_argument("--seed", type=int, default=7, help="of the demo's traffic (default 7)")
    command.add_argument("--healthy-requests", type=int, metavar="N", help="requests before the bad deploy")
    command.add_argument("--incident-requests", type=int, metavar="N", help="requests after it")
    command.add_argument("--console-port", type=int, default=4390, metavar="PORT")
    command.add_argument("--data-dir", type=Path, metavar="DIR", help="keep the data here (default: temporary)")
    command.add_argument("--llm", action="store_true", help="answer with the model at OPENAI_BASE_URL")


def _replay(commands: Any) -> None:
    text = "read recorded OTLP (JSON lines of the Collector's file exporter, or protobuf) through the whole monitor"
    command = _command(commands, "replay", "replay.command", text)
    command.add_argument("files", nargs="+", type=Path, metavar="FILE", help="*.jsonl, *.json or *.pb, also .gz")
    _with_server_options(command)


def _inspect(commands: Any) -> None:
    text = "what was understood of a trace, field by field, with sources, and what is missing"
    command = _command(commands, "inspect", "inspect_command.command", text)
    command.add_argument(
        "what", metavar="FILE|TRACE_ID", help="recorded OTLP, or the id of a trace that was received"
    )
    _with_server_options(command)


def _ledger(commands: Any) -> None:
    text = "account for every trace: received = judged + not sampled + skipped + waiting + lost"
    _with_server_options(_command(commands, "ledger", "ledger_report.command", text))


def _doctor(commands: Any) -> None:
    text = "check a deployment: endpoint, key, clocks, disk, database, span log, judge; exit 1 when a check fails"
    command = _command(commands, "doctor", "doctor.command", text)
    _with_server_options(command)
    _with_port_options(command)
    command.add_argument("--endpoint", metavar="URL", help="check only this ingest address, as a sender would")
    command.add_argument("--ca", type=Path, metavar="FILE", help="PEM authority of the ingest door's certificate")
    command.add_argument("--client-certificate", type=Path, metavar="FILE", help="PEM, where the door asks for one")
    command.add_argument("--client-key", type=Path, metavar="FILE", help="PEM key of --client-certificate")


def _rules(commands: Any) -> None:
    text = "Prometheus rules and Alertmanager configuration from the objectives in groundwatch.toml"
    group = commands.add_parser("rules", help=text, description=text)
    actions = group.add_subparsers(title="actions", metavar="ACTION", required=True)
    render = _command(actions, "render", "rules_command.render", "write the rule files, or print them")
    _with_config(render)
    render.add_argument("--out", type=Path, metavar="DIR", help="folder to write into (default: stdout)")
    check = _command(actions, "check", "rules_command.check", "check the rules; exit 1 when something is wrong")
    _with_config(check)
    text = "freeze the last days of an app anew, after a change that is accepted"
    baseline = _command(actions, "baseline", "rules_command.baseline", text)
    _with_server_options(baseline)
    baseline.add_argument("--app", required=True, metavar="APP", help="its service.name")
    baseline.add_argument("--criterion", default="any_failure", metavar="NAME", help="default any_failure")
    baseline.add_argument("--days", type=float, default=7.0, metavar="N", help="days to learn from (default 7)")
    text = "how often each alert would have fired on what the database holds"
    preview = _command(actions, "preview", "rules_command.preview", text)
    _with_server_options(preview)
    preview.add_argument("--days", type=float, default=28.0, metavar="N", help="days to look at (default 28)")


def _key(commands: Any) -> None:
    command = _command(commands, "key", "key_command.command", "make a write-only ingest key; only its hash is kept")
    command.add_argument("name", metavar="NAME", help="the project whose traces are sent with it")


def _user(commands: Any) -> None:
    text = "who may log in to the console, and as what"
    group = commands.add_parser("user", help=text, description=text)
    actions = group.add_subparsers(title="actions", metavar="ACTION", required=True)
    by_hand = "read the password from the standard input instead of making a random one"
    for name, text in (
        ("add", "make a user; the password is shown once"),
        ("change", "give other roles; the user's sessions end"),
        ("password", "give another password, shown once; the user's sessions end"),
        ("remove", "remove a user; records keep the identifier"),
    ):
        command = _command(actions, name, f"user_command.{name}", text)
        command.add_argument("name", metavar="NAME")
        _with_server_options(command)
        if name in ("add", "password"):
            command.add_argument("--password-stdin", action="store_true", help=by_hand)
        if name in ("add", "change"):
            roles = "viewer, reviewer, exporter or admin; may be repeated"
            command.add_argument("--role", action="append", default=[], metavar="ROLE", help=roles)
            how = argparse.BooleanOptionalAction if name == "change" else "store_true"
            grant = "may read the hold-out set whatever the role"
            command.add_argument("--holdout", action=how, help=grant)
        if name == "remove":
            command.add_argument("--last", action="store_true", help="even the last admin")
    _with_server_options(_command(actions, "list", "user_command.listed", "print the users"))


def _audit(commands: Any) -> None:
    text = "the audit trail: who read raw text, decided, exported, erased"
    group = commands.add_parser("audit", help=text, description=text)
    actions = group.add_subparsers(title="actions", metavar="ACTION", required=True)
    text = "check the chain and name the first broken link; exit 1 when there is one"
    verify = _command(actions, "verify", "audit_command.verify", text)
    _with_server_options(verify)
    noted = "number and digest that an earlier verify printed: is that entry still there?"
    verify.add_argument("--noted", default="", metavar="NUMBER:DIGEST", help=noted)
    listed = _command(actions, "list", "audit_command.listed", "print entries, the newest last")
    _with_server_options(listed)
    listed.add_argument("--about", default="", metavar="ID", help="of a trace, candidate or user")
    listed.add_argument("--action", action="append", default=[], metavar="NAME", help="only these; may be repeated")
    listed.add_argument("--limit", type=_at_least_one, default=100, metavar="N", help="at most (default 100)")


def _calibrate(commands: Any) -> None:
    command = _command(commands, "calibrate", "calibrate.command", "measure a judge against labelled data")
    command.add_argument("--data", type=Path, required=True, metavar="FILE", help="labelled cases, *.jsonl[.gz]")
    command.add_argument("--judge", choices=("local", "llm"), default="local")
    command.add_argument("--config", type=Path, metavar="FILE", help="groundwatch.toml with [judge] for --judge llm")
    page = "also write the report there, as HTML for *.html and else as Markdown; reads up to 50 cases six times more"
    command.add_argument("--report", type=Path, metavar="FILE", help=page)


def _redact(commands: Any) -> None:
    command = _command(commands, "redact", "redact.command", "redact a text or JSON file, or measure the redaction")
    command.add_argument("file", nargs="?", type=Path, metavar="FILE")
    command.add_argument("--evaluate", type=Path, metavar="FILE", help="labelled rows, *.jsonl or *.jsonl.gz")
    command.add_argument("--rules-only", action="store_true", help="measure without the models of the extra ner")
    unseen = "measure as if no list held a name of FILE: how names that nobody listed are found"
    command.add_argument("--unseen-names", action="store_true", help=unseen)


def _export(commands: Any) -> None:
    text = "write the confirmed, redacted candidates as JSON lines or in the format of another tool"
    command = _command(commands, "export", "export_command.command", text)
    command.add_argument("file", type=Path, metavar="FILE")
    formats = "jsonl, langfuse, ragas, deepeval, langsmith, openai-evals, promptfoo, phoenix, csv"
    command.add_argument("--format", default="jsonl", metavar="NAME", help=f"{formats} (default: jsonl)")
    command.add_argument("--holdout", type=Path, metavar="FILE", help="the hold-out set, to a file of its own")
    _with_server_options(command)


def _send(commands: Any) -> None:
    text = "have the confirmed, redacted candidates in Langfuse, and take back what may no longer be there"
    command = _command(commands, "send", "export_send.command", text)
    command.epilog = "keys: LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY in the environment"
    command.add_argument("tool", choices=("langfuse",))
    command.add_argument("--url", required=True, metavar="URL", help="address of Langfuse")
    command.add_argument("--holdout", action="store_true", help="the hold-out set too, in a dataset of its own")
    command.add_argument("--scores", action="store_true", help="verdicts too, on traces that have the same ids there")
    command.add_argument("--retry-failed", action="store_true", help="try again what was refused or given up")
    many = "take back more than ten and half of what was sent"
    command.add_argument("--remove-many", action="store_true", help=many)
    command.add_argument("--timeout", type=float, default=20.0, metavar="SECONDS", help="of one call (default 20)")
    _with_server_options(command)


def _evaluations(commands: Any) -> None:
    text = "send the verdicts as OpenTelemetry events (gen_ai.evaluation.result) to where the spans are looked at"
    command = _command(commands, "evaluations", "evaluations_command.command", text)
    command.epilog = "keys: OTEL_EXPORTER_OTLP_HEADERS in the environment"
    command.add_argument("--endpoint", required=True, metavar="URL", help="an OTLP/HTTP receiver that takes logs")
    command.add_argument("--after", type=int, default=0, metavar="ID", help="only verdicts after this one")
    command.add_argument("--with-explanations", action="store_true", help="reasons too, which quote what users wrote")
    _with_server_options(command)


def _compare(commands: Any) -> None:
    text = "compare two versions on live traffic, by criterion; may be asked at any time"
    command = _command(commands, "compare", "compare_command.command", text)
    command.add_argument("a", nargs="?", default="", metavar="A", help="the older version (default: the one before)")
    command.add_argument("b", nargs="?", default="", metavar="B", help="the newer version (default: the newest)")
    command.add_argument("--app", default="", metavar="NAME", help="the application, where there are several")
    command.add_argument("--criterion", default="", metavar="NAME", help="only this one")
    command.add_argument("--judge", default="", metavar="NAME", help="whose verdicts (default: the most used judge)")
    _with_server_options(command)


def _estimate(commands: Any) -> None:
    text = "the failure rate of all traffic by criterion, also corrected for the judge's errors where labels suffice"
    command = _command(commands, "estimate", "estimate_command.command", text)
    command.add_argument("--app", default="", metavar="NAME", help="the application, where there are several")
    command.add_argument("--judge", default="", metavar="NAME", help="whose verdicts (default: the most used judge)")
    command.add_argument("--days", type=float, default=7.0, metavar="N", help="days to look at (default 7)")
    _with_server_options(command)


def _erase(commands: Any) -> None:
    text = "forget what somebody wrote: texts, verdicts' reasons, feedback and candidates of a trace or a person"
    command = _command(commands, "erase", "erase_command.command", text)
    command.add_argument("--trace", action="append", default=[], metavar="ID", help="trace id; may be repeated")
    command.add_argument("--subject", default="", metavar="USER", help="the user as recorded with the traces")
    again = "everything that was erased before: after a backup was restored"
    command.add_argument("--again", action="store_true", help=again)
    _with_server_options(command)


def _move(commands: Any) -> None:
    text = "take the rows of a stopped process with SQLite into the empty database of a cluster"
    command = _command(commands, "move", "move_command.command", text)
    command.add_argument("--data-dir", type=Path, required=True, metavar="DIR", help="of the old process")
    command.add_argument("--config", type=Path, required=True, metavar="FILE", help="of the new deployment")


def _gate(commands: Any) -> None:
    text = "ask the next version of the application the regression set; block it on a significant drop"
    command = _command(commands, "gate", "gate.command", text)
    command.epilog = "exit codes: 0 passed or measured, 1 blocked, 2 misused, 3 too few questions got a reply"
    command.add_argument("--set", type=Path, required=True, metavar="FILE", help="candidates of `groundwatch export`")
    target = command.add_mutually_exclusive_group(required=True)
    target.add_argument("--url", metavar="URL", help="POST each question there as JSON")
    target.add_argument("--command", metavar="COMMAND", help="run this for each question, JSON in and out")
    target.add_argument("--python", metavar="MODULE:FUNCTION", help="call this for each question")
    command.add_argument("--baseline", type=Path, metavar="FILE", help="a saved run to compare with")
    command.add_argument("--save-baseline", type=Path, metavar="FILE", help="save this run")
    command.add_argument(
        "--report", type=Path, action="append", default=[], metavar="FILE", help="*.md or *.html, repeatable"
    )
    worst = "items that got worst to print (default 10); --json and --report have them all"
    command.add_argument("--worst", type=_at_least_one, default=10, metavar="N", help=worst)
    command.add_argument("--app-version", default="", metavar="NAME", help="kept with the saved run")
    command.add_argument(
        "--corpus", type=Path, metavar="FILE", help="documents as JSON lines: is the evidence there?"
    )
    command.add_argument("--noise", type=_counts, default=(), metavar="N,N", help="a noise curve, like 0,4,16")
    command.add_argument("--k", type=_at_least_one, default=5, metavar="N", help="retrieved passages that count")
    command.add_argument("--alpha", type=_fraction, default=0.05, help="chance that noise blocks (default 0.05)")
    command.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="of one try (default 60)")
    command.add_argument("--retries", type=int, choices=range(6), default=1, help="of each question (default 1)")
    command.add_argument("--parallel", type=_at_least_one, default=4, metavar="N", help="questions at a time")
    command.add_argument("--judge", choices=("local", "llm"), default="local")
    command.add_argument("--config", type=Path, metavar="FILE", help="groundwatch.toml with [judge] for --judge llm")


def _size(commands: Any) -> None:
    command = _command(commands, "size", "sizing.command", "how big a deployment must be, from measured costs")
    command.add_argument("--traces-per-second", type=float, required=True, metavar="N")
    command.add_argument("--trace-kb", type=float, default=27.0, metavar="KB", help="of one trace (default 27)")
    command.add_argument("--judged-per-day", type=float, default=1_000.0, metavar="N", help="default 1000")
    command.add_argument("--usd-per-judged-trace", type=float, default=0.0, metavar="USD", help="of an LLM judge")
    command.add_argument("--log-days", type=float, default=7.0, metavar="DAYS", help="of raw traces (default 7)")
    command.add_argument("--ledger-days", type=float, default=30.0, metavar="DAYS", help="of the ledger (default 30)")


def _counts(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected 1 or more")
    return number


def _fraction(text: str) -> float:
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a number above 0 and below 1")
    return value


if __name__ == "__main__":
    sys.exit(main())
