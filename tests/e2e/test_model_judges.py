"""A model judges through `[judge]` of the configuration file, and its verdict can be read on the console."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from local_server import served

from groundwatch_deploy.serve import Monitor
from groundwatch_deploy.settings import load
from groundwatch_scorer.local_judge import LocalJudge

MODEL = "scripted-1"
JUDGE = f"llm:{MODEL}:rubric-v1"
PASSAGE = "Backups are kept for 30 days. Reach us at jane.roe@example.com."
ANSWERS = {1: "Backups are kept for 30 days.", 2: "Backups are encrypted with AES."}


FLIPS = "Backups are never encrypted."


def reply_to(data: dict[str, Any], number: int) -> dict[str, Any]:
    """A model that supports what the passage says word for word, and nothing else; FLIPS every second time."""
    known = PASSAGE if number % 2 else f"{PASSAGE} {FLIPS}"
    claims = [
        {
            "sentence_id": sentence["id"],
            "text": sentence["text"],
            "evidence": [{"chunk_id": "c1", "quote": _quote(sentence["text"])}] if sentence["text"] in known else [],
            "reason": "literal",
            "label": "supported" if sentence["text"] in known else "not_mentioned",
        }
        for sentence in data["sentences"]
    ]
    answerable = {"reason": "literal", "label": "FULL"}
    return {
        "claims": claims,
        "chunks": [{"id": chunk["id"], "relevance": "relevant"} for chunk in data["chunks"]],
        "retrieved": [],
        "answerability": answerable,
        "retrieved_answerability": answerable,
        "refusal": "none",
        "answer_relevance": "full",
        "citations": [],
        "injection_suspected": {"where": "none", "ids": []},
    }


def _quote(sentence: str) -> str:
    return "Backups are kept" if sentence == FLIPS else sentence


@contextmanager
def scripted_model() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The address of an OpenAI-compatible server, and what it was asked."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append(request | {"authorization": self.headers["authorization"]})
            said = json.dumps(reply_to(json.loads(request["messages"][-1]["content"]), len(asked)))
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}
            usage = {"prompt_tokens": 1_000_000, "completion_tokens": 100_000, "total_tokens": 1_100_000}
            body = json.dumps({"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with served(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked


def request_of(number: int, answer: str) -> dict[str, Any]:
    texts = {
        "groundwatch.stage": "request",
        "groundwatch.outcome": "answered",
        "input.value": "How long are backups kept?",
        "output.value": answer,
        "groundwatch.context.documents": json.dumps([{"id": "d", "rank": 1, "content": PASSAGE}]),
    }
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in texts.items()]
    now = time.time_ns()
    span = {"traceId": f"{number:032x}", "spanId": f"{number:016x}", "name": "ask", "attributes": attributes}
    span |= {"startTimeUnixNano": str(now), "endTimeUnixNano": str(now + 1_000_000)}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "bot"}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]}


def page_with(url: str, words: str, seconds: float = 30.0) -> str:
    """The page once it holds *words*, or as it is when time is up."""
    deadline = time.monotonic() + seconds
    while words not in (page := httpx.get(url, timeout=seconds).text) and time.monotonic() < deadline:
        time.sleep(0.05)
    return page


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Settings read from a file as `serve --config` reads it, and what the model was asked."""
    monkeypatch.setenv("GROUNDWATCH_LLM_API_KEY", "sk-test")
    with scripted_model() as (url, asked):
        path = tmp_path / "groundwatch.toml"
        path.write_text(
            f'[judge]\nllm_model = "{MODEL}"\nllm_base_url = "{url}"\n'
            "llm_input_usd_per_million_tokens = 0.25\nllm_output_usd_per_million_tokens = 1.5\n"
            "[decide]\ngrace_seconds = 0.05\nidle_seconds = 0.2\n[decide.rates]\nnormal_b0 = 1.0\nnormal_b1 = 1.0\n"
            "normal_b2 = 1.0\nnormal_b3 = 1.0\n"
        )
        ports = {"ingest_port": 0, "console_port": 0, "metrics_port": 0}
        yield load(path, data_directory=tmp_path / "data", **ports), asked


