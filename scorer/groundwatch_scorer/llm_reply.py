"""The form that a model's reply must have, and how it is got out of whatever text came back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

SCHEMA_NAME = "groundwatch_judgement_v1"
_MOST_STARTS = 200  # opening braces that are tried in a text without a form


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _one_of(*values: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


_TEXT = {"type": "string"}
_RELEVANCE = _object(id=_TEXT, relevance=_one_of("relevant", "partial", "irrelevant"))
_ANSWERABILITY = _one_of("FULL", "PARTIAL", "NONE")

# The order is the order of thought: evidence and reason before the label, claims before impressions.
SCHEMA: Mapping[str, Any] = _object(
    claims=_array(
        _object(
            sentence_id=_TEXT,
            text=_TEXT,
            evidence=_array(_object(chunk_id=_TEXT, quote=_TEXT)),
            reason=_TEXT,
            label=_one_of("supported", "contradicted", "not_mentioned", "no_claim"),
        )
    ),
    chunks=_array(_RELEVANCE),
    retrieved=_array(_RELEVANCE),
    answerability=_object(reason=_TEXT, label=_ANSWERABILITY),
    retrieved_answerability=_object(reason=_TEXT, label=_ANSWERABILITY),
    refusal=_one_of("none", "partial", "full"),
    answer_relevance=_one_of("full", "partial", "none"),
    citations=_array(
        _object(sentence_id=_TEXT, chunk_id=_TEXT, label=_one_of("supports", "partial", "does_not_support"))
    ),
    injection_suspected=_object(where=_one_of("none", "chunk", "answer", "both"), ids=_array(_TEXT)),
)


class BadReply(ValueError):
    """The text is not the asked-for object. The message says where, and holds nothing of the text itself."""


def parse(text: str) -> dict[str, Any]:
    """Return the last object in *text* that obeys the schema, or raise :class:`BadReply`.

    The last, because a model that thinks aloud ends with what it means, and a passage that it repeats comes before.
    """
    problem = "no JSON object was found"
    found: dict[str, Any] | None = None
    for candidate in _objects(text):
        error = best_match(_validator().iter_errors(candidate))
        if error is None:
            found = candidate
        else:
            where = "/".join(str(step) for step in error.absolute_path) or "the object"
            problem = f"{where} fails {error.validator}"
    if found is None:
        raise BadReply(problem)
    return found


def free_text(reply: Mapping[str, Any]) -> Iterator[str]:
    """Every text in *reply* that the model wrote itself."""
    for value in reply.values():
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from free_text(value)
        elif isinstance(value, list):
            for item in value:
                yield from free_text(item if isinstance(item, dict) else {"": item})


@lru_cache(maxsize=1)
def _validator() -> Draft202012Validator:
    return Draft202012Validator(SCHEMA)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Top-level JSON objects of *text*, first to last."""
    decoder = json.JSONDecoder()
    position = 0
    for _ in range(_MOST_STARTS):
        start = re.compile(r"\{").search(text, position)
        if start is None:
            return
        try:
            value, position = decoder.raw_decode(text, start.start())
            value = _storable(value)
        except (ValueError, RecursionError):
            position = start.end()
            continue
        if isinstance(value, dict):
            yield value


def _storable(value: Any) -> Any:
    """*value* without what no database takes: half characters, and NUL, which PostgreSQL refuses."""
    if isinstance(value, str):
        whole = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return whole.replace("\x00", "\ufffd")
    if isinstance(value, list):
        return [_storable(item) for item in value]
    return {_storable(k): _storable(v) for k, v in value.items()} if isinstance(value, dict) else value
