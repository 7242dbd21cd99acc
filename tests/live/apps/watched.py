# mypy: ignore-errors
"""The pipelines of ``pipelines.py`` under OpenInference and our one-liner at once.

python watched.py FAMILY CASE[,CASE...]
"""

from __future__ import annotations

import os
import sys
import urllib.request
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[1]))

import pipelines
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import groundwatch


def watch_langchain():
    from langchain_core.runnables import RunnableSequence

    from groundwatch.for_langchain import watch

    RunnableSequence.with_config = lambda self, **_names: watch(self)


def watch_llamaindex():
    from llama_index.core import query_engine

    from groundwatch.for_llamaindex import watch

    make = query_engine.RetrieverQueryEngine.from_args
    query_engine.RetrieverQueryEngine = SimpleNamespace(from_args=lambda *a, **named: watch(make(*a, **named)))


def watch_haystack():
    import haystack

    from groundwatch.for_haystack import watch

    plain = haystack.Pipeline

    def run(self, data):
        watched = watch(self).run
        self.run = plain.run.__get__(self)  # what is watched is the pipeline, not our own detour
        result = watched(data, include_outputs_from={"retriever"})
        assert set(result) == {"llm", "retriever"} and set(result["llm"]) == {"replies"}, "as without us"
        return result

    haystack.Pipeline = type("Pipeline", (plain,), {"run": run})


WATCHES = {
    "openinference-langchain": watch_langchain,
    "openinference-llamaindex": watch_llamaindex,
    "openinference-haystack": watch_haystack,
}


def main() -> None:
    family, cases = sys.argv[1:]
    provider = TracerProvider(resource=Resource({"service.name": "shop"}))
    endpoint = os.environ["GROUNDWATCH_ENDPOINT"]
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces")))
    trace.set_tracer_provider(provider)
    instrument, run = pipelines.FAMILIES[family]
    instrument(provider)
    groundwatch.configure()
    WATCHES[family]()
    model_url = pipelines.serve_model()
    for case in cases.split(","):
        pipelines.Model.case = pipelines.CASES[case]
        try:
            run(pipelines.CASES[case], model_url, [])
        except Exception as error:
            if not pipelines.CASES[case].fails:
                raise
            print(f"failed as scripted: {type(error).__name__}")
        assert groundwatch.flush(20).pending == 0
        provider.force_flush()
        urllib.request.urlopen(f"{endpoint}/done/{case}", data=b"", timeout=20).close()
    assert groundwatch.stats().internal_errors == 0


if __name__ == "__main__":
    main()
