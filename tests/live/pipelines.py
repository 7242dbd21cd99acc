# mypy: ignore-errors
# The packages are not where this project is checked.
"""Small real pipelines under real instrumentors: one question, answered by a scripted model on loopback.

    python pipelines.py FAMILY CASE ENDPOINT

FAMILY is a key of FAMILIES, CASE ``normal`` or ``error`` (the model answers 500). The spans go to ENDPOINT by
OTLP/HTTP with the instrumentors' own settings. Runs with the packages of the optional group ``live``.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

QUESTION = "How long may I keep a borrowed book?"
ANSWER = "You may keep a borrowed book for 21 days [1]."
SHELF = {
    "loans": "A borrowed book may be kept for 21 days.",
    "fines": "A book that is late costs 10 cents a day.",
    "hours": "The reading room opens at nine.",
}
FOUND = ("loans", "fines")  # what every retriever here returns
PROMPT = "Answer from the numbered passages.\n{context}\nQuestion: {question}"
USAGE = {"prompt_tokens": 60, "completion_tokens": 12, "total_tokens": 72}


class Model(BaseHTTPRequestHandler):
    """An OpenAI-compatible model with one answer."""

    case = "normal"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        if self.case == "error":
            self._send(500, {"error": {"message": "scripted", "type": "server_error"}})
            return
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ANSWER}}
        reply = {"id": "r-1", "object": "chat.completion", "created": 1, "model": "scripted-1"}
        self._send(200, {**reply, "choices": [choice], "usage": USAGE})

    def _send(self, status: int, body: dict[str, Any]) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


def serve_model(case: str) -> str:
    Model.case = case
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


def numbered() -> str:
    return "\n".join(f"[{n}] {SHELF[key]}" for n, key in enumerate(FOUND, start=1))


def langchain(model_url: str, callbacks: list[Any]) -> None:
    from langchain_core.documents import Document
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnablePassthrough
    from langchain_openai import ChatOpenAI

    class Shelf(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document(id=key, page_content=SHELF[key], metadata={"source": key}) for key in FOUND]

    shelf = Shelf()
    chain = (
        RunnablePassthrough.assign(context=lambda asked: (shelf.invoke(asked["question"]), numbered())[1])
        | ChatPromptTemplate.from_messages([("user", PROMPT)])
        | ChatOpenAI(model="scripted", base_url=model_url, api_key="none", max_retries=0)
        | StrOutputParser()
    ).with_config(run_name="library")
    config = {"callbacks": callbacks, "metadata": {"session_id": "s-1"}}
    chain.invoke({"question": QUESTION}, config=config)


def llamaindex(model_url: str, _callbacks: list[Any]) -> None:
    from llama_index.core import QueryBundle
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, TextNode
    from llama_index.llms.openai_like import OpenAILike

    class Shelf(BaseRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            nodes = [TextNode(id_=key, text=SHELF[key]) for key in FOUND]
            return [NodeWithScore(node=node, score=1.0 / rank) for rank, node in enumerate(nodes, start=1)]

    llm = OpenAILike(model="scripted", api_base=model_url, api_key="none", is_chat_model=True, max_retries=0)
    RetrieverQueryEngine.from_args(Shelf(), llm=llm).query(QUESTION)


def haystack(model_url: str, _callbacks: list[Any]) -> None:
    from haystack import Document, Pipeline
    from haystack.components.builders import ChatPromptBuilder
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
    from haystack.dataclasses import ChatMessage
    from haystack.document_stores.in_memory import InMemoryDocumentStore
    from haystack.utils import Secret

    store = InMemoryDocumentStore()
    store.write_documents([Document(id=key, content=text) for key, text in SHELF.items()])
    listed = "{% for d in documents %}[{{loop.index}}] {{d.content}}\n{% endfor %}Question: {{question}}"
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store, top_k=2))
    pipeline.add_component(
        "prompt", ChatPromptBuilder(template=[ChatMessage.from_user(listed)], required_variables="*")
    )
    llm = OpenAIChatGenerator(
        api_key=Secret.from_token("none"), api_base_url=model_url, model="scripted", max_retries=0
    )
    pipeline.add_component("llm", llm)
    pipeline.connect("retriever.documents", "prompt.documents")
    pipeline.connect("prompt.prompt", "llm.messages")
    pipeline.run({"retriever": {"query": QUESTION}, "prompt": {"question": QUESTION}})


def plain_openai(model_url: str, _callbacks: list[Any]) -> None:
    """No framework: the application calls the client, so only the model call is instrumented."""
    from openai import OpenAI

    prompt = PROMPT.format(context=numbered(), question=QUESTION)
    OpenAI(base_url=model_url, api_key="none", max_retries=0).chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": prompt}]
    )


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


FAMILIES: dict[str, tuple[Callable[[Any], list[Any]], Callable[[str, list[Any]], None]]] = {
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
}


def main() -> None:
    family, case, endpoint = sys.argv[1:]
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = endpoint
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    instrument, run = FAMILIES[family]
    provider = TracerProvider(resource=Resource({"service.name": family}))
    if not family.startswith(("langfuse", "llamaindex-native")):  # they bring exporters of their own
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(provider)
    callbacks = instrument(provider)
    try:
        run(serve_model(case), callbacks)
    except Exception as error:
        if case != "error":
            raise
        print(f"failed as scripted: {type(error).__name__}")
    _flush(family, provider)


def _flush(family: str, provider: Any) -> None:
    if family.startswith("langfuse"):
        from langfuse import get_client

        get_client().flush()
    if family.startswith("langsmith"):
        from langchain_core.tracers.langchain import wait_for_all_tracers

        wait_for_all_tracers()
    provider.force_flush()
    provider.shutdown()


if __name__ == "__main__":
    main()
