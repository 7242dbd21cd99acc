"""One `groundwatch.toml`, checked whole at start, read into one frozen object per service.

Unknown keys are refused with the nearest known name. Secrets come from the environment only.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import hmac
import math
import os
import re
import secrets as random_secrets
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from groundwatch import feedback_signing
from groundwatch_collector.intake_keys import parse_ingest_keys
from groundwatch_deploy.logs import LEVELS

T = TypeVar("T")

_DATABASES = ("postgresql+psycopg://", "sqlite:///")


class ConfigError(ValueError):
    """The configuration cannot be used; the message names the key, what was found and what is accepted."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that never shows itself."""

    value: bytes

    def __repr__(self) -> str:
        return "***"


def read_file(path: Path) -> dict[str, Any]:
    """Parse *path*; raise :class:`ConfigError` naming the file where it is missing or not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML ({error})") from error
    except RecursionError:
        raise ConfigError(f"{path}: not valid TOML (nested too deeply)") from None


def refuse_unknown(found: Mapping[str, Any], known: typing.Iterable[str], where: str) -> None:
    """Raise for the first key of *found* that is not in *known*, with the nearest known name."""
    names = list(known)
    for key in found:
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(sorted(names))}"
            if re.search(r"secret|password|token$|api_?key", key):  # the nearest name is no place for it
                hint = "a secret comes from an environment variable, never from this file; see docs/configuration.md"
            raise ConfigError(f"{where}: unknown key {key!r}; {hint}")


def build(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """Make the frozen dataclass *kind* from a TOML table, checking names and types."""
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    refuse_unknown(values, fields, where)
    hints = typing.get_type_hints(kind)
    ready = {name: _coerce(value, hints[name], f"{where}.{name}") for name, value in values.items()}
    try:
        return kind(**ready)
    except ConfigError:
        raise
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{where}: {error}") from error


def _coerce(value: Any, wanted: Any, where: str) -> Any:
    origin = typing.get_origin(wanted)
    if origin in (typing.Union, types.UnionType):
        options = [a for a in typing.get_args(wanted) if a is not type(None)]
        return _coerce(value, options[0], where)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if wanted is Path and isinstance(value, str):
        return Path(value)
    if origin is tuple and isinstance(value, list):
        inner = typing.get_args(wanted)[0]
        return tuple(_coerce(item, inner, where) for item in value)
    if origin in (dict, Mapping, typing.get_origin(Mapping[str, float])) and isinstance(value, dict):
        inner = typing.get_args(wanted)[1]
        return {key: _coerce(item, inner, f"{where}.{key}") for key, item in value.items()}
    expected = origin or wanted
    is_bool_for_int = wanted is int and isinstance(value, bool)
    if not isinstance(expected, type) or not isinstance(value, expected) or is_bool_for_int:
        raise ConfigError(f"{where}: expected {_called(expected)}, found {_called(type(value))}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{where}: found {value}, accepted: a number")
    return value


def _called(kind: Any) -> str:
    """A type as whoever writes TOML knows it."""
    words = {"tuple": 'list, like ["a", "b"]', "Path": "str", "Mapping": "table", "dict": "table", "date": "date"}
    name = getattr(kind, "__name__", str(kind))
    return words.get(name, name)


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Where the one-process monitor listens and keeps its data."""

    data_directory: Path = Path("groundwatch-data")  # span log, database, keys
    database_url: str = ""  # empty: SQLite in data_directory
    roles: tuple[str, ...] = ()  # of this process: collector, scorer, console, exporter; empty: all of them
    ingest_host: str = "127.0.0.1"  # of OTLP/HTTP and OTLP/gRPC; another address needs ingest_keys or tls_client_ca
    ingest_port: int = 4318  # the OTLP/HTTP default
    grpc_port: int = 0  # OTLP/gRPC, usually 4317; 0: off. Needs `pip install "groundwatch[grpc]"`
    max_connections: int = 1_000  # of OTLP/HTTP at once, idle ones too; those beyond are answered 503 and closed
    ingest_keys: tuple[str, ...] = ()  # "PROJECT:SHA256" of each accepted key (`groundwatch key`); empty: none asked
    ingest_key_sha256: tuple[str, ...] = ()  # the same without a project, which is then "default"; older form
    tls_certificate: str = ""  # PEM file for the ingest doors and a console that others reach; empty: no TLS
    tls_key: str = ""  # PEM file of its private key, without a password
    tls_client_ca: str = ""  # PEM file; senders must then show a certificate that one of these authorities signed
    console_host: str = "127.0.0.1"  # another address needs tls_certificate, or [console] tls_in_front
    console_port: int = 4390  # 0: any free one
    metrics_host: str = "127.0.0.1"  # metrics hold no text, so another address is accepted
    metrics_port: int = 4391  # 0: any free one
    log_segment_bytes: int = 64 * 1024 * 1024  # size of one file of the span log
    log_max_bytes: int = 8 * 1024 * 1024 * 1024  # span log bound; full = 503 with Retry-After
    log_max_age_seconds: float = 14 * 86400.0  # raw traces are kept this long for late feedback
    log_group_seconds: float = 0.005  # how long an acknowledgement may wait to share one fsync
    log_level: str = "info"  # of what the process says on stderr: debug, info, warning or error

    def __post_init__(self) -> None:
        for name in ("ingest_port", "grpc_port", "console_port", "metrics_port"):
            port = getattr(self, name)
            if not 0 <= port <= 65535:
                raise ConfigError(f"server.{name}: {port} is not a port; accepted: 0 (any free one) to 65535")
        if self.max_connections < 1:
            raise ConfigError(f"server.max_connections: found {self.max_connections}, accepted: 1 or more")
        for name, lines in (("ingest_keys", self.ingest_keys), ("ingest_key_sha256", self.ingest_key_sha256)):
            try:
                parse_ingest_keys(lines)
            except ValueError as error:
                raise ConfigError(f"server.{name}: {error}") from error
        if any(":" in line for line in self.ingest_key_sha256):
            raise ConfigError("server.ingest_key_sha256: a project is named; accepted: in ingest_keys")
        for name in ("log_segment_bytes", "log_max_bytes", "log_max_age_seconds"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"server.{name}: found {getattr(self, name)}, accepted: more than 0")
        if not 0 <= self.log_group_seconds <= 1:
            raise ConfigError(f"server.log_group_seconds: found {self.log_group_seconds}, accepted: 0 to 1")
        if self.database_url and not self.database_url.startswith(_DATABASES):
            # Only what stands before the colon: a password may come after it.
            found = self.database_url.partition(":")[0][:40]
            raise ConfigError(
                f"server.database_url: begins with {found!r}, accepted: postgresql+psycopg://USER@HOST:5432/DATABASE "
                "(the password in PGPASSWORD), sqlite:///FILE, or empty for a file in the data directory"
            )
        if self.log_level not in LEVELS:
            raise ConfigError(f"server.log_level: found {self.log_level!r}, accepted: {', '.join(LEVELS)}")
        self._check_tls()

    def _check_tls(self) -> None:
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise ConfigError("server.tls_certificate and server.tls_key: one is missing; accepted: both or none")
        if self.tls_client_ca and not self.tls_certificate:
            raise ConfigError("server.tls_client_ca: needs tls_certificate and tls_key as well")

    @property
    def keys(self) -> tuple[str, ...]:
        """Every accepted ingest key, in either form."""
        return self.ingest_keys + self.ingest_key_sha256

    @property
    def url(self) -> str:
        return self.database_url or f"sqlite:///{self._database_file}"

    @property
    def has_database(self) -> bool:
        """Looked at before it is opened: opening a SQLite database that is not there would make an empty one."""
        return bool(self.database_url) or self._database_file.exists()

    @property
    def _database_file(self) -> Path:
        return self.data_directory / "groundwatch.db"


