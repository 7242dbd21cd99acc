"""A candidate in the words of other tools: one function a tool, from our document to what that tool loads.

No format carries a trace or span id: where a tool has a field for one, it stays empty. Ids are derived from the
candidate's, so that exporting again replaces rows and adds none. Texts pass :func:`inert` on the way.
"""

from __future__ import annotations

import csv
import importlib
import io
import json
import re
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

NAMESPACE: Final = uuid.UUID("6f1d8a52-4c0e-5b7a-9d3f-2a8e0c5b71d4")  # ours, random once
_JOINER: Final = "\u2060"  # invisible, and enough to make a command a text

# What the tools that load an export would act upon.
_ACTIVE: Final = re.compile(
    r"(?P<file>(?i:file):(?=//))|(?P<template>\{(?=[{%#]))|\A(?P<package>(?i:package)(?=:))|(?P<deepeval>\[(?=(?i:DEEPEVAL):))"
)
_FORMULA: Final = re.compile(r"^[\s\u200b\ufeff]*[=+\-@\t\r＝＋－＠]")

Document = Mapping[str, Any]
Row = dict[str, Any]


def inert(value: Any, seen: Counter[str]) -> Any:
    """*value* with nothing in its texts that a tool would run or open.

    That is ``file://``, ``{{ }}``, ``[DEEPEVAL:`` and, at the beginning, ``package:``. An invisible U+2060 breaks
    each up; *seen* counts them by kind.
    """
    if isinstance(value, str):

        def broken(match: re.Match[str]) -> str:
            seen[str(match.lastgroup)] += 1
            return match.group() + _JOINER

        return _ACTIVE.sub(broken, value)
    if isinstance(value, dict):
        return {key: inert(item, seen) for key, item in value.items()}
    return [inert(item, seen) for item in value] if isinstance(value, list) else value


def _contexts(document: Document) -> list[str]:
    return [passage["text"] for passage in document["evidence"]["retrieved"]]


def _anchors(document: Document) -> list[str]:
    return [anchor["exact"] for anchor in document["evidence"].get("expected_anchors", ())]


def _reference(document: Document) -> str:
    return str(document["expectation"].get("reference_answer", ""))


def _points(document: Document) -> list[str]:
    return [point["text"] for point in document["expectation"].get("key_points", ())]


def _facts(document: Document) -> Row:
    """What no tool has a field for, under one name everywhere."""
    expected = document["expectation"]
    return {
        "candidate_id": document["candidate_id"],
        "revision": document.get("revision", 1),
        "lang": document["lang"],
        "split": document["split"],
        "family_id": document["family"]["family_id"],
        "support": document["family"].get("support", 1),
        "answerability": expected["answerability"],
        "expected_behavior": expected.get("expected_behavior", ""),
        "forbidden_claims": list(expected.get("forbidden_claims", ())),
        "fault_layer": document["fault"]["layer"],
        "fault_type": document["fault"]["type"],
        "observed": document["answer"]["observed"],
        "license": document["governance"]["license"],
        "labelling_policy": document["review"].get("labelling_policy", ""),
        "redaction_policy": document["redaction"]["policy_version"],
    }


def _identifier(document: Document) -> str:
    return str(uuid.uuid5(NAMESPACE, document["candidate_id"]))


def _langfuse(document: Document) -> Row:
    """The arguments of the client's ``api.dataset_items.create``; it takes the same id again as an update."""
    return {
        "id": document["candidate_id"],
        "dataset_name": f"groundwatch-{document['split'].lower()}",
        "input": {"question": document["question"]["text"]},
        "expected_output": {
            "answer": _reference(document),
            "key_points": _points(document),
            "anchors": _anchors(document),
            "answerability": document["expectation"]["answerability"],
        },
        "metadata": {**_facts(document), "contexts": _contexts(document)},
        "status": "ACTIVE",
    }


def _ragas(document: Document) -> Row:
    """``response`` stays away: the set is for a new run, and the old answer is in the other tools' metadata."""
    points = {f"point_{number}": text for number, text in enumerate(_points(document), 1)}
    wrong = document["expectation"].get("forbidden_claims", ())
    points |= {f"forbidden_{number}": f"The answer does not state: {text}" for number, text in enumerate(wrong, 1)}
    return {
        "user_input": document["question"]["text"],
        "retrieved_contexts": _contexts(document),
        "retrieved_context_ids": [passage["ref"] for passage in document["evidence"]["retrieved"]],
        "reference_contexts": _anchors(document),
        "reference": _reference(document),
        **({"rubrics": points} if points else {}),
    }


def _deepeval(document: Document) -> Row:
    return {
        "name": document["candidate_id"],
        "input": document["question"]["text"],
        "expected_output": _reference(document),
        "retrieval_context": _contexts(document),
        "context": _anchors(document),
        "additional_metadata": {**_facts(document), "key_points": _points(document)},
    }


