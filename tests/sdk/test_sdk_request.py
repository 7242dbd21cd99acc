"""What one request looks like on the wire."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
import enum
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import groundwatch
from groundwatch import names, quiet

DOCUMENTS = [{"id": "a", "content": "first", "score": 2.5}, {"id": "b", "content": "second", "score": 1.0}]


def test_every_stage_arrives_as_one_trace(sent):
    with groundwatch.request("How long?", session="s-1", user="bob@example.org", name="chat") as r:
        r.rewrite("retention period")
        r.candidates(DOCUMENTS, source="manual")
        r.rerank([("b", 0.9), ("a", 0.1)], model="ranker-2")
        r.context(DOCUMENTS[1:])
        r.first_token()
        r.answer(
            "30 days [1]",
            citations=[("b", "[1]")],
            usage={"input_tokens": 90, "output_tokens": 4},
            model="m-1",
            cost_usd=0.002,
        )
        r.outcome("answered", reason="high score")
    receiver = sent()
    root = receiver.root()
    assert {span.trace_id for span in receiver.spans()} == {r.trace_id}
    assert {span.parent_id for span in receiver.spans()} == {"", root.span_id}
    assert root.name == "invoke_workflow chat"
    assert root.resource[names.SERVICE_NAME] == "shop"
    assert root.resource[names.SERVICE_VERSION] == "7"
    expected = {
        names.OPERATION: "invoke_workflow",
        names.SPAN_KIND: "CHAIN",
        names.QUERY: "How long?",
        names.ANSWER: "30 days [1]",
        names.OUTCOME: "answered",
        names.OUTCOME_REASON: "high score",
        names.CITATIONS: '[{"id":"b","marker":"[1]"}]',
        names.SESSION: "s-1",
        names.CONVERSATION: "s-1",
        names.INPUT_TOKENS: 90,
        names.OUTPUT_TOKENS: 4,
        names.COST_USD: 0.002,
        names.RESPONSE_MODEL: "m-1",
    }
    assert expected.items() <= root.attributes.items()
    assert 0 < root[names.FIRST_TOKEN] < 60
    assert "bob" not in str(receiver.everything())
    assert len(root[names.USER_HASH]) == 32
    stages = {
        "rewrite": ("rewrite", "CHAIN"),
        "candidates": ("retrieval manual", "RETRIEVER"),
        "rerank": ("rerank ranker-2", "RERANKER"),
        "context": ("context", "CHAIN"),
        "answer": ("chat m-1", "LLM"),
    }
    assert {s: (receiver.stage(s).name, receiver.stage(s)[names.SPAN_KIND]) for s in stages} == stages
    assert receiver.stage("rewrite")[names.REWRITTEN_QUERY] == "retention period"
    assert receiver.stage("candidates").list(names.CANDIDATES) == [
        {"id": "a", "rank": 1, "score": 2.5, "content": "first"},
        {"id": "b", "rank": 2, "score": 1.0, "content": "second"},
    ]
    assert receiver.stage("rerank").list(names.RERANKED) == [
        {"id": "b", "rank": 1, "score": 0.9},
        {"id": "a", "rank": 2, "score": 0.1},
    ]
    assert [d["id"] for d in receiver.stage("context").list(names.CONTEXT)] == ["b"]


def test_direct_calls_share_out_the_time_between_them(sent):
    with groundwatch.request("q") as r:
        r.candidates(DOCUMENTS)
        r.answer("a")
    receiver = sent()
    candidates, answer, root = receiver.stage("candidates"), receiver.stage("answer"), receiver.root()
    assert root.start == candidates.start <= candidates.end == answer.start <= answer.end <= root.end


def test_a_timed_stage_takes_what_is_recorded_inside_it(sent):
    with groundwatch.request("q") as r:
        with r.stage("candidates", source="x") as stage:
            stage.documents(DOCUMENTS)
        with r.stage("answer"):
            r.answer("yes", model="m")
        with r.stage("guardrail"):
            pass
    receiver = sent()
    assert receiver.stage("candidates").name == "retrieval x"
    assert receiver.stage("answer").name == "chat m"
    assert receiver.stage("other").name == "guardrail"


def test_documents_changed_afterwards_are_sent_as_they_were(sent):
    documents: list[dict[str, Any]] = [{"id": "a", "score": 1.0, "metadata": {"title": "old"}}]
    with groundwatch.request("q") as r:
        r.candidates(documents)
        documents[0]["score"] = 9.0
        documents[0]["metadata"]["title"] = "new"
        documents.append({"id": "late"})
    assert sent().stage("candidates").list(names.CANDIDATES) == [{"id": "a", "rank": 1, "score": 1.0, "title": "old"}]


class _LangChain:
    def __init__(self, page_content, metadata):
        self.page_content, self.metadata = page_content, metadata


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"doc_id": 7, "text": "t"}, {"id": "7", "content": "t"}),
        (groundwatch.Document("d", "t", 0.5, "T", "v2"), {"id": "d", "score": 0.5, "version": "v2", "title": "T"}),
        (_LangChain("t", {"id": "lc", "title": "T"}), {"id": "lc", "title": "T", "content": "t"}),
        ((_LangChain("t", {"id": "lc"}), 0.25), {"id": "lc", "score": 0.25}),
        (SimpleNamespace(node=SimpleNamespace(node_id="n", text="t"), score=0.75), {"id": "n", "score": 0.75}),
        (SimpleNamespace(id="h", content="t", score=1, meta={"version": "3"}), {"id": "h", "version": "3"}),
        ("only text", {"id": "text-4d2f2ee9ce1cb1b0", "content": "only text"}),
        ({"id": None, "score": math.nan}, {"id": "", "score": None}),
        ({"id": "x", "score": math.inf}, {"id": "x", "score": None}),
        (b"\xff", {"content": "\ufffd"}),
        (None, {"id": ""}),
        (3.5, {"id": "3.5"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_documents_in_the_shapes_that_applications_hold(sent, document, expected):
    with groundwatch.request("q") as r:
        r.candidates([document])
    (found,) = sent().stage("candidates").list(names.CANDIDATES)
    if str(expected.get("id", "")).startswith("text-"):
        assert found.pop("id").startswith("text-")
        expected = {k: v for k, v in expected.items() if k != "id"}
    assert expected.items() <= found.items()


def test_a_generator_of_documents_is_not_consumed(sent, caplog):
    documents = (d for d in DOCUMENTS)
    with groundwatch.request("q") as r:
        r.candidates(documents)  # type: ignore[arg-type]
    assert list(documents) == DOCUMENTS
    assert "can only be read once" in caplog.text
    assert sent().root().list(names.FLAGS) == ["documents_unreadable"]


class DeadlineExceededError(Exception):
    pass


def _record(*calls):
    def run(r):
        for name, *args in calls:
            getattr(r, name)(*args)

    return run


@pytest.mark.parametrize(
    ("calls", "raised", "outcome"),
    [
        ((), None, "unknown"),
        ((("candidates", DOCUMENTS),), None, "unknown"),
        ((("candidates", []),), None, "no_result"),
        ((("candidates", []), ("answer", "sorry")), None, "answered"),
        ((("answer", "yes"),), None, "answered"),
        ((("outcome", "refused"), ("answer", "no")), None, "refused"),
        ((), ValueError("x"), "error"),
        ((), TimeoutError(), "timeout"),
        ((), DeadlineExceededError(), "timeout"),
        ((), asyncio.CancelledError(), "cancelled"),
        ((), KeyboardInterrupt(), "cancelled"),
        ((), GeneratorExit(), "cancelled"),
        ((("outcome", "answered"),), ValueError(), "error"),
        ((("outcome", "answered"),), GeneratorExit(), "answered"),
        ((("outcome", "timeout"),), ValueError(), "timeout"),
        ((("error", TimeoutError()),), None, "timeout"),
        ((("error", ValueError()), ("answer", "fallback")), None, "answered"),
    ],
)
def test_outcome_by_rule(sent, calls, raised, outcome):
    try:
        with groundwatch.request("q") as r:
            _record(*calls)(r)
            if raised is not None:
                raise raised
    except BaseException as error:
        assert error is raised
    assert sent().root()[names.OUTCOME] == outcome


class Verdict(enum.StrEnum):
    REFUSED = "refused"


@pytest.mark.parametrize("word", ["Refused", " refused ", Verdict.REFUSED])
def test_outcome_words_are_forgiven_their_case(sent, word):
    with groundwatch.request("q") as r:
        r.outcome(word)
    assert sent().root()[names.OUTCOME] == "refused"


@pytest.mark.parametrize("word", ["brilliant", "", None, 3, "\ud800"])
def test_unknown_outcome_words_are_unknown_and_flagged(sent, caplog, word):
    for _ in range(3):
        with groundwatch.request("q") as r:
            r.outcome(word)
    roots = sent().roots()
    assert {root[names.OUTCOME] for root in roots} == {"unknown"}
    assert "unknown_outcome" in roots[0].list(names.FLAGS)
    assert caplog.text.count("is not one of answered") == 1


def test_a_failing_stage_is_not_a_failing_request(sent):
    with groundwatch.request("q") as r:
        try:
            with r.stage("rerank", model="m"):
                raise ConnectionError("host 10.0.0.1")
        except ConnectionError as error:
            r.retry("rerank", error)
        with r.stage("rerank", model="m") as s:
            s.documents(DOCUMENTS)
        r.answer("fine")
    receiver = sent()
    failed, good = receiver.stages("rerank")
    assert (failed.status, good.status, receiver.root().status) == (2, 0, 0)
    assert failed[names.ERROR_TYPE] == "ConnectionError"
    assert failed.events == [
        ("exception", {"exception.type": "ConnectionError", "exception.message": "host 10.0.0.1"})
    ]
    assert receiver.root()[names.OUTCOME] == "answered"
    assert receiver.root()[names.RETRIES] == 1
    assert receiver.root().events[0][0] == names.RETRY_EVENT


def test_a_failed_request_has_status_error_and_a_cancelled_one_has_not(sent):
    for error in (ValueError("boom"), asyncio.CancelledError()):
        with pytest.raises(type(error)), groundwatch.request("q"):
            raise error
    failed, cancelled = sent().roots()
    assert (failed.status, failed[names.ERROR_TYPE]) == (2, "ValueError")
    assert (cancelled.status, cancelled[names.ERROR_TYPE]) == (0, "asyncio.exceptions.CancelledError")


# --- contexts: tasks, threads, other tracers


def test_tasks_do_not_mix(sent):
    async def answer(n):
        async with groundwatch.request(f"q{n}") as r:
            await asyncio.sleep(0)
            async with r.stage("candidates") as s:
                await asyncio.sleep(0)
                assert groundwatch.current() is r
                s.documents([{"id": str(n)}])
            await asyncio.sleep(0)
            groundwatch.current().answer(f"a{n}")
        return r.trace_id

    async def main():
        return await asyncio.gather(*map(answer, range(20)))

    ids = asyncio.run(main())
    receiver = sent()
    assert {root.trace_id: root[names.QUERY][1:] for root in receiver.roots()} == {
        trace_id: str(n) for n, trace_id in enumerate(ids)
    }
    assert all(root[names.QUERY][1:] == root[names.ANSWER][1:] for root in receiver.roots())


def test_parallel_stages_of_one_request(sent):
    async def search(r, source):
        with r.stage("candidates", source=source):
            await asyncio.sleep(0)
            r.candidates([{"id": source}])

    async def main():
        async with groundwatch.request("q") as r:
            await asyncio.gather(search(r, "web"), search(r, "wiki"))

    asyncio.run(main())
    found = {s.name: s.list(names.CANDIDATES)[0]["id"] for s in sent().stages("candidates")}
    assert found == {"retrieval web": "web", "retrieval wiki": "wiki"}


def test_threads_need_wrap(sent):
    def search():
        groundwatch.current().candidates(DOCUMENTS)
        return groundwatch.current().trace_id

    with ThreadPoolExecutor(1) as pool, groundwatch.request("q") as r:
        assert pool.submit(search).result() == ""
        assert pool.submit(groundwatch.wrap(search)).result() == r.trace_id
        assert pool.submit(search).result() == ""
    assert len(sent().stages("candidates")) == 1


def test_wrap_carries_coroutines(sent):
    async def inner():
        return groundwatch.current().trace_id

    with groundwatch.request("q") as r:
        carried = groundwatch.wrap(inner)
    with groundwatch.request("other"):
        # The wrapped request has ended: what it would record is no longer wanted.
        assert asyncio.run(carried()) == ""
    with groundwatch.request("q") as r:
        assert asyncio.run(groundwatch.wrap(inner)()) == r.trace_id


@pytest.fixture
def host_tracer():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider.get_tracer("host"), exporter
    provider.shutdown()


def test_other_tracers_nest_under_the_open_stage(sent, host_tracer):
    tracer, exporter = host_tracer
    with groundwatch.request("q") as r:
        with tracer.start_as_current_span("direct"):
            pass
        with r.stage("answer"), tracer.start_as_current_span("http call"):
            pass
    direct, call = exporter.get_finished_spans()
    receiver = sent()
    assert trace.format_trace_id(call.context.trace_id) == r.trace_id
    assert trace.format_span_id(direct.parent.span_id) == receiver.root().span_id
    assert trace.format_span_id(call.parent.span_id) == receiver.stage("answer").span_id


def test_a_surrounding_trace_is_joined_once(sent, host_tracer):
    """A batch job asks many questions inside one span; one trace must still be one question."""
    tracer, _exporter = host_tracer
    with tracer.start_as_current_span("job") as span:
        with groundwatch.request("first") as first:
            pass
        with groundwatch.request("second") as second:
            pass
    around = trace.format_trace_id(span.get_span_context().trace_id)
    assert first.trace_id == around != second.trace_id
    joined, linked = sent().roots()
    assert joined.parent_id == trace.format_span_id(span.get_span_context().span_id)
    assert (linked.parent_id, linked.links) == ("", [around])


def test_a_request_inside_a_request_is_its_own_trace(sent):
    with groundwatch.request("outer") as outer:
        with groundwatch.request("inner") as inner:
            assert groundwatch.current() is inner
        assert groundwatch.current() is outer
    assert inner.trace_id != outer.trace_id
    ended_first, _ = sent().roots()
    assert ended_first.links == [outer.trace_id]


def test_the_hosts_sampling_decision_is_kept(configured):
    unsampled = trace.NonRecordingSpan(trace.SpanContext(5, 6, True, trace.TraceFlags(0)))
    with trace.use_span(unsampled), groundwatch.request("q"):
        assert not trace.get_current_span().get_span_context().trace_flags.sampled
    with groundwatch.request("q"):
        assert trace.get_current_span().get_span_context().trace_flags.sampled


def test_nothing_is_left_in_the_context(configured):
    before = context.get_current()
    with groundwatch.request("q") as r, r.stage("answer"):
        pass
    assert context.get_current() == before
    assert trace.get_tracer_provider().__class__.__name__ != "TracerProvider"


@pytest.mark.parametrize("given", ["0123456789abcdef0123456789abcdef", "01234567-89AB-CDEF-0123-456789ABCDEF"])
def test_a_trace_id_can_be_given(sent, given):
    with groundwatch.request("q", trace_id=given) as r:
        pass
    assert r.trace_id == "0123456789abcdef0123456789abcdef" == sent().root().trace_id


def test_a_bad_trace_id_is_replaced(sent, caplog):
    with groundwatch.request("q", trace_id="order-17") as r:
        pass
    assert sent().root().trace_id == r.trace_id
    assert "32 hexadecimal digits" in caplog.text


def test_seeding_random_does_not_repeat_ids(configured):
    import random

    ids = set()
    for _ in range(3):
        random.seed(0)
        with groundwatch.request("q") as r:
            ids.add(r.trace_id)
    assert len(ids) == 3


# --- misuse


def test_misuse_is_never_raised(sent):
    quiet._told.add("expected_internal_error")
    anything: Any = object()
    with groundwatch.request(anything, session=anything, user=anything) as r:
        r.answer()  # type: ignore[call-arg]
        r.candidates(5)  # type: ignore[arg-type]
        r.candidates([object(), {1: 2}, [], ({}, "x")])
        r.rerank(DOCUMENTS, wrong=1)  # type: ignore[call-arg]
        r.answer(object(), citations=[None, 3, {"id": b"x"}, object()], usage=object(), cost_usd="x")  # type: ignore[arg-type]
        r.retry(None)  # type: ignore[arg-type]
        r.error("not an exception")  # type: ignore[arg-type]
    assert sent().root()[names.OUTCOME] == "unknown" or sent().root()[names.OUTCOME] == "error"
    assert groundwatch.stats().internal_errors > 0


def test_calls_after_the_end_are_told_once_and_not_recorded(sent, caplog):
    with groundwatch.request("q") as r:
        r.answer("in time")
    for _ in range(3):
        r.answer("late")
        r.outcome("refused")
    root = sent().root()
    assert (root[names.ANSWER], root[names.OUTCOME]) == ("in time", "answered")
    assert caplog.text.count("outcome() was called after its request had ended") == 1


def test_a_handle_without_with_is_ended_by_hand(sent):
    r = groundwatch.request("q")
    r.answer("a")
    r.end()
    r.end()
    assert sent().root()[names.ANSWER] == "a"


def test_a_handle_that_is_dropped_still_counts(sent):
    groundwatch.request("q")
    root = sent().root()
    assert root[names.OUTCOME] == "cancelled"
    assert root.list(names.FLAGS) == ["abandoned"]


def test_stages_and_retries_of_one_request_are_bounded(sent):
    with groundwatch.request("q") as r:
        for _ in range(5000):
            r.retry("answer", ValueError())
            with r.stage("answer"):
                pass
    receiver = sent()
    assert len(receiver.spans()) == 201
    assert receiver.root().list(names.FLAGS) == ["retries_cut", "stages_cut"]


def test_one_handle_in_many_threads_ends_once(sent):
    r = groundwatch.request("q")
    barrier = threading.Barrier(8)

    def work():
        barrier.wait()
        r.candidates(DOCUMENTS)
        r.end()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sent().roots()) == 1


# A caller in another process.


def test_a_request_joins_the_trace_of_its_caller(sent):
    with groundwatch.request("q", traceparent=f"00-{7:032x}-{9:016x}-01"):
        pass
    root = sent().root()
    assert (root.trace_id, root.parent_id) == (f"{7:032x}", f"{9:016x}")


@pytest.mark.parametrize("header", ["", "00-0-0-01", f"00-{0:032x}-{9:016x}-01", "\ud800", "x" * 5000, None])
def test_a_header_that_names_no_span_begins_a_new_trace(sent, header):
    with groundwatch.request("q", traceparent=header):
        pass
    assert sent().root().parent_id == ""


def test_a_callers_trace_counts_before_a_span_that_began_another(sent):
    with TracerProvider().get_tracer("host").start_as_current_span("server") as span:
        with groundwatch.request("q", traceparent=f"00-{7:032x}-{9:016x}-01"):
            pass
        with groundwatch.request("another", traceparent=f"00-{7:032x}-{9:016x}-01"):
            pass
    first, second = sent().roots()
    assert (first.trace_id, first.links) == (f"{7:032x}", [f"{span.get_span_context().trace_id:032x}"])
    assert second.trace_id != first.trace_id and second.links == [f"{7:032x}"]


def test_a_span_within_the_callers_trace_stays_the_parent(sent):
    around = trace.NonRecordingSpan(trace.SpanContext(7, 8, is_remote=False, trace_flags=trace.TraceFlags(1)))
    with trace.use_span(around), groundwatch.request("q", traceparent=f"00-{7:032x}-{9:016x}-01"):
        pass
    assert sent().root().parent_id == f"{8:016x}"


def test_viewers_that_do_not_know_us_find_what_they_show(sent):
    """Phoenix, Langfuse and Jaeger were looked at with these: docs/conventions.md says what each shows."""
    long = "A text of more than forty characters, so that it is cut where people read it."
    found = [{"id": "a", "content": long, "score": 0.5}, {"id": "b", "title": "Fees", "content": "x", "score": 0.25}]
    with groundwatch.request("How long?") as r:
        r.rewrite("retention period")
        r.candidates(found, source="handbook")
        r.rerank(found[:1], model="ranker")
        r.context([{"id": f"d{n}"} for n in range(25)])
        r.answer("first")
        r.answer("30 days", model="m")
    receiver = sent()
    assert receiver.root()[names.OUTPUT_TYPE] == "text/plain"
    shown = {name: receiver.stage(name) for name in ("rewrite", "candidates", "rerank", "context")}
    assert (shown["rewrite"][names.INPUT], shown["rewrite"][names.OUTPUT]) == ("How long?", "retention period")
    assert shown["candidates"][names.INPUT] == "retention period"
    assert shown["candidates"][names.OUTPUT] == f"1. a (0.5) {long[:40]}...\n2. b (0.25) Fees"
    rerank = shown["rerank"]
    assert (rerank[names.RERANKER_QUERY], rerank[names.RERANKER_MODEL]) == ("How long?", "ranker")
    assert rerank[names.LANGFUSE_TYPE] == "span"
    first = {key: rerank[f"{names.RERANKER_DOCUMENTS}.0.document.{key}"] for key in ("id", "score", "content")}
    assert first == {"id": "a", "score": 0.5, "content": f"{long[:40]}..."}
    assert shown["context"][names.OUTPUT].splitlines()[9:] == ["10. d9", "... 25 in all"]
    answers = [span for span in receiver.spans() if span[names.STAGE] == "answer"]
    assert [names.OUTPUT in span.attributes for span in answers] == [False, True]
    assert answers[1][names.OUTPUT] == "30 days"


@pytest.mark.parametrize(("mode", "listed"), [("ids", "1. a (0.5)"), ("none", None)])
def test_viewers_are_told_no_more_than_the_content_mode_allows(receiver, mode, listed):
    groundwatch.configure(endpoint=receiver.url, capture_content=mode)
    with groundwatch.request("secret") as r:
        r.rewrite("secret")
        r.candidates([{"id": "a", "title": "secret", "content": "secret", "score": 0.5}])
        r.rerank([{"id": "a", "title": "secret", "content": "secret", "score": 0.5}])
        r.answer("secret")
    groundwatch.flush(5)
    for stage in ("candidates", "rerank"):
        assert receiver.stage(stage).attributes.get(names.OUTPUT) == listed
    assert all("secret" not in str(span.attributes) for span in receiver.spans())