@dataclass(frozen=True, slots=True)
class JudgeConfig:
    """Who judges. The local judge always does; a model behind an OpenAI-compatible endpoint can judge as well."""

    llm_model: str = ""  # empty: no LLM judge
    llm_base_url: str = ""  # empty: the OpenAI default
    llm_rubric: str = ""  # empty: the shipped one; zh: the shipped one in Chinese; else the path of a Markdown file
    llm_timeout_seconds: float = 30.0  # for one call
    llm_input_usd_per_million_tokens: float = -1.0  # negative: unknown; a money budget then stops the judge
    llm_output_usd_per_million_tokens: float = -1.0  # likewise
    llm_budget_usd_per_day: float = 0.0  # 0: no money budget
    llm_requests_per_minute: int = 0  # in any 60 seconds, retries included; a call waits for its place; 0: no limit
    llm_tokens_per_minute: int = 0  # likewise, estimated before a call and counted after it; 0: no limit
    llm_concurrency: int = 4  # traces read at once when a model judges
    llm_retries: int = 1  # of a call that failed with 429, 5xx or without a connection
    llm_cache_replies: int = 1000  # good replies kept in memory for up to a day, for the same text again; 0: none
    llm_allow_private_network: bool = False  # whether llm_base_url may be in a private network; loopback always may
    llm_send_unredacted: bool = False  # true: the model sees traces as they are, personal data included
    cascade: bool = False  # true: the model and people read again only a chosen part of what the local judge has read
    cascade_unsure_chance: float = 0.3  # of being read by the model where the local judge abstains or finds a failure
    cascade_sure_chance: float = 0.12  # likewise where it finds none; both above 0, or the rest could not be known
    people_unsure_chance: float = 0.1  # of being put to people where the two judges disagree or both are unsure
    people_sure_chance: float = 0.02  # likewise elsewhere
    repeat_share: float = 0.05  # of its readings each judge makes twice, to see if it contradicts itself; 0: none
    repeats_per_day: int = 200  # second readings of one judge in a UTC day, at most; paid from the money budget too
    own_judges: tuple[str, ...] = ()  # "module:function" of each judge of your own; see extending.md
    lease_seconds: float = 300.0  # a claimed trace goes back to the queue after this long without a verdict
    batch: int = 16  # traces claimed at once

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise ConfigError(f"[judge] {name}: found {getattr(self, name)}, accepted: {least} or more")
        if not 0.0 <= self.repeat_share <= 1.0:
            raise ConfigError(f"[judge] repeat_share: found {self.repeat_share}, accepted: 0 to 1")


