"""How to reach Kafka, and how the topic of spans is used. kafka-python is imported where it is needed, not before."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

INSTALL = 'pip install "groundwatch[kafka]"'
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_ENCODINGS = ("otlp_proto", "otlp_json")
_COMPRESSIONS = ("none", "gzip", "lz4", "zstd")


class KafkaMissing(Exception):
    """The client library is not installed. The message is the line that installs it."""


def require_client() -> None:
    """Raise :class:`KafkaMissing` unless a kafka-python of version 3 or newer can be imported."""
    try:
        import kafka  # noqa: PLC0415
    except ImportError:
        raise KafkaMissing(
            f"[kafka] bootstrap_servers is set, but kafka-python is not installed: {INSTALL}"
        ) from None
    if int(kafka.__version__.partition(".")[0]) < 3:
        raise KafkaMissing(f"kafka-python: found {kafka.__version__}, accepted: 3 or newer: {INSTALL}")


@dataclass(frozen=True)
class KafkaConfig:
    """The topic that holds the spans instead of the span log on this disk. Passwords come from the environment."""

    bootstrap_servers: str = ""  # host:port, several with commas; empty: the span log on this disk
    topic: str = "groundwatch-spans"  # must exist; its partitions are the most processes that can share the work
    group_id: str = "groundwatch"  # collectors with the same group share the partitions
    encoding: str = "otlp_proto"  # otlp_proto | otlp_json: of messages that others put on the topic
    compression: str = "lz4"  # none | gzip | lz4 | zstd: of what is produced
    max_message_bytes: int = (
        1_000_000  # larger traces are split by spans; the topic's max.message.bytes must allow it
    )
    max_pending_bytes: int = 64 * 1024 * 1024  # bodies that wait for the broker; more is answered 503
    delivery_timeout_seconds: float = 10.0  # without the broker's word after this long a request is answered 503
    session_timeout_seconds: float = 15.0  # the partitions of a collector that died move after this long
    max_buffered_bytes: int = 16 * 1024 * 1024  # fetched and not yet read, of one partition; above it fetching pauses
    probe_seconds: float = 0.5  # how often the broker is asked for the ends of the partitions
    commit_seconds: float = 1.0  # how often positions are told to the broker, for its tools; ours are in the database
    security_protocol: str = "PLAINTEXT"  # PLAINTEXT | SSL | SASL_PLAINTEXT | SASL_SSL
    ssl_cafile: str = ""  # PEM; empty: the system's own
    ssl_certfile: str = ""  # PEM of a client certificate
    ssl_keyfile: str = ""  # PEM of its key
    sasl_mechanism: str = ""  # PLAIN | SCRAM-SHA-256 | SCRAM-SHA-512
    sasl_username: str = ""  # its password is in GROUNDWATCH_KAFKA_PASSWORD

    def __post_init__(self) -> None:
        for name, accepted in (
            ("encoding", _ENCODINGS),
            ("compression", _COMPRESSIONS),
            ("security_protocol", _PROTOCOLS),
            ("sasl_mechanism", _MECHANISMS),
        ):
            if getattr(self, name) not in accepted:
                words = ", ".join(word or '""' for word in accepted)
                raise ValueError(f"{name}: found {getattr(self, name)!r}, accepted: {words}")
        for name, value in vars(self).items():
            if isinstance(value, int | float) and value <= 0:
                raise ValueError(f"{name}: found {value}, accepted: more than 0")
        for server in self.bootstrap_servers.split(",") if self.bootstrap_servers else ():
            if not server.strip().rpartition(":")[0] or not server.rpartition(":")[2].strip().isdigit():
                raise ValueError(
                    f"bootstrap_servers: found {server.strip()!r}, accepted: host:port, several with commas"
                )
        if not self.topic or not self.group_id:
            raise ValueError("topic, group_id: found nothing, accepted: a name")
        if self.security_protocol.startswith("SASL") != bool(self.sasl_mechanism):
            raise ValueError("sasl_mechanism: needed with SASL_PLAINTEXT and SASL_SSL, and only there")

    @property
    def kind(self) -> str:
        """The span log's word for the encoding of messages that others put on the topic."""
        return "otlp_json" if self.encoding == "otlp_json" else "otlp_protobuf"


@dataclass(frozen=True, slots=True)
class KafkaSecrets:
    """Never printed."""

    password: str = field(default="", repr=False)
    ssl_key_password: str = field(default="", repr=False)

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> KafkaSecrets:
        return cls(
            environ.get("GROUNDWATCH_KAFKA_PASSWORD", ""), environ.get("GROUNDWATCH_KAFKA_SSL_KEY_PASSWORD", "")
        )


def reachable(config: KafkaConfig, seconds: float = 2.0) -> bool:
    """Whether any bootstrap server takes connections. A client that finds none leaves sockets behind."""
    for server in config.bootstrap_servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), seconds):
                return True
        except OSError:
            continue
    return False


def client_options(config: KafkaConfig, secrets: KafkaSecrets) -> dict[str, Any]:
    """What every client of kafka-python gets."""
    options: dict[str, Any] = {
        "bootstrap_servers": [server.strip() for server in config.bootstrap_servers.split(",")],
        "client_id": "groundwatch",
        "security_protocol": config.security_protocol,
        "reconnect_backoff_max_ms": 1_000,
        "metrics_enabled": False,
        "allow_auto_create_topics": False,
    }
    if config.sasl_mechanism:
        options["sasl_mechanism"] = config.sasl_mechanism
        options["sasl_plain_username"] = config.sasl_username
        options["sasl_plain_password"] = secrets.password
    files = {name: getattr(config, name) for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile")}
    options.update({name: path for name, path in files.items() if path})
    if secrets.ssl_key_password:
        options["ssl_password"] = secrets.ssl_key_password
    return options
