"""The shipped rubrics, and one of somebody's own in their place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scripted_endpoint import make_trace, model, serving

from groundwatch_scorer.rubric import MUST_NAME, SHIPPED, RubricRefused, rubric

OWN = f"<!-- version: support-v3 -->\n# Rules of this desk\n\nWords: {', '.join(MUST_NAME)}.\n"


def write(tmp_path: Path, text: str | bytes) -> str:
    path = tmp_path / "own.md"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_rubric_speaks_of_every_label_in_both_languages(name: str) -> None:
    text = rubric(name).text
    for word in MUST_NAME:
        assert re.search(rf"\b{word}\b", text, re.ASCII), word
    assert "标准版" in text
    assert "Free accounts" in text


def test_the_chinese_rubric_has_every_part_of_the_english_one() -> None:
    """What is said of one field in one language is said of it in the other, and in the same order."""
    english, chinese = rubric("").text, rubric("zh").text
    assert (rubric("").version, rubric("zh").version) == ("rubric-v1", "rubric-v1-zh")
    assert english.count("\n# ") == chinese.count("\n# ") == 7
    for one, other in zip(english.split("\n# "), chinese.split("\n# "), strict=True):
        assert set(re.findall(r"`(\w+)`", one)) == set(re.findall(r"`(\w+)`", other))
    assert len(re.findall("[一-鿿]", chinese)) > 1000


def test_a_rubric_of_ones_own_is_what_the_model_is_told_and_names_its_series(judge_at, tmp_path: Path) -> None:
    own = rubric(write(tmp_path, OWN))
    with serving(model()) as server:
        judge = judge_at(server, instructions=own)
        assessment = judge.assess(make_trace())
        assert server.requests[0]["messages"][0]["content"] == own.text
    assert "version:" not in own.text
    assert re.fullmatch(r"llm:m1:support-v3\.[0-9a-f]{8}", assessment.identifier)


def test_a_changed_word_is_another_version_whatever_its_name_says(tmp_path: Path) -> None:
    one = rubric(write(tmp_path, OWN))
    two = rubric(write(tmp_path, OWN.replace("desk", "shop")))
    same = rubric(write(tmp_path, OWN + "\n\n"))
    assert one.version == same.version != two.version


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("# Rules", r"own.md does not begin with its version; accepted: a first line <!-- version: NAME -->"),
        (OWN.replace("support-v3", "Support V3"), r"has the version 'Support V3'; accepted: up to 40 of a-z"),
        (OWN.replace("support-v3", "v" * 41), "accepted: up to 40 of"),
        (OWN.replace("not_mentioned, ", ""), "does not speak of not_mentioned; accepted"),
        (OWN.replace("full", "whole").replace("FULL", "ALL"), "does not speak of FULL, full; accepted"),
        (OWN + "x" * 32_000, r"characters; accepted: up to 32000"),
        (OWN.encode() + b"\xff", "is not text in UTF-8"),
    ],
)
def test_a_rubric_that_cannot_be_used_is_refused_by_name(tmp_path: Path, text: str | bytes, says: str) -> None:
    with pytest.raises(RubricRefused, match=says):
        rubric(write(tmp_path, text))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RubricRefused, match=r"nothing.md: No such file .*; accepted: a Markdown file, 'zh' or empty"):
        rubric(str(tmp_path / "nothing.md"))
