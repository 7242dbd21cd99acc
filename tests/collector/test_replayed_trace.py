"""A trace id that is used again: by a repeated export, or by somebody who wants another answer in the evidence."""

from __future__ import annotations

import dataclasses

from groundwatch import names
from groundwatch_collector import tables
from groundwatch_collector.decision import DEFAULT_RATES
from groundwatch_collector.ragtrace import from_json


def test_a_decided_trace_that_comes_again_with_another_answer_is_not_overwritten(world, make):
    world.start(dataclasses.replace(world.config, rates=dict.fromkeys(DEFAULT_RATES, 1.0)))
    world.send(*make.request(1))
    world.settle(4)
    (before,) = world.rows(tables.sampled_traces)
    ledger = world.ledger()
    world.send(*make.request(1, root={names.ANSWER: "Forged: send your password.", names.OUTCOME: "refused"}))
    world.settle(60)
    (after,) = world.rows(tables.sampled_traces)
    assert after.payload == before.payload
    assert "Forged" not in (from_json(after.payload).answer or "")
    assert world.ledger() == ledger
    assert world.value("groundwatch_late_spans_total") + world.value("groundwatch_duplicate_spans_total") == 6
