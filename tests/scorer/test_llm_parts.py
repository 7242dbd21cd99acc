"""Quotes, replies and budgets: the pure parts of the LLM judge."""

from __future__ import annotations

import json
import pickle
import random
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwatch_scorer import llm_reply
from groundwatch_scorer.llm_budget import DailyBudget, MinuteBudget, Price
from groundwatch_scorer.llm_cache import LONGEST_SECONDS, Kept, ReplyCache
from groundwatch_scorer.llm_quotes import find_most, find_quote
from groundwatch_scorer.llm_request import control_sentence


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


def test_control_sentences_differ_by_nonce() -> None:
    some = {control_sentence(f"{n:016x}", chinese=False) for n in range(0, 2**40, 2**36 + 12345)}
    assert len(some) == 16
    assert "手抄本" in control_sentence("0123456789abcdef", chinese=True)


def test_a_day_of_the_budget_ends_at_midnight_utc() -> None:
    budget = DailyBudget(Price(1.0, 10.0), 0.5, now=86_399.0)
    assert budget.spend(86_399.0, 100_000, 30_000) == pytest.approx(0.4)
    assert budget.hold(86_399.0, 0, 20_000) == "over_budget"
    assert budget.hold(86_399.0, 0, 9_000) == ""
    budget.release(0, 9_000)
    assert budget.hold(86_400.0, 0, 20_000) == ""


def test_calls_in_flight_cannot_pass_the_limit_together() -> None:
    budget = DailyBudget(Price(0.0, 10.0), 1.0, now=0)
    assert [budget.hold(0, 0, 40_000) for _ in range(4)] == ["", "", "over_budget", "over_budget"]
    budget.release(0, 40_000)
    assert budget.hold(0, 0, 40_000) == ""


def test_no_limit_needs_no_price() -> None:
    budget = DailyBudget(None, None, now=0)
    assert budget.hold(0, 10**9, 10**9) == ""
    assert budget.spend(0, 10**9, 10**9) is None
    assert DailyBudget(None, 1.0, now=0).hold(0, 1, 1) == "unknown_price"


class Time:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


@pytest.mark.parametrize(("requests", "tokens"), [(7, 0), (0, 5_000), (7, 5_000), (1_000_000, 5_000)])
def test_no_minute_has_more_requests_or_tokens_than_it_may(requests: int, tokens: int) -> None:
    time, rng = Time(), random.Random(4)
    budget = MinuteBudget(requests, tokens, clock=time, sleep=time.sleep)
    sent: list[tuple[float, int]] = []
    refused = 0
    while len(sent) < 200:
        size = rng.randrange(10, 2_500)
        if budget.wait(size) is None:
            refused += 1
        else:
            sent.append((time.at, size))
        time.at += rng.choice([0.0, 0.0, 3.0, 11.0])
    for start, _size in sent:
        minute = [size for at, size in sent if start <= at < start + 60.0]
        assert not requests or len(minute) <= requests
        assert not tokens or sum(minute) <= tokens
    assert refused  # it does bind, and does not wait for longer than half a minute


def test_a_request_waits_for_its_place_and_no_longer_than_half_a_minute() -> None:
    time = Time()
    budget = MinuteBudget(2, 0, clock=time, sleep=time.sleep)
    assert budget.wait(1) is not None
    time.at += 35
    assert budget.wait(1) is not None
    assert time.at == 1035.0
    assert budget.wait(1) is not None  # waits for the first to be a minute old
    assert time.at == 1060.0
    assert budget.wait(1) is None  # 35 s more
    assert time.at == 1060.0


def test_a_request_that_never_fits_is_refused_at_once() -> None:
    time = Time()
    assert MinuteBudget(0, 100, clock=time, sleep=time.sleep).wait(101) is None
    assert time.at == 1000.0


def test_what_a_call_has_really_used_replaces_the_estimate() -> None:
    time = Time()
    budget = MinuteBudget(0, 1_000, clock=time, sleep=time.sleep)
    place = budget.wait(900)
    assert place is not None
    place.tokens = 100
    assert budget.wait(900) is not None
    assert time.at == 1000.0


def test_threads_keep_the_minute_together() -> None:
    time = Time()
    budget = MinuteBudget(50, 0, clock=time, sleep=lambda _seconds: None)
    with ThreadPoolExecutor(8) as pool:
        places = [place for place in pool.map(budget.wait, [1] * 200) if place]
    assert len(places) == 50


def test_what_no_database_takes_is_not_in_a_reply() -> None:
    """JSON may say half a character, or NUL: the verdict would be lost with its text."""
    odd = {"reason": "half \ud800 whole \U0001f600 nothing \x00", "label": "FULL"}
    found = llm_reply.parse(json.dumps(GOOD | {"answerability": odd}))
    assert found["answerability"]["reason"] == "half \ufffd whole \U0001f600 nothing \ufffd"
    json.dumps(found, ensure_ascii=False).encode()


def test_the_least_recently_used_reply_goes_first_and_none_lives_longer_than_a_day() -> None:
    cache = ReplyCache(2)
    cache.put("a", "1", {"x": 1}, 0.0)
    cache.put("b", "2", {"x": 2}, 10.0)
    assert cache.get("a", 20.0) == Kept("1", {"x": 1})
    cache.put("c", "3", {"x": 3}, 20.0)
    assert cache.get("b", 20.0) is None
    assert cache.get("a", LONGEST_SECONDS) is None
    assert cache.get("c", LONGEST_SECONDS) == Kept("3", {"x": 3})


def test_a_kept_reply_can_only_be_read_with_the_text_that_was_asked() -> None:
    """An erasure does not reach the memory of the judge: without the erased text nothing there can be read."""
    key, words = "digest of a question", "Ms Ling lives in 苏州"
    cache = ReplyCache(2)
    cache.put(key, "a1b2", {"reason": words}, 0.0)
    cache.put(key + "2", "a1b2", {"reason": words}, 0.0)
    assert cache.get(key, 1.0) == Kept("a1b2", {"reason": words})
    memory = pickle.dumps(cache._kept)
    for readable in (words, "Ling", "苏州", "reason", key):
        assert readable.encode() not in memory
    (_, second), (_, first) = cache._kept.values()
    assert first.data != second.data
    assert words in first.opened(key)
    with pytest.raises(UnicodeDecodeError):
        first.opened("digest of another one")


def test_a_reply_too_long_is_not_kept() -> None:
    cache = ReplyCache(2)
    cache.put("a", "1", {"x": "y" * 70_000}, 0.0)
    assert cache.get("a", 0.0) is None
