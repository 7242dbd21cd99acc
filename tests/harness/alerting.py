"""Real Prometheus and Alertmanager on rules as they are rendered, run faster, and a person's webhook."""

from __future__ import annotations

import json
import queue
import shutil
import socketserver
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torture
from local_server import served

FASTER = {
    "interval: 1m": "interval: 500ms",
    "interval: 5m": "interval: 500ms",
    "for: 5m": "for: 1s",
    "keep_firing_for: 3h": "keep_firing_for: 1s",
    "group_wait: 30s": "group_wait: 0s",
    "group_interval: 5m": "group_interval: 1s",
}


def faster(text: str, window: str) -> str:
    """Rules or routes with other times and nothing else changed; *window*: instead of one hour and of six."""
    for usual, quick in {**FASTER, "[1h]": f"[{window}]", "[6h]": f"[{window}]"}.items():
        text = text.replace(usual, quick)
    return text


@contextmanager
def webhook() -> Iterator[tuple[str, queue.Queue[dict[str, Any]]]]:
    """Address of a receiver, and what it was sent."""
    messages: queue.Queue[dict[str, Any]] = queue.Queue()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            messages.put(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: what was sent is in the queue."""

    with served(ThreadingHTTPServer(("127.0.0.1", 0), Receiver)) as server:
        yield f"http://127.0.0.1:{server.server_address[1]}", messages


@contextmanager
def mailbox() -> Iterator[tuple[str, queue.Queue[str]]]:
    """Host and port of a mail server that takes everything, and the messages that it took."""
    mails: queue.Queue[str] = queue.Queue()

    class Session(socketserver.StreamRequestHandler):
        def say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

        def handle(self) -> None:
            self.say("220 mailbox")
            while line := self.rfile.readline():
                word = line.split()[0].upper() if line.split() else b""
                if word == b"DATA":
                    self.say("354 go on")
                    mails.put(b"".join(iter(self.rfile.readline, b".\r\n")).decode())
                self.say("221 bye" if word == b"QUIT" else "250 mailbox")

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session)
    server.daemon_threads = True
    with served(server):
        yield f"127.0.0.1:{server.server_address[1]}", mails


@contextmanager
def running(folder: Path, name: str, *options: str) -> Iterator[str]:
    """A program of Prometheus; yields its URL once it is ready."""
    port = torture.free_port()
    program = shutil.which(name) or shutil.which(name.removeprefix("prometheus-")) or name
    with (folder / f"{name}.log").open("wb") as log:
        command = [program, *options, f"--web.listen-address=127.0.0.1:{port}"]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        until(lambda: _answers(f"{url}/-/ready"), 30)
        yield url
    finally:
        process.terminate()
        process.wait(10)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=30):
            return True
    except OSError:
        return False


def asked(url: str, **parameters: str) -> Any:
    """The JSON that a program answers with. It is asked often: without a client that loads certificates each time."""
    with urllib.request.urlopen(f"{url}?{urllib.parse.urlencode(parameters)}", timeout=30) as reply:
        return json.load(reply)


def until(condition: Callable[[], Any], seconds: float) -> None:
    """Wait for a fact of another process. Raises ``AssertionError`` when it does not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.1)


@contextmanager
def watching(
    folder: Path,
    files: dict[str, str],
    targets: list[str],
    receiver: str,
    *,
    window: str = "8s",
    scrape: str = "500ms",  # also what a scrape may take
) -> Iterator[tuple[str, str]]:
    """URLs of a Prometheus that scrapes *targets*, and of its Alertmanager, which tells *receiver*.

    *files*: text of rendered files by name; those of Alertmanager begin with "alertmanager".
    """
    for name, text in files.items():
        (folder / name).write_text(faster(text, window).replace("http://127.0.0.1:9095", receiver))
    manager = (f"--config.file={folder / 'alertmanager.yaml'}", f"--storage.path={folder / 'am'}")
    with running(folder, "prometheus-alertmanager", *manager, "--cluster.listen-address=") as alertmanager:
        config = folder / "watching.yml"
        rules = [str(folder / name) for name in files if name.startswith("groundwatch-")]
        config.write_text(json.dumps(_prometheus_config(rules, targets, alertmanager, scrape)))  # JSON is YAML
        options = (f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}")
        # Prometheus knows its Alertmanager only some seconds after its start: what fired before is sent again.
        with running(folder, "prometheus", *options, "--rules.alert.resend-delay=1s") as prometheus:
            yield prometheus, alertmanager


def _prometheus_config(rules: list[str], targets: list[str], alertmanager: str, scrape: str) -> dict[str, Any]:
    def static(addresses: list[str]) -> list[dict[str, list[str]]]:
        return [{"targets": [address.removeprefix("http://") for address in addresses]}]

    return {
        "global": {"scrape_interval": scrape, "evaluation_interval": "500ms"},
        "rule_files": rules,
        "scrape_configs": [{"job_name": "groundwatch", "static_configs": static(targets)}],
        "alerting": {"alertmanagers": [{"static_configs": static([alertmanager])}]},
    }
