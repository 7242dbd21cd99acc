"""Citation marks that are not `[1]`: they are no claims, and no part of one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groundwatch_collector.ragtrace import Citation, Document, Outcome, RagTrace
from groundwatch_scorer import llm_request
from groundwatch_scorer.citation_marks import with_plain_marks
from groundwatch_scorer.judgement import Verdict
from groundwatch_scorer.local_judge import LocalJudge

TEXT = "Refunds are paid within 14 days after the return has arrived. Shipping costs are not refunded."
CHINESE = "退款会在收到退货后的 14 天内支付。运费不退。"


def _trace(answer: str) -> RagTrace:
    documents = (
        Document("d1", 1, text=TEXT, title="Refunds"),
        Document("manual-zh:refunds", 2, text=CHINESE, title="退款"),
        Document("14", 3, text="Opening hours are from 9 to 18.", title="hours.md"),
    )
    return RagTrace(
        trace_id="t",
        app="shop",
        version="1",
        started_at=0.0,
        duration_seconds=1.0,
        outcome=Outcome.ANSWERED,
        outcome_source="recorded",
        query="When are refunds paid?",
        candidates=documents,
        context=documents,
        answer=answer,
        citations=(Citation("d1", "[d1]"),),
    )


MARKS = [
    *("[d1]", "[D1]", "[manual-zh:refunds]", "[d1, manual-zh:refunds]", "[Refunds]", "[doc 1]", "[Source: hours.md]"),
    *("(source: d1)", "(see manual-zh:refunds)", "(manual-zh:refunds)", "【4:0†refunds.pdf】", "[1][d1]", "【d1】"),
    *("[来源1]", "（来源：退款）", "[参考 2、3]"),
]


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize(
    ("before", "after"), [("Refunds are paid within 14 days after the return has arrived", "."), (CHINESE[:18], "。")]
)
@pytest.mark.parametrize("inside", [True, False])
def test_an_answer_with_any_mark_is_read_as_without_it(mark: str, before: str, after: str, inside: bool):
    answer = f"{before} {mark}{after}" if inside else f"{before}{after} {mark}"
    (claim,) = LocalJudge().assess(_trace(answer)).claims
    assert (claim.verdict, claim.reason) == (Verdict.SUPPORTED, "verbatim")
    assert claim.text == answer  # shown as it was written


def test_a_wrong_number_beside_a_mark_stays_wrong():
    (claim,) = (
        LocalJudge().assess(_trace("Refunds are paid within 30 days after the return has arrived. [d1]")).claims
    )
    assert claim.verdict is Verdict.CONTRADICTED


def test_a_mark_by_id_says_which_claim_the_document_has_to_support():
    (citation,) = (
        LocalJudge().assess(_trace("Refunds are paid within 14 days after the return has arrived. [d1]")).citations
    )
    assert citation.supports is True


@pytest.mark.parametrize(
    "said", ["within (14) days", "in [brackets]", "(Refunds)", "since (2019)", "(document not found)", "[unknown-7]"]
)
def test_what_is_no_mark_of_this_trace_stays(said: str):
    assert with_plain_marks(f"Paid {said}.", _trace("")) == f"Paid {said}."


@pytest.mark.parametrize("mark", MARKS)
def test_no_character_moves(mark: str):
    answer = f"First {mark} 退款。{mark} last"
    plain = with_plain_marks(answer, _trace(""))
    assert len(plain) == len(answer)
    assert plain.endswith("[1] last")


def test_the_model_is_not_asked_about_a_mark():
    answer = (
        "Refunds are paid within 14 days after the return has arrived. [d1] Shipping costs are not refunded. [d1]"
    )
    request = llm_request.lay_out(_trace(answer), llm_request.Limits(10_000, 10_000, 20, 1), str).request("0" * 16)
    lines = [answer[line.start : line.end] for line in request.lines if not line.control]
    assert [line.endswith("[d1]") for line in lines] == [True, True]
    assert set(request.cited.values()) == {("c1",)}


def test_brackets_that_the_document_has_too_are_a_copy():
    said = "Call (the shop-1 line) or write to [d1] before 18."
    trace = _trace(said)
    (claim,) = LocalJudge().assess(replace(trace, context=(Document("d1", 1, text=said),))).claims
    assert claim.reason == "verbatim"
