"""How `groundwatch demo` ends: by Ctrl-C, as it asks for."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from groundwatch_deploy import demo_command


@pytest.fixture(autouse=True)
def _heard_interrupts():
    """A shell starts background jobs deaf to Ctrl-C, and children inherit that: the demo would never end."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


DEMO = [sys.executable, "-m", "groundwatch_deploy", "demo", "--console-port", "0"]


def _interrupted_after(words: str) -> tuple[int, str]:
    command = [*DEMO, "--healthy-requests", "20", "--incident-requests", "20"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if words in line:
                process.send_signal(signal.SIGINT)
        return process.wait(), said


def test_ctrl_c_at_the_end_is_success_and_in_the_middle_is_not():
    code, said = _interrupted_after("until Ctrl-C")
    assert (code, "interrupted" in said) == (0, False), said
    code, said = _interrupted_after("deploy v1.4.0")
    assert (code, "groundwatch: interrupted" in said, "Traceback" in said) == (1, True, False), said


def test_ctrl_c_may_come_as_soon_as_it_is_asked_for(monkeypatch):
    """A quick hand, or a script that reads the line: the signal comes before the command has begun to wait."""

    class Terminal:
        said = ""

        def write(self, text: str) -> int:
            self.said += text
            return len(text)

        def flush(self) -> None:
            if "until Ctrl-C" in self.said:
                signal.raise_signal(signal.SIGINT)

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    demo_command._stay("open until Ctrl-C")
    assert terminal.said == "open until Ctrl-C\n"
