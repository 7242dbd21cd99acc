"""Agents, several searches, several answers in one request: every step is kept, and rules say what counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from groundwatch import names
from groundwatch_collector.mapping import to_ragtrace
from groundwatch_collector.ragtrace import Outcome, RagTrace

SCOPE = "openinference.instrumentation.agents"
AT = {name: 1_780_000_000.0 + second for second, name in enumerate("abcdefghijkl")}


def ids(found: Any) -> list[str] | None:
    return None if found is None else [document.id for document in found]


def listed(*found: str, prefix: str = "retrieval.documents") -> dict[str, Any]:
    """Documents as OpenInference flattens them; an id in capitals comes with a high score."""
    flat: dict[str, Any] = {}
    for index, name in enumerate(found):
        flat[f"{prefix}.{index}.document.id"] = name.lower()
        flat[f"{prefix}.{index}.document.score"] = 0.9 if name.isupper() else 0.5 - index / 100
        flat[f"{prefix}.{index}.document.content"] = f"Text of {name.lower()}."
    return flat


class Agent:
    """The spans of one agent's run, in the order of the calls."""

    def __init__(self, make: Any) -> None:
        self.make = make
        asked = {"openinference.span.kind": "AGENT", "input.value": "Who lends what?", "output.value": "Both do [1]."}
        self.spans = [make.span("01", "", asked, start=AT["a"], end=AT["l"], scope_name=SCOPE)]

    def add(self, kind: str, at: str, parent: str = "01", /, **attributes: Any) -> str:
        span_id = f"{len(self.spans) + 1:02x}"
        known = {"openinference.span.kind": kind, **attributes}
        self.spans.append(
            self.make.span(
                span_id, parent, known, start=AT[at], end=AT[at] + 0.5, scope_name=SCOPE, name=kind.lower()
            )
        )
        return span_id

    def tool(self, at: str) -> str:
        return self.add("TOOL", at, **{"input.value": '{"q": "lending"}', "output.value": "Text of a."})

    def search(self, at: str, *found: str, parent: str = "01") -> str:
        return self.add("RETRIEVER", at, parent, **{"input.value": "lending"}, **listed(*found))

    def rerank(self, at: str, *found: str) -> str:
        return self.add("RERANKER", at, **listed(*found, prefix="reranker.output_documents"))

    def call(self, at: str, said: str, tokens: int = 10, prompt: str = "Who lends what?") -> str:
        message = {"role": "assistant", "content": said}
        return self.add(
            "LLM",
            at,
            **{f"llm.output_messages.0.message.{key}": value for key, value in message.items()},
            **{"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": prompt},
            **{"llm.token_count.prompt": 100, "llm.token_count.completion": tokens},
        )

    def read(self) -> RagTrace:
        found = to_ragtrace(self.spans)
        assert found is not None
        return found


@pytest.fixture
def agent(make) -> Agent:
    return Agent(make)


def test_an_agent_that_searches_twice_by_tools_keeps_every_step_and_its_last_call_answers(agent):
    agent.call("b", "", tokens=5)  # it asks for a tool
    agent.search("d", "a", "b", parent=agent.tool("c"))
    agent.call("e", "Let me look for more.", tokens=5)
    agent.search("g", "b", "c", parent=agent.tool("f"))
    agent.call("h", "Both do [1].", prompt="[1] Text of a.\n[2] Text of c.\n\nWho lends what?")
    trace = agent.read()
    assert (trace.query, trace.answer, trace.outcome) == ("Who lends what?", "Both do [1].", Outcome.ANSWERED)
    assert trace.sources["answer_call"] == "rule:output_is_the_answer"
    assert ids(trace.candidates) == ["a", "b", "c"] and "several_candidates" in trace.flags
    assert ids(trace.context) == ["a", "c"]
    assert [citation.document_id for citation in trace.citations] == ["a"]
    assert trace.usage.output_tokens == 20
    assert [stage.name for stage in trace.stages] == [
        "rewrite",
        "other",
        "candidates",
        "other",
        "other",
        "candidates",
        "answer",
    ]


def test_of_several_answers_the_one_that_the_request_returned_counts(agent):
    agent.search("b", "a")
    agent.call("c", "Both do [1].")
    agent.call("d", "Checked: the answer is grounded.")  # a guard or judge inside the application
    trace = agent.read()
    assert trace.answer == "Both do [1]."
    assert [stage.name for stage in trace.stages] == ["candidates", "answer", "other"]


