"""Where the judge's requests may go, in every spelling of an address."""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import openai
import pytest
from local_server import served

from groundwatch_scorer.address_guard import EndpointRefused, refusal_of
from groundwatch_scorer.llm_endpoint import OPENAI_URL, check_url, open_client


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("file:///etc/passwd", "'file'"),
        ("ftp://models.example/v1", "'ftp'"),
        ("models.example/v1", "no scheme"),
        ("//models.example/v1", "no scheme"),
        ("http://", "no host"),
        ("http://user:pass@models.example/v1", "user name"),
        ("http://@models.example/v1", "user name"),
        ("http://models.example/v1?key=1", "query"),
        ("http://models.example/v1#x", "query"),
        ("http://models.example:port/v1", "not an address"),
        ("http://[::1/v1", "not an address"),
        ("javascript:alert(1)", "'javascript'"),
    ],
)
def test_an_address_of_another_kind_is_refused_at_once(url: str, says: str) -> None:
    with pytest.raises(EndpointRefused, match=says):
        check_url(url)


def test_an_ordinary_address_is_accepted() -> None:
    for url in (OPENAI_URL, "http://127.0.0.1:8080/v1", "http://[::1]:8080/v1", "https://模型.example/v1"):
        check_url(url)


METADATA = ["169.254.169.254", "fe80::1", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"]
WRAPPED = ["::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "2002:a9fe:a9fe::1"]
PRIVATE = ["10.0.0.5", "192.168.1.7", "172.16.0.1", "100.64.0.1", "fc00::1", "::ffff:10.0.0.5", "64:ff9b::a00:5"]
LOOPBACK = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"]
NO_HOST = ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "::ffff:0.0.0.0"]
PUBLIC = ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"]


@pytest.mark.parametrize(
    ("addresses", "plain", "private"),
    [
        (METADATA, False, False),
        (WRAPPED, False, False),
        (NO_HOST, False, False),
        (PRIVATE, False, True),
        (LOOPBACK, True, True),
        (PUBLIC, True, True),
    ],
)
def test_addresses(addresses: Sequence[str], plain: bool, private: bool) -> None:
    for text in addresses:
        address = ipaddress.ip_address(text)
        assert (refusal_of(address, allow_loopback=True, allow_private=False) == "") is plain, text
        assert (refusal_of(address, allow_loopback=True, allow_private=True) == "") is private, text


def test_loopback_can_be_closed() -> None:
    for text in LOOPBACK:
        assert refusal_of(ipaddress.ip_address(text), allow_loopback=False, allow_private=True), text


class Recorder(BaseHTTPRequestHandler):
    hosts: list[str]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.hosts.append(self.headers["Host"])
        body = json.dumps({"choices": [{"message": {"content": "yes"}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def listener() -> Iterator[tuple[int, list[str]]]:
    hosts: list[str] = []
    handler = type("Handler", (Recorder,), {"hosts": hosts})
    with served(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield server.server_address[1], hosts


def ask(client: openai.OpenAI) -> str | None:
    with client:
        messages: Any = [{"role": "user", "content": "?"}]
        return client.chat.completions.create(model="m", messages=messages).choices[0].message.content


def test_a_name_is_resolved_once_per_request_and_the_request_goes_to_what_was_checked(
    listener: tuple[int, list[str]],
) -> None:
    port, hosts = listener
    asked: list[str] = []

    def resolve(host: str, _port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    client = open_client(f"http://models.example:{port}/v1", "k", max_retries=0, resolve=resolve)
    assert ask(client) == "yes"
    assert asked == ["models.example"]
    assert hosts == [f"models.example:{port}"]


@pytest.mark.parametrize("answer", [["10.0.0.5"], ["93.184.216.34", "169.254.169.254"], ["0.0.0.0"]])
def test_a_name_that_leads_elsewhere_is_refused_before_anything_is_sent(answer: list[str]) -> None:
    client = open_client("http://models.example/v1", "k", max_retries=0, resolve=lambda *_: answer)
    with pytest.raises(EndpointRefused, match=r"models\.example resolves to"):
        ask(client)


def test_a_name_that_changes_its_mind_is_checked_each_time(listener: tuple[int, list[str]]) -> None:
    """DNS rebinding: first an allowed address, then the metadata service."""
    port, hosts = listener
    answers = [["127.0.0.1"], ["169.254.169.254"]]
    client = open_client(f"http://models.example:{port}/v1", "k", max_retries=0, resolve=lambda *_: answers.pop(0))
    messages: Any = [{"role": "user", "content": "?"}]
    with client:
        client.chat.completions.create(model="m", messages=messages)
        with pytest.raises(EndpointRefused):
            client.chat.completions.create(model="m", messages=messages)
    assert len(hosts) == 1


@pytest.mark.parametrize("host", ["2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518"])
def test_odd_spellings_of_the_metadata_address_are_seen_through(host: str) -> None:
    """The system's own resolver reads them; what it says is what is checked."""
    try:
        socket.getaddrinfo(host, 80)
    except OSError:
        pytest.skip("this system's resolver does not read this spelling, so it leads nowhere")
    with pytest.raises(EndpointRefused, match=r"metadata|not an address"):
        ask(open_client(f"http://{host}/v1", "k", max_retries=0))


def test_proxy_variables_are_not_followed(listener: tuple[int, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy would resolve the name anew, after the check."""
    port, hosts = listener
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
    client = open_client("http://models.example/v1", "k", max_retries=0, resolve=lambda *_: ["10.0.0.5"])
    with pytest.raises(EndpointRefused):
        ask(client)
    assert hosts == []
