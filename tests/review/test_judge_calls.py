"""What a model was asked and answered is opened by who may read raw text, and is forgotten with the trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from console_people import NOW, Console
from sqlalchemy import Engine, select

from groundwatch_review.erasure import erase
from groundwatch_scorer import judgement_store
from groundwatch_scorer.judgement import AnnotatorKind, Criterion, JudgeCall, Judgement
from groundwatch_scorer.tables import judge_calls, judgements

PROMPT = json.dumps(
    {"question": "how big?", "chunks": [{"id": "c1", "text": "zebra \u202e<script>alert(1)</script>"}]}
)
REPLY = json.dumps({"claims": [], "refusal": "none", "answerability": {"reason": "giraffe"}})


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'groundwatch.db'}"


@pytest.fixture
def called(engine: Engine, add_trace: Any) -> str:
    """A trace that a model read in one call."""
    trace_id = str(add_trace())
    shared = (AnnotatorKind.LLM, "llm:m1:rubric-v1", NOW)
    call = JudgeCall(PROMPT, REPLY)
    rows = [
        Judgement(trace_id, Criterion.FAITHFULNESS, "pass", 1.0, "", *shared),
        Judgement(trace_id, Criterion.ANY_FAILURE, "pass", None, "", *shared, 0.002, calls=(call,)),
    ]
    with engine.begin() as connection:
        judgement_store.append(connection, rows)
    return trace_id


def test_prompt_reply_and_cost_are_on_the_page_of_who_may_read_raw_text(engine, called):
    console = Console(engine)
    reviewer, viewer = console.logged_in("re", "reviewer"), console.logged_in("vi", "viewer")
    page = reviewer.get(f"/traces/{called}/raw").text
    assert "zebra" in page and "giraffe" in page and "$0.002" in page
    assert "llm:m1:rubric-v1" in page
    assert "<script>alert(1)" not in page and "RLO" in page  # text, with what deceives in a box
    for browser, path in ((viewer, f"/traces/{called}"), (reviewer, f"/traces/{called}")):
        assert "zebra" not in browser.get(path).text and "giraffe" not in browser.get(path).text


def test_a_trace_that_is_erased_takes_its_calls_along(engine, called):
    erase(engine, [called], NOW)
    with engine.connect() as connection:
        assert connection.execute(select(judge_calls)).all() == []
        assert len(connection.execute(select(judgements)).all()) == 2


def test_calls_are_not_in_what_lists_read(engine, called):
    with engine.connect() as connection:
        assert "zebra" not in repr(connection.execute(select(judgements)).all())
        (row,) = connection.execute(select(judge_calls))
    assert (row.trace_id, row.part, row.prompt, row.reply) == (called, 0, PROMPT, REPLY)
