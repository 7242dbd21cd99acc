"""A model judge that asks a scripted endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest
from scripted_endpoint import Server

from groundwatch_scorer.llm_endpoint import open_client
from groundwatch_scorer.llm_judge import LlmJudge


@pytest.fixture(scope="session")
def client() -> Iterator[openai.OpenAI]:
    """One client for all tests: making one reads every certificate of the machine."""
    with open_client("http://127.0.0.1:9/v1", "sk-test") as opened:
        yield opened


@pytest.fixture
def judge_at(client: openai.OpenAI) -> Callable[..., LlmJudge]:
    def make(server: Server | str, *, retries: int = 0, timeout: float = 5.0, **options: Any) -> LlmJudge:
        url = server if isinstance(server, str) else server.base_url
        own = client.with_options(base_url=url, timeout=timeout)
        return LlmJudge(own, "m1", timeout_seconds=timeout, retries=retries, **options)

    return make
