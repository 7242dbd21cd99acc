"""Texts as somebody without the permission for raw ones sees them: redacted leaf by leaf, withheld where in doubt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from groundwatch_collector.ragtrace import from_json, to_json

from ..queries import TraceRecord
from ..redaction.engine import TextsResult, redact_texts
from ..redaction.placeholders import WITHHELD

# Ids of spans and words of closed sets: random or ours, and pages are built with them.
_STRUCTURE = frozenset(
    {
        "trace_id",
        "span_id",
        "parent_id",
        "outcome",
        "outcome_source",
        "status",
        "verdict",
        "where",
        "layer",
        "sentiment",
    }
)
# Written by whoever runs the application: searched, but a random commit or key is no reason to withhold it.
_OPERATORS = frozenset({"app", "version", "model", "convention", "sources", "name", "label", "flags", "reasons"})


def redacted_lines(texts: Sequence[str | None]) -> list[str | None]:
    """Each of *texts* on its own: lines of a list belong to different people."""
    return [None if text is None else _one(text) for text in texts]


def _one(text: str) -> str:
    result = redact_texts({"text": text})
    return result.texts["text"] if not result.reasons else WITHHELD


def redacted_record(record: TraceRecord) -> TraceRecord:
    """*record* with every text redacted as one item: equal values have equal placeholders all over the page."""
    if record.trace is None:
        return replace(record, feedback=(), review=None, judgements=())
    body = {
        "trace": orjson.loads(to_json(record.trace)),
        "judgements": [{"explanation": j.explanation, "detail": j.detail} for j in record.judgements],
        "feedback": [{"name": f.name, "label": f.label, "comment": f.comment} for f in record.feedback],
        "note": "" if record.review is None else record.review.note,
    }
    leaves = dict(_leaves(body, ""))
    texts = {text: f"t{number}" for number, text in enumerate(dict.fromkeys(leaves.values()))}
    ungated = {texts[text] for path, text in leaves.items() if _is_operators(path)}
    result = redact_texts({path: text for text, path in texts.items()}, ungated=ungated)
    shown = _replaced(body, {text: _shown(result, path) for text, path in texts.items()})
    for judgement in shown["judgements"]:
        _find_again(judgement["detail"], shown["trace"])
    return _rebuilt(record, shown)


def _shown(result: TextsResult, path: str) -> str:
    """The text after redaction; withheld where the search was not finished or the gate still sees something."""
    doubtful = {flag.partition(":")[2] for flag in result.flags}
    whole = result.complete and not set(result.reasons) - {"residual"}
    return result.texts[path] if whole and path not in doubtful else WITHHELD


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str) and value and path.rpartition(".")[2] not in _STRUCTURE:
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{number}]")


def _is_operators(path: str) -> bool:
    return any(part.partition("[")[0] in _OPERATORS for part in path.split("."))


def _replaced(value: Any, new: Mapping[str, str], key: str = "") -> Any:
    if isinstance(value, str):
        return value if key in _STRUCTURE else new.get(value, value)
    if isinstance(value, Mapping):
        return {name: _replaced(inner, new, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, new, key) for inner in value]
    return value


def _find_again(detail: Any, trace: Mapping[str, Any]) -> None:
    """Offsets of claims and quotes were of the raw texts: find them anew. What is not found has no mark."""
    documents = {
        d["id"]: d["text"] for name in ("candidates", "reranked", "context") for d in trace[name] or () if d["text"]
    }
    for item in _objects(detail):
        for name, text in (("text", trace["answer"]), ("quote", documents.get(str(item.get("document_id"))))):
            wanted = item.get(name)
            if isinstance(wanted, str) and isinstance(item.get("start"), int):
                start = (text or "").find(wanted) if wanted else -1
                item["start"], item["end"] = (start, start + len(wanted)) if start >= 0 else (0, 0)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _objects(inner)


def _rebuilt(record: TraceRecord, shown: Mapping[str, Any]) -> TraceRecord:
    trace = from_json(orjson.dumps(shown["trace"]))
    review = None if record.review is None else replace(record.review, note=shown["note"])
    return replace(
        record,
        row=replace(record.row, query=trace.query),
        trace=trace,
        judgements=tuple(replace(j, **new) for j, new in zip(record.judgements, shown["judgements"], strict=True)),
        feedback=tuple(replace(f, **new) for f, new in zip(record.feedback, shown["feedback"], strict=True)),
        review=review,
    )
