"""Settings of the SDK: explicit argument, then ``GROUNDWATCH_*``, then ``OTEL_*``, then the default."""

from __future__ import annotations

import base64
import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast, get_args
from urllib.parse import unquote, urlsplit

from groundwatch import feedback_signing, names

ContentMode = Literal["none", "ids", "text"]
Protocol = Literal["http/protobuf", "grpc"]
Compression = Literal["none", "gzip"]
Redact: TypeAlias = Callable[[str], str]

TRACES_PATH = "/v1/traces"
FEEDBACK_PATH = "/v1/feedback"


class ConfigurationError(ValueError):
    """``configure()`` was called with something it cannot use. The only error that the SDK raises."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What ``configure()`` decided, checked whole."""

    service: str
    version: str
    environment: str
    traces_url: str
    feedback_url: str  # "" when it cannot be derived (gRPC without feedback_endpoint)
    protocol: Protocol
    headers: Mapping[str, str]
    compression: Compression
    capture_content: ContentMode
    redact: Redact | None
    max_text_chars: int  # per text; what is cut is marked
    max_documents: int  # documents of a list that carry their text; ids and scores go on to MAX_LISTED
    max_span_bytes: int
    max_batch_bytes: int
    queue_size: int  # requests waiting to be sent
    queue_bytes: int  # estimated bytes waiting to be sent
    export_timeout_seconds: float
    exit_timeout_seconds: float
    flush_at_sigterm: bool
    user_hash_key: bytes
    feedback_keys: tuple[bytes, ...] = field(default=(), repr=False)  # sign feedback tokens; empty: none are made
    resource: Mapping[str, str] = field(default_factory=dict)
    disabled: str = ""  # why nothing is recorded


