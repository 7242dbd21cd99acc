"""The one-liners over real frameworks, with OpenInference on at once: one trace a question, and more in it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import live_python
import pytest
from span_receiver import Receiver

from groundwatch_collector import otlp
from groundwatch_collector.mapping import to_ragtrace
from groundwatch_collector.ragtrace import Outcome, RagTrace
from groundwatch_collector.spans import Span

pytestmark = pytest.mark.service("live")

APP = Path(__file__).parent / "apps" / "watched.py"
SDK = Path(__file__).parents[2] / "sdk"
QUESTION = "How long may I keep a borrowed book?"
ANSWER = "You may keep a borrowed book for 21 days [1]."
CASES = {
    "openinference-langchain": ("rerank", "error", "empty", "stream", "cancel"),
    "openinference-llamaindex": ("rerank", "error", "empty", "stream", "cancel"),
    "openinference-haystack": ("rerank", "error", "empty"),  # no stream is returned to read
}


def asked(family: str) -> dict[str, RagTrace]:
    """What is understood of each case. Two traces of one case would be two reports of one question."""
    receiver = Receiver()
    own = {"GROUNDWATCH_ENDPOINT": receiver.url, "GROUNDWATCH_SERVICE": "shop", "GROUNDWATCH_CAPTURE_CONTENT": "text"}
    command = [str(live_python.path()), str(APP), family, ",".join(CASES[family])]
    try:
        subprocess.run(command, check=True, timeout=280, env={**os.environ, **own, "PYTHONPATH": str(SDK)})
    finally:
        receiver.close()
    found: dict[str, RagTrace] = {}
    spans: list[Span] = []
    for path, body in receiver.bodies:
        if path == "/v1/traces":
            spans += otlp.decode(body, "protobuf").spans
            continue
        assert len({span.trace_id for span in spans}) == 1
        assert {span.scope_name.split(".")[0] for span in spans} == {"groundwatch", "openinference"}
        trace = to_ragtrace(spans)
        assert trace is not None
        found[path.rpartition("/")[2]] = trace
        spans = []
    return found


def ids(found: tuple[object, ...] | None) -> list[str] | None:
    return None if found is None else [document.id for document in found]  # type: ignore[attr-defined]


@pytest.mark.parametrize("family", CASES)
def test_a_watched_pipeline_tells_what_its_instrumentor_lacks(family):
    traces = asked(family)
    assert traces.keys() == set(CASES[family])
    assert all((t.convention, t.outcome_source) == ("groundwatch", "recorded") for t in traces.values())

    ranked = traces["rerank"]
    assert (ranked.query, ranked.answer, ranked.outcome) == (QUESTION, ANSWER, Outcome.ANSWERED)
    assert [ids(found) for found in (ranked.candidates, ranked.reranked, ranked.context)] == [
        ["loans", "fines"],
        ["loans"],
        ["loans"],
    ]
    assert (ranked.usage.input_tokens, ranked.usage.output_tokens, ranked.model) == (60, 12, "scripted-1")
    if not family.endswith("llamaindex"):  # its engines search with the question
        assert ranked.rewritten_query == "keep borrowed book duration"

    assert (traces["error"].outcome, traces["error"].answer) == (Outcome.ERROR, None)
    assert traces["error"].error_class
    assert traces["empty"].candidates == ()

    if "stream" in traces:
        assert (traces["stream"].outcome, traces["stream"].answer) == (Outcome.ANSWERED, ANSWER)
        assert traces["stream"].time_to_first_token_seconds is not None
        assert ids(traces["stream"].context) == ["loans", "fines"]
        assert traces["cancel"].outcome is Outcome.CANCELLED
        assert ANSWER.startswith(traces["cancel"].answer or "nothing")
