"""What really happened, decided from the gold answers and the program's own knowledge of what it did.

Written beside the application, never sent to Groundwatch: the demo compares with it only at the end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from groundwatch_deploy.demo.app import Answer, Reply
from groundwatch_deploy.demo.questions import Question

COMPLETED = ("answered", "partial", "refused")


@dataclass(frozen=True, slots=True)
class Truth:
    trace_id: str
    question_id: str
    version: str
    started_at: float  # Unix seconds
    outcome: str
    failed: bool  # the user did not get what the documents hold, or got something they do not hold
    layer: str = ""  # where it went wrong first; "" when it did not
    why: str = ""  # closed set, see _failure
    chinese: bool = False

    @property
    def completed(self) -> bool:
        """Whether it counts: errors and cancellations have their own denominators."""
        return self.outcome in COMPLETED


def decide(question: Question, reply: Reply, *, trace_id: str, version: str, started_at: float) -> Truth:
    """The truth about one request."""
    layer, why = _failure(question, reply) if reply.outcome in COMPLETED else ("", "")
    return Truth(
        trace_id, question.id, version, started_at, reply.outcome, bool(layer), layer, why, question.chinese
    )  # fmt: skip


def _failure(question: Question, reply: Reply) -> tuple[str, str]:
    """(layer, why) of the first thing that went wrong, or two empty words."""
    answer = reply.answer
    assert answer is not None  # completed
    if answer.invented:
        return "generation", "invented_number"
    if question.answerable == "nowhere":
        return ("", "") if answer.refused else ("generation", "answered_without_evidence")
    if not answer.refused and _is_right(question, answer):
        return "", ""
    return _where_evidence_was_lost(question, reply, answer)


def _where_evidence_was_lost(question: Question, reply: Reply, answer: Answer) -> tuple[str, str]:
    if not any(hit.passage.id in question.gold for hit in reply.candidates):
        return "retrieval", "evidence_not_found"
    if not any(hit.passage.id in question.gold for hit in reply.reranked):
        return "rerank", "evidence_cut_by_reranker"
    if not any(passage.id in question.gold for passage in reply.context):
        return "context", "evidence_did_not_fit"
    return ("refusal", "refused_with_evidence") if answer.refused else ("generation", "wrong_passage_quoted")


def _is_right(question: Question, answer: Answer) -> bool:
    """The key stands in the answer, and a passage that holds it is cited."""
    assert question.key is not None  # answerable questions have one
    plain = re.sub(r"\s*\[\d+\]", "", answer.text)
    return bool(question.key.search(plain)) and any(source in question.gold for source, _marker in answer.cited)


class TruthFile:
    """One JSON line per request, appended as it ends."""

    def __init__(self, path: Path) -> None:
        self._out = path.open("a", encoding="utf-8")

    def add(self, truth: Truth) -> None:
        self._out.write(json.dumps(asdict(truth)) + "\n")

    def close(self) -> None:
        self._out.close()


def read(path: Path) -> list[Truth]:
    with path.open(encoding="utf-8") as lines:
        return [Truth(**json.loads(line)) for line in lines]


def failure_rate(truths: Iterable[Truth]) -> tuple[int, int]:
    """(failed, completed) of *truths*."""
    completed = [truth for truth in truths if truth.completed]
    return sum(truth.failed for truth in completed), len(completed)
