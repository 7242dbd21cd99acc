"""A language model as the demo's answerer, spoken to over real HTTP."""

from __future__ import annotations

import json
import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from groundwatch_deploy.demo import answering, corpus, llm
from groundwatch_deploy.demo.app import Answer, RagApp
from groundwatch_deploy.demo.behaviour import Behaviour
from groundwatch_deploy.demo.corpus import Passage
from groundwatch_deploy.demo.retrieval import Index

SURE = Behaviour(spurious_refusal_rate=0, invented_number_rate=0, cancelled_rate=0, search_failure_rate=0)
QUERY = "how many seats are in the free edition?"


class Model(BaseHTTPRequestHandler):
    """Answers every chat completion with the same words and remembers what it was asked."""

    says: ClassVar[str] = ""
    heard: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        self.heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        message = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": self.says}}
        usage = {"prompt_tokens": 321, "completion_tokens": 12, "total_tokens": 333}
        body = json.dumps(
            {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [message], "usage": usage}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: Any) -> None:
        """Say nothing."""


@pytest.fixture
def model():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    Model.heard.clear()
    client, name = llm.client_from({"OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1"}) or (None, "")
    assert client is not None
    yield client, name
    client.close()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def index():
    return Index(corpus.load())


def ask(index: Any, model: Any, says: str, behaviour: Behaviour = SURE) -> tuple[Answer, list[Passage]]:
    Model.says = says
    client, name = model
    app = RagApp(behaviour, index, llm.LlmGenerator(client, name, behaviour))
    rewritten = app.rewrite(QUERY)
    context = app.select_context(app.rerank(rewritten, app.search(rewritten, random.Random(1))))
    return app.write(QUERY, rewritten, context, random.Random(1)), context


def test_the_answer_its_sources_and_its_usage_come_back(index, model):
    answer, context = ask(index, model, "There are 3 seats [1].")
    assert answer.text == "There are 3 seats [1]."
    assert answer.cited == ((context[0].id, "[1]"),)
    assert (answer.refused, answer.invented, answer.input_tokens, answer.output_tokens) == (False, False, 321, 12)


def test_the_model_reads_the_numbered_context_and_the_question(index, model):
    _answer, context = ask(index, model, "3 seats [1].")
    asked = Model.heard[0]["messages"][1]["content"]
    assert all(f"[{number}] {passage.text}" in asked for number, passage in enumerate(context, start=1))
    assert asked.endswith(f"Question: {QUERY}")


def test_a_refusal_in_the_agreed_words_is_a_refusal(index, model):
    answer, _context = ask(index, model, f"Sorry. {answering.REFUSAL_EN}")
    assert answer.refused


def test_a_number_that_was_never_read_is_invented(index, model):
    answer, _context = ask(index, model, "There are 8765 seats [1].")
    assert answer.invented


def test_a_faulty_version_spoils_what_the_model_wrote(index, model):
    behaviour = Behaviour(invented_number_rate=1.0, spurious_refusal_rate=0, cancelled_rate=0, search_failure_rate=0)
    answer, _context = ask(index, model, "There are 3 seats [1].", behaviour)
    assert answer.invented
    assert answer.text != "There are 3 seats [1]."
    assert "[1]" in answer.text


def test_a_citation_of_nothing_is_left_out(index, model):
    answer, _context = ask(index, model, "There are 3 seats [9].")
    assert answer.cited == ()


def test_without_an_endpoint_there_is_no_model():
    assert llm.client_from({}) is None
