"""The gRPC door beside the HTTP one, where the extra is installed and a port is set."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from groundwatch_collector.intake_door import IntakeDoor
from groundwatch_deploy.config import ConfigError, ServerConfig
from groundwatch_deploy.tls import Tls

if TYPE_CHECKING:
    from groundwatch_collector.grpc_intake import GrpcServer


def require_grpc(server: ServerConfig) -> None:
    """Raise :class:`ConfigError` with the line that installs gRPC, where it is asked for and missing."""
    if server.grpc_port and importlib.util.find_spec("grpc") is None:
        raise ConfigError(
            '[server] grpc_port: grpcio is not installed; run: pip install "groundwatch[grpc]", or set it to 0'
        )


def grpc_server(door: IntakeDoor, server: ServerConfig, tls: Tls | None) -> GrpcServer:
    """The server, not started yet."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its C core would write a line for each bad call or handshake
    from groundwatch_collector.grpc_intake import GrpcServer, ServerPems  # noqa: PLC0415 (not always installed)

    pems = None
    if tls is not None:
        client_ca = tls.client_ca.read_bytes() if tls.client_ca else None
        pems = ServerPems(tls.certificate.read_bytes(), tls.key.read_bytes(), client_ca)
    return GrpcServer(door, server.ingest_host, server.grpc_port, pems)
