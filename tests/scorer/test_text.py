"""Sentences, tokens and folding keep exact offsets in English and Chinese."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwatch_scorer.text import folded, is_chinese, sentences, stem, tokens


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
