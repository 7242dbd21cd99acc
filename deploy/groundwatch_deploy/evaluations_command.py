"""`groundwatch evaluations`: send the verdicts as OpenTelemetry events to where the spans are looked at."""

from __future__ import annotations

import argparse
import contextlib
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from email.message import Message
from typing import IO
from urllib.parse import urlsplit

from opentelemetry.util.re import parse_env_headers
from sqlalchemy import Connection, Row, select

from groundwatch_collector.ragtrace import from_json
from groundwatch_collector.storage import open_engine, reader
from groundwatch_collector.tables import sampled_traces
from groundwatch_deploy.cli import Failed, Misused, emit
from groundwatch_deploy.config import ConfigError
from groundwatch_deploy.data_trouble import explained
from groundwatch_deploy.desk_database import ACTOR, opened
from groundwatch_deploy.settings import Settings, load
from groundwatch_review.audit import Action
from groundwatch_scorer.evaluation_events import Evaluation, request
from groundwatch_scorer.tables import judgements

BATCH = 200
TIMEOUT_SECONDS = 10
LOGS_PATH = "/v1/logs"

Post = Callable[[bytes], None]


class NotTaken(Exception):
    """The receiver did not take a batch; the message says why, without the address."""


def command(arguments: argparse.Namespace) -> int:
    """Send every judgement after ``--after``, in order; exit 1 when the receiver does not take one."""
    try:
        settings = load(arguments.config, data_directory=arguments.data_dir)
    except ConfigError as error:
        raise Misused(str(error)) from error
    folder = settings.server.data_directory
    if not settings.server.has_database:
        raise Misused(f"{folder}: no database here; give the monitor's data directory with --data-dir")
    post = poster(logs_url(arguments.endpoint), os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", ""))
    if arguments.with_explanations:  # they quote what users wrote
        with opened(arguments) as desk:
            desk.trail.append(ACTOR, Action.EXPORT, detail="evaluations with explanations")
    sent, last, trouble = _send_all(settings, post, arguments.after, arguments.with_explanations)
    result = {"sent": sent, "last_id": last}
    emit(result, arguments.json, lambda: f"{sent} verdicts sent; the next ones: --after {last}")
    if trouble:
        raise Failed(f"the receiver did not take what comes after id {last}: {trouble}")
    return 0


def logs_url(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Misused("--endpoint must be http://HOST:PORT or https://HOST:PORT, of an OTLP receiver that takes logs")
    return endpoint.rstrip("/").removesuffix(LOGS_PATH) + LOGS_PATH


def _send_all(settings: Settings, post: Post, after: int, explanations: bool) -> tuple[int, int, str]:
    """How many were sent, the last id, and what stopped it ("" when nothing did)."""
    sent = 0
    try:
        with explained(settings.server), _connection(settings.server.url) as connection:
            for batch in _batches(connection, after):
                post(request(batch, explanations=explanations).SerializeToString())
                sent, after = sent + len(batch), batch[-1].id
    except NotTaken as trouble:
        return sent, after, str(trouble)
    except ConfigError as error:
        raise Misused(str(error)) from error
    return sent, after, ""


@contextlib.contextmanager
def _connection(url: str) -> Iterator[Connection]:
    engine = open_engine(url)
    try:
        with reader(engine).connect() as connection:
            yield connection
    finally:
        engine.dispose()


def _batches(connection: Connection, after: int) -> Iterator[Sequence[Evaluation]]:
    columns = (judgements, sampled_traces.c.payload, sampled_traces.c.inclusion_probability)
    joined = judgements.join(sampled_traces, sampled_traces.c.trace_id == judgements.c.trace_id)
    while True:
        query = select(*columns).select_from(joined).where(judgements.c.id > after).order_by(judgements.c.id)
        found = [_evaluation(row) for row in connection.execute(query.limit(BATCH))]
        if not found:
            return
        yield found
        after = found[-1].id


def _evaluation(row: Row[tuple[object, ...]]) -> Evaluation:
    return Evaluation(
        id=row.id,
        trace=from_json(row.payload),
        inclusion_probability=row.inclusion_probability,
        criterion=row.criterion,
        label=row.label,
        score=row.score,
        explanation=row.explanation,
        annotator_kind=row.annotator_kind,
        identifier=row.identifier,
        judged_at=row.judged_at,
    )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A POST that is redirected would become a GET without its body."""

    def redirect_request(  # noqa: PLR0917 (the signature is the standard library's)
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


def poster(url: str, headers: str) -> Post:
    """Post OTLP to *url* with *headers* as ``OTEL_EXPORTER_OTLP_HEADERS`` spells them."""
    opener = urllib.request.build_opener(_NoRedirect)
    known = {**parse_env_headers(headers, liberal=True), "content-type": "application/x-protobuf"}

    def post(body: bytes) -> None:
        sending = urllib.request.Request(url, data=body, headers=known, method="POST")  # noqa: S310 (checked above)
        try:
            with opener.open(sending, timeout=TIMEOUT_SECONDS) as answer:
                answer.read(65_536)
        except urllib.error.HTTPError as error:
            error.close()
            raise NotTaken(f"HTTP {error.code}") from error
        except OSError as error:
            raise NotTaken(type(error).__name__) from error

    return post