_LEAST = {
    "lease_seconds": 1,
    "batch": 1,
    "llm_requests_per_minute": 0,
    "llm_tokens_per_minute": 0,
    "llm_concurrency": 1,
    "llm_retries": 0,
    "llm_cache_replies": 0,
    "repeats_per_day": 1,
}


@dataclass(frozen=True, slots=True)
class Secrets:
    """Keys of this deployment: made once, kept readable by the owner only, printed as ``***``."""

    sampling_salt: Secret
    candidate_key: Secret
    llm_api_key: Secret = field(default=Secret(b""))
    feedback_key: Secret = field(default=Secret(b""))  # as it is configured: one key, or several with commas
    oidc_client_secret: Secret = field(default=Secret(b""))

    @property
    def audit_key(self) -> bytes:
        """What the audit trail is chained with: of the candidate key, which has to stay the same anyway."""
        return hmac.new(self.candidate_key.value, b"groundwatch audit trail", hashlib.sha256).digest()

    @property
    def feedback_keys(self) -> tuple[bytes, ...]:
        """What feedback tokens are checked with. Raises :class:`ConfigError` for a key that could be guessed."""
        try:
            return feedback_signing.keys_of(self.feedback_key.value.decode("utf-8", "replace"))
        except ValueError as error:
            raise ConfigError(f"environment variable GROUNDWATCH_FEEDBACK_KEY: {error}") from error


def load_secrets(directory: Path, environ: Mapping[str, str] = os.environ) -> Secrets:
    """Read the deployment's keys from the environment, else from *directory*, making them at the first start."""
    return Secrets(
        sampling_salt=_key("GROUNDWATCH_SAMPLING_SALT", directory / "sampling.salt", environ),
        candidate_key=_key("GROUNDWATCH_CANDIDATE_KEY", directory / "candidate.key", environ),
        llm_api_key=Secret((environ.get("GROUNDWATCH_LLM_API_KEY") or environ.get("OPENAI_API_KEY") or "").encode()),
        feedback_key=Secret(environ.get("GROUNDWATCH_FEEDBACK_KEY", "").encode("utf-8", "replace")),
        oidc_client_secret=Secret(environ.get("GROUNDWATCH_OIDC_CLIENT_SECRET", "").encode("utf-8", "replace")),
    )


def _key(variable: str, path: Path, environ: Mapping[str, str]) -> Secret:
    given = environ.get(variable)
    if given:
        return Secret(_from_hex(given, f"environment variable {variable}"))
    if not path.exists():
        _write_once(path, random_secrets.token_hex(32))
    return Secret(_from_hex(path.read_text().strip(), str(path)))


def _from_hex(text: str, where: str) -> bytes:
    try:
        value = bytes.fromhex(text)
    except ValueError as error:
        raise ConfigError(f"{where}: not hexadecimal; accepted: 32 to 128 hex digits") from error
    if not 16 <= len(value) <= 64:
        raise ConfigError(f"{where}: {len(value)} bytes; accepted: 16 to 64 bytes as hex")
    return value


def _write_once(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)  # fails if another process was first: its key stays
    except FileExistsError:
        pass
    finally:
        draft.unlink()
