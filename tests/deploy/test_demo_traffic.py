"""The demo's application on a machine that is too busy for it: its users wait, and what is not sent is said."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import groundwatch
from groundwatch import client
from groundwatch.lane import Lane
from groundwatch_deploy.demo import corpus, questions, traffic
from groundwatch_deploy.demo.app import RagApp
from groundwatch_deploy.demo.behaviour import deployed
from groundwatch_deploy.demo.retrieval import Index


class SlowReceiver:
    """Answers nothing before it is *opened*, and then with *status* or with 200."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.status = 200
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                receiver.opened.wait(30)
                self.send_response(receiver.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def receiver() -> Iterator[SlowReceiver]:
    made = SlowReceiver()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.opened.set()
    groundwatch.shutdown(0.1)
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def configured(url: str, queue_size: int) -> Lane:
    groundwatch.configure(service="demo", endpoint=url, queue_size=queue_size, export_timeout_seconds=30)
    assert client._client is not None
    return client._client.lane


def test_users_wait_when_the_sdk_has_no_room(receiver, monkeypatch):
    """Nothing is answered until a flush waits for it; without that wait the queue would be full long before."""
    monkeypatch.setattr(traffic, "ROOM", 20)
    lane = configured(receiver.url, queue_size=60)
    passages = corpus.load()
    app = RagApp(deployed(None), Index(passages))
    plans = traffic.plan(questions.load(passages), "v1", seed=1, requests=150)
    waited = []

    def open_when_somebody_waits() -> None:
        with lane.changed:
            waited.append(lane.changed.wait_for(lambda: lane.urgent, timeout=30))
        receiver.opened.set()

    opener = threading.Thread(target=open_when_somebody_waits)
    opener.start()
    with ThreadPoolExecutor(4) as pool:
        done = list(traffic._paced(app, plans, pool, per_second=10_000))
    opener.join()
    assert (len(done), traffic.finish(), waited) == (150, "", [True])
    assert (lane.sent, dict(lane.dropped)) == (150, {})


def ask(requests: int) -> None:
    for number in range(requests):
        with groundwatch.request(f"question {number}") as request:
            request.answer("answer")


def test_what_is_slow_to_be_taken_is_waited_for(receiver, monkeypatch):
    """A flush whose time is over, or that was refused an answer, is not the end."""
    monkeypatch.setattr(traffic, "PAUSE_SECONDS", 0.0)
    receiver.status = 503
    lane = configured(receiver.url, queue_size=10)
    receiver.opened.set()

    def recover() -> None:
        with lane.changed:
            lane.changed.wait_for(lambda: lane.failed_exports >= 2, timeout=30)
        receiver.status = 200

    recovery = threading.Thread(target=recover)
    recovery.start()
    ask(3)
    monkeypatch.setattr(traffic, "FRUITLESS_FLUSHES", 1_000)
    assert traffic.finish() == ""
    recovery.join()
    assert lane.sent == 3


def test_what_could_not_be_sent_is_said(receiver, monkeypatch):
    monkeypatch.setattr(traffic, "PAUSE_SECONDS", 0.0)
    receiver.status = 503
    receiver.opened.set()
    configured(receiver.url, queue_size=3)
    ask(5)
    groundwatch.feedback("1" * 32, score=1)
    assert traffic.finish() == "3 requests, no answer; 1 feedback, no answer; 2 requests, queue_full"
