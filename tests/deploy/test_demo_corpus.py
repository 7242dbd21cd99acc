"""The documents and the questions that are asked of them."""

from __future__ import annotations

import sys

import pytest

from groundwatch_deploy.demo import corpus, questions, words
from groundwatch_deploy.demo.retrieval import Index


@pytest.fixture(scope="module")
def passages():
    return corpus.load()


@pytest.fixture(scope="module")
def bank(passages):
    return questions.load(passages)


def test_every_passage_has_an_id_of_its_own_and_shows_its_title(passages):
    assert len({passage.id for passage in passages}) == len(passages)
    assert all(passage.text.startswith(passage.title) for passage in passages)


@pytest.mark.parametrize(
    "passage_id", ["manual-en:upload-limits", "manual-zh:upload-limits", "pydoc:with#2", "stdlib:json.dumps"]
)
def test_passages_have_names_that_people_can_read(passages, passage_id):
    assert passage_id in {passage.id for passage in passages}


def test_passages_stay_readable(passages):
    """Only a single line that Python's documentation does not break can be longer than the limit."""
    longer = [p.id for p in passages if len(p.text) > corpus.PASSAGE_MAX_CHARS + len(p.title) + 100]
    assert len(longer) <= 2


def test_both_languages_of_the_manual_tell_the_same_numbers(passages):
    """A Chinese section without an English twin of the same id would be a slip of the pen."""
    slugs = {
        language: {p.id.partition(":")[2] for p in passages if p.id.startswith(f"manual-{language}:")}
        for language in ("en", "zh")
    }
    assert slugs["zh"] <= slugs["en"]
    assert len(slugs["zh"]) >= 25


def test_the_bank_is_large_and_bilingual(bank):
    # Python 3.11 is what the bank was written beside; a later one may word a few docstrings otherwise.
    assert len(bank.left_out) <= (0 if sys.version_info[:2] == (3, 11) else 10)
    assert len(bank.questions) >= 150
    assert sum(question.chinese for question in bank.questions) >= 40
    assert {question.answerable for question in bank.questions} == {"full", "partly", "nowhere"}


def test_every_gold_passage_exists_and_holds_its_key(bank, passages):
    texts = {passage.id: passage.text for passage in passages}
    for question in bank.questions:
        assert bool(question.gold) == (question.answerable != "nowhere"), question.text
        assert all(question.key.search(texts[gold]) for gold in question.gold), question.text


def test_a_question_whose_answer_is_not_documented_is_left_out(passages):
    """Another Python may word a docstring otherwise: better unasked than judged wrongly."""
    fewer = [passage for passage in passages if passage.id != "manual-en:seats"]
    left_out = questions.load(fewer).left_out
    assert len(left_out) >= 3


def test_questions_are_not_copied_from_the_documents(bank, passages):
    everything = " ".join(words.normalise(passage.text) for passage in passages)
    copied = [q.text for q in bank.questions if words.normalise(q.text).rstrip("?？ ") in everything]
    assert copied == []


def test_the_index_finds_the_evidence_among_its_candidates(bank, passages):
    """Retrieval is the part that must work for everything after it to mean something."""
    from groundwatch_deploy.demo.rewrite import rewrite

    index = Index(passages)
    asked = [question for question in bank.questions if question.gold]
    found = [
        question
        for question in asked
        if {hit.passage.id for hit in index.candidates(rewrite(question.text, index.document_counts), 12)}
        & question.gold
    ]
    assert len(found) >= 0.98 * len(asked)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("What's the max upload?", {"max", "upload"}),
        ("json.dumps", {"json.dumps", "json", "dump"}),
        ("团队版有多少席位？", {"团队", "队版", "席位"}),
        ("3,000 requests", {"3000", "request"}),
    ],
)
def test_tokens(text, tokens):
    assert set(words.tokens(text)) == tokens


def test_sentences_are_verbatim():
    text = "First. Second is 1.5 GB. 第三句。第四句。\n\nLast"
    found = words.sentences(text)
    assert found == ["First.", "Second is 1.5 GB.", "第三句。", "第四句。", "Last"]
