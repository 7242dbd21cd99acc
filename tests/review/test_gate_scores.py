"""The gate's scores: published definitions, and not applicable kept out."""

from __future__ import annotations

import math

import pytest

from groundwatch_review.gate import ranking
from groundwatch_review.gate.items import Anchor, Item
from groundwatch_review.gate.makeup import makeup
from groundwatch_review.gate.replies import BadReply, Passage, Reply, read_reply
from groundwatch_review.gate.scores import LAYER_OF, Scorer
from groundwatch_scorer.judgement import AnnotatorKind, Assessment
from groundwatch_scorer.local_judge import LocalJudge
from groundwatch_scorer.measures import average_precision

RETENTION = "Deleted files are kept in the trash for 30 days."
QUOTA = "The Free edition has 15 GB of storage."


def an_item(**changes):
    known = {
        "id": "rc_" + "0" * 24,
        "question": "how long are deleted files kept?",
        "language": "en",
        "family": "fam_" + "0" * 12,
        "status": "REVIEWED",
        "answerability": "FULL",
        "behaviour": "ANSWER",
        "anchors": (Anchor("a1", RETENTION),),
        "key_points": ("Deleted files are kept for 30 days.",),
    }
    return Item(**(known | changes))


def passages(*texts):
    return tuple(Passage(f"d{i}", text) for i, text in enumerate(texts))


def scores(item, reply, k=3):
    return Scorer(LocalJudge(), k).score(item, reply)


class _Away:
    """A model judge whose endpoint does not answer."""

    identifier = "llm:away"

    def assess(self, _trace):
        return Assessment(self.identifier, AnnotatorKind.LLM, unscored_reason="timeout")


def test_a_judge_that_could_not_read_makes_no_zero():
    reply = Reply("They are gone after a month.", context=passages("Another text."))
    item = an_item(forbidden=("They stay for ever.",))
    found = Scorer(_Away(), 3).score(item, reply)
    assert {found[n] for n in ("faithfulness", "context_recall", "answer_correctness", "refusal_correctness")} == {
        None
    }
    assert Scorer(_Away(), 3).score(an_item(), reply)["answer_correctness"] is None


def test_average_precision_of_one_zero_one_zero_is_five_sixths():
    assert average_precision([True, False, True, False]) == pytest.approx(0.8333, abs=1e-4)
    assert average_precision([False, False]) == 0.0


def test_three_copies_of_one_page_are_one_piece_of_evidence():
    found = ranking.brought([RETENTION, RETENTION, RETENTION], [RETENTION, QUOTA])
    assert ranking.evidence_recall_at_k(found, 3) == 0.5
    assert ranking.precision_at_k(found, 3) == 1.0


def test_evidence_is_found_across_case_width_and_line_breaks():
    assert ranking.brought(["删除的文件\n在回收站保留 ３０ 天。"], ["删除的文件在回收站保留30天。"]).gains == (1,)


def test_rank_scores_follow_their_formulas():
    found = ranking.brought(["nothing", RETENTION, "more", QUOTA], [RETENTION, QUOTA])
    assert ranking.hit_at_k(found, 1) == 0.0
    assert ranking.hit_at_k(found, 2) == 1.0
    assert ranking.mrr_at_k(found, 4) == 0.5
    best = 1 + 1 / math.log2(3)
    assert ranking.ndcg_at_k(found, 4) == pytest.approx((1 / math.log2(3) + 1 / math.log2(5)) / best)
    assert ranking.ndcg_at_k(ranking.brought([RETENTION, QUOTA], [RETENTION, QUOTA]), 2) == 1.0


def test_precision_is_over_what_was_returned_when_that_is_less_than_k():
    assert ranking.precision_at_k(ranking.brought([RETENTION], [RETENTION]), 5) == 1.0


def test_without_marked_evidence_no_rank_score_applies():
    found = scores(an_item(anchors=()), Reply("Deleted files are kept for 30 days.", passages(RETENTION)))
    assert {found[name] for name, layer in LAYER_OF.items() if layer == "retrieval"} == {None}


def test_an_application_that_does_not_tell_its_context_gets_no_context_score():
    found = scores(an_item(), Reply("Deleted files are kept for 30 days."))
    assert found["context_recall"] is None
    assert found["faithfulness"] is None
    assert found["answer_correctness"] == 1.0


def test_context_recall_asks_what_was_sent_and_recall_at_k_what_was_found():
    reply = Reply("Deleted files are kept for 30 days.", passages(RETENTION), passages(QUOTA))
    found = scores(an_item(), reply)
    assert found["evidence_recall_at_k"] == 1.0
    assert found["context_recall"] == 0.0


def test_a_wrong_number_is_neither_faithful_nor_right():
    found = scores(an_item(), Reply("Deleted files are kept in the trash for 90 days.", None, passages(RETENTION)))
    assert found["faithfulness"] == 0.0
    assert found["answer_correctness"] == 0.0


def test_a_forbidden_claim_spoils_an_otherwise_right_answer():
    item = an_item(forbidden=("Files can be restored for ever.",))
    right, wrong = "Deleted files are kept for 30 days.", "Files can be restored for ever."
    assert scores(item, Reply(right))["answer_correctness"] == 1.0
    assert scores(item, Reply(f"{right} {wrong}"))["answer_correctness"] == 0.0


@pytest.mark.parametrize("declined", ["I could not find this in the documentation.", "文档中没有找到相关内容。"])
def test_declining_is_right_exactly_where_nothing_can_be_answered(declined):
    reply = Reply(declined, None, passages(QUOTA))
    nowhere = an_item(answerability="NONE", behaviour="ABSTAIN")
    assert scores(nowhere, reply)["refusal_correctness"] == 1.0
    assert scores(an_item(), reply)["refusal_correctness"] == 0.0
    assert scores(an_item(), reply)["answer_correctness"] == 0.0


@pytest.mark.parametrize("nothing_to_check", ["I could not find this in the documentation.", ""])
def test_faithfulness_of_an_answer_without_a_claim_is_not_applicable(nothing_to_check):
    assert scores(an_item(), Reply(nothing_to_check, None, passages(RETENTION)))["faithfulness"] is None


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        ([], "list"),
        ({}, "answer is NoneType"),
        ({"answer": "x", "outcome": "fine"}, "accepted: answered"),
        ({"answer": "x", "retrieved": "text"}, "retrieved is str"),
        ({"answer": "x", "context": [{"id": 1}]}, r"context\[0\] has no text"),
    ],
)
def test_a_bad_reply_is_named(raw, named):
    with pytest.raises(BadReply, match=named):
        read_reply(raw)


def test_items_that_name_only_what_must_not_be_said_are_counted_and_told():
    items = [
        an_item(),
        an_item(id="rc_" + "1" * 24, key_points=(), forbidden=("Files are kept for 90 days.",)),
        an_item(id="rc_" + "2" * 24, forbidden=("Files are kept for 90 days.",)),
    ]
    assert (makeup(items).with_reference, makeup(items).only_forbidden) == (2, 1)
