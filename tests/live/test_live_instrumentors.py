"""The instrumentors and frameworks that people use now, as they are on PyPI, through the collector and the judge.

Nothing of ours is in the application: only the endpoint it exports to is the monitor's.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import live_python
import pytest
from sqlalchemy import select

from groundwatch_collector import tables
from groundwatch_collector.ragtrace import Outcome, RagTrace, from_json
from groundwatch_collector.storage import reader
from groundwatch_deploy.serve import Monitor
from groundwatch_deploy.settings import load

pytestmark = pytest.mark.service("live")

PIPELINES = Path(__file__).parent / "pipelines.py"
QUESTION = "How long may I keep a borrowed book?"
WITH_DOCUMENTS = (
    "openinference-langchain",
    "openinference-llamaindex",
    "openinference-haystack",
    "traceloop-langchain",
    "traceloop-llamaindex",
    "otel-genai-langchain",
    "langfuse-langchain",
    "langsmith-langchain",
    "llamaindex-native",
    "haystack-native",
)
MODEL_CALL_ALONE = ("openinference-openai", "traceloop-openai", "otel-genai-openai")
_NAMED_BY_ITSELF = {"llamaindex-native": "llamaindex.opentelemetry"}
FAMILIES = (*WITH_DOCUMENTS, *MODEL_CALL_ALONE)


def run(families: Iterable[str], url: str) -> None:
    command = [str(live_python.path()), str(PIPELINES), url, "normal", *families]
    subprocess.run(command, check=True, timeout=280, capture_output=True)


def stored(monitor: Monitor) -> dict[str, tuple[RagTrace, str]]:
    """Each application's trace, and what became of it at the judge."""
    table = tables.sampled_traces
    with reader(monitor.engine).connect() as connection:
        rows = connection.execute(select(table.c.payload, table.c.state)).all()
    found = ((from_json(row.payload), row.state) for row in rows)
    return {trace.app: (trace, state) for trace, state in found}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[RagTrace, str]]]:
    """What the monitor knows after every family has asked its question, from two processes: LangChain, the others."""
    folder = tmp_path_factory.mktemp("live")
    settings = load(None, data_directory=folder, ingest_port=0, console_port=0, metrics_port=0)
    decide = replace(settings.decide, rates=dict.fromkeys(settings.decide.rates, 1.0), grace_seconds=0.5)
    with Monitor(replace(settings, decide=decide)) as monitor:
        url = monitor.start().ingest
        of_langchain = [family for family in FAMILIES if family.endswith("-langchain")]
        others = [family for family in FAMILIES if family not in of_langchain]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda families: run(families, url), (of_langchain, others)))
        deadline = time.monotonic() + 30
        while len(found := stored(monitor)) < len(FAMILIES) or any(s != "judged" for _t, s in found.values()):
            if time.monotonic() > deadline:
                break  # the tests say whose trace is missing
            time.sleep(0.1)
        yield found


@pytest.mark.parametrize("family", WITH_DOCUMENTS)
def test_changing_the_endpoint_is_enough(judged, family):
    trace, state = judged[_NAMED_BY_ITSELF.get(family, family)]
    assert (trace.query, trace.outcome, trace.outcome_source) == (QUESTION, Outcome.ANSWERED, "inferred")
    assert (trace.answer or "").startswith("You may keep a borrowed book for 21 days")
    assert len(trace.candidates or ()) == 2
    first = next(iter(trace.context or ()))
    assert first.text == "A borrowed book may be kept for 21 days."
    assert (trace.usage.input_tokens, trace.usage.output_tokens) == (60, 12)
    assert state == "judged"


@pytest.mark.parametrize("family", MODEL_CALL_ALONE)
def test_a_model_call_alone_is_said_to_be_one(judged, family):
    trace, _state = judged[family]
    assert "no_request_span" in trace.flags and trace.candidates is None
    assert (trace.answer or "").startswith("You may keep") and trace.usage.output_tokens == 12
