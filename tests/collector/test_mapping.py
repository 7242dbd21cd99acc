"""Spans of several conventions become one record; what a sender got wrong is flagged, never fatal."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groundwatch import names
from groundwatch_collector.mapping import to_ragtrace, values
from groundwatch_collector.mapping.outcome import Evidence, infer
from groundwatch_collector.ragtrace import Outcome, RagTrace, Usage, from_json, to_json
from groundwatch_collector.spans import Span


def test_our_own_spans_are_read_exactly(make):
    trace = to_ragtrace(make.request())
    assert trace is not None
    assert (trace.app, trace.version, trace.convention) == ("shop", "1.0", "groundwatch")
    assert (trace.outcome, trace.outcome_source) == (Outcome.ANSWERED, "recorded")
    assert trace.query == "How large may an upload be?"
    assert trace.rewritten_query == "upload limit"
    assert [d.id for d in trace.candidates or ()] == [d.id for d in trace.context or ()] == ["kb-1", "kb-2"]
    assert (trace.candidates or ())[0].score == 0.9
    assert [(c.document_id, c.marker) for c in trace.citations] == [("kb-1", "[1]")]
    assert trace.usage == Usage(120, 30)
    assert (trace.model, trace.time_to_first_token_seconds) == ("model-1", 0.45)
    assert [stage.name for stage in trace.stages] == ["rewrite", "candidates", "rerank", "context", "answer"]
    assert trace.duration_seconds == pytest.approx(0.6)
    assert trace.sources["context"] == names.CONTEXT
    assert trace.flags == ()


_ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**60),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["kb-1", "a\x00b", "\ud800", "文档", "__REDACTED__", "x" * 201, ""]),
)


_ENTRIES = st.fixed_dictionaries({}, optional=dict.fromkeys(("id", "rank", "score", "content", "title", "cut"), _ODD))


@given(st.lists(_ENTRIES, max_size=3), st.booleans())
def test_the_short_way_to_a_document_leads_where_the_long_one_does(entries, as_json):
    value = json.dumps(entries) if as_json else entries
    short, long = values.Notes(), values.Notes()
    read = values.documents(value, short)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "_plain_entries", lambda _raw, _clean: None)
        assert repr(read) == repr(values.documents(value, long))
    assert short == long


def test_an_escaped_nul_is_mended_on_the_short_way_too():
    notes = values.Notes()
    found = values.documents('[{"id": "a", "rank": 1, "score": 0.5, "content": "b\\u0000c"}]', notes)
    assert found is not None
    assert (found[0].text, notes.flags) == ("bc", {"nul_stripped"})


def test_unknown_and_known_to_be_empty_are_different(make):
    empty = to_ragtrace(make.request(documents="[]"))
    unknown = to_ragtrace([s for s in make.request() if s.attributes[names.STAGE] in ("request", "answer")])
    assert empty is not None and (empty.candidates, empty.context) == ((), ())
    assert unknown is not None and (unknown.candidates, unknown.context) == (None, None)


def test_another_instrumentor_inside_our_request_does_not_replace_what_we_recorded(make):
    call = make.span(
        "b1",
        "a5",
        {"openinference.span.kind": "LLM", "llm.token_count.prompt": 999, "output.value": "something else"},
        scope_name="openinference.instrumentation.openai",
    )
    trace = to_ragtrace([*make.request(), call])
    assert trace is not None
    assert (trace.answer, trace.usage.input_tokens) == ("Up to 50 MB in the team edition [1].", 120)
    assert trace.span_count == 7
    assert {stage.span_id[-2:]: stage.name for stage in trace.stages}["b1"] == "other"


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        ({"documents": "no list"}, "json_invalid"),
        ({"documents": '{"a": 1}'}, "documents_invalid"),
        ({"documents": "[1, null]"}, "documents_invalid"),
        ({"documents": '[{"id": "a", "score": NaN}]'}, "nan_dropped"),
        ({"documents": '[{"content": "text without an id"}]'}, "document_id_derived"),
        ({"documents": '[{"id": "a", "cut": 20}]'}, "documents_cut"),
        ({"documents": '[{"id": "a", "rank": 1}, {"id": "b", "rank": 1}]'}, "ranks_renumbered"),
        ({"documents": "[" * 100_000}, "json_invalid"),
        ({"root": {names.OUTCOME: "marvellous"}}, "unknown_outcome_word"),
        ({"root": {names.OUTCOME: None}}, "outcome_not_recorded"),
        ({"root": {names.ANSWER: ["a"]}}, "wrong_type"),
        ({"root": {names.ANSWER: "a\x00b"}}, "nul_stripped"),
        ({"root": {names.QUERY: "\ud83d"}}, "surrogate_replaced"),
        ({"root": {names.CITATIONS: "[1"}}, "json_invalid"),
        ({"root": {names.CITATIONS: "{}"}}, "citations_invalid"),
        ({"root": {names.RETRIES: -1}}, "count_out_of_range"),
        ({"root": {names.FIRST_TOKEN: "soon"}}, "wrong_type"),
        ({"root": {names.INPUT_TOKENS: 1e300}}, "count_out_of_range"),
        ({"root": {names.SESSION: "s" * 500}}, "label_cut"),
        ({"root": {names.TRUNCATED: '["answer"]'}}, "cut_by_sender"),
    ],
)
def test_what_cannot_be_right_is_flagged(make, change, flag):
    trace = to_ragtrace(make.request(**change))
    assert trace is not None
    assert flag in trace.flags
    assert from_json(to_json(trace)) == trace


def test_an_unknown_outcome_word_is_unknown_not_answered(make):
    trace = to_ragtrace(make.request(root={names.OUTCOME: "marvellous"}))
    assert trace is not None
    assert (trace.outcome, trace.outcome_source) == (Outcome.UNKNOWN, "recorded")


def test_a_request_without_its_root_keeps_what_its_stages_say(make):
    trace = to_ragtrace(make.request()[:4])
    assert trace is not None
    assert trace.incomplete and "missing_root" in trace.flags
    assert trace.query is None and trace.candidates is not None
    assert trace.outcome is Outcome.UNKNOWN


def test_of_two_different_spans_with_one_id_the_first_wins(make):
    spans = make.request()
    changed = dataclasses.replace(spans[-1], attributes={**spans[-1].attributes, names.ANSWER: "other"})
    trace = to_ragtrace([*spans, changed])
    assert trace is not None
    assert trace.answer == "Up to 50 MB in the team edition [1]."
    assert trace.flags == ("conflicting_spans",)


def test_a_span_that_ends_before_it_starts_takes_no_time(make):
    *children, root = make.request()
    trace = to_ragtrace([*children, dataclasses.replace(root, end_unix_nano=root.start_unix_nano - 1)])
    assert trace is not None
    assert trace.duration_seconds == 0.0 and "clock_skew" in trace.flags


def test_two_requests_in_one_trace_are_flagged_and_the_first_is_read(make):
    second = make.span("02", "", {names.STAGE: "request", names.QUERY: "another"}, start=make.START + 5)
    trace = to_ragtrace([*make.request(), second])
    assert trace is not None
    assert trace.query == "How large may an upload be?" and "several_requests" in trace.flags


def test_a_request_inside_a_callers_trace_is_whole(make):
    *children, root = make.request()
    trace = to_ragtrace([*children, dataclasses.replace(root, parent_id="f" * 16)])
    assert trace is not None and not trace.incomplete


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        ("ReadTimeout", Outcome.TIMEOUT),
        ("asyncio.exceptions.CancelledError", Outcome.CANCELLED),
        ("GeneratorExit", Outcome.CANCELLED),
        ("ValueError", Outcome.ERROR),
    ],
)
def test_an_outcome_that_was_not_recorded_is_inferred_and_says_by_which_rule(make, error, outcome):
    *children, root = make.request(root={names.OUTCOME: None, names.ERROR_TYPE: error})
    trace = to_ragtrace([*children, dataclasses.replace(root, status="error")])
    assert trace is not None
    assert (trace.outcome, trace.outcome_source, trace.error_class) == (outcome, "inferred", error)
    assert trace.sources["outcome"].startswith("rule:")


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("", Outcome.CANCELLED),
        ("The ", Outcome.CANCELLED),
        ("There are three steps:\n", Outcome.CANCELLED),
        ("首先，", Outcome.CANCELLED),
        ("Call Ms Li (", Outcome.CANCELLED),
        ("Paris", Outcome.UNKNOWN),  # the whole of a short answer, or the beginning of a longer one
        ("- salt\n- pepper\n", Outcome.UNKNOWN),
        ("十二个月", Outcome.UNKNOWN),
        ("It is open. ", Outcome.UNKNOWN),
    ],
)
def test_a_stream_of_which_the_end_was_not_seen_is_cancelled_only_where_its_text_shows_it(text, outcome):
    assert infer(Evidence(streaming=True, answer=text))[0] is outcome
    assert infer(Evidence(streaming=True, answer=text or "a", finish_reasons=("stop",)))[0] is Outcome.ANSWERED


@pytest.mark.parametrize(
    "attributes",
    [{}, {"http.route": "/"}, {"openinference.span.kind": "EMBEDDING", "embedding.model_name": "e"}],
)
def test_index_building_and_other_spans_are_no_question(make, attributes):
    assert to_ragtrace([make.span(attributes=attributes, scope_name="")]) is None


def test_nothing_is_no_question():
    assert to_ragtrace([]) is None


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_KEYS = [value for key, value in vars(names).items() if key.isupper() and isinstance(value, str)] + [
    "retrieval.documents.0.document.id",
    "retrieval.documents.0.document.metadata",
    "reranker.output_documents.1.document.score",
    "llm.input_messages.0.message.content",
    "llm.output_messages.0.message.content",
    "llm.prompt_template.variables",
    "llm.invocation_parameters",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.response.finish_reasons",
    "traceloop.entity.input",
    "traceloop.entity.output",
    "traceloop.span.kind",
    "langfuse.observation.type",
    "langfuse.observation.input",
    "langfuse.observation.output",
    "langfuse.observation.usage_details",
]
_VALUES = (
    _JSON
    | _JSON.map(json.dumps)
    | st.sampled_from(
        [
            "request",
            "LLM",
            "RETRIEVER",
            "RERANKER",
            "CHAIN",
            "chat",
            "retrieval",
            "rerank",
            "generation",
            "retriever",
            "{",
            "[1",
        ]
    )
)
_SCOPES = [
    "groundwatch",
    "openinference.x",
    "opentelemetry.util.genai.handler",
    "traceloop.tracer",
    "langfuse-sdk",
    "",
]


@st.composite
def hostile_spans(draw: st.DrawFn) -> list[Span]:
    return [
        Span(
            trace_id="1" * 32,
            span_id=draw(st.sampled_from(["1" * 16, "2" * 16, "3" * 16])),
            parent_id=draw(st.sampled_from(["", "1" * 16, "2" * 16, "3" * 16, "9" * 16])),
            name=draw(st.text(max_size=10)),
            kind=1,
            start_unix_nano=draw(st.integers(0, 2**64 - 1)),
            end_unix_nano=draw(st.integers(0, 2**64 - 1)),
            status=draw(st.sampled_from(["unset", "ok", "error"])),
            status_message="",
            attributes=draw(st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=8)),
            scope_name=draw(st.sampled_from(_SCOPES)),
            resource=draw(st.dictionaries(st.sampled_from([names.SERVICE_NAME]), _VALUES, max_size=1)),
        )
        for _ in range(draw(st.integers(1, 4)))
    ]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # how busy the machine is, is not the matter
@given(hostile_spans())
def test_no_sender_can_make_it_raise(spans):
    trace = to_ragtrace(spans)
    if trace is not None:
        assert from_json(to_json(trace)) == trace
        assert trace.duration_seconds >= 0


# Real captures of other conventions.


def only(make: Any, shared_data: Path, name: str) -> RagTrace:
    traces = [t for spans in make.capture(shared_data / "otlp" / f"{name}.pb") if (t := to_ragtrace(spans))]
    assert len(traces) == 1
    found: RagTrace = traces[0]
    return found


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("capture", "outcome"),
    [
        *[(f"openinference-{kind}-normal", "answered") for kind in ("langchain", "llamaindex", "haystack", "openai")],
        *[(f"openinference-{kind}-error", "error") for kind in ("langchain", "llamaindex", "haystack", "openai")],
        *[(f"openinference-{kind}-empty", "no_result") for kind in ("langchain", "llamaindex", "openai")],
        ("openinference-llamaindex-cancel", "cancelled"),
        ("openinference-openai-cancel", "cancelled"),
        ("openinference-llamaindex-stream", "answered"),
        *[(f"otel-genai-{kind}-normal", "answered") for kind in ("langchain", "manual")],
        *[(f"otel-genai-{kind}-error", "error") for kind in ("langchain", "manual")],
        *[(f"otel-genai-{kind}-empty", "no_result") for kind in ("langchain", "manual")],
        ("otel-genai-manual-cancel", "cancelled"),
        ("langfuse-native-normal", "answered"),
        ("langfuse-native-error", "error"),
        ("langfuse-native-empty", "no_result"),
        ("langfuse-langchain-normal", "answered"),
        ("traceloop-openai-normal", "answered"),
    ],
)
def test_outcome_of_a_capture(make, shared_data, capture, outcome):
    trace = only(make, shared_data, capture)
    assert (trace.outcome, trace.outcome_source) == (outcome, "inferred")


@pytest.mark.shared_data
@pytest.mark.parametrize(
    "capture",
    [
        "openinference-langchain-normal",
        "openinference-llamaindex-normal",
        "openinference-haystack-normal",
        "openinference-openai-normal",
        "otel-genai-langchain-normal",
        "otel-genai-manual-normal",
        "langfuse-langchain-normal",
        "langfuse-native-normal",
        "traceloop-openai-normal",
    ],
)
def test_question_answer_and_documents_of_a_capture(make, shared_data, capture):
    trace = only(make, shared_data, capture)
    assert trace.query == "how often do i need to change the hepa filter??"
    assert (trace.answer or "").startswith("Replace the HEPA filter every 12 months")
    if not capture.startswith(("openinference-haystack", "traceloop")):
        assert trace.rewritten_query == "Breeza 300 HEPA filter replacement interval"
    assert trace.candidates and trace.candidates[0].id == "kb-001"
    assert "every 12 months" in "".join(document.text or "" for document in trace.context or ())
    assert trace.usage.output_tokens in (26, 36)  # the answer's 26, and the rewriting call's 10 where there is one


@pytest.mark.shared_data
@pytest.mark.parametrize(
    "capture",
    [
        "openinference-langchain-normal",
        "openinference-llamaindex-normal",
        "openinference-haystack-normal",
        "openinference-openai-normal",
        "langfuse-langchain-normal",
        "langfuse-native-normal",
        "traceloop-openai-normal",
    ],
)
def test_a_reranked_list_is_told_from_the_candidates(make, shared_data, capture):
    trace = only(make, shared_data, capture)
    assert (len(trace.candidates or ()), len(trace.reranked or ())) == (6, 3)
    assert (trace.reranked or ())[0].score == 0.8333


@pytest.mark.shared_data
def test_documents_that_the_senders_attribute_limit_evicted_are_said_to_be_missing(make, shared_data):
    trace = only(make, shared_data, "openinference-llamaindex-manydocs")
    assert {"documents_cut", "attributes_dropped"} <= set(trace.flags)


@pytest.mark.shared_data
def test_hidden_content_is_unknown_not_text(make, shared_data):
    trace = only(make, shared_data, "openinference-haystack-masked")
    assert trace.query is None and trace.answer is None
    assert "content_hidden" in trace.flags


@pytest.mark.shared_data
def test_every_capture_can_be_read_and_stored(make, shared_data):
    for path in sorted((shared_data / "otlp").glob("*.pb")):
        if not path.name.endswith((".logs.pb", ".metrics.pb")):
            for spans in make.capture(path):
                trace = to_ragtrace(spans)
                assert trace is None or from_json(to_json(trace)) == trace
