"""Acknowledged means stored: the monitor is killed at random moments and everything is accounted for."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("torture", Path(__file__).with_name("torture.py"))
assert _spec and _spec.loader
torture = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(torture)


@pytest.mark.timeout(500)
def test_twenty_kills_lose_nothing_and_double_nothing(tmp_path):
    account = torture.torture(kills=20, seed=1, folder=tmp_path)
    assert account["acknowledged"] > 100
    assert account["lost"] == 0
    assert account["doubled"] == 0
