"""What other evaluators ask of a model, recorded by an endpoint that answers in the form that each of them wants.

`python peer_judges.py ragas|deepeval ROWS.json`, run by the Python of export_tools.py, prints a JSON list: for each
row the calls that the tool made, each as the text of its messages and of the reply. The replies are as short as a
terse model's: a statement for each sentence of the answer, a truth for each passage, a reason of about ten words.
"""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from local_server import served

REASON = "The passage says this in nearly the same words here."
_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*")


class Recorder(http.server.ThreadingHTTPServer):
    """Answers every completion with ``reply(body)`` and keeps what was asked."""

    daemon_threads = True

    def __init__(self, reply: Callable[[dict[str, Any]], str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.reply = reply
        self.calls: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Recorder

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = self.server.reply(body)
        asked = "\n".join(_text(message["content"]) for message in body["messages"])
        # A schema that is given beside the messages is read by the model as well, and is paid for.
        asked += json.dumps(body["response_format"]) if body.get("response_format", {}).get("json_schema") else ""
        self.server.calls.append({"asked": asked, "said": said})
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        reply = {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [choice],
            "usage": usage,
        }
        raw = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: stdout is the result."""


@contextmanager
def recording(reply: Callable[[dict[str, Any]], str]) -> Iterator[Recorder]:
    with served(Recorder(reply)) as recorder:
        yield recorder


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def pieces(text: str) -> list[str]:
    return [piece for piece in _END.split(text) if piece.strip()]


class Filler:
    """Makes a reply of the form that a tool expects next, about the row in hand."""

    def __init__(self) -> None:
        self.row: dict[str, Any] = {}
        self.schema: dict[str, Any] = {}

    def reply(self, _body: dict[str, Any]) -> str:
        return json.dumps(self._value(self.schema, ""), ensure_ascii=False)

    def _value(self, schema: dict[str, Any], name: str) -> Any:
        if "$ref" in schema:
            return self._value(self.schema["$defs"][schema["$ref"].rpartition("/")[2]], name)
        if "anyOf" in schema:
            return self._value(schema["anyOf"][0], name)
        if "enum" in schema:
            return schema["enum"][0]
        if schema.get("type") == "object":
            return {key: self._value(value, key) for key, value in schema["properties"].items()}
        if schema.get("type") == "array":
            return self._list(schema["items"], name)
        return 1 if schema.get("type") == "integer" else self._words(name)

    def _list(self, items: dict[str, Any], name: str) -> list[Any]:
        texts = [passage[:80] for passage in self.row["contexts"]] if name == "truths" else pieces(self.row["answer"])
        if items.get("type") == "string":
            return list(texts)
        return [self._value(items, name) for _ in texts]

    def _words(self, name: str) -> str:
        if name == "question":
            return str(self.row["question"])
        return pieces(self.row["answer"])[0] if name == "statement" else REASON


def ragas(rows: list[dict[str, Any]]) -> list[list[dict[str, str]]]:
    """Faithfulness, answer relevancy and context precision without a reference, as they are by default."""
    from openai import AsyncOpenAI
    from ragas.embeddings.base import BaseRagasEmbedding
    from ragas.llms.base import llm_factory
    from ragas.metrics.collections import AnswerRelevancy, ContextUtilization, Faithfulness

    class Embedding(BaseRagasEmbedding):  # type: ignore[misc]  # not installed where types are checked
        """Asks nobody: embeddings are another bill."""

        def embed_text(self, text: str, **_: Any) -> list[float]:
            return [1.0, float(len(text))]

        async def aembed_text(self, text: str, **_: Any) -> list[float]:
            return self.embed_text(text)

    filler = Filler()
    with recording(filler.reply) as recorder:
        llm = llm_factory("m", client=AsyncOpenAI(base_url=recorder.url, api_key="none"))
        ask = llm.agenerate

        async def agenerate(prompt: Any, response_model: Any) -> Any:
            filler.schema = response_model.model_json_schema()
            return await ask(prompt, response_model)

        llm.agenerate = agenerate

        async def row_calls(row: dict[str, Any]) -> list[dict[str, str]]:
            filler.row, recorder.calls = row, []
            asked = {"user_input": row["question"], "response": row["answer"]}
            passages = {"retrieved_contexts": row["contexts"]}
            await Faithfulness(llm=llm).ascore(**asked, **passages)
            await AnswerRelevancy(llm=llm, embeddings=Embedding()).ascore(**asked)
            await ContextUtilization(llm=llm).ascore(**asked, **passages)
            return recorder.calls

        async def all_calls() -> list[list[dict[str, str]]]:
            return [await row_calls(row) for row in rows]

        return asyncio.run(all_calls())


def deepeval(rows: list[dict[str, Any]]) -> list[list[dict[str, str]]]:
    """Faithfulness, answer relevancy and contextual relevancy, as they are by default (with reasons)."""
    os.environ |= {"DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "DEEPEVAL_DISABLE_DOTENV": "1"}
    from deepeval.metrics import AnswerRelevancyMetric, ContextualRelevancyMetric, FaithfulnessMetric
    from deepeval.models import LocalModel
    from deepeval.test_case import LLMTestCase

    filler = Filler()

    class Model(LocalModel):  # type: ignore[misc]  # likewise
        def generate(self, prompt: str, schema: Any = None, **more: Any) -> Any:
            filler.schema = schema.model_json_schema() if schema else {"type": "string"}
            return super().generate(prompt, schema=schema, **more)

    found = []
    with recording(filler.reply) as recorder:
        model = Model(model="m", api_key="none", base_url=recorder.url)
        for row in rows:
            filler.row, recorder.calls = row, []
            case = LLMTestCase(
                input=row["question"], actual_output=row["answer"], retrieval_context=list(row["contexts"])
            )
            for metric in (FaithfulnessMetric, AnswerRelevancyMetric, ContextualRelevancyMetric):
                metric(model=model, async_mode=False).measure(case, _show_indicator=False)
            found.append(recorder.calls)
    return found


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    print(json.dumps({"ragas": ragas, "deepeval": deepeval}[sys.argv[1]](given)))
