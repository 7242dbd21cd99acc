"""Streams and decorated functions, sync and async."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest
from opentelemetry import context, trace

import groundwatch
from groundwatch import names


def words():
    yield "Hel"
    yield "lo"


async def awords() -> AsyncIterator[str]:
    for word in words():
        await asyncio.sleep(0)
        yield word


def test_a_stream_is_passed_on_and_kept_as_the_answer(sent):
    with groundwatch.request("q") as r:
        assert list(r.stream(words(), model="m")) == ["Hel", "lo"]
        r.outcome("partial")
    root = sent().root()
    assert (root[names.ANSWER], root[names.OUTCOME]) == ("Hello", "partial")
    assert root[names.FIRST_TOKEN] > 0
    assert sent().stage("answer").name == "chat m"


def test_a_stream_outlives_its_with_block(sent):
    """A web framework iterates after the handler has returned."""
    with groundwatch.request("q") as r:
        stream = r.stream(words())
    assert groundwatch.flush(5).sent == 0
    list(stream)
    assert sent().root()[names.ANSWER] == "Hello"


def test_a_stream_needs_no_with_block(sent):
    assert "".join(groundwatch.request("q").stream(words())) == "Hello"
    assert sent().root()[names.OUTCOME] == "answered"


@pytest.mark.parametrize("how", ["close", "drop"])
def test_an_abandoned_stream_is_cancelled_with_the_text_so_far(sent, how):
    stream = groundwatch.request("q").stream(words())
    next(stream)
    if how == "close":
        stream.close()
    del stream
    gc.collect()
    root = sent().root()
    assert (root[names.OUTCOME], root[names.ANSWER]) == ("cancelled", "Hel")


def test_a_stream_that_never_started_is_cancelled(sent):
    with groundwatch.request("q") as r:
        r.stream(words())
    gc.collect()
    assert sent().root()[names.OUTCOME] == "cancelled"


def test_a_stream_that_breaks_is_an_error_with_the_text_so_far(sent):
    def breaks():
        yield "Hel"
        raise RuntimeError("upstream")

    with pytest.raises(RuntimeError, match="upstream"):
        list(groundwatch.request("q").stream(breaks()))
    receiver = sent()
    assert (receiver.root()[names.OUTCOME], receiver.root()[names.ANSWER]) == ("error", "Hel")
    assert receiver.stage("answer").status == 2


def test_openai_chunks_are_understood(sent):
    def chunk(content, usage=None):
        choices = [SimpleNamespace(delta=SimpleNamespace(content=content))] if usage is None else []
        return SimpleNamespace(choices=choices, usage=usage)

    chunks = [
        chunk(None),
        chunk("Hel"),
        chunk("lo"),
        chunk("", SimpleNamespace(prompt_tokens=5, completion_tokens=2)),
    ]
    with groundwatch.request("q") as r:
        assert list(r.stream(iter(chunks))) == chunks
    root = sent().root()
    assert (root[names.ANSWER], root[names.INPUT_TOKENS], root[names.OUTPUT_TOKENS]) == ("Hello", 5, 2)


def test_the_application_can_say_where_the_text_is(sent):
    with groundwatch.request("q") as r:
        list(r.stream([(1, "a"), (2, "b")], text=lambda chunk: chunk[1]))
    assert sent().root()[names.ANSWER] == "ab"


def test_a_long_stream_is_bounded_and_marked(receiver):
    groundwatch.configure(service="s", endpoint=receiver.url, capture_content="text", max_text_chars=10)
    with groundwatch.request("q") as r:
        for _ in r.stream("x" * 1000 for _ in range(100)):
            pass
        assert r._record.answer is not None
        assert len(r._record.answer) <= 10 + 4096
    groundwatch.flush(5)
    assert receiver.root()[names.ANSWER] == "x" * 10
    assert receiver.root().list(names.TRUNCATED) == ["answer"]


def test_nothing_stays_attached_while_the_consumer_has_a_chunk(configured):
    """A generator that keeps a context attached across yield hands its span to whatever the consumer does."""
    seen = []

    def source():
        seen.append(trace.get_current_span().get_span_context().is_valid)
        yield "a"

    before = context.get_current()
    stream = groundwatch.request("q").stream(source())
    next(stream)
    assert seen == [True]
    assert context.get_current() is before
    stream.close()


def test_async_stream(sent):
    async def main():
        async with groundwatch.request("q") as r:
            return [chunk async for chunk in r.stream(awords())]

    assert asyncio.run(main()) == ["Hel", "lo"]
    assert sent().root()[names.ANSWER] == "Hello"


def test_an_async_stream_closed_from_another_task_is_cancelled(sent, caplog):
    async def main():
        stream = groundwatch.request("q").stream(awords())
        await anext(stream)
        await asyncio.create_task(stream.aclose())

    asyncio.run(main())
    assert sent().root()[names.OUTCOME] == "cancelled"
    assert "detach" not in caplog.text


def test_a_cancelled_task_is_cancelled_with_the_text_so_far(sent):
    async def endless() -> AsyncIterator[str]:
        yield "Hel"
        await asyncio.Event().wait()

    async def consume(started):
        async with groundwatch.request("q") as r:
            async for _ in r.stream(endless()):
                started.set()

    async def main():
        started = asyncio.Event()
        task = asyncio.create_task(consume(started))
        await started.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    root = sent().root()
    assert (root[names.OUTCOME], root[names.ANSWER]) == ("cancelled", "Hel")


def test_an_async_generator_with_an_open_request_leaves_no_dead_span_behind(configured, caplog):
    """The mistake of the title above, made by the application: our span steps aside once its request has ended."""

    async def leaky():
        async with groundwatch.request("q"):
            yield 1
            yield 2

    async def main():
        source = leaky()
        await anext(source)
        await asyncio.create_task(source.aclose())
        assert not trace.get_current_span().get_span_context().is_valid
        assert groundwatch.current().trace_id == ""

    asyncio.run(main())
    assert "detach" not in caplog.text


# --- the decorator


def test_traced_function(sent):
    @groundwatch.traced(user="who", name="ask")
    def ask(tenant, question, who=None):
        """Documented."""
        groundwatch.current().candidates([])
        return f"{question}!"

    assert ask("t", "why", who="bob") == "why!"
    assert ask.__doc__ == "Documented."
    root = sent().root()
    assert (root[names.QUERY], root[names.ANSWER], root.name) == ("why", "why!", "invoke_workflow ask")
    assert root[names.USER_HASH]


def test_traced_coroutine(sent):
    @groundwatch.traced
    async def ask(question):
        await asyncio.sleep(0)
        groundwatch.current().answer("recorded")
        return "returned"

    assert asyncio.run(ask("why")) == "returned"
    assert inspect.iscoroutinefunction(ask)
    assert sent().root()[names.ANSWER] == "recorded"


def test_traced_generator(sent):
    @groundwatch.traced
    def ask(question):
        groundwatch.current().candidates([{"id": "a"}])
        received = yield "Hel"
        yield received
        return "end"

    source = ask("why")
    assert inspect.isgeneratorfunction(ask)
    assert next(source) == "Hel"
    assert source.send("lo") == "lo"
    with pytest.raises(StopIteration) as stop:
        next(source)
    assert stop.value.value == "end"
    receiver = sent()
    assert receiver.root()[names.ANSWER] == "Hello"
    assert receiver.stage("candidates").end <= receiver.stage("answer").start


def test_traced_generator_that_streams_inside(sent):
    @groundwatch.traced
    def ask(question):
        yield from groundwatch.current().stream(words(), model="m")

    assert list(ask("why")) == ["Hel", "lo"]
    receiver = sent()
    assert receiver.root()[names.ANSWER] == "Hello"
    assert receiver.stage("answer").name == "chat m"


def test_traced_generator_given_up(sent):
    @groundwatch.traced
    def ask(question):
        yield "Hel"
        yield "lo"

    source = ask("why")
    next(source)
    source.close()
    root = sent().root()
    assert (root[names.OUTCOME], root[names.ANSWER]) == ("cancelled", "Hel")


def test_traced_async_generator(sent):
    @groundwatch.traced
    async def ask(question):
        try:
            yield "Hel"
        except ValueError:
            yield "caught"

    async def main():
        source = ask("why")
        first = await anext(source)
        second = await source.athrow(ValueError())
        rest = [chunk async for chunk in source]
        return first, second, rest

    assert inspect.isasyncgenfunction(ask)
    assert asyncio.run(main()) == ("Hel", "caught", [])
    assert sent().root()[names.ANSWER] == "Helcaught"


def test_traced_async_generator_given_up(sent):
    @groundwatch.traced
    async def ask(question):
        yield "Hel"
        yield "lo"

    async def main():
        source = ask("why")
        await anext(source)
        await source.aclose()

    asyncio.run(main())
    assert sent().root()[names.OUTCOME] == "cancelled"


def test_traced_names_a_parameter_that_is_not_there(sent, caplog):
    @groundwatch.traced(query="questoin")
    def ask(question):
        return "a"

    assert ask("q") == "a"
    assert "'questoin'" in caplog.text
    assert sent().root()[names.ANSWER] == "a"
    assert sent().root()[names.QUERY] is None


@pytest.mark.parametrize("make", [words, awords])
def test_unconfigured_streams_are_untouched(make):
    source = make()
    assert groundwatch.request("q").stream(source) is source
    if hasattr(source, "aclose"):
        asyncio.run(source.aclose())


def test_unconfigured_traced_functions_work():
    @groundwatch.traced
    def gen(question):
        yield from words()

    @groundwatch.traced
    async def agen(question):
        async for word in awords():
            yield word

    async def collect():
        return [word async for word in agen("q")]

    assert list(gen("q")) == asyncio.run(collect()) == ["Hel", "lo"]
