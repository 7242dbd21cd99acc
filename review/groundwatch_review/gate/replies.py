"""What the application under test gives back for one question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

OUTCOMES: Final = ("answered", "partial", "refused", "no_result")


class BadReply(ValueError):
    """The reply is not in the documented form; the message names the field, what was found and what is accepted."""


@dataclass(frozen=True, slots=True)
class Passage:
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """``None`` for a list that the application does not tell: scores that need it are not applicable."""

    answer: str
    retrieved: tuple[Passage, ...] | None = None  # what the search gave, best first
    context: tuple[Passage, ...] | None = None  # what the model was really sent
    outcome: str = "answered"


def read_reply(raw: object) -> Reply:
    """Read the JSON object that a target gave. Raises :class:`BadReply`."""
    if not isinstance(raw, Mapping):
        raise BadReply(f"the reply is {type(raw).__name__}; expected an object with an answer")
    answer = raw.get("answer")
    if not isinstance(answer, str):
        raise BadReply(f"answer is {type(answer).__name__}; expected a string")
    outcome = raw.get("outcome", "answered")
    if outcome not in OUTCOMES:
        raise BadReply(f"outcome is not known; accepted: {', '.join(OUTCOMES)}")
    return Reply(answer, _passages(raw, "retrieved"), _passages(raw, "context"), outcome)


def _passages(raw: Mapping[str, Any], name: str) -> tuple[Passage, ...] | None:
    listed = raw.get(name)
    if listed is None:
        return None
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        raise BadReply(f"{name} is {type(listed).__name__}; expected a list of objects with id and text")
    return tuple(_passage(entry, f"{name}[{index}]", index) for index, entry in enumerate(listed))


def _passage(entry: object, where: str, index: int) -> Passage:
    if isinstance(entry, str):
        return Passage(str(index), entry)
    if not isinstance(entry, Mapping) or not isinstance(entry.get("text"), str):
        raise BadReply(f"{where} has no text; expected an object with id and text, or a string")
    return Passage(str(entry.get("id", index)), entry["text"])
