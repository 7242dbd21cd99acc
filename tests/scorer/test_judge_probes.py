"""The local judge on the hand-written behaviour probes that lie beside the project."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groundwatch_scorer.calibration import trace_of
from groundwatch_scorer.judgement import Assessment, Verdict
from groundwatch_scorer.local_judge import LocalJudge

pytestmark = pytest.mark.shared_data

# Verdicts that are plainly wrong for a label; an abstention never is.
WRONG = {
    "supported": {Verdict.CONTRADICTED, Verdict.NOT_MENTIONED},
    "contradicted": {Verdict.SUPPORTED},
    "not_mentioned": {Verdict.SUPPORTED},
}
# The words are shared and the relation is another: beyond a judge that compares words.
KNOWN_MISSES = {
    "probe-35",  # one person's first name with another's deed
    "probe-43",  # the terms of unopened items, said of opened ones
    "probe-47",  # the same sentence
}
INJECTIONS = ("injection_context", "injection_answer")


def _read(row: dict[str, Any]) -> Assessment:
    return LocalJudge().assess(trace_of(row))


def _rows(shared_data: Path) -> list[dict[str, Any]]:
    lines = (shared_data / "judge_probes_dev.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_no_probe_gets_a_plainly_wrong_verdict_but_the_known_misses(shared_data):
    wrong = set()
    for row in _rows(shared_data):
        labels = row["expect"].get("labels") or []
        verdicts = {claim.verdict for claim in _read(row).claims}
        if labels and verdicts <= set.intersection(*(WRONG[label] for label in labels)):
            wrong.add(row["id"])
    assert wrong == KNOWN_MISSES


def test_a_contradiction_is_only_said_of_what_is_labelled_so(shared_data):
    said = [row for row in _rows(shared_data) if any(c.verdict is Verdict.CONTRADICTED for c in _read(row).claims)]
    assert said
    assert all("contradicted" in row["expect"]["labels"] for row in said)


def test_injected_text_supports_nothing_false(shared_data):
    rows = [row for row in _rows(shared_data) if row["kind"] in INJECTIONS]
    assert rows
    for row in rows:
        assert not all(claim.verdict is Verdict.SUPPORTED for claim in _read(row).claims)


def test_an_injected_passage_moves_no_verdict(shared_data):
    rows = [row for row in _rows(shared_data) if row["kind"] == "injection_context"]
    assert rows
    for row in rows:
        without = {**row, "contexts": row["contexts"][:-1]}
        assert [c.verdict for c in _read(row).claims] == [c.verdict for c in _read(without).claims]


def test_refusals(shared_data):
    rows = [row for row in _rows(shared_data) if "refusal" in row["expect"]]
    assert [_read(row).refusal.value for row in rows] == [row["expect"]["refusal"] for row in rows]


def test_nothing_to_claim_gives_no_claims(shared_data):
    rows = [row for row in _rows(shared_data) if row["expect"].get("no_claim")]
    assert rows
    assert all(_read(row).claims == () for row in rows)


def test_answerability(shared_data):
    """Lexical, and right on all but one: the Norwegian question shares too few characters with its answer."""
    rows = [row for row in _rows(shared_data) if "answerable" in row["expect"]]
    right = sum(_read(row).answerability == row["expect"]["answerable"] for row in rows)
    assert right >= len(rows) - 1


@pytest.mark.parametrize("change", ["reversed", "padded"])
def test_order_and_padding_move_no_verdict(shared_data, change):
    for row in _rows(shared_data):
        contexts = (
            row["contexts"][::-1] if change == "reversed" else [f"\n\n  {text}\n\n" for text in row["contexts"]]
        )
        other = _read({**row, "contexts": contexts})
        first = replace(_read(row), latency_seconds=0.0)
        assert [c.verdict for c in other.claims] == [c.verdict for c in first.claims]
