"""Acknowledged means stored: the monitor is killed at random moments and everything is accounted for."""

from __future__ import annotations

import pytest
import torture


@pytest.mark.timeout(900)
def test_twenty_kills_lose_nothing_and_double_nothing(tmp_path):
    account = torture.torture(kills=20, seed=1, folder=tmp_path)
    assert account["acknowledged"] > 100
    assert account["lost"] == 0
    assert account["doubled"] == 0
