"""TLS of the ingest doors: the same three PEM files for HTTP and for gRPC, checked before anything starts."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundwatch_deploy.config import ConfigError, ServerConfig


@dataclass(frozen=True, slots=True)
class Tls:
    certificate: Path
    key: Path
    client_ca: Path | None  # senders must show a certificate of one of these authorities

    def for_uvicorn(self) -> dict[str, Any]:
        asked = ssl.CERT_REQUIRED if self.client_ca else ssl.CERT_NONE
        return {
            "ssl_certfile": str(self.certificate),
            "ssl_keyfile": str(self.key),
            "ssl_ca_certs": str(self.client_ca) if self.client_ca else None,
            "ssl_cert_reqs": asked,
        }


def tls_of(server: ServerConfig) -> Tls | None:
    """The configured TLS, or None. Raises :class:`ConfigError` where a file cannot be used."""
    if not server.tls_certificate:
        return None
    client_ca = Path(server.tls_client_ca) if server.tls_client_ca else None
    tls = Tls(Path(server.tls_certificate), Path(server.tls_key), client_ca)
    for name in ("tls_certificate", "tls_key", "tls_client_ca"):
        _check_readable(name, getattr(server, name))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"[server] tls_certificate, tls_key: {_reason(error)}; accepted: PEM files of a certificate and of its "
            "private key, without a password"
        ) from None
    if client_ca:
        try:
            context.load_verify_locations(client_ca)
        except ssl.SSLError as error:
            raise ConfigError(f"[server] tls_client_ca: {_reason(error)}; accepted: PEM certificates") from None
    return tls


def _check_readable(name: str, path: str) -> None:
    if path:
        try:
            Path(path).read_bytes()
        except OSError as error:
            raise ConfigError(f"[server] {name}: {path} cannot be read ({error.strerror})") from None


def _no_password() -> str:
    raise ValueError("the key has a password")  # never ask on the terminal of a service


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)
