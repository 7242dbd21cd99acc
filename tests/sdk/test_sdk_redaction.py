"""One secret by every path that reaches the wire: our own calls, and spans as other instrumentors write them."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import Link, SpanContext, StatusCode, TraceFlags, TraceState

import groundwatch

SECRETS = ("ann.lee@example.com", "李小华", "4111111111111111")


def redact(text: str) -> str:
    for secret in SECRETS:
        text = text.replace(secret, "[hidden]")
    return text


def traces_of(body: bytes) -> list[str]:
    """The secrets in *body*, in any spelling that a reader of JSON or of addresses would understand."""
    spellings = {
        secret: (secret, json.dumps(secret)[1:-1], json.dumps(json.dumps(secret))[3:-3], urllib.parse.quote(secret))
        for secret in SECRETS
    }
    return [secret for secret, ways in spellings.items() if any(way.encode() in body for way in ways)]


@pytest.fixture(params=SECRETS)
def secret(request) -> str:
    return str(request.param)


# Our own calls.


def test_a_secret_by_every_call_of_ours_is_hidden(receiver, secret, monkeypatch):
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", f"host.owner={urllib.parse.quote(secret)},host.kind=small")
    groundwatch.configure(service="s", endpoint=receiver.url, capture_content="text", redact=redact)
    document = {"id": secret, "content": f"of {secret}", "title": secret, "version": secret, "score": 1.0}
    with groundwatch.request(f"Where is {secret}?", session=secret, user=secret, name=secret) as r:
        r.rewrite(secret, model=secret)
        r.candidates([document, secret, (secret, 0.5)], source=secret)
        r.rerank([document], model=secret)
        r.context([document])
        with r.stage(secret, source=secret, model=secret) as stage:
            stage.text(secret)
            stage.error(ValueError(secret))
        r.retry(secret, ValueError(secret))
        r.error(ValueError(secret))
        r.answer(
            f"It is {secret}.", citations=[secret, (secret, secret), {"id": secret, "marker": secret}], model=secret
        )
        r.outcome("refused", reason=secret)
    list(_stream_of(secret))
    with pytest.raises(ValueError), groundwatch.request("q"):
        raise ValueError(secret)
    groundwatch.feedback("1" * 32, name=secret, label=secret, comment=secret, user=secret, id=secret)
    assert groundwatch.flush(10).pending == 0
    assert traces_of(receiver.everything()) == []
    assert receiver.everything().count(b"[hidden]") > 25
    assert receiver.roots()[0].resource["host.kind"] == "small"


def _stream_of(secret: str) -> Iterator[str]:
    with groundwatch.request("q") as r:
        return r.stream(iter([secret[:3], secret[3:]]))


def test_without_the_hook_the_secret_would_be_seen(configured, secret):
    with groundwatch.request(f"Where is {secret}?"):
        pass
    groundwatch.flush(10)
    assert traces_of(configured.everything()) == [secret]


# Spans of others.


class BaggageToAttributes(SpanProcessor):
    """As the processor of opentelemetry-processor-baggage."""

    def on_start(self, span, parent_context=None):
        for key, value in baggage.get_all(parent_context).items():
            span.set_attribute(f"baggage.{key}", str(value))


OpenProvider = Callable[..., TracerProvider]


@pytest.fixture
def provider_to(receiver) -> Iterator[OpenProvider]:
    made: list[TracerProvider] = []

    def build(hook=redact, resource=None, limits=None, wrapped=True) -> TracerProvider:
        exporter = OTLPSpanExporter(endpoint=f"{receiver.url}/v1/traces")
        provider = TracerProvider(resource=Resource(resource or {"service.name": "s"}), span_limits=limits)
        provider.add_span_processor(BaggageToAttributes())
        provider.add_span_processor(
            SimpleSpanProcessor(groundwatch.redacting(exporter, redact=hook) if wrapped else exporter)
        )
        made.append(provider)
        return provider

    yield build
    for provider in made:
        provider.shutdown()


def emit(provider: TracerProvider, secret: str) -> None:
    """The secret in every place of a span, in every dress in which instrumentors were seen to write text."""
    ascii_json = json.dumps({"question": secret, secret: [{"page_content": f"of {secret}"}], "n": 4111111111111111})
    nested = json.dumps({"input": json.dumps({"args": [secret]})})
    message = [{"role": "user", "parts": [{"type": "text", "content": f"Where is {secret}?"}]}]
    attributes: dict[str, Any] = {
        # OpenInference: flattened lists and JSON strings
        "openinference.span.kind": "LLM",
        "input.value": ascii_json,
        "output.value": nested,
        "llm.input_messages.0.message.content": secret,
        "retrieval.documents.0.document.id": secret,
        "retrieval.documents.0.document.metadata": json.dumps({"owner": secret}, ensure_ascii=False),
        "llm.prompt_template.variables": ascii_json,
        "embedding.embeddings.0.embedding.text": secret,
        "metadata": f'{{"cut": "{json.dumps(secret)[1:-1]} and then the limit c',
        "tag.tags": ("fine", secret),
        # OpenTelemetry GenAI, OpenLLMetry, Langfuse, LangSmith
        "gen_ai.input.messages": json.dumps(message),
        "gen_ai.prompt.variable.context": secret,
        "gen_ai.retrieval.query.text": secret,
        "traceloop.entity.input": nested,
        "traceloop.association.properties." + secret: secret,
        "langfuse.observation.input": json.dumps(secret),
        "langsmith.metadata.user": secret,
        # Web frameworks and databases around them
        "http.url": f"https://shop/ask?q={urllib.parse.quote(secret)}",
        "db.statement": f"SELECT * FROM people WHERE mail = '{secret}'",
        "enduser.id": secret,
        "card": 4111111111111111,
        "raw": secret.encode(),
    }
    state = TraceState([("vendor", "fine"), ("other", "x" + secret)]) if secret.isascii() else TraceState()
    around = SpanContext(0xA, 0xB, is_remote=True, trace_flags=TraceFlags(1), trace_state=state)
    link = Link(around, {"why": secret})
    token = context.attach(baggage.set_baggage("customer", secret))
    try:
        tracer = provider.get_tracer("openinference.instrumentation.x", attributes={"owner": secret})
        with (
            pytest.raises(ValueError),
            tracer.start_as_current_span(f"ask {secret}", attributes=attributes, links=[link]) as span,
        ):
            span.add_event(f"said {secret}", {"message": secret, "body": ascii_json})
            raise ValueError(f"cannot find {secret}")
        parent = trace.set_span_in_context(trace.NonRecordingSpan(around))
        with tracer.start_as_current_span("status", context=parent) as span:  # it takes over the trace state
            span.set_status(StatusCode.ERROR, f"no such person: {secret}")
    finally:
        context.detach(token)


def test_a_secret_in_every_place_of_a_foreign_span_is_hidden(receiver, provider_to, secret):
    emit(provider_to(resource={"service.name": "s", "host.owner": secret}), secret)
    assert traces_of(receiver.everything()) == []
    assert receiver.everything().count(b"[hidden]") > 35
    first = next(span for span in receiver.spans() if span["openinference.span.kind"])
    assert json.loads(first["input.value"])["question"] == "[hidden]"
    assert json.loads(json.loads(first["output.value"])["input"]) == {"args": ["[hidden]"]}
    assert first["metadata"].endswith("and then the limit c")


def test_without_the_exporter_around_it_the_same_spans_show_the_secret(receiver, provider_to, secret):
    emit(provider_to(wrapped=False), secret)
    assert secret in traces_of(receiver.everything())


def test_what_has_no_secret_arrives_as_it_was(receiver, provider_to):
    plain = {
        "json": '{"a":  1, "b": [true, null, 1.50]}',
        "text": "50% of 滤网",
        "number": 12,
        "share": 0.25,
        "flag": True,
        "list": ("a", "b"),
        "not json": "[1] first\n[2] second]",
        "url": "https://shop/a%20b",
    }
    for wrapped in (True, False):
        with (
            provider_to(wrapped=wrapped)
            .get_tracer("t", "1.2")
            .start_as_current_span("work", attributes=plain) as span
        ):
            span.add_event("step", {"n": 1}, timestamp=5)
            span.set_status(StatusCode.ERROR, "told")
    redacted, original = receiver.spans()
    assert {k: str(v) for k, v in redacted.attributes.items()} == {k: str(v) for k, v in original.attributes.items()}
    assert str(redacted.events) == str(original.events)
    assert (redacted.name, redacted.status, redacted.resource) == (original.name, original.status, original.resource)


def test_what_the_senders_limits_dropped_is_still_said(receiver, provider_to):
    provider = provider_to(limits=SpanLimits(max_span_attributes=2, max_events=1))
    with provider.get_tracer("t").start_as_current_span("s", attributes={"a": 1, "b": 2, "c": 3}) as span:
        span.add_event("one")
        span.add_event("two")
    assert receiver.dropped() == (1, 1)


def test_a_hook_that_fails_drops_the_value_and_counts_it(receiver, provider_to, secret):
    def failing(text: str) -> str:
        if secret in text:
            raise RuntimeError(text)
        return text

    provider = provider_to(hook=failing)
    with provider.get_tracer("t").start_as_current_span(
        f"ask {secret}", attributes={"a": secret, "b": json.dumps([secret]), "fine": "kept"}
    ):
        pass
    (span,) = receiver.spans()
    assert traces_of(receiver.everything()) == []
    assert (span.name, span.attributes) == ("span", {"fine": "kept"})


def test_json_too_deep_to_read_is_dropped_with_its_secret_or_hidden(receiver, provider_to, secret):
    deep = "[" * 5000 + json.dumps(secret) + "]" * 5000
    with provider_to().get_tracer("t").start_as_current_span("s", attributes={"a": deep}):
        pass
    assert len(receiver.spans()) == 1 and traces_of(receiver.everything()) == []


def test_the_hook_is_the_configured_one_or_there_is_an_error(receiver):
    with pytest.raises(groundwatch.ConfigurationError, match="pass redact="):
        groundwatch.redacting(OTLPSpanExporter(endpoint=receiver.url))
    groundwatch.configure(service="s", endpoint=receiver.url, redact=redact)
    exporter = groundwatch.redacting(OTLPSpanExporter(endpoint=f"{receiver.url}/v1/traces"))
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("t").start_as_current_span(SECRETS[0]):
        pass
    provider.shutdown()
    assert [span.name for span in receiver.spans()] == ["[hidden]"]