def resolve(explicit: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """Merge *explicit* arguments (None = not given) with *environ*. Raises :class:`ConfigurationError`."""
    read = _Reader(explicit, environ)
    resource = _resource_attributes(environ.get("OTEL_RESOURCE_ATTRIBUTES", ""))
    service = read.text("service", "OTEL_SERVICE_NAME") or resource.get(names.SERVICE_NAME) or "unknown_service"
    destination = _destination(read)
    return Settings(
        service=service,
        version=read.text("version") or resource.get(names.SERVICE_VERSION, ""),
        environment=read.text("environment") or resource.get(names.DEPLOYMENT_ENVIRONMENT, ""),
        traces_url=destination.traces_url,
        feedback_url=destination.feedback_url,
        protocol=destination.protocol,
        headers=destination.headers,
        compression=cast("Compression", read.choice("compression", get_args(Compression), "none")),
        capture_content=cast("ContentMode", read.choice("capture_content", get_args(ContentMode), "ids")),
        redact=redact_hook(read.raw("redact")),
        max_text_chars=read.whole("max_text_chars", 16_384, least=1),
        max_documents=read.whole("max_documents", 50, least=0),
        max_span_bytes=read.whole("max_span_bytes", 256 * 1024, least=4096),
        max_batch_bytes=read.whole("max_batch_bytes", 2 * 1024 * 1024, least=4096),
        queue_size=read.whole("queue_size", 2048, least=1),
        queue_bytes=read.whole("queue_bytes", 64 * 1024 * 1024, least=4096),
        export_timeout_seconds=read.seconds("export_timeout_seconds", 3.0),
        exit_timeout_seconds=read.seconds("exit_timeout_seconds", 3.0),
        flush_at_sigterm=read.switch("flush_at_sigterm", True),
        user_hash_key=(read.text("user_hash_key") or f"groundwatch:{service}").encode("utf-8", "replace"),
        feedback_keys=_feedback_keys(read),
        resource=resource,
        disabled=_disabled(read, destination),
    )


@dataclass(frozen=True, slots=True)
class _Destination:
    """Where to send, and how. These belong together: headers of another destination may be its API keys."""

    traces_url: str
    feedback_url: str
    protocol: Protocol
    headers: Mapping[str, str]


def _destination(read: _Reader) -> _Destination:
    """A user and password in an address become a header: not every client under us takes them from there."""
    found = _addressed(read)
    traces_url, credentials = _without_credentials(found.traces_url)
    feedback_url, _same = _without_credentials(found.feedback_url)
    return _Destination(traces_url, feedback_url, found.protocol, {**credentials, **found.headers})


def _without_credentials(url: str) -> tuple[str, dict[str, str]]:
    parts = urlsplit(url)
    userinfo, found, host = parts.netloc.rpartition("@")
    if not found:
        return url, {}
    encoded = base64.b64encode(unquote(userinfo).encode()).decode()
    return parts._replace(netloc=host).geturl(), {"authorization": f"Basic {encoded}"}


def _addressed(read: _Reader) -> _Destination:
    own = read.text("endpoint")
    if own:
        return _own_destination(read, own)
    environ = read.environ
    full = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
    base = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    if not full and not base:
        return _Destination("", "", "http/protobuf", {})
    url = full or base
    source = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" if full else "OTEL_EXPORTER_OTLP_ENDPOINT"
    protocol = _protocol(read, _otel_protocol(environ))
    _check_url(url, protocol, source)
    traces_url = url if full or protocol == "grpc" else url.rstrip("/") + TRACES_PATH
    headers = environ.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS") or environ.get("OTEL_EXPORTER_OTLP_HEADERS", "")
    return _Destination(
        traces_url,
        _feedback_url(read, url, protocol),
        protocol,
        _headers(read, _parse_headers(headers, strict=False)),
    )


def _own_destination(read: _Reader, url: str) -> _Destination:
    protocol = _protocol(read, "http/protobuf")
    _check_url(url, protocol, "endpoint")
    base = url.rstrip("/").removesuffix(TRACES_PATH)
    traces_url = url if protocol == "grpc" else base + TRACES_PATH
    return _Destination(traces_url, _feedback_url(read, base, protocol), protocol, _headers(read, {}))


def _protocol(read: _Reader, default: Protocol) -> Protocol:
    protocol = cast("Protocol", read.choice("protocol", get_args(Protocol), default))
    if protocol == "grpc" and importlib.util.find_spec("grpc") is None:
        raise ConfigurationError(
            'protocol "grpc" needs a package that is not installed: pip install "groundwatch[grpc]"'
        )
    return protocol


def _otel_protocol(environ: Mapping[str, str]) -> Protocol:
    """The host's own choice. ``http/json`` receivers speak protobuf on the same port, so it maps to HTTP."""
    found = environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")
    return "grpc" if found.strip().lower() == "grpc" else "http/protobuf"


def _feedback_url(read: _Reader, base: str, protocol: Protocol) -> str:
    own = read.text("feedback_endpoint")
    if own:
        _check_url(own, "http/protobuf", "feedback_endpoint")
        return own.rstrip("/").removesuffix(FEEDBACK_PATH) + FEEDBACK_PATH
    if protocol == "grpc":
        return ""  # feedback is HTTP; a gRPC address says nothing about where that is
    return base.rstrip("/").removesuffix(TRACES_PATH) + FEEDBACK_PATH


def _check_url(url: str, protocol: Protocol, source: str) -> None:
    parts = urlsplit(url if "://" in url else f"//{url}")
    plain_host = protocol == "grpc" and "://" not in url
    if not parts.hostname or not (plain_host or parts.scheme in ("http", "https")):
        accepted = "http://HOST:PORT or https://HOST:PORT" + (" or HOST:PORT" if protocol == "grpc" else "")
        # The address may hold a password, so only its shape is repeated.
        found = f"scheme {parts.scheme!r}" if parts.scheme else "no scheme"
        raise ConfigurationError(f"{source} is not an address to send to: found {found}; accepted: {accepted}")


def _headers(read: _Reader, default: Mapping[str, str]) -> Mapping[str, str]:
    given = read.raw("headers")
    if given is None:
        return default
    if isinstance(given, str):
        return _parse_headers(given, strict=True)
    if not isinstance(given, Mapping) or not all(isinstance(k, str) and isinstance(v, str) for k, v in given.items()):
        raise ConfigurationError('headers must map names to values, both str; or be one str, "name=value,name=value"')
    return {key.lower(): value for key, value in given.items()}


def _parse_headers(text: str, *, strict: bool) -> dict[str, str]:
    headers = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, found, value = item.partition("=")
        if not found or not name.strip():
            if strict:  # the value may be a key, so it is not repeated
                raise ConfigurationError('headers has an entry that is not "name=value"; separate entries with ","')
            continue
        headers[name.strip().lower()] = unquote(value.strip())
    return headers


def _feedback_keys(read: _Reader) -> tuple[bytes, ...]:
    try:
        return feedback_signing.keys_of(read.text("feedback_key"))
    except ValueError as error:
        raise ConfigurationError(f"feedback_key: {error}") from error


def _resource_attributes(text: str) -> dict[str, str]:
    pairs = (item.partition("=") for item in text.split(","))
    return {key.strip(): unquote(value.strip()) for key, found, value in pairs if found and key.strip()}


def redact_hook(given: object) -> Redact | None:
    if given is None or given == "":
        return None
    if callable(given):
        return cast("Redact", given)
    if not isinstance(given, str) or ":" not in given:
        raise ConfigurationError(
            f'redact must be a function str -> str or "module:function"; found {type(given).__name__}'
        )
    module, _, attribute = given.partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"redact names {given!r}, which cannot be loaded: {error}") from error
    if not callable(function):
        raise ConfigurationError(f"redact names {given!r}, which is {type(function).__name__}, not a function")
    return cast("Redact", function)


