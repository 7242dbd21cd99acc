"""The bank of questions with what a right answer is: this is where the demo's truth comes from."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

from groundwatch_deploy.demo import words
from groundwatch_deploy.demo.corpus import Passage

Answerable = Literal["full", "partly", "nowhere"]


@dataclass(frozen=True, slots=True)
class Question:
    id: str  # "full-12": its place in the file
    text: str
    answerable: Answerable
    gold: frozenset[str]  # ids of the passages that hold the answer; empty for "nowhere"
    key: re.Pattern[str] | None  # what a right answer matches
    weight: int  # how often it is asked

    @property
    def chinese(self) -> bool:
        return words.is_chinese(self.text)


@dataclass(frozen=True, slots=True)
class Bank:
    """Questions that can be asked of this corpus, and those that cannot: this Python documents it otherwise."""

    questions: tuple[Question, ...]
    left_out: tuple[str, ...]  # ids

    def draw(self, rng: random.Random) -> Question:
        return rng.choices(self.questions, [question.weight for question in self.questions])[0]


def load(passages: Sequence[Passage]) -> Bank:
    """Read the bank; a question whose answer stands nowhere in *passages* is left out rather than judged wrongly."""
    raw: Mapping[str, list[dict[str, Any]]] = tomllib.loads(
        resources.files(__package__).joinpath("questions.toml").read_text(encoding="utf-8")
    )
    read = [
        _question(f"{kind}-{number}", kind, entry, passages)
        for kind in ("full", "partly", "nowhere")
        for number, entry in enumerate(raw[kind], start=1)
    ]
    usable = tuple(question for question in read if question.gold or question.answerable == "nowhere")
    return Bank(usable, tuple(question.id for question in read if question not in usable))


def _question(number: str, kind: Any, entry: Mapping[str, Any], passages: Sequence[Passage]) -> Question:
    key = re.compile(entry["key"], re.IGNORECASE) if "key" in entry else None
    names = entry.get("gold", [])
    names = [names] if isinstance(names, str) else names
    gold = frozenset(p.id for p in passages if key and p.id.partition("#")[0] in names and key.search(p.text))
    return Question(number, entry["q"], kind, gold, key, entry.get("w", 1))
