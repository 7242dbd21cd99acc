"""The path of each document from retrieval to the model: three columns and the lines between them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from groundwatch_collector.ragtrace import Document, RagTrace

ROW_HEIGHT = 34  # pixels; the stylesheet gives the rows the same height
MAX_ROWS = 30


@dataclass(frozen=True, slots=True)
class FlowRow:
    document: Document
    label: str
    kept: bool  # it goes on to the next column, or the column is the last one
    evidence: bool  # a verdict rests on it
    relevance: float | None
    anchor: str  # of the document's card on the page; "" when its text was not kept


@dataclass(frozen=True, slots=True)
class Line:
    y1: float
    y2: float
    bend: str  # SVG path in a box that is 100 wide
    evidence: bool


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    rows: tuple[FlowRow, ...]
    hidden: int  # rows beyond MAX_ROWS
    lines: tuple[Line, ...]  # to the next column
    recorded: bool


@dataclass(frozen=True, slots=True)
class RankFlow:
    columns: tuple[Column, ...]
    height: int


def rank_flow(
    trace: RagTrace,
    evidence: Collection[str],
    candidate_relevance: Sequence[float | None] = (),
    context_relevance: Sequence[float | None] = (),
    anchors: Mapping[str, str] | None = None,
) -> RankFlow | None:
    """Columns for the lists that were recorded; None when none was. An empty list is a column that says so."""
    lists = [("Candidates", trace.candidates), ("Reranked", trace.reranked), ("Context", trace.context)]
    recorded = [(title, documents) for title, documents in lists if documents is not None]
    if not recorded:
        return None
    columns = []
    for place, (title, documents) in enumerate(recorded):
        following = recorded[place + 1][1] if place + 1 < len(recorded) else None
        relevance = {"Candidates": candidate_relevance, "Context": context_relevance}.get(title, ())
        rows = _rows(documents, following, evidence, relevance, anchors or {})
        columns.append(Column(title, rows, max(0, len(documents) - MAX_ROWS), _lines(rows, following), True))
    tallest = max(len(column.rows) + bool(column.hidden) for column in columns)
    return RankFlow(tuple(columns), ROW_HEIGHT * max(1, tallest))


def _rows(
    documents: Sequence[Document],
    following: Sequence[Document] | None,
    evidence: Collection[str],
    relevance: Sequence[float | None],
    anchors: Mapping[str, str],
) -> tuple[FlowRow, ...]:
    goes_on = None if following is None else {document.id for document in following}
    return tuple(
        FlowRow(
            document=document,
            label=document.title or document.id,
            kept=goes_on is None or document.id in goes_on,
            evidence=document.id in evidence,
            relevance=relevance[place] if place < len(relevance) else None,
            anchor=anchors.get(document.id, ""),
        )
        for place, document in enumerate(documents[:MAX_ROWS])
    )


def _lines(rows: Sequence[FlowRow], following: Sequence[Document] | None) -> tuple[Line, ...]:
    places: dict[str, int] = {}
    for place, document in enumerate(following or ()):
        places.setdefault(document.id, place)
    lines = [
        _line(place, min(places[row.document.id], MAX_ROWS), row.evidence)
        for place, row in enumerate(rows)
        if row.document.id in places
    ]
    return tuple(sorted(lines, key=lambda line: line.evidence))  # evidence is drawn last, on top


def _line(left: int, right: int, evidence: bool) -> Line:
    y1, y2 = ROW_HEIGHT * (left + 0.5), ROW_HEIGHT * (right + 0.5)
    return Line(y1, y2, f"M0 {y1} C50 {y1} 50 {y2} 100 {y2}", evidence)
