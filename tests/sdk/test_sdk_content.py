"""What leaves the process: content modes, redaction, caps, hostile text."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import groundwatch
from groundwatch import names
from groundwatch.documents import MAX_LISTED, read, snapshot
from groundwatch.outcomes import error_record
from groundwatch.records import RequestRecord, StageRecord
from groundwatch.settings import resolve
from groundwatch.spans import SpanBuilder

SECRET = "canary-4471"


def everything_secret():
    """A request that holds the canary in every place that can hold text."""
    with groundwatch.request(f"q {SECRET}", session=f"s {SECRET}", user=SECRET, name=f"n {SECRET}") as r:
        r.rewrite(f"w {SECRET}", model=f"m {SECRET}")
        document = {"id": f"id {SECRET}", "content": SECRET, "title": SECRET, "version": SECRET, "score": 1}
        r.candidates([document], source=f"x {SECRET}")
        r.rerank([document], model=SECRET)
        r.context(f"prompt {SECRET}")
        with r.stage(f"own {SECRET}"):
            pass
        r.retry(f"answer {SECRET}", ValueError(SECRET))
        r.answer(SECRET, citations=[SECRET, (SECRET, SECRET), {"id": SECRET, "marker": SECRET}], model=SECRET)
        r.outcome("answered", reason=SECRET)
        r.error(RuntimeError(SECRET))
    groundwatch.feedback(r.trace_id, name=SECRET, label=SECRET, comment=SECRET, user=SECRET, id=SECRET)
    assert groundwatch.flush(10).pending == 0


def test_redaction_sees_every_string(receiver):
    groundwatch.configure(
        service="s", endpoint=receiver.url, capture_content="text", redact=lambda text: text.replace(SECRET, "#")
    )
    everything_secret()
    assert SECRET.encode() not in receiver.everything()
    assert receiver.root()[names.QUERY] == "q #"
    assert receiver.feedback()[0]["comment"] == "#"


def _no_str(text):
    return text.encode()


def _raises(text):
    raise LookupError(text)


@pytest.mark.parametrize("redact", [_no_str, _raises])
def test_redaction_fails_closed(receiver, caplog, redact):
    groundwatch.configure(service="s", endpoint=receiver.url, capture_content="text", redact=redact)
    everything_secret()
    assert SECRET.encode() not in receiver.everything()
    assert receiver.root()[names.ANSWER] is None
    assert "redaction_failed" in receiver.root().list(names.FLAGS)
    assert groundwatch.stats().redaction_failures > 10
    assert caplog.text.count("redact failed") == 1
    assert SECRET not in caplog.text


def test_without_text_only_ids_numbers_and_names_leave(receiver):
    groundwatch.configure(service="s", endpoint=receiver.url)
    with groundwatch.request(SECRET, session="sess", user=SECRET) as r:
        r.rewrite(SECRET)
        r.candidates([{"id": "a", "content": SECRET, "title": SECRET, "score": 2}, SECRET])
        r.context(SECRET)
        r.answer(SECRET, citations=["a"])
        r.outcome("answered", reason="policy")
        r.error(ValueError(SECRET))
        for _ in r.stream(SECRET):
            pass
    groundwatch.feedback(r.trace_id, score=0, comment=SECRET)
    groundwatch.flush(10)
    assert SECRET.encode() not in receiver.everything()
    root = receiver.root()
    assert (root[names.CONTENT_MODE], root[names.SESSION], root[names.OUTCOME_REASON]) == ("ids", "sess", "policy")
    first, second = receiver.stage("candidates").list(names.CANDIDATES)
    assert first == {"id": "a", "rank": 1, "score": 2.0}
    assert second["id"].startswith("text-")
    assert receiver.feedback()[0]["comment"] == ""


def test_in_mode_none_no_id_leaves_either(receiver):
    groundwatch.configure(service="s", endpoint=receiver.url, capture_content="none")
    with groundwatch.request(SECRET, session=SECRET, user=SECRET) as r:
        r.candidates([{"id": SECRET, "content": SECRET, "score": 2}])
        r.answer(SECRET, citations=[SECRET], usage={"input_tokens": 3})
        r.outcome("refused", reason=SECRET)
    groundwatch.flush(10)
    assert SECRET.encode() not in receiver.everything()
    root = receiver.root()
    assert (root[names.OUTCOME], root[names.INPUT_TOKENS], root[names.USER_HASH]) == ("refused", 3, None)
    assert receiver.stage("candidates").list(names.CANDIDATES) == [{"rank": 1, "score": 2.0}]


def test_text_is_not_held_where_it_is_not_wanted(receiver):
    groundwatch.configure(service="s", endpoint=receiver.url)
    with groundwatch.request("q" * 100_000) as r:
        r.candidates([{"id": "a", "content": "x" * 1_000_000}])
        assert r._record.size < 5000
        assert r._record.query == ""


def test_the_user_hash_depends_on_the_key(receiver):
    hashes = set()
    variants: tuple[dict[str, Any], ...] = (
        {},
        {"user_hash_key": "k1"},
        {"user_hash_key": "k2"},
        {"service": "other"},
    )
    for settings in variants:
        groundwatch.configure(endpoint=receiver.url, **{"service": "s", **settings})
        with groundwatch.request("q", user="bob"):
            pass
        groundwatch.flush(5)
        hashes.add(receiver.roots()[-1][names.USER_HASH])
    assert len(hashes) == 4


def test_feedback_and_request_name_a_user_alike(configured):
    with groundwatch.request("q", user="bob") as r:
        pass
    groundwatch.feedback(r.trace_id, user="bob")
    groundwatch.flush(5)
    assert configured.root()[names.USER_HASH] == configured.feedback()[0]["by"]


# --- caps


def test_caps_cut_texts_and_say_so(receiver):
    groundwatch.configure(
        service="s", endpoint=receiver.url, capture_content="text", max_text_chars=10, max_documents=2
    )
    with groundwatch.request("问" * 11) as r:
        r.candidates([{"id": str(n), "content": "文" * (9 + n)} for n in range(4)])
        r.answer("a" * 10)
    groundwatch.flush(5)
    assert receiver.root()[names.QUERY] == "问" * 10
    assert receiver.root().list(names.TRUNCATED) == ["query"]
    stage = receiver.stage("candidates")
    assert stage.list(names.CANDIDATES) == [
        {"id": "0", "rank": 1, "content": "文" * 9},
        {"id": "1", "rank": 2, "content": "文" * 10},
        {"id": "2", "rank": 3, "cut": 11},
        {"id": "3", "rank": 4, "cut": 12},
    ]
    assert stage.list(names.TRUNCATED) == ["document:3", "document:4"]


def test_one_cut_document(receiver):
    groundwatch.configure(service="s", endpoint=receiver.url, capture_content="text", max_text_chars=10)
    with groundwatch.request("q") as r:
        r.context([{"id": "a", "content": "x" * 20_000}])
    groundwatch.flush(5)
    assert receiver.stage("context").list(names.CONTEXT)[0]["cut"] == 19_990


def test_a_cap_does_not_hide_half_a_secret_from_redaction(receiver):
    def redact(text):
        return text.replace("4111111111111111", "[card]")

    groundwatch.configure(
        service="s", endpoint=receiver.url, capture_content="text", max_text_chars=10, redact=redact
    )
    with groundwatch.request("pay 4111111111111111"):
        pass
    groundwatch.flush(5)
    assert receiver.root()[names.QUERY] == "pay [card]"


def test_a_span_has_a_byte_limit_that_long_texts_share(receiver):
    groundwatch.configure(service="s", endpoint=receiver.url, capture_content="text", max_span_bytes=10_000)
    with groundwatch.request("q") as r:
        r.candidates(
            [{"id": "short", "content": "x" * 100}, *({"id": str(n), "content": "y" * 9000} for n in range(4))]
        )
    groundwatch.flush(5)
    stage = receiver.stage("candidates")
    documents = stage.list(names.CANDIDATES)
    assert len(stage[names.CANDIDATES]) <= 10_000
    assert len(documents[0]["content"]) == 100
    assert {len(d["content"]) + d["cut"] for d in documents[1:]} == {9000}
    assert stage.list(names.TRUNCATED) == [f"document:{rank}" for rank in (2, 3, 4, 5)]


def test_an_absurd_list_is_cut_with_its_length(configured):
    with groundwatch.request("q") as r:
        r.candidates([{"id": str(n)} for n in range(MAX_LISTED + 5)])
    groundwatch.flush(5)
    stage = configured.stage("candidates")
    assert len(stage.list(names.CANDIDATES)) == MAX_LISTED
    assert stage.list(names.TRUNCATED) == ["documents:1000_of_1005"]


# --- hostile input

texts = st.text(st.characters(exclude_categories=()), max_size=40)  # lone surrogates too
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=8,
)


class Broken:
    def __str__(self):
        raise RuntimeError("no text")


def make_record(query, answer, document, citation, reason, score):
    record = RequestRecord(1)
    record.query, record.answer, record.outcome_reason, record.outcome = query, answer, reason, "unknown"
    record.session = record.user = query
    record.citations = [citation, Broken()]
    stage = StageRecord("candidates", record.span_id, record.start, record.start)
    stage.documents = snapshot([document, {"id": reason, "score": score, "content": answer}, (document, score)])
    odd_class = type("Odd", (ValueError,), {"__module__": query})
    stage.error = error_record(odd_class(query), record.start, with_message=True)
    record.stages.append(stage)
    record.end = record.start
    return record


@pytest.mark.parametrize("mode", ["none", "ids", "text"])
@example(query="\ud800", answer="\ud800", document="\ud800", citation="\ud800", reason="\ud800", score=math.nan)
@given(query=texts, answer=texts, document=anything, citation=anything, reason=texts, score=st.floats() | anything)
def test_whatever_comes_in_what_goes_out_is_valid(mode, query, answer, document, citation, reason, score):
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    settings = resolve({"endpoint": "http://x", "capture_content": mode, "service": query}, {})
    encoded = SpanBuilder(settings, "0").build(make_record(query, answer, document, citation, reason, score), 3)
    body = encode_spans(encoded.spans).SerializeToString()
    (resource_spans,) = ExportTraceServiceRequest.FromString(body).resource_spans
    root, stage = resource_spans.scope_spans[0].spans
    attributes = {a.key: a.value.string_value for a in stage.attributes}
    documents = json.loads(attributes[names.CANDIDATES], parse_constant=pytest.fail)
    assert [d["rank"] for d in documents] == [1, 2, 3]
    assert all(d.get("score") is None or math.isfinite(d["score"]) for d in documents)
    assert {a.key: a.value.int_value for a in root.attributes}[names.DROPPED_BY_SDK] == 3


_plain = (
    st.none() | st.integers() | st.text(max_size=5) | st.dictionaries(st.sampled_from(["id", "source"]), st.text())
)
_keys = ["id", "_id", "content", "text", "score", "version", "title", "metadata", "meta", "lang"]


@given(st.lists(st.sampled_from(_keys), unique=True, max_size=5), st.data())
def test_equal_dicts_are_kept_in_one_list_and_read_as_others_are(keys, data):
    kinds = {key: data.draw(st.sampled_from([st.text(max_size=5), _plain])) for key in keys}
    documents = [{key: data.draw(kinds[key]) for key in keys} for _ in range(data.draw(st.integers(1, 4)))]
    read_alike(documents)


@pytest.mark.parametrize(
    "other", [{"score": 1}, {"version": "2", "lang": "en"}, {"meta": {"id": "m"}}, {"_id": None}]
)
@pytest.mark.parametrize("ident", [{}, {"id": None}, {"id": "a"}])
def test_equal_dicts_without_texts_keep_their_names(ident, other):
    read_alike([{**ident, "content": "x", **other}, {**ident, "content": "y", **other}])


def read_alike(documents):
    """A list of equal dicts is read as the tuple of them is, which is copied one by one."""
    packed, one_by_one = snapshot(documents), snapshot(tuple(documents))
    assert packed is not None and one_by_one is not None and packed.total == one_by_one.total
    assert packed.items == one_by_one.items == documents
    packed.forget_texts()
    one_by_one.forget_texts()
    assert packed.size == one_by_one.size
    for kept, other in zip(map(read, packed.items), map(read, one_by_one.items), strict=True):
        assert (kept.id, kept.score, kept.version) == (other.id, other.score, other.version)
        assert kept.text is None and kept.title is None


@pytest.mark.parametrize("last", [{"id": "b", "content": "x"}, {"content": "x", "id": "b", "meta": {}}, "b"])
def test_what_a_reranker_changes_later_is_not_in_the_copy(last):
    documents: list[Any] = [{"id": "a", "content": "x", "meta": {"score": 1}}, last]
    taken = snapshot(documents)
    documents[0]["meta"]["score"] = documents[0]["score"] = 2
    assert taken is not None and [read(item).score for item in taken.items][:1] == [1]
