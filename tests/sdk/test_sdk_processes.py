"""Forks, worker pools and the end of the process."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from groundwatch import names


def run(script: str, receiver_url: str, *, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run *script* in a fresh interpreter with the SDK configured."""
    head = (
        "import groundwatch, os, sys\n"
        f"groundwatch.configure(service='s', endpoint={receiver_url!r}, capture_content='text')\n"
    )
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", head + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def queries(receiver) -> list[str]:
    return sorted(root[names.QUERY] for root in receiver.roots())


def test_what_waits_at_exit_is_sent(receiver):
    done = run("with groundwatch.request('last words'): pass", receiver.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert queries(receiver) == ["last words"]


def test_what_waits_is_sent_when_the_program_fails(receiver):
    done = run("with groundwatch.request('last words'): raise ValueError('host error')", receiver.url)
    assert done.returncode == 1
    assert "ValueError: host error" in done.stderr
    assert receiver.root()[names.OUTCOME] == "error"


def test_a_stream_that_is_open_when_the_program_ends_is_left_without_a_word(receiver):
    done = run(
        """
        class Holder: pass
        holder = Holder()
        holder.itself = holder
        with groundwatch.request('never read') as r:
            holder.stream = r.stream(iter(['a', 'b']))
        """,
        receiver.url,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("busy", ["pass", "groundwatch.client._client.lane.changed.acquire()"])
def test_what_waits_is_sent_when_a_signal_ends_the_program(receiver, busy):
    """Even where the signal interrupts the queue itself; then it is not sent, and the process still ends."""
    done = run(
        f"""
        import signal
        with groundwatch.request('last words'): pass
        {busy}
        os.kill(os.getpid(), signal.SIGTERM)
        raise SystemExit('not ended')
        """,
        receiver.url,
    )
    assert (done.returncode, done.stderr) == (-15, "")
    assert queries(receiver) == (["last words"] if busy == "pass" else [])


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (
            "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); groundwatch.configure(service='s', endpoint=url)",
            7,
        ),
        (
            "groundwatch.configure(service='s', endpoint=url); signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))",
            7,
        ),
        ("groundwatch.configure(service='s', endpoint=url, flush_at_sigterm=False)", -15),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN); groundwatch.configure(service='s', endpoint=url)", 0),
        ("threading.Thread(target=groundwatch.configure, kwargs={'endpoint': url}).start()", -15),
    ],
)
def test_a_signal_that_the_host_handles_is_the_hosts(receiver, host, status):
    script = f"""
        import os, signal, sys, threading, groundwatch
        url = {receiver.url!r}
        before = signal.getsignal(signal.SIGTERM)
        {host}
        assert not getattr(signal.getsignal(signal.SIGTERM), '__module__', '').startswith('groundwatch')
        os.kill(os.getpid(), signal.SIGTERM)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (status, "")


def test_exit_does_not_wait_long_for_a_receiver_that_is_silent():
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(4)
        script = f"""
            import atexit, time
            atexit.register(lambda: print(time.monotonic() - began))  # the last to run: it was the first to ask
            import groundwatch
            groundwatch.configure(service='s', endpoint='http://127.0.0.1:{listener.getsockname()[1]}')
            with groundwatch.request('q'): pass
            began = time.monotonic()
        """
        command = [sys.executable, "-c", textwrap.dedent(script)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert float(done.stdout) < 3 + 2  # the bound, and a busy machine
    assert done.returncode == 0
    assert "1 requests or feedback could not be sent before the end" in done.stderr


def test_a_forked_child_sends_its_own_and_only_its_own(receiver):
    """A prefork server: the application is configured and used before the fork."""
    done = run(
        """
        with groundwatch.request('parent before'): pass
        open_in_parent = groundwatch.request('open across the fork')
        children = []
        for n in range(3):
            pid = os.fork()
            if pid == 0:
                open_in_parent.end()
                assert groundwatch.stats().pending == 0
                with groundwatch.request(f'child {n}'): pass
                result = groundwatch.flush(10)
                os._exit(0 if result.sent == 1 and not result.pending else 1)
            children.append(pid)
        with groundwatch.request('parent after'): pass
        open_in_parent.end()
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
        assert codes == [0, 0, 0], codes
        """,
        receiver.url,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert queries(receiver) == [
        "child 0",
        "child 1",
        "child 2",
        "open across the fork",
        "parent after",
        "parent before",
    ]
    assert len({root.trace_id for root in receiver.roots()}) == 6


def test_fork_while_the_worker_is_sending(receiver):
    done = run(
        """
        for n in range(20):
            for i in range(30):
                with groundwatch.request('p'): pass
            pid = os.fork()
            if pid == 0:
                with groundwatch.request('c'): pass
                os._exit(groundwatch.flush(20).pending)
            assert os.waitpid(pid, 0)[1] == 0
        """,
        receiver.url,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert queries(receiver) == ["c"] * 20 + ["p"] * 600
    assert len({root.trace_id for root in receiver.roots()}) == 620


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_multiprocessing_children_send_before_they_end(receiver, tmp_path, method):
    """Their interpreter does not run atexit handlers."""
    script = tmp_path / "pool.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import multiprocessing, groundwatch

            def work(n):
                groundwatch.configure(service='s', endpoint={receiver.url!r}, capture_content='text')
                with groundwatch.request(f'job {{n}}'): pass

            def inherited(n):
                with groundwatch.request(f'job {{n}}'): pass

            if __name__ == '__main__':
                context = multiprocessing.get_context({method!r})
                groundwatch.configure(service='s', endpoint={receiver.url!r}, capture_content='text')
                target = inherited if {method!r} == 'fork' else work
                jobs = [context.Process(target=target, args=(n,)) for n in range(3)]
                for job in jobs: job.start()
                for job in jobs: job.join()
                assert [job.exitcode for job in jobs] == [0, 0, 0]
            """
        )
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert queries(receiver) == ["job 0", "job 1", "job 2"]


def test_importing_does_nothing_and_configuring_starts_no_thread():
    script = """
        import sys, threading
        import groundwatch
        heavy = ("requests", "opentelemetry.sdk", "opentelemetry.exporter")
        assert not [m for m in sys.modules if m.startswith(heavy)]
        groundwatch.configure(service="s", endpoint="http://127.0.0.1:9")
        assert threading.active_count() == 1
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
