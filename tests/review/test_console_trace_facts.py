"""What stands above a trace: whatever was odd about it, and what judging it cost, where that is known."""

from __future__ import annotations

import pytest
from sqlalchemy import update
from starlette.testclient import TestClient

from groundwatch_review.console import ConsoleConfig, console_app
from groundwatch_scorer.judgement import AnnotatorKind, Assessment
from groundwatch_scorer.tables import judgements

ORIGIN = "http://127.0.0.1:4390"


@pytest.fixture
def page_of(engine):
    app = console_app(engine, ConsoleConfig(), now=lambda: 1_790_000_000.0, candidate_key=b"k" * 32)
    with TestClient(app, base_url=ORIGIN) as client:
        yield lambda trace_id: client.get(f"/traces/{trace_id}").text


def test_what_was_cut_mended_or_in_conflict_is_said_to_the_reader(page_of, add_trace):
    """The person who confirms a failure must know that the answer in view is not the whole one."""
    page = page_of(add_trace(flags=("conflicting_spans", "cut_by_sender")))
    assert '<span class="chip chip-warn">conflicting spans</span>' in page
    assert '<span class="chip chip-warn">cut by sender</span>' in page


def test_a_flag_is_text_whoever_wrote_it(page_of, add_trace):
    page = page_of(add_trace(flags=("<b>bold</b>",)))
    assert "&lt;b&gt;bold" in page
    assert "<b>bold" not in page


def test_a_plain_trace_has_no_flags(page_of, add_trace):
    assert "<dt>flags</dt>" not in page_of(add_trace())


@pytest.mark.parametrize(
    ("kind", "cost", "says"),
    [
        (AnnotatorKind.CODE, None, "no cost"),
        (AnnotatorKind.LLM, None, "cost not known"),  # no price is configured, which is not for free
        (AnnotatorKind.LLM, 0.0, "no cost"),
        (AnnotatorKind.LLM, 0.0123, "$0.0123"),
    ],
)
def test_an_unknown_price_is_not_shown_as_free(page_of, engine, add_trace, kind, cost, says):
    trace_id = add_trace(judged=Assessment("judge-1", kind))
    with engine.begin() as connection:
        connection.execute(update(judgements).values(annotator_kind=kind.value, cost_usd=cost))
    assert f", {says}</span>" in page_of(trace_id)
