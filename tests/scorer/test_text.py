"""Sentences, tokens and folding keep exact offsets in English and Chinese."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwatch_scorer.text import folded, is_chinese, sentences, stem, tokens
from groundwatch_scorer.text_tables import TRADITIONAL_TO_SIMPLIFIED


def _split(text: str) -> list[str]:
    return [text[s.start : s.end] for s in sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dr. Smith left. He said no.", ["Dr. Smith left.", "He said no."]),
        ("It costs 3.5 euros, e.g. for a pen. [2] Next.", ["It costs 3.5 euros, e.g. for a pen. [2]", "Next."]),
        ("未拆封可退货；已拆封可在14天内退货[1]。好！", ["未拆封可退货；", "已拆封可在14天内退货[1]。", "好！"]),
        ("1. Hold the tack.\n2. Tap.", ["1. Hold the tack.", "2. Tap."]),
        ("A heading\nA line that is long enough to have been wrapped by\nits author.", None),
        ("", []),
        (":", []),
    ],
)
def test_sentences(text, expected):
    if expected is None:
        expected = ["A heading", "A line that is long enough to have been wrapped by\nits author."]
    assert _split(text) == expected


def test_code_rows_and_headings_are_told_apart():
    text = "# Title\n| a | b |\n```\nx = 1\n```\n- item\nPlain."
    assert [s.kind for s in sentences(text)] == ["heading", "row", "code", "item", "sentence"]


@given(st.text(alphabet=st.characters(), max_size=300))
def test_sentences_are_ordered_substrings_and_lose_no_letter(text):
    spans = sentences(text)
    assert all(a.end <= b.start for a, b in itertools.pairwise(spans))
    kept = "".join(text[s.start : s.end] for s in spans)
    if "```" not in text and "~~~" not in text:
        assert [c for c in kept if c.isalnum()] == [c for c in text if c.isalnum()]


@given(st.text(max_size=200))
def test_folding_leads_back_to_the_source(text):
    view = folded(text)
    for i in range(len(view.text)):
        start, end = view.source_span(i, i + 1)
        assert view.text[i] in folded(text[start:end]).text


def test_full_width_and_traditional_fold():
    assert folded("２０ ＭＢ 已拆封商品可於14天內退貨").text == "20 mb 已拆封商品可于14天内退货"


@pytest.mark.parametrize(
    ("one", "other"),
    [("deleted", "delete"), ("files", "file"), ("encodings", "encoding"), ("replies", "reply"), ("stopped", "stop")],
)
def test_forms_of_a_word_share_a_stem(one, other):
    assert stem(one) == stem(other)


def test_tokens_leave_out_stop_words_numbers_and_markers():
    assert tokens("The files are kept for 30 days [1].") == ["fil", "kept", "day"]


def test_chinese_tokens_are_bigrams_within_a_run():
    assert tokens("文件的上限") == ["文件", "上限"]


def test_language():
    assert is_chinese("团队版最大 50 GB")
    assert not is_chinese("The Team edition 版")


@pytest.mark.parametrize(
    ("traditional", "simplified"),
    [
        ("獲勝者可獲得獎盃", "获胜者可获得奖杯"),
        ("聞名的太陽能計劃", "闻名的太阳能计划"),
        ("幾噸貨物要繳稅", "几吨货物要缴税"),
        ("駐韓國的記者", "驻韩国的记者"),
        ("衆人以爲這是祕密", "众人以为这是秘密"),
    ],
)
def test_traditional_characters_are_compared_as_simplified(traditional: str, simplified: str) -> None:
    assert folded(traditional).text == folded(simplified).text == simplified
    assert folded(traditional).offsets is None  # one to one: evidence keeps its place
    assert tokens(traditional) == tokens(simplified)


def test_no_character_of_simplified_text_is_changed_by_the_table() -> None:
    """Beside the few that are in GB 2312 as old forms, which the hand-made part maps on purpose."""

    def in_gb2312(character: str) -> bool:
        try:
            return bool(character.encode("gb2312"))
        except UnicodeEncodeError:
            return False

    assert len(TRADITIONAL_TO_SIMPLIFIED) > 2400
    assert {c for c in TRADITIONAL_TO_SIMPLIFIED if in_gb2312(c)} == set("於後呈徵繁屏")
    assert all(TRADITIONAL_TO_SIMPLIFIED.get(s, s) == s for s in TRADITIONAL_TO_SIMPLIFIED.values())
