"""The SDK in real servers and workers: FastAPI, Flask under gunicorn, Celery. Every request arrives, once."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import live_python
import pytest
from span_receiver import Receiver, Seen

from groundwatch import names

pytestmark = pytest.mark.service("live")

APPS = Path(__file__).parent / "apps"
SDK = Path(__file__).parents[2] / "sdk"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(receiver: Receiver, **more: str) -> dict[str, str]:
    own = {"GROUNDWATCH_ENDPOINT": receiver.url, "GROUNDWATCH_SERVICE": "shop", "GROUNDWATCH_CAPTURE_CONTENT": "text"}
    return {**os.environ, "PYTHONPATH": f"{SDK}:{APPS}", **own, **more}


@contextmanager
def running(module: str, *arguments: str, env: dict[str, str], cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """``python -m MODULE``; ended by SIGTERM, as a platform ends it."""
    log = (cwd / "server.log").open("w+")
    command = [str(live_python.path()), "-m", module, *arguments]
    process = subprocess.Popen(command, env=env, cwd=cwd, stdout=log, stderr=log, text=True)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    finally:
        process.kill()
        process.wait()
        log.seek(0)
        print(log.read())
        log.close()


def wait_for(url: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            httpx.get(url)
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    pytest.fail("the server did not come up")


def asked(receiver: Receiver) -> dict[str, Seen]:
    found = {str(root[names.QUERY]): root for root in receiver.roots()}
    assert len(found) == len(receiver.roots()), "a request arrived twice"
    return found


def ancestors(span: Seen, spans: dict[str, Seen]) -> list[Seen]:
    found = []
    while (parent := spans.get(span.parent_id)) is not None:
        found.append(parent)
        span = parent
    return found


def traceparent(number: int) -> str:
    return f"00-{number:032x}-{number:016x}-01"


def test_fastapi(receiver, tmp_path):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    options = ("web_fastapi:app", "--port", str(port), "--log-level", "warning")
    with running("uvicorn", *options, env=environment(receiver), cwd=tmp_path):
        wait_for(f"{url}/docs")

        def ask(number: int) -> str:
            path = "async" if number % 2 else "thread"
            headers = {"traceparent": traceparent(number)}
            found: str = httpx.get(f"{url}/{path}", params={"q": f"q{number}"}, headers=headers, timeout=30).json()
            return found

        with ThreadPoolExecutor(8) as pool:
            told = list(pool.map(ask, range(1, 41)))
        assert told == [f"{number:032x}" for number in range(1, 41)]
        plain = {"q": "plain", "traceparent": traceparent(77)}
        assert httpx.get(f"{url}/plain", params=plain).json() == f"{77:032x}"
        assert httpx.get(f"{url}/fail", params={"q": "fails"}).status_code == 500
        whole = httpx.get(f"{url}/stream", params={"q": "whole"}, timeout=30).text
        with httpx.stream("GET", f"{url}/stream", params={"q": "left"}, timeout=30) as answer:
            next(answer.iter_text())
    found = asked(receiver)
    assert found.keys() == {*(f"q{n}" for n in range(1, 41)), "plain", "fails", "whole", "left"}
    spans = {span.span_id: span for span in receiver.spans()}
    for number in range(1, 41):
        root = found[f"q{number}"]
        *_frameworks, server = ancestors(root, spans)  # FastAPI opens a span of its own between them
        assert (server.name, server.parent_id) == (f"GET /{'async' if number % 2 else 'thread'}", f"{number:016x}")
        assert root.trace_id == server.trace_id and root[names.OUTCOME] == "answered"
    for span in spans.values():
        if span.name.startswith("db "):  # the host's own span, inside our stage
            stage = spans[span.parent_id]
            assert stage[names.STAGE] == "candidates"
            assert spans[stage.parent_id][names.QUERY] == span.name.removeprefix("db ")
    assert found["plain"].parent_id == f"{77:016x}"
    assert found["fails"][names.OUTCOME] == "error"
    assert (found["whole"][names.OUTCOME], found["whole"][names.ANSWER]) == ("answered", whole)
    assert found["left"][names.OUTCOME] == "cancelled"
    assert whole.replace("whole", "left").startswith(found["left"][names.ANSWER])


@pytest.mark.parametrize("workers", [("--worker-class", "sync"), ("--worker-class", "gthread", "--threads", "4")])
def test_gunicorn_that_forks_after_the_application_is_loaded(receiver, tmp_path, workers):
    port, requests = free_port(), 30
    options = ("--preload", "--workers", "2", "--max-requests", "6", *workers, "--bind", f"127.0.0.1:{port}")
    with running("gunicorn", *options, "web_flask:app", env=environment(receiver), cwd=tmp_path):
        wait_for(f"http://127.0.0.1:{port}/none")

        def ask(number: int) -> int:
            path = "fail" if number % 10 == 9 else "ask"
            url = f"http://127.0.0.1:{port}/{path}"
            with httpx.Client(transport=httpx.HTTPTransport(retries=5)) as client:
                return client.get(url, params={"q": f"q{number}"}, timeout=30).status_code

        with ThreadPoolExecutor(4) as pool:
            statuses = list(pool.map(ask, range(requests)))
    assert statuses == [500 if number % 10 == 9 else 200 for number in range(requests)]
    found = asked(receiver)
    assert found.keys() == {"warm up", *(f"q{number}" for number in range(requests))}
    workers_seen = {root[names.SESSION] for query, root in found.items() if query != "warm up"}
    assert len(workers_seen) > 2  # some were recycled, and lost nothing when they ended
    assert len({root.trace_id for root in found.values()}) == requests + 1


def test_celery(receiver, tmp_path):
    tasks = 15
    for name in ("queue", "control", "done"):
        (tmp_path / name).mkdir()
    env = environment(receiver, JOBS_FOLDER=str(tmp_path))
    subprocess.run([str(live_python.path()), APPS / "jobs_celery.py", str(tasks)], check=True, env=env, timeout=60)
    options = ("-A", "jobs_celery", "worker", "-c", "2", "--max-tasks-per-child", "3", "-l", "warning")
    with running("celery", *options, env=env, cwd=tmp_path):
        deadline = time.monotonic() + 60
        while len(list((tmp_path / "done").iterdir())) < tasks and time.monotonic() < deadline:
            time.sleep(0.1)
    found = asked(receiver)
    failing = {f"job {number} fails" for number in range(tasks) if number % 5 == 4}
    plain = {f"job {number}" for number in range(tasks) if number % 5 != 4}
    assert found.keys() == plain | failing | {f"{name} again" for name in failing}
    assert all(found[f"{name} again"][names.OUTCOME] == "error" for name in failing)
    assert len({root[names.SESSION] for root in found.values()}) > 2  # children were recycled after three tasks