def test_a_search_of_several_that_finds_nothing_is_no_empty_result(agent):
    agent.search("b", "a")
    agent.add("RETRIEVER", "c", **{"input.value": "lending", "retrieval.documents": "[]"})
    trace = agent.read()
    assert ids(trace.candidates) == ["a"] and trace.outcome is Outcome.ANSWERED


def test_a_tool_alone_is_a_step_and_no_retrieval(agent):
    agent.tool("b")
    agent.call("c", "Both do [1].")
    trace = agent.read()
    assert trace.candidates is None
    assert [stage.name for stage in trace.stages] == ["other", "answer"]


def test_rerankers_of_two_searches_are_joined(agent):
    agent.search("b", "a", "b")
    agent.rerank("c", "B")
    agent.search("d", "b", "c")
    agent.rerank("e", "C", "B")
    trace = agent.read()
    assert ids(trace.reranked) == ["b", "c"] and "several_reranked" in trace.flags


def test_of_rerankers_in_a_row_the_last_counts(agent):
    agent.search("b", "a", "b", "c")
    agent.rerank("c", "C", "B", "A")
    agent.rerank("d", "B", "C")
    trace = agent.read()
    assert ids(trace.reranked) == ["b", "c"] and "several_reranked" not in trace.flags


def test_one_reranker_over_parallel_searches_takes_the_place_of_theirs(agent):
    agent.search("b", "a", "b")
    agent.search("c", "c", "d")
    agent.rerank("d", "B", "A")
    agent.rerank("e", "D", "C")
    agent.rerank("f", "D", "B")
    trace = agent.read()
    assert ids(trace.candidates) == ["a", "b", "c", "d"] and ids(trace.reranked) == ["d", "b"]


def test_two_retrievers_that_each_hold_one_are_two_rerankers(agent):
    for at, found, best in (("b", ("a", "b"), ("B",)), ("d", ("c", "b"), ("C", "B"))):
        outer = agent.search(at, *best)
        agent.search(chr(ord(at) + 1), *found, parent=outer)
    trace = agent.read()
    assert (ids(trace.candidates), ids(trace.reranked)) == (["a", "b", "c"], ["b", "c"])


def test_two_layers_that_show_the_same_list_are_no_reranker(agent):
    agent.search("c", "a", "b", parent=agent.search("b", "a", "b"))
    agent.search("e", "c", parent=agent.search("d", "c"))
    trace = agent.read()
    assert (ids(trace.candidates), trace.reranked) == (["a", "b", "c"], None)


# Our own SDK: the same rules.


def own(make: Any, *stages: tuple[str, list[str]], **of_last: Any) -> RagTrace:
    keys = {"candidates": names.CANDIDATES, "rerank": names.RERANKED, "context": names.CONTEXT}
    spans = []
    for number, (stage, found) in enumerate(stages):
        body = json.dumps([{"id": name, "rank": rank, "score": 0.5} for rank, name in enumerate(found, start=1)])
        attributes = {names.STAGE: stage, keys[stage]: body}
        if number == len(stages) - 1:
            attributes.update(of_last)
        spans.append(make.span(f"b{number}", "01", attributes, start=make.START + number / 10))
    root = {names.STAGE: "request", names.QUERY: "q", names.ANSWER: "a", names.OUTCOME: "answered"}
    trace = to_ragtrace([*spans, make.span("01", "", root)])
    assert trace is not None
    return trace


def test_searches_that_the_sdk_recorded_are_joined(make):
    trace = own(make, ("candidates", ["a", "b"]), ("candidates", ["b", "c"]))
    assert ids(trace.candidates) == ["a", "b", "c"]
    assert trace.flags == ("several_candidates",)
    assert list(trace.ranking_scores or ()) == [0.5] * 3


def test_of_a_search_that_was_tried_again_the_last_attempt_counts(make):
    trace = own(make, ("candidates", ["a"]), ("candidates", ["b", "c"]), **{names.RETRIES: 1})
    assert ids(trace.candidates) == ["b", "c"]


def test_rankings_and_contexts_that_the_sdk_recorded(make):
    trace = own(
        make,
        ("candidates", ["a", "b"]),
        ("rerank", ["b"]),
        ("candidates", ["c"]),
        ("rerank", ["c"]),
        ("context", ["b"]),
        ("context", ["b", "c"]),
    )
    assert (ids(trace.reranked), ids(trace.context)) == (["b", "c"], ["b", "c"])
    in_a_row = own(make, ("candidates", ["a", "b"]), ("rerank", ["b", "a"]), ("rerank", ["a"]))
    assert ids(in_a_row.reranked) == ["a"]
