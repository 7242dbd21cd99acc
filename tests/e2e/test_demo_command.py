"""The main job, as a newcomer starts it: one command, and what it says is true."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.timeout(900)
def test_the_demo_tells_the_truth():
    """Before and after, the interval covers the truth and the raw mean is outside; the layer is named."""
    command = [sys.executable, "-m", "groundwatch_deploy", "demo", "--headless", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (line,) = done.stdout.splitlines()
    told = json.loads(line)
    for phase in (told["before"], told["after"]):
        assert phase["low"] <= phase["true_rate"] <= phase["high"]
        assert not phase["low"] <= phase["raw_mean"] <= phase["high"]
    assert told["found_layer"] == told["injected_layer"] == "rerank"
    account = told["ledger"]
    assert account["adds_up"]
    assert (account["lost"], account["doubled"], account["waiting"]) == (0, 0, 0)
    parts = account["judged"] + account["unscored"] + account["not_sampled"] + sum(account["skipped"].values())
    assert parts == account["received"]
