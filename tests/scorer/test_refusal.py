"""Semantic refusal is read from the text alone, in English and Chinese."""

from __future__ import annotations

import pytest

from groundwatch_scorer.judgement import Refusal
from groundwatch_scorer.refusal import classify


@pytest.mark.parametrize(
    "answer",
    [
        "I could not find this in the documentation.",
        "I'm sorry, but the documents do not contain enough information to answer that.",
        "The provided documents do not say when the CEO was born.",
        "There is no information about pricing in the given context. Please contact support.",
        "The name of the system is not mentioned in the given context.",
        "文档中没有找到相关内容。",
        "抱歉，根据提供的资料，我无法回答这个问题。",
        "资料中没有提到这一点，建议您咨询客服。",
        "很抱歉，没有足够的信息来确定保修期。",
        "手册未说明该功能是否支持离线使用。",
    ],
)
def test_full(answer):
    assert classify(answer) is Refusal.FULL


@pytest.mark.parametrize(
    "answer",
    [
        "Opened items can be returned within 14 days for credit. The documents do not say who pays return shipping.",
        "The context does not mention trailers. However, the maximum load of the roof rack is 75 kg.",
        "试用期为30天。文档中没有说明是否提供纸质凭证。",
        "资料中没有提到退款时间，但是退货须在14天内提出申请。",
    ],
)
def test_partial(answer):
    assert classify(answer) is Refusal.PARTIAL


@pytest.mark.parametrize(
    "answer",
    [
        "Opened items cannot be returned after 14 days.",
        "不可以，无法寄往挪威。",
        "The Free edition does not include telephone support.",
        "免费版不包含电话支持。",
        "Raises KeyError if the key is not found and no default is given.",
        "A tuple cannot be changed after it was made.",
        "",
        ":",
    ],
)
def test_none(answer):
    assert classify(answer) is Refusal.NONE