def test_a_model_judges_beside_the_local_judge_and_its_verdict_is_on_the_console(configured):
    settings, asked = configured
    with Monitor(settings) as monitor:
        addresses = monitor.start()
        for number, answer in ANSWERS.items():
            httpx.post(f"{addresses.ingest}/v1/traces", json=request_of(number, answer)).raise_for_status()
        pages = {number: page_with(f"{addresses.console}/traces/{number:032x}", JUDGE) for number in ANSWERS}
        overview = httpx.get(f"{addresses.console}/", params={"judge": JUDGE, "window": "all"}).text
        metrics = httpx.get(f"{addresses.metrics}/metrics").text
    for page in pages.values():
        assert f"<bdi>{JUDGE}</bdi>" in page
        assert LocalJudge().identifier in page  # both are kept; neither replaces the other
        assert "$0.4000" in page
    assert "A statement of the answer is not supported by the context" in pages[2]
    assert "A statement of the answer is not supported by the context" not in pages[1]
    assert f'<option value="{JUDGE}" selected' in overview
    counted = [row for row in metrics.splitlines() if row.startswith("rag_judged_total{") and JUDGE in row]
    headline = [row for row in counted if 'criterion="any_failure"' in row]
    for verdict in ("pass", "fail"):
        assert sum(float(row.rpartition(" ")[2]) for row in headline if f'verdict="{verdict}"' in row) == 1
    assert [request["authorization"] for request in asked] == ["Bearer sk-test"] * 2
    assert all(request["model"] == MODEL for request in asked)
    assert "jane.roe" not in json.dumps(asked)  # redacted before it leaves


def test_in_a_cascade_the_model_is_asked_only_for_what_it_is_chosen_for(configured):
    settings, asked = configured
    never = replace(settings.judge, cascade=True, cascade_unsure_chance=1e-12, cascade_sure_chance=1e-12)
    with Monitor(replace(settings, judge=never)) as monitor:
        addresses = monitor.start()
        for number, answer in ANSWERS.items():
            httpx.post(f"{addresses.ingest}/v1/traces", json=request_of(number, answer)).raise_for_status()
        for number in ANSWERS:
            page_with(f"{addresses.console}/traces/{number:032x}", LocalJudge().identifier)
        metrics = httpx.get(f"{addresses.metrics}/metrics").text.splitlines()
    looks = [row for row in metrics if row.startswith("groundwatch_second_looks_total{") and 'by="model"' in row]
    assert sum(float(row.rpartition(" ")[2]) for row in looks if 'chosen="no"' in row) == 2
    assert sum(float(row.rpartition(" ")[2]) for row in looks if 'chosen="yes"' in row) == 0
    refused = [row for row in metrics if row.startswith("rag_corrected_refused{") and JUDGE in row]
    assert [row for row in refused if 'reason="too_few_labels"' in row and row.endswith(" 1.0")]
    assert not [row for row in metrics if row.startswith("rag_corrected_fail_rate{")]
    assert asked == []


def sample(metrics: list[str], name: str, judge: str) -> float:
    (row,) = [row for row in metrics if row.startswith(f'{name}{{judge="{judge}"')]
    return float(row.rpartition(" ")[2])


def test_a_model_that_changes_its_mind_is_seen_and_the_local_judge_does_not(configured):
    """What GroundwatchJudgeUnstable reads, from an endpoint that answers every second question differently."""
    settings, asked = configured
    always = replace(settings.judge, repeat_share=1.0, llm_cache_replies=0, llm_concurrency=1)
    with Monitor(replace(settings, judge=always)) as monitor:
        addresses = monitor.start()
        for number in range(1, 7):
            sent = httpx.post(f"{addresses.ingest}/v1/traces", json=request_of(number, FLIPS))
            sent.raise_for_status()
        both = f'groundwatch_judge_repeats_total{{judge="{JUDGE}"}} 6.0'
        metrics = page_with(f"{addresses.metrics}/metrics", both).splitlines()
    assert len(asked) == 12
    for judge, changes in ((JUDGE, 6), (LocalJudge().identifier, 0)):
        assert sample(metrics, "groundwatch_judge_repeats_total", judge) == 6
        assert sample(metrics, "groundwatch_judge_repeat_changes_total", judge) == changes
