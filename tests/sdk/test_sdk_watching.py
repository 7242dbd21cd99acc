"""What the one-liners for frameworks read out of inputs and answers; the frameworks themselves are in tests/live."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from groundwatch.watching import answer_in, names_of, question_in, shown_in

MESSAGE = SimpleNamespace(content="hello", type="human")


@pytest.mark.parametrize(
    ("given", "question"),
    [
        ("plain", "plain"),
        ({"question": "q", "context": "c"}, "q"),
        ({"input": {"query": "q"}}, "q"),
        ({"messages": [SimpleNamespace(content="earlier"), MESSAGE]}, "hello"),
        ({"retriever": {"top_k": 3, "query": "q"}}, "q"),
        ([MESSAGE], "hello"),
        ({}, None),
        ([], None),
        (None, None),
        ({"question": 7, "query": "q"}, "q"),
        ({"a": {"b": {"c": {"d": {"query": "too deep"}}}}}, None),
    ],
)
def test_the_question_in_an_input(given, question):
    assert question_in(given) == question


def test_the_host_may_say_where_the_question_is():
    assert question_in({"question": "no", "text": "yes"}, "text") == "yes"
    assert question_in(["no", "yes"], lambda given: given[1]) == "yes"
    assert question_in({"question": "no"}, "absent") is None


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ("a", "a"),
        (MESSAGE, "hello"),
        ({"answer": "a", "context": []}, "a"),
        ({"replies": [MESSAGE]}, "hello"),
        (7, None),
    ],
)
def test_the_answer_in_an_output(given, answer):
    assert answer_in(given) == answer


def test_what_a_prompt_shows_in_its_order_and_once():
    documents = [{"id": "b", "content": "second"}, {"id": "a", "content": "first"}, {"id": "c", "content": "absent"}]
    found = shown_in("[1] first [2] second", [*documents, *documents])
    assert [name for name, _score in names_of(found)] == ["a", "b"]
    assert shown_in("anything", [{"id": "a", "content": ""}, {"id": "b"}, None]) == []
