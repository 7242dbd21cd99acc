"""The ingest doors of a running monitor with TLS, client certificates and keys, as real exporters meet them."""

from __future__ import annotations

import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from certificates import Authority
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from groundwatch_collector.intake_keys import new_ingest_key
from groundwatch_collector.otlp import decode
from groundwatch_deploy.cli import main
from groundwatch_deploy.config import ConfigError
from groundwatch_deploy.serve import Monitor
from groundwatch_deploy.settings import load

pytestmark = pytest.mark.service("openssl")
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def authority(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, authority):
    """A monitor whose doors ask for a client certificate and a key."""
    server = authority.sign("server")
    key, line = new_ingest_key("shop")
    settings = load(
        None,
        data_directory=tmp_path_factory.mktemp("data"),
        ingest_port=0,
        console_port=0,
        metrics_port=0,
        grpc_port=free_port(),
        ingest_keys=(line,),
        tls_certificate=str(server.certificate),
        tls_key=str(server.key),
        tls_client_ca=str(authority.pair.certificate),
    )
    with Monitor(settings) as monitor:
        yield monitor, monitor.start(), key


def spans(monitor: Monitor) -> list[str]:
    return [span.name for record in monitor.log.records() for span in decode(record.body, "protobuf").spans]


def send(exporter, name: str) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    provider.get_tracer("app").start_span(name).end()
    provider.shutdown()


def test_exporters_with_certificate_and_key_are_heard_over_both_ways(guarded, authority, monkeypatch):
    for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # would win over the exporter's own certificate_file
        monkeypatch.delenv(variable, raising=False)
    monitor, addresses, key = guarded
    mine, ca = authority.sign("sender"), str(authority.pair.certificate)
    assert addresses.ingest.startswith("https://")
    headers = {"authorization": f"Bearer {key}"}
    http = HttpExporter(
        endpoint=f"{addresses.ingest}/v1/traces", certificate_file=ca, client_certificate_file=str(mine.certificate),
        client_key_file=str(mine.key), headers=headers,
    )  # fmt: skip
    send(http, "over HTTP")
    credentials = grpc.ssl_channel_credentials(
        Path(ca).read_bytes(), mine.key.read_bytes(), mine.certificate.read_bytes()
    )
    send(GrpcExporter(endpoint=addresses.grpc, credentials=credentials, headers=headers), "over gRPC")
    assert sorted(spans(monitor)) == ["over HTTP", "over gRPC"]


def client(authority: Authority, pair) -> httpx.Client:
    context = ssl.create_default_context(cafile=str(authority.pair.certificate))
    if pair is not None:
        context.load_cert_chain(pair.certificate, pair.key)
    return httpx.Client(verify=context, timeout=10)


@pytest.mark.parametrize("which", ["none", "expired", "of another authority"])
def test_a_sender_without_a_good_certificate_is_refused_by_both_doors(guarded, authority, tmp_path, which):
    _monitor, addresses, key = guarded
    pair = {
        "none": lambda: None,
        "expired": lambda: authority.sign("expired", expired=True),
        "of another authority": lambda: Authority(tmp_path / "other").sign("stranger"),
    }[which]()
    headers = {"authorization": f"Bearer {key}", "content-type": "application/x-protobuf"}
    with client(authority, pair) as http, pytest.raises(httpx.TransportError):
        http.post(f"{addresses.ingest}/v1/traces", content=b"", headers=headers)
    credentials = grpc.ssl_channel_credentials(
        authority.pair.certificate.read_bytes(),
        pair.key.read_bytes() if pair else None,
        pair.certificate.read_bytes() if pair else None,
    )
    target = addresses.grpc.partition("//")[2]
    with grpc.secure_channel(target, credentials) as channel, pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(EXPORT)(b"", metadata=(("authorization", f"Bearer {key}"),), timeout=5)
    assert refused.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    with client(authority, authority.sign("good")) as http:  # the doors still answer others
        assert http.post(f"{addresses.ingest}/v1/traces", content=b"", headers=headers).status_code == 200


def test_the_expired_certificate_has_no_other_fault(authority):
    ca, pair = authority.pair.certificate, authority.sign("only-expired", expired=True)
    command = ["openssl", "verify", "-purpose", "sslclient", "-CAfile", str(ca)]
    now = subprocess.run([*command, str(pair.certificate)], capture_output=True, text=True, check=False)
    assert "certificate has expired" in now.stdout + now.stderr
    anytime = subprocess.run([*command, "-no_check_time", str(pair.certificate)], capture_output=True, check=False)
    assert anytime.returncode == 0


def test_a_certificate_alone_does_not_replace_the_key(guarded, authority):
    _monitor, addresses, _key = guarded
    with client(authority, authority.sign("keyless")) as http:
        answer = http.post(
            f"{addresses.ingest}/v1/traces", content=b"", headers={"content-type": "application/x-protobuf"}
        )
    assert answer.status_code == 401


def test_plain_http_to_the_tls_door_gets_no_answer(guarded):
    _monitor, addresses, _key = guarded
    with pytest.raises(httpx.TransportError):
        httpx.get(addresses.ingest.replace("https", "http") + "/healthz")


def test_an_old_protocol_is_refused(guarded, authority):
    _monitor, addresses, _key = guarded
    context = ssl.create_default_context(cafile=str(authority.pair.certificate))
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    port = int(addresses.ingest.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as raw, pytest.raises(ssl.SSLError):
        context.wrap_socket(raw, server_hostname="127.0.0.1")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"tls_certificate": "missing.pem", "tls_key": "server.key"}, "missing.pem cannot be read"),
        (
            {"tls_certificate": "server.pem", "tls_key": "other.key"},
            "accepted: PEM files of a certificate and of its",
        ),
        ({"tls_certificate": "server.pem", "tls_key": "locked.key"}, "the key has a password"),
        ({"tls_certificate": "server.pem", "tls_key": "server.key", "tls_client_ca": "server.key"}, "tls_client_ca"),
    ],
)
def test_files_that_cannot_be_used_stop_the_start(tmp_path, capsys, files, message):
    authority = Authority(tmp_path)
    authority.sign("server")
    other = authority.sign("other")
    command = [
        "openssl",
        "ec",
        "-in",
        str(other.key),
        "-aes256",
        "-passout",
        "pass:x",
        "-out",
        str(tmp_path / "locked.key"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    lines = "".join(f'{name} = "{tmp_path / file}"\n' for name, file in files.items())
    (tmp_path / "groundwatch.toml").write_text(f"[server]\n{lines}")
    assert main(["serve", "--check", "--config", str(tmp_path / "groundwatch.toml")]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("guard", "starts"), [("nothing", False), ("tls", False), ("mtls", True), ("key", True)])
def test_other_machines_are_heard_with_a_key_or_a_client_certificate_only(tmp_path, authority, guard, starts):
    server = authority.sign(f"server-{guard}")
    tls = {"tls_certificate": str(server.certificate), "tls_key": str(server.key)}
    guards: dict[str, dict[str, Any]] = {
        "nothing": {},
        "tls": tls,
        "mtls": tls | {"tls_client_ca": str(authority.pair.certificate)},
        "key": {"ingest_keys": (new_ingest_key("shop")[1],)},
    }
    options = guards[guard]
    settings = load(
        None, data_directory=tmp_path, ingest_host="0.0.0.0", ingest_port=0, console_port=0, metrics_port=0, **options
    )
    if starts:
        with Monitor(settings) as monitor:
            monitor.start()
    else:
        with pytest.raises(ConfigError, match="no ingest key is configured and no client certificate is asked for"):
            Monitor(settings)