def _disabled(read: _Reader, destination: _Destination) -> str:
    if read.flag("OTEL_SDK_DISABLED"):
        return "OTEL_SDK_DISABLED is set"
    if read.flag("GROUNDWATCH_DISABLED"):
        return "GROUNDWATCH_DISABLED is set"
    return "" if destination.traces_url else "no endpoint is configured; pass endpoint= or set GROUNDWATCH_ENDPOINT"


class _Reader:
    """One argument at a time, with a message that names where a bad value came from."""

    def __init__(self, explicit: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        self._explicit = explicit
        self.environ = environ

    def raw(self, name: str) -> Any:
        given = self._explicit.get(name)
        return given if given is not None else (self.environ.get(_variable(name)) or None)

    def _source(self, name: str) -> str:
        return name if self._explicit.get(name) is not None else _variable(name)

    def text(self, name: str, otel: str = "") -> str:
        value = self.raw(name)
        if value is None:
            value = self.environ.get(otel, "")
        if not isinstance(value, str):
            raise ConfigurationError(f"{self._source(name)} must be str; found {type(value).__name__}")
        return value.strip().encode("utf-8", "replace").decode()  # environments may hold lone surrogates

    def choice(self, name: str, accepted: tuple[str, ...], default: str) -> str:
        value = self.raw(name)
        if value is None:
            return default
        found = value.strip().lower() if isinstance(value, str) else value
        if found not in accepted:
            raise ConfigurationError(f"{self._source(name)} is {value!r}; accepted: {', '.join(accepted)}")
        return str(found)

    def whole(self, name: str, default: int, *, least: int) -> int:
        value = self._number(name, default)
        if value != int(value) or value < least:
            raise ConfigurationError(f"{self._source(name)} is {value:g}; accepted: a whole number from {least} up")
        return int(value)

    def seconds(self, name: str, default: float) -> float:
        value = self._number(name, default)
        if not 0 < value <= 600:
            raise ConfigurationError(f"{self._source(name)} is {value:g}; accepted: seconds in (0, 600]")
        return value

    def _number(self, name: str, default: float) -> float:
        value = self.raw(name)
        if value is None:
            return default
        try:
            number = float("nan") if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            number = float("nan")
        if not abs(number) < float("inf"):
            raise ConfigurationError(f"{self._source(name)} is {value!r}; accepted: a number")
        return number

    def switch(self, name: str, default: bool) -> bool:
        value = self.raw(name)
        found = (
            value
            if isinstance(value, bool)
            else {"true": True, "1": True, "false": False, "0": False}.get(str(value).strip().lower())
        )
        if value is not None and found is None:
            raise ConfigurationError(f"{self._source(name)} is {value!r}; accepted: true, false")
        return default if found is None else found

    def flag(self, variable: str) -> bool:
        return self.environ.get(variable, "").strip().lower() in ("true", "1")


def _variable(name: str) -> str:
    return f"GROUNDWATCH_{name.upper()}"
