"""Numbers that mean the same compare equal, whatever the spelling; others do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwatch_scorer.text_numbers import Stated, covered, quantities, same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1.2万", "12,000"),
        ("20 MB", "２０ＭＢ"),
        ("100 GB存储空间", "100GB"),
        ("12000名员工", "一万二千人"),
        ("4 March 2021", "2021-03-04"),
        ("2021年3月4日", "March 4, 2021"),
        ("November 28 , 1972", "28 November 1972"),
        ("25%", "百分之二十五"),
        ("24 hours", "一天"),
        ("two weeks", "14天"),
        ("1 GB", "1000 MB"),
        ("$9.90", "9.9 dollars"),
        ("1.5 million", "150万"),
        ("2 years", "24个月"),
        ("二〇二三年", "2023年"),
    ],
)
def test_same(one, other):
    (a,), (b,) = quantities(one), quantities(other)
    assert same(a, b)
    assert same(b, a)


@pytest.mark.parametrize(
    ("claim", "stated"),
    [
        ("20 MB", "20 GB"),
        ("20 MB", "25 MB"),
        ("30 days", "30 months"),
        ("5%", "5 euros"),
        ("2021-03-04", "2021-03-05"),
    ],
)
def test_not_the_same(claim, stated):
    assert not covered(quantities(claim)[0], quantities(stated))


SAID = (
    "20 MB, 25 GB, 30 days, two weeks, 2021, 4 March 2021, March 2021, 2020年, 5%, v1.2.3, 09:30, 1.2万人, 4, $9.90"
)


def test_looking_a_number_up_says_what_going_through_all_of_them_says():
    said = quantities(SAID)
    asked = [
        *said,
        *quantities("2022, 5 March 2021, 20 GB, 3 May 2020, 4月3日, 1.2.4, three, 14 days, 12,000 cats, 2021年3月"),
    ]
    for some in (said, said[::2], said[1::2], said[3:7], []):
        assert [Stated(some).covers(q) for q in asked] == [covered(q, some) for q in asked]


def test_a_less_exact_date_is_covered_by_a_more_exact_one_only():
    month, day = quantities("March 2021")[0], quantities("4 March 2021")[0]
    assert same(month, day)
    assert not same(day, month)


def test_ranges_share_their_unit():
    assert [q.dimension for q in quantities("3 to 5 working days")] == ["time", "time"]
    assert [q.amount for q in quantities("3至5个工作日")] == [q.amount for q in quantities("3-5 days")]


@pytest.mark.parametrize(
    "text", ["统一的一些说明", "十分重要", "utf8 and sha256 and x86", "1. First\n2. Second", "see [12]"]
)
def test_what_is_no_number(text):
    assert quantities(text) == []


def test_offsets_are_in_the_source():
    text = "上限为 ５０ ＧＢ，保留30天"
    assert [text[q.start : q.end] for q in quantities(text)] == ["５０ ＧＢ", "30天"]


@given(st.text(alphabet="0123456789一二三四五六七八九十百千万亿.,-/ 年月日%$aMBdays[]()", max_size=60))
def test_hostile_digits_never_raise(text):
    for quantity in quantities(text):
        assert 0 <= quantity.start < quantity.end <= len(text)
        assert same(quantity, quantity)
