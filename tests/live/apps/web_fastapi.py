# mypy: ignore-errors
"""A FastAPI application that records its questions, beside the OpenTelemetry of the host."""

from __future__ import annotations

import asyncio
import os

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import extract
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

import groundwatch

groundwatch.configure()
provider = TracerProvider(resource=Resource({"service.name": "host"}))
provider.add_span_processor(
    SimpleSpanProcessor(OTLPSpanExporter(endpoint=f"{os.environ['GROUNDWATCH_ENDPOINT']}/v1/traces"))
)
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("host")
app = FastAPI()


class Server:
    """The span around each request, of the caller's ``traceparent``, as OpenTelemetry's ASGI middleware makes it."""

    def __init__(self, inner):
        self.inner = inner

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or scope["path"] == "/plain":
            await self.inner(scope, receive, send)
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        with tracer.start_as_current_span(f"GET {scope['path']}", context=extract(headers)):
            await self.inner(scope, receive, send)


app.add_middleware(Server)


@app.get("/async")
async def ask(q: str):
    async with groundwatch.request(q) as r:
        async with r.stage("candidates") as stage:
            with tracer.start_as_current_span(f"db {q}"):
                await asyncio.sleep(0.01)
            stage.documents([{"id": q, "content": q}])
        r.answer(f"about {q}")
    return r.trace_id


@app.get("/thread")
def ask_in_a_thread(q: str):
    with groundwatch.request(q) as r:
        r.candidates([{"id": q, "content": q}])
        r.answer(f"about {q}")
    return r.trace_id


@app.get("/plain")
async def ask_without_a_server_span(q: str, traceparent: str):
    with groundwatch.request(q, traceparent=traceparent) as r:
        r.answer(f"about {q}")
    return r.trace_id


@app.get("/stream")
async def stream(q: str):
    async def chunks():
        for number in range(50):
            yield f"{q}-{number} "
            await asyncio.sleep(0.02)

    with groundwatch.request(q) as r:
        return StreamingResponse(r.stream(chunks()))


@app.get("/fail")
async def fail(q: str):
    with groundwatch.request(q):
        raise ValueError("scripted")