def _langsmith(document: Document) -> Row:
    return {
        "id": _identifier(document),
        "inputs": {"question": document["question"]["text"], "contexts": _contexts(document)},
        "outputs": {
            "answer": _reference(document),
            "key_points": _points(document),
            "anchors": _anchors(document),
        },
        "metadata": _facts(document),
        "split": document["split"].lower(),
    }


def _openai(document: Document) -> Row:
    """A line of a data file of the Evals API: the columns stand under ``item``."""
    return {
        "item": {
            "input": [{"role": "user", "content": document["question"]["text"]}],
            "ideal": _reference(document),
            "contexts": _contexts(document),
            "key_points": _points(document),
            "anchors": _anchors(document),
            "metadata": _facts(document),
        }
    }


def _promptfoo(document: Document) -> Row:
    facts = _facts(document)
    forbidden = [{"type": "not-icontains", "value": text} for text in facts["forbidden_claims"]]
    rubrics = [{"type": "llm-rubric", "value": f"The answer states: {text}"} for text in _points(document)]
    reference = _reference(document)
    return {
        "description": document["candidate_id"],
        # A list would become one test for each of its members.
        "vars": {"question": document["question"]["text"], "context": "\n\n".join(_contexts(document))},
        "assert": [*([{"type": "factuality", "value": reference}] if reference else []), *rubrics, *forbidden],
        "metadata": {
            **{name: value for name, value in facts.items() if name != "forbidden_claims"},
            "anchors": _anchors(document),
        },
    }


def _phoenix(document: Document) -> Row:
    return {
        "id": document["candidate_id"],
        "input": {"question": document["question"]["text"], "contexts": _contexts(document)},
        "output": {"answer": _reference(document), "key_points": _points(document), "anchors": _anchors(document)},
        "metadata": _facts(document),
        "splits": [document["split"].lower()],
    }


def _csv(document: Document) -> Row:
    return {
        "candidate_id": document["candidate_id"],
        "question": document["question"]["text"],
        "context": "\n\n".join(_contexts(document)),
        "reference": _reference(document),
        "key_points": "\n".join(_points(document)),
        "forbidden_claims": "\n".join(document["expectation"].get("forbidden_claims", ())),
        "anchors": "\n".join(_anchors(document)),
        "expected_behavior": document["expectation"].get("expected_behavior", ""),
        "observed": document["answer"]["observed"],
        "answerability": document["expectation"]["answerability"],
        "fault_layer": document["fault"]["layer"],
        "family_id": document["family"]["family_id"],
        "support": document["family"].get("support", 1),
    }


def _as_lines(rows: Sequence[Row]) -> str:
    return "".join(json.dumps(row, ensure_ascii=True, sort_keys=True) + "\n" for row in rows)


def _as_array(rows: Sequence[Row]) -> str:
    return json.dumps(rows, ensure_ascii=True, sort_keys=True, indent=1) + "\n"


def _as_csv(rows: Sequence[Row]) -> str:
    """Every cell in quotes, and an apostrophe before what a spreadsheet would take for a formula."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow([] if not rows else list(rows[0]))
    writer.writerows([_cell(value) for value in row.values()] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> str:
    text = str(value)
    return f"'{text}" if _FORMULA.match(text) else text


@dataclass(frozen=True, slots=True)
class Format:
    """How one tool is served: a row for each candidate, and rows as one file."""

    row: Callable[[Document], Row]
    text: Callable[[Sequence[Row]], str]


FORMATS: Final[Mapping[str, Format]] = {
    "langfuse": Format(_langfuse, _as_lines),
    "ragas": Format(_ragas, _as_lines),
    "deepeval": Format(_deepeval, _as_array),
    "langsmith": Format(_langsmith, _as_lines),
    "openai-evals": Format(_openai, _as_lines),
    "promptfoo": Format(_promptfoo, _as_array),
    "phoenix": Format(_phoenix, _as_lines),
    "csv": Format(_csv, _as_csv),
}
"""The formats of other tools by name; our own, ``jsonl``, holds the whole candidate."""


def format_named(name: str) -> Format | None:
    """A format of :data:`FORMATS`, or ``module:function``: a row of your own for each candidate, as JSON lines."""
    module, colon, function = name.partition(":")
    if not colon:
        return FORMATS.get(name)
    try:
        return Format(getattr(importlib.import_module(module), function), _as_lines)
    except (ImportError, AttributeError, ValueError):
        return None


def render(chosen: Format, documents: Sequence[Document]) -> tuple[str, Counter[str]]:
    """The file of *documents* in a format, and what had to be made inert in it, by kind."""
    seen: Counter[str] = Counter()
    return chosen.text([inert(chosen.row(document), seen) for document in documents]), seen
