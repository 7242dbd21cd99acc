"""Connections that bring nothing do not stay, and those that do are served."""

from __future__ import annotations

import socket
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter

from groundwatch_deploy.servers import Bound, HttpServer, ImpatientProtocol, bind, metrics_app


async def hello(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(ImpatientProtocol, "head_seconds", 0.3)
    server = HttpServer(hello, bind("127.0.0.1", 0, "port"), "test")
    server.start()
    yield server
    server.stop()


def connect(server: HttpServer) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


@pytest.mark.parametrize("sent", [b"", b"POST /v1/tra", b"GET / HTTP/1.1\r\nhost: x\r\n"])
def test_a_head_that_does_not_come_ends_the_connection(server, sent):
    with connect(server) as caller:
        caller.sendall(sent)
        assert caller.recv(100) == b""


def test_a_second_head_that_does_not_come_ends_it_too(server):
    with connect(server) as caller:
        caller.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b"200 OK" in caller.recv(1000)
        caller.sendall(b"GET / HT")
        while caller.recv(1000):
            pass  # the rest of the first answer


def test_a_connection_in_use_is_left_alone(server):
    with httpx.Client(base_url=server.url) as client:
        assert [client.get("/").text for _ in range(3)] == ["hello"] * 3


def test_an_idle_connection_is_kept_longer_than_a_proxy_keeps_it(server):
    """Who closes first must not be the server: a POST that meets the closing is lost to most clients.

    60 s is what load balancers and reverse proxies commonly keep a connection for.
    """
    assert server._server.config.timeout_keep_alive > 60


def test_connections_beyond_the_bound_are_told_counted_and_let_in_again_later():
    refused: list[None] = []
    server = HttpServer(hello, bind("127.0.0.1", 0, "port"), "test", most=Bound(2, lambda: refused.append(None)))
    server.start()
    try:
        with connect(server) as first:
            with connect(server) as second:
                assert all(ask(caller).startswith(b"HTTP/1.1 200") for caller in (first, second))
                with connect(server) as third:
                    told = third.recv(1000)
                    assert told.startswith(b"HTTP/1.1 503") and b"Retry-After" in told
                    assert third.recv(1) == b""
                assert len(refused) == 1
            assert ask(first).startswith(b"HTTP/1.1 200")
            assert httpx.get(server.url).text == "hello"
    finally:
        server.stop()


def ask(caller: socket.socket) -> bytes:
    caller.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    found = b""
    while not found.endswith(b"hello"):
        found += caller.recv(1000)
    return found


def test_traces_sent_to_the_port_of_metrics_are_refused_and_not_forgotten():
    registry = CollectorRegistry()
    Counter("asked", "...", registry=registry).inc(3)
    server = HttpServer(metrics_app(registry), bind("127.0.0.1", 0, "port"), "metrics")
    server.start()
    with httpx.Client(base_url=server.url) as client:
        assert "asked_total 3.0" in client.get("/metrics").text
        refused = client.post("/v1/traces", content=b"spans")
    server.stop()
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert "found POST, accepted: GET" in refused.text and "ingest port" in refused.text
