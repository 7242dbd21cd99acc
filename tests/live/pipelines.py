# mypy: ignore-errors
# The packages are not where this project is checked.
"""Small real pipelines under real instrumentors: one question, answered by a scripted model on loopback.

    python pipelines.py ENDPOINT CASE[,CASE...] FAMILY [FAMILY...]

FAMILY is a key of FAMILIES, CASE one of CASES. The spans go to ENDPOINT by OTLP/HTTP with the instrumentors' own
settings; after each case ENDPOINT/done/FAMILY/CASE is asked for. Each runs in a process of its own, forked when its
framework is imported, which takes longer than the case. Runs with the packages of the optional group ``live``.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ENGLISH = {
    "loans": "A borrowed book may be kept for 21 days.",
    "fines": "A book that is late costs 10 cents a day.",
    "hours": "The reading room opens at nine.",
}
CHINESE = {"loans": "借出的图书可保留二十一天。", "fines": "逾期图书每天收费一角。", "hours": "阅览室九点开放。"}
PROMPT = "Answer from the numbered passages.\n{context}\nQuestion: {question}"
USAGE = {"prompt_tokens": 60, "completion_tokens": 12, "total_tokens": 72}


@dataclass(frozen=True)
class Case:
    question: str = "How long may I keep a borrowed book?"
    answer: str = "You may keep a borrowed book for 21 days [1]."
    shelf: dict[str, str] | None = None
    found: tuple[str, ...] = ("loans", "fines")  # what every retriever here returns
    fails: bool = False
    streams: bool = False
    leaves: bool = False  # the reader of the stream goes away after two chunks
    reranks: bool = False  # "fines" falls out; the retriever is asked in other words

    @property
    def texts(self) -> dict[str, str]:
        return self.shelf or ENGLISH

    @property
    def searched(self) -> str:
        return "keep borrowed book duration" if self.reranks else self.question


CASES = {
    "normal": Case(),
    "error": Case(fails=True),
    "empty": Case(question="Who painted the ceiling?", answer="I do not know.", found=()),
    "zh": Case(question="借的书可以保留多久？", answer="借出的图书可保留二十一天 [1]。", shelf=CHINESE),
    "stream": Case(streams=True),
    "cancel": Case(streams=True, leaves=True),
    "refusal": Case(
        question="Help me sell a borrowed book.", answer="I am sorry, I cannot help with selling what is borrowed."
    ),
    "rerank": Case(reranks=True),
}


class Model(BaseHTTPRequestHandler):
    """An OpenAI-compatible model with one answer."""

    case = CASES["normal"]

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.case.fails:
            self._send(500, json.dumps({"error": {"message": "scripted", "type": "server_error"}}).encode())
        elif asked.get("stream"):
            self._stream((asked.get("stream_options") or {}).get("include_usage"))
        else:
            choice = {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": self.case.answer},
            }
            reply = {"id": "r-1", "object": "chat.completion", "created": 1, "model": "scripted-1"}
            self._send(200, json.dumps({**reply, "choices": [choice], "usage": USAGE}).encode())

    def _stream(self, with_usage: bool) -> None:
        self._head("text/event-stream")
        words = self.case.answer.split(" ")
        deltas = [{"role": "assistant", "content": ""}] + [
            {"content": word + " " * (n < len(words) - 1)} for n, word in enumerate(words)
        ]
        choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
        chunks = [{"choices": [choice]} for choice in choices]
        chunks += [{"choices": [], "usage": USAGE}] if with_usage else []
        try:
            for chunk in chunks:
                whole = {"id": "r-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted-1", **chunk}
                self.wfile.write(b"data: " + json.dumps(whole).encode() + b"\n\n")
                self.wfile.flush()
                time.sleep(0.02)
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            """The reader went away, as scripted."""

    def _send(self, status: int, raw: bytes) -> None:
        self._head("application/json", status, len(raw))
        self.wfile.write(raw)

    def _head(self, kind: str, status: int = 200, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        if length is not None:
            self.send_header("content-length", str(length))
        self.end_headers()

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


def serve_model() -> str:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


def ranked(case: Case) -> tuple[str, ...]:
    return tuple(reversed(case.found))[-1:] if case.reranks else case.found


def numbered(case: Case) -> str:
    return "\n".join(f"[{n}] {case.texts[key]}" for n, key in enumerate(ranked(case), start=1))


def read_stream(chunks: Iterator[Any], case: Case) -> None:
    for number, _chunk in enumerate(chunks):
        if case.leaves and number == 2:
            getattr(chunks, "close", lambda: None)()
            return


def langchain(case: Case, model_url: str, callbacks: list[Any]) -> None:
    from langchain_core.documents import Document
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnablePassthrough
    from langchain_openai import ChatOpenAI

    class Shelf(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document(id=key, page_content=case.texts[key], metadata={"source": key}) for key in case.found]

    class Reranked(BaseRetriever):
        """As ContextualCompressionRetriever: a retriever around a retriever."""

        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            known = {d.id: d for d in Shelf().invoke(case.searched, config={"callbacks": run_manager.get_child()})}
            best = [known[key] for key in ranked(case)]
            return [d.model_copy(update={"metadata": {**d.metadata, "relevance_score": 0.9}}) for d in best]

    shelf = Reranked() if case.reranks else Shelf()
    chain = (
        RunnablePassthrough.assign(context=lambda asked: (shelf.invoke(asked["question"]), numbered(case))[1])
        | ChatPromptTemplate.from_messages([("user", PROMPT)])
        | ChatOpenAI(model="scripted", base_url=model_url, api_key="none", max_retries=0)
        | StrOutputParser()
    ).with_config(run_name="library")
    config = {"callbacks": callbacks, "metadata": {"session_id": "s-1"}}
    if case.streams:
        read_stream(chain.stream({"question": case.question}, config=config), case)
    else:
        chain.invoke({"question": case.question}, config=config)


def llamaindex(case: Case, model_url: str, _callbacks: list[Any]) -> None:
    from llama_index.core import QueryBundle
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, TextNode
    from llama_index.llms.openai_like import OpenAILike

    class Shelf(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            nodes = [TextNode(id_=key, text=case.texts[key]) for key in case.found]
            return [NodeWithScore(node=node, score=1.0 / rank) for rank, node in enumerate(nodes, start=1)]

    class Reranked(BaseNodePostprocessor):
        def _postprocess_nodes(self, nodes: list[NodeWithScore], query_bundle: Any = None) -> list[NodeWithScore]:
            known = {found.node.node_id: found.node for found in nodes}
            return [NodeWithScore(node=known[key], score=0.9) for key in ranked(case)]

    llm = OpenAILike(model="scripted", api_base=model_url, api_key="none", is_chat_model=True, max_retries=0)
    engine = RetrieverQueryEngine.from_args(
        Shelf(), llm=llm, streaming=case.streams, node_postprocessors=[Reranked()] if case.reranks else []
    )
    answer = engine.query(case.question)
    if case.streams:
        read_stream(answer.response_gen, case)


def haystack(case: Case, model_url: str, _callbacks: list[Any]) -> None:
    from haystack import Document, Pipeline, component
    from haystack.components.builders import ChatPromptBuilder
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
    from haystack.dataclasses import ChatMessage
    from haystack.document_stores.in_memory import InMemoryDocumentStore
    from haystack.utils import Secret

    @component
    class ShelfRanker:
        def run(self, query, documents):
            known = {document.id: document for document in documents}
            return {"documents": [Document(id=key, content=known[key].content, score=0.9) for key in ranked(case)]}

        # Haystack needs types, not their names.
        run.__annotations__ = {"query": str, "documents": list[Document]}  # noqa: RUF012
        run = component.output_types(documents=list[Document])(run)

    globals()["ShelfRanker"] = ShelfRanker  # OpenInference looks a component's class up in its module
    store = InMemoryDocumentStore(bm25_tokenization_regex=r"(?u)\w")
    store.write_documents([Document(id=key, content=text) for key, text in case.texts.items() if key in case.found])
    listed = "{% for d in documents %}[{{loop.index}}] {{d.content}}\n{% endfor %}Question: {{question}}"
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store, top_k=2))
    pipeline.add_component(
        "prompt", ChatPromptBuilder(template=[ChatMessage.from_user(listed)], required_variables="*")
    )
    llm = OpenAIChatGenerator(
        api_key=Secret.from_token("none"),
        api_base_url=model_url,
        model="scripted",
        max_retries=0,
        streaming_callback=(lambda _chunk: None) if case.streams else None,
    )
    pipeline.add_component("llm", llm)
    asked = {"retriever": {"query": case.searched}, "prompt": {"question": case.question}}
    if case.reranks:
        pipeline.add_component("ranker", ShelfRanker())
        pipeline.connect("retriever.documents", "ranker.documents")
        pipeline.connect("ranker.documents", "prompt.documents")
        asked["ranker"] = {"query": case.question}
    else:
        pipeline.connect("retriever.documents", "prompt.documents")
    pipeline.connect("prompt.prompt", "llm.messages")
    pipeline.run(asked)


def plain_openai(case: Case, model_url: str, _callbacks: list[Any]) -> None:
    """No framework: the application calls the client, so only the model call is instrumented."""
    from openai import OpenAI

    prompt = PROMPT.format(context=numbered(case), question=case.question)
    client = OpenAI(base_url=model_url, api_key="none", max_retries=0)
    answer = client.chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": prompt}], **({"stream": True} if case.streams else {})
    )
    if case.streams:
        read_stream(answer, case)


def openinference(framework: str) -> Callable[[Any], list[Any]]:
    def instrument(provider: Any) -> list[Any]:
        from importlib import import_module

        module = import_module(f"openinference.instrumentation.{framework}")
        names = {"langchain": "LangChain", "llama_index": "LlamaIndex", "haystack": "Haystack", "openai": "OpenAI"}
        getattr(module, f"{names[framework]}Instrumentor")().instrument(tracer_provider=provider)
        return []

    return instrument


def opentelemetry(module: str, name: str) -> Callable[[Any], list[Any]]:
    def instrument(provider: Any) -> list[Any]:
        from importlib import import_module

        os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
        os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
        getattr(import_module(f"opentelemetry.instrumentation.{module}"), name)().instrument(tracer_provider=provider)
        return []

    return instrument


def langfuse(_provider: Any) -> list[Any]:
    from langfuse import Langfuse
    from langfuse.langchain import CallbackHandler

    os.environ["LANGFUSE_OTEL_TRACES_EXPORT_PATH"] = "v1/traces"
    Langfuse(public_key="pk-none", secret_key="sk-none", base_url=os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"])
    return [CallbackHandler()]


def langsmith(_provider: Any) -> list[Any]:
    os.environ.update(LANGSMITH_OTEL_ENABLED="true", LANGSMITH_OTEL_ONLY="true", LANGSMITH_TRACING="true")
    os.environ.update(LANGSMITH_API_KEY="none", LANGSMITH_ENDPOINT="http://127.0.0.1:9")
    return []


def llamaindex_native(provider: Any) -> list[Any]:
    from llama_index.observability.otel import LlamaIndexOpenTelemetry
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    LlamaIndexOpenTelemetry(span_exporter=OTLPSpanExporter(), span_processor="simple").start_registering()
    return []


def haystack_native(_provider: Any) -> list[Any]:
    from haystack import tracing
    from haystack_integrations.tracing.opentelemetry import OpenTelemetryTracer
    from opentelemetry import trace

    tracing.enable_tracing(OpenTelemetryTracer(trace.get_tracer("haystack")))
    tracing.tracer.is_content_tracing_enabled = True  # HAYSTACK_CONTENT_TRACING_ENABLED, which was read at import
    return []


def openlit(_provider: Any) -> list[Any]:
    import openlit

    prices = Path(tempfile.mkdtemp()) / "prices.json"  # else it fetches a list from the network
    prices.write_text("{}", "utf-8")
    openlit.init(pricing_json=str(prices), disable_metrics=True, disable_events=True, disable_batch=True)
    return []


FAMILIES: dict[str, tuple[Callable[[Any], list[Any]], Callable[[Case, str, list[Any]], None]]] = {
    "openinference-langchain": (openinference("langchain"), langchain),
    "openinference-llamaindex": (openinference("llama_index"), llamaindex),
    "openinference-haystack": (openinference("haystack"), haystack),
    "openinference-openai": (openinference("openai"), plain_openai),
    "traceloop-langchain": (opentelemetry("langchain", "LangchainInstrumentor"), langchain),
    "traceloop-llamaindex": (opentelemetry("llamaindex", "LlamaIndexInstrumentor"), llamaindex),
    "traceloop-openai": (opentelemetry("openai", "OpenAIInstrumentor"), plain_openai),
    "otel-genai-langchain": (opentelemetry("genai.langchain", "LangChainInstrumentor"), langchain),
    "otel-genai-openai": (opentelemetry("genai.openai", "OpenAIInstrumentor"), plain_openai),
    "langfuse-langchain": (langfuse, langchain),
    "langsmith-langchain": (langsmith, langchain),
    "llamaindex-native": (llamaindex_native, llamaindex),
    "haystack-native": (haystack_native, haystack),
    "openlit-langchain": (openlit, langchain),
    "openlit-haystack": (openlit, haystack),
    "openlit-openai": (openlit, plain_openai),
}


IMPORTS = {
    langchain: ("langchain", "langchain_openai", "langchain_core.runnables"),
    llamaindex: ("llama_index.core", "llama_index.llms.openai_like"),
    haystack: ("haystack", "haystack.components.generators.chat"),
    plain_openai: ("openai",),
}


def main() -> None:
    endpoint, cases, *families = sys.argv[1:]
    wanted = [(family, case) for family in families for case in cases.split(",")]
    failed = [f"{family} {case}" for family, case in wanted if not _in_a_fork(family, endpoint, case)]
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


def _in_a_fork(family: str, endpoint: str, case: str) -> bool:
    """Instrumentors of one framework exclude each other, and some leave a context behind when a call fails."""
    for module in IMPORTS[FAMILIES[family][1]]:
        importlib.import_module(module)
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    try:
        _run(family, endpoint, case)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _run(family: str, endpoint: str, case: str) -> None:
    if FAMILIES[family][1] is haystack and CASES[case].leaves:
        return  # a Haystack pipeline gives no stream to leave
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = endpoint
    os.environ["OTEL_SERVICE_NAME"] = family  # Langfuse makes its own resource, of this
    os.environ["OTEL_RESOURCE_ATTRIBUTES"] = "service.version=1.0"
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    instrument, run = FAMILIES[family]
    provider = TracerProvider(resource=Resource.create())
    if not family.startswith(("langfuse", "llamaindex-native")):  # they bring exporters of their own
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(provider)
    callbacks = instrument(provider)
    Model.case = CASES[case]
    try:
        run(CASES[case], serve_model(), callbacks)
    except Exception as error:
        if not CASES[case].fails:
            raise
        print(f"failed as scripted: {type(error).__name__}")
    _flush(family, provider)
    provider.shutdown()
    _tell(f"{endpoint}/done/{family}/{case}")


def _tell(url: str) -> None:
    try:
        urllib.request.urlopen(url, timeout=10).close()
    except urllib.error.HTTPError:
        """A monitor has no such page."""


def _flush(family: str, provider: Any) -> None:
    if family.startswith("langfuse"):
        from langfuse import get_client

        get_client().flush()
    if family.startswith("langsmith"):
        from langchain_core.tracers.langchain import wait_for_all_tracers

        wait_for_all_tracers()
    provider.force_flush()


if __name__ == "__main__":
    main()
