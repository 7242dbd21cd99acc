"""The table in docs/conventions.md: which field each convention gives, read off recordings of real instrumentors."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from groundwatch_collector.ragtrace import RagTrace
from groundwatch_collector.understood import fields

YES, INFERRED, ONLY_NONE, NO, UNTRIED = "yes", "inferred", "only none", "no", "not tried"
_BEST: Final = {"recorded": YES, "empty": ONLY_NONE, "inferred": INFERRED, "unknown": NO}
_ORDER: Final = (YES, INFERRED, ONLY_NONE, NO)


def rows(
    traces: Mapping[str, Sequence[RagTrace]], untried: Mapping[str, Collection[str]]
) -> dict[str, dict[str, str]]:
    """For each instrumentor the best that any of its traces shows of each field.

    *untried*: the fields that the recorded application of an instrumentor does not have. They are not said to be
    impossible; and one that shows all the same is a contradiction, for which it raises ``ValueError``.
    """
    return {name: _tried(name, _row(found), untried.get(name, ())) for name, found in sorted(traces.items())}


def _tried(name: str, row: dict[str, str], untried: Collection[str]) -> dict[str, str]:
    for field in untried:
        if row[field] != NO:
            raise ValueError(f"{name} shows {field}, which its application is said not to have")
    return {field: UNTRIED if field in untried else seen for field, seen in row.items()}


def _row(found: Sequence[RagTrace]) -> dict[str, str]:
    row: dict[str, str] = {}
    for trace in found:
        for field in fields(trace):
            seen = INFERRED if field.source.startswith("rule:") and field.value else _BEST[field.state]
            row[field.name] = min(row.get(field.name, NO), seen, key=_ORDER.index)
        row["document text"] = _share(trace, "text", row.get("document text", NO))
        row["document score"] = _share(trace, "score", row.get("document score", NO))
    return row


def _share(trace: RagTrace, part: str, known: str) -> str:
    lists = (trace.candidates or ()) + (trace.reranked or ())
    return YES if any(getattr(document, part) is not None for document in lists) else known


def markdown(table: Mapping[str, Mapping[str, str]]) -> str:
    """The table with one line a field and one column an instrumentor."""
    columns = list(table)
    names = list(next(iter(table.values())))
    head = ["| field | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    lines = [f"| {name} | " + " | ".join(table[column].get(name, NO) for column in columns) + " |" for name in names]
    return "\n".join([*head, *lines])
