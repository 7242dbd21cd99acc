"""How `groundwatch demo` ends: by Ctrl-C, as it asks for."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

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


@pytest.mark.timeout(120)
def test_ctrl_c_at_the_end_is_success_and_in_the_middle_is_not():
    code, said = _interrupted_after("until Ctrl-C")
    assert (code, "interrupted" in said) == (0, False), said
    code, said = _interrupted_after("deploy v1.4.0")
    assert (code, "groundwatch: interrupted" in said, "Traceback" in said) == (1, True, False), said
