"""A short run of the fuzzer; ``python tests/harness/fuzz_mapping.py --runs 200000`` is the long one."""

from __future__ import annotations

import random

import fuzz_mapping
import pytest

from groundwatch_collector.mapping import tree
from groundwatch_collector.mapping.values import Notes
from groundwatch_collector.spans import Span

KNOWN = list(fuzz_mapping.recordings().values())
RUNS = 600


def test_no_damage_to_a_recording_is_fatal():
    read = sum(fuzz_mapping.run(1, number, KNOWN) is not None for number in range(RUNS))
    assert read > RUNS / 2  # most are still understood, so the damage reached the mappings


def test_a_run_is_repeated_by_its_seed_and_number():
    first, again = (fuzz_mapping.damaged(KNOWN, random.Random("1:7")) for _ in range(2))
    assert repr(first) == repr(again)


def test_a_reader_that_trusts_its_sender_is_found(monkeypatch):
    def trusting(span: Span, _notes: Notes) -> float:
        return (span.end_unix_nano - span.start_unix_nano) * tree.NANO

    monkeypatch.setattr(tree, "duration", trusting)
    with pytest.raises(AssertionError, match="less than no time"):
        for number in range(RUNS):
            fuzz_mapping.run(1, number, KNOWN)
