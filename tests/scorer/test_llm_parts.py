"""Quotes, replies and budgets: the pure parts of the LLM judge."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwatch_scorer import llm_reply
from groundwatch_scorer.llm_budget import DailyBudget, Price
from groundwatch_scorer.llm_quotes import find_most, find_quote
from groundwatch_scorer.llm_request import control_sentence
from groundwatch_scorer.rubric import VERSION, rubric


@pytest.mark.parametrize(
    ("quote", "text", "found"),
    [
        ("up to 25 MB", "Files of up to 25 MB.", "up to 25 MB"),
        ("UP TO 25 mb", "Files of up to 25 MB.", "up to 25 MB"),
        ("up to\n 25 MB", "Files of up  to 25 MB.", "up  to 25 MB"),
        ('the "Pro" edition', "the “Pro” edition", "the “Pro” edition"),
        ("保留7天", "日志保留 ７ 天。", "保留 ７ 天"),
        ("資料保留", "这些资料保留七天", "资料保留"),
        ("caf\u00e9 au lait", "a cafe\u0301 au lait", "cafe\u0301 au lait"),
        ("office", "the oﬃce door", "oﬃce"),
        ("up to 50 MB", "Files of up to 25 MB.", None),
        ("up to ... MB", "Files of up to 25 MB.", None),
        ("", "text", None),
        (" \u200b", "text", None),
        ("of", "Files of", None),
        ("天", "七天", None),
    ],
)
def test_find_quote(quote: str, text: str, found: str | None) -> None:
    span = find_quote(quote, text)
    assert (None if span is None else text[slice(*span)]) == found


@given(st.text(max_size=80), st.integers(0, 80), st.integers(0, 80))
def test_any_real_quote_is_found_and_points_into_the_text(text: str, start: int, length: int) -> None:
    quote = text[start : start + length]
    span = find_quote(quote, text)
    if span is not None:
        assert 0 <= span[0] < span[1] <= len(text)
    plain = [c for c in quote if c.isalnum() and unicodedata.category(c) != "Mn"]
    if quote.isascii() and len(plain) >= 3 and start + length < len(text) and text[start + length].isascii():
        assert span is not None


def test_the_longest_piece_of_a_masked_quote() -> None:
    text = "Write to anna@example.org before noon, and not later."
    span = find_most("Write to [EMAIL] before noon, and not later.", text)
    assert span is not None
    assert text[slice(*span)] == "before noon, and not later."
    assert find_most("[EMAIL]", "北京") is None


GOOD: dict[str, Any] = {
    "claims": [],
    "chunks": [],
    "retrieved": [],
    "answerability": {"reason": "", "label": "NONE"},
    "retrieved_answerability": {"reason": "", "label": "NONE"},
    "refusal": "none",
    "answer_relevance": "none",
    "citations": [],
    "injection_suspected": {"where": "none", "ids": []},
}


def test_the_last_good_object_counts() -> None:
    first, second = GOOD | {"refusal": "full"}, GOOD | {"refusal": "partial"}
    text = f'{json.dumps(first)} then {json.dumps(second)} then {{"refusal": "none"}}'
    assert llm_reply.parse(text)["refusal"] == "partial"


def test_a_problem_is_named_by_its_place_and_without_the_text() -> None:
    bad = GOOD | {"refusal": "my secret 4711"}
    with pytest.raises(llm_reply.BadReply, match="refusal fails enum") as error:
        llm_reply.parse(json.dumps(bad))
    assert "4711" not in str(error.value)


@given(st.text(max_size=300) | st.binary(max_size=300).map(lambda b: b.decode("utf-8", "replace")))
def test_no_text_makes_parsing_crash(text: str) -> None:
    with pytest.raises(llm_reply.BadReply):
        llm_reply.parse(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.sampled_from(["none", "full", "supported"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*GOOD, "label"]), inner, max_size=9),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from([*GOOD]), json_values, max_size=9))
def test_an_object_that_is_half_right_is_refused_or_whole(changes: dict[str, Any]) -> None:
    try:
        found = llm_reply.parse(json.dumps(GOOD | changes))
    except llm_reply.BadReply:
        return
    assert set(found) == set(GOOD)


def test_the_schema_is_strict_everywhere() -> None:
    """What an endpoint in strict mode asks for: every property required, none besides."""

    def objects(node: Any) -> Any:
        if isinstance(node, dict):
            if node.get("type") == "object":
                yield node
            for value in node.values():
                yield from objects(value)

    found = list(objects(llm_reply.SCHEMA))
    assert len(found) == 9
    assert all(o["required"] == list(o["properties"]) and o["additionalProperties"] is False for o in found)


def test_the_rubric_has_a_version_and_both_languages() -> None:
    assert VERSION == "rubric-v1"
    assert "标准版" in rubric()
    for label in ("supported", "contradicted", "not_mentioned", "no_claim", "FULL", "PARTIAL", "does_not_support"):
        assert f"`{label}`" in rubric()


def test_control_sentences_differ_by_nonce() -> None:
    some = {control_sentence(f"{n:016x}", chinese=False) for n in range(0, 2**40, 2**36 + 12345)}
    assert len(some) == 16
    assert "手抄本" in control_sentence("0123456789abcdef", chinese=True)


def test_a_day_of_the_budget_ends_at_midnight_utc() -> None:
    budget = DailyBudget(Price(1.0, 10.0), 0.5, now=86_399.0)
    assert budget.spend(86_399.0, 100_000, 30_000) == pytest.approx(0.4)
    assert budget.refusal(86_399.0, 0, 10_000) == ""
    assert budget.refusal(86_399.0, 0, 20_000) == "over_budget"
    assert budget.refusal(86_400.0, 0, 20_000) == ""


def test_no_limit_needs_no_price() -> None:
    budget = DailyBudget(None, None, now=0)
    assert budget.refusal(0, 10**9, 10**9) == ""
    assert budget.spend(0, 10**9, 10**9) is None
    assert DailyBudget(None, 1.0, now=0).refusal(0, 1, 1) == "unknown_price"
