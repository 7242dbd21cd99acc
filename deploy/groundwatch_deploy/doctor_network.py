"""Checks of `groundwatch doctor` that talk to a monitor as its senders and readers do. Standard library only."""

from __future__ import annotations

import email.utils
import http.client
import secrets
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from groundwatch_deploy.findings import Finding, fail, ok, warn

TIMEOUT_SECONDS = 5.0
SKEW_WARN_SECONDS = 2.0  # the Date header has whole seconds
SKEW_FAIL_SECONDS = 60.0
BACKLOG_WARN_BYTES = 64 * 1024 * 1024  # more than a few seconds of work
BACKLOG_WARN_RECORDS = 10_000  # likewise, of a topic
_PROTOBUF = {"Content-Type": "application/x-protobuf"}  # a body of no bytes is an empty OTLP request


class Unreachable(Exception):
    """Nothing answered; the message says why."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes
    asked_at: float  # Unix seconds by our clock
    answered_at: float


def ask(
    url: str,
    *,
    data: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    context: ssl.SSLContext | None = None,
    now: Callable[[], float] = time.time,
) -> Reply:
    """One request, not through a proxy and not redirected. Raises :class:`Unreachable`."""
    request = urllib.request.Request(url, data=data, headers=dict(headers or {}))  # noqa: S310 (checked by the caller)
    handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context), _NoRedirect()]
    opener = urllib.request.build_opener(*handlers)
    asked_at = now()
    try:
        with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            return Reply(answer.status, dict(answer.headers.items()), answer.read(), asked_at, now())
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, dict(error.headers.items()), error.read(), asked_at, now())
    except urllib.error.URLError as error:
        raise Unreachable(str(getattr(error.reason, "strerror", None) or error.reason)) from None
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(str(error) or type(error).__name__) from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def tls_context(trusted: Path | None, certificate: Path | None = None, key: Path | None = None) -> ssl.SSLContext:
    """Trust the system's authorities and *trusted* (which may be the server's own certificate)."""
    context = ssl.create_default_context()
    if trusted is not None:
        context.load_verify_locations(trusted)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    return context


@dataclass(frozen=True, slots=True)
class IngestDoor:
    """Where senders post, and with what."""

    url: str
    key: str = ""
    asks_key: bool | None = None  # by the configuration; None: not known here
    context: ssl.SSLContext | None = None


def check_ingest(door: IngestDoor, now: Callable[[], float] = time.time) -> list[Finding]:
    """The endpoint, the key and the clock, by an empty OTLP request: it leaves nothing behind."""
    headers = _PROTOBUF | ({"Authorization": f"Bearer {door.key}"} if door.key else {})
    try:
        reply = ask(f"{door.url}/v1/traces", data=b"", headers=headers, context=door.context, now=now)
    except Unreachable as reason:
        advice = "start the monitor with `groundwatch serve`, or correct the address"
        if "certificate" in str(reason).lower() or "SSL" in str(reason):
            advice = (
                "give the authority with --ca, and --client-certificate and --client-key where the door asks for it"
            )
        return [fail("endpoint", f"{door.url} does not answer: {reason}", advice)]
    return [_endpoint(door, reply), _key(door, reply), _clock(reply)]


def _endpoint(door: IngestDoor, reply: Reply) -> Finding:
    if reply.status in (200, 401):
        return ok("endpoint", f"{door.url}/v1/traces answers in {(reply.answered_at - reply.asked_at) * 1e3:.0f} ms")
    if reply.status in (429, 503):
        return fail(
            "endpoint", f"{door.url}/v1/traces answers {reply.status}", f"look at {door.url}/readyz and at the disk"
        )
    return fail(
        "endpoint",
        f"{door.url}/v1/traces answers {reply.status} to an empty OTLP request",
        "check that this is Groundwatch's ingest address (default port 4318), not another service",
    )


def _key(door: IngestDoor, reply: Reply) -> Finding:
    if not door.key:
        if reply.status == 401:
            return warn("key", "a key is asked for, none was tried", "set GROUNDWATCH_INGEST_KEY and run this again")
        return ok("key", "no key is asked for")
    if reply.status == 401:
        return fail("key", "the key is refused", "make one with `groundwatch key NAME` and configure its hash")
    wrong = _PROTOBUF | {"Authorization": f"Bearer {secrets.token_urlsafe(8)}"}
    try:
        other = ask(f"{door.url}/v1/traces", data=b"", headers=wrong, context=door.context)
    except Unreachable as reason:
        return warn("key", f"the key is accepted; a wrong one was not answered: {reason}", "run this again")
    if other.status == 401:
        return ok("key", "the key is accepted and a wrong one is refused")
    return warn("key", "any key is accepted: none is configured", "set [server] ingest_keys, or send no key")


def _clock(reply: Reply) -> Finding:
    stamp = next((value for name, value in reply.headers.items() if name.lower() == "date"), "")
    try:
        told = email.utils.parsedate_to_datetime(stamp).timestamp()
    except ValueError:
        return warn("clock", "the answer has no readable Date", "compare the clocks of sender and monitor by hand")
    # The server's moment lies in [told, told + 1) and in [asked_at, answered_at].
    skew = max(0.0, told - reply.answered_at, reply.asked_at - (told + 1.0))
    found = f"the clocks differ by {'less than 1 s' if skew == 0 else f'about {skew:.0f} s'}"
    if skew <= SKEW_WARN_SECONDS:
        return ok("clock", found)
    advice = "synchronise the clocks of sender and monitor (NTP); times of spans come from the sender"
    return (fail if skew > SKEW_FAIL_SECONDS else warn)("clock", found, advice)


def check_grpc(url: str) -> Finding:
    """Whether anything listens; the HTTP check has tried key and certificate already."""
    trouble = trouble_connecting(url.partition("//")[2])
    if trouble:
        return fail("grpc", f"{url} does not answer: {trouble}", "look at what `groundwatch serve` said")
    return ok("grpc", f"{url} takes connections")


def check_kafka(bootstrap_servers: str) -> Finding:
    """Whether one of the brokers listens."""
    troubles = {}
    for server in (part.strip() for part in bootstrap_servers.split(",")):
        troubles[server] = trouble_connecting(server)
        if not troubles[server]:
            return ok("kafka", f"{server} takes connections")
    found = "; ".join(f"{server}: {trouble}" for server, trouble in troubles.items())
    return fail("kafka", f"no broker answers ({found})", "start the broker, or correct [kafka] bootstrap_servers")


def trouble_connecting(address: str) -> str:
    """Why ``HOST:PORT`` takes no connection; "" when it does."""
    try:
        place = urllib.parse.urlsplit(f"//{address}")
        with socket.create_connection((place.hostname or "", place.port or 0), TIMEOUT_SECONDS):
            return ""
    except (OSError, ValueError) as error:
        return str(getattr(error, "strerror", None) or error)


def check_console(url: str, context: ssl.SSLContext | None = None) -> Finding:
    return _page("console", f"{url}/healthz", context)


def check_metrics(url: str) -> list[Finding]:
    """Reachability, and what the running monitor says of its log and pipeline."""
    try:
        reply = ask(f"{url}/metrics")
    except Unreachable as reason:
        return [fail("metrics", f"{url}/metrics does not answer: {reason}", "look at what `groundwatch serve` said")]
    values = _samples(reply.body.decode(errors="replace"))
    over_kafka = "groundwatch_kafka_lag_records" in values and "groundwatch_log_bytes" not in values
    if reply.status != 200 or not (over_kafka or "groundwatch_log_bytes" in values):
        return [fail("metrics", f"{url}/metrics answers {reply.status} without our metrics", "check the address")]
    answers = ok("metrics", f"{url}/metrics answers with {len(values)} kinds of samples")
    return [answers, *((_topic(values), _lag(values)) if over_kafka else (_log(values), _backlog(values)))]


def _topic(values: Mapping[str, float]) -> Finding:
    if values.get("groundwatch_kafka_in_trouble"):
        return fail("span log", "the broker takes nothing at the moment", "look at the broker; /readyz says why")
    lost = values.get("groundwatch_kafka_lost_records", 0)
    if lost:
        advice = "raise the topic's retention: the broker deleted them before they were decided"
        return fail("span log", f"{lost:.0f} records of the topic are lost", advice)
    return ok("span log", "the topic takes records")


def _lag(values: Mapping[str, float]) -> Finding:
    unread = values["groundwatch_kafka_lag_records"]
    found = f"{unread:.0f} records of the topic are not read yet"
    if unread > BACKLOG_WARN_RECORDS:
        return warn("pipeline", found, "watch groundwatch_kafka_lag_records; if it grows, start another collector")
    return ok("pipeline", found)


def _log(values: Mapping[str, float]) -> Finding:
    if values.get("groundwatch_log_in_trouble"):
        return fail("span log", "appends fail at the moment", "free disk space; /readyz of the ingest port says why")
    damaged = values.get("groundwatch_log_damaged_bytes", 0)
    if damaged:
        return warn(
            "span log", f"{damaged:.0f} bytes could not be read", "check the disk; the log names the position"
        )
    used, most = values["groundwatch_log_bytes"], values.get("groundwatch_log_bytes_max", 0)
    if most and used > 0.9 * most:
        return warn("span log", f"{used / most:.0%} of its bound is used", "raise [server] log_max_bytes")
    return ok("span log", f"takes records; {used / 2**20:.1f} MiB")


def _backlog(values: Mapping[str, float]) -> Finding:
    return backlog(
        values.get("groundwatch_pipeline_backlog_bytes", 0), values.get("groundwatch_pipeline_failures", 0)
    )


def backlog(unread: float, failures: float = 0) -> Finding:
    found = f"{unread / 2**20:.1f} MiB of the span log are not read yet"
    if unread > BACKLOG_WARN_BYTES:
        return warn(
            "pipeline", found, "watch groundwatch_pipeline_backlog_bytes; if it grows, this machine is too slow"
        )
    if failures:
        advice = "look into the monitor's log: steps that failed are tried again, nothing is lost"
        return warn("pipeline", f"{found}; {failures:.0f} steps failed", advice)
    return ok("pipeline", found)


def _page(check: str, url: str, context: ssl.SSLContext | None = None) -> Finding:
    try:
        status = ask(url, context=context).status
    except Unreachable as reason:
        return fail(check, f"{url} does not answer: {reason}", "look at what `groundwatch serve` said")
    return (
        ok(check, f"{url} answers") if status == 200 else fail(check, f"{url} answers {status}", "check the address")
    )


def _samples(text: str) -> dict[str, float]:
    """Sums over the labels of each sample name."""
    sums: dict[str, float] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name = line.partition("{")[0].partition(" ")[0].removesuffix("_total")
            sums[name] = sums.get(name, 0.0) + float(line.rpartition(" ")[2])
    return sums
