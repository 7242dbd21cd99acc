"""Several lists of one kind in one request: which are joined, and which take the place of an earlier one.

An agent searches more than once, and a pipeline may have two rerankers in a row. The former are parts of what was
found; the latter are one list in two states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from groundwatch_collector.ragtrace import Document
from groundwatch_collector.spans import Span

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Listed(Generic[S]):
    span: Span
    documents: tuple[Document, ...]
    of: S  # what the list was read from


def joined(lists: Sequence[tuple[Document, ...]]) -> tuple[Document, ...]:
    """All of *lists*, one behind the other; a document that several name is kept where it comes first."""
    if len(lists) == 1:
        return lists[0]
    unique: dict[str, Document] = {}
    for documents in lists:
        for document in documents:
            unique.setdefault(document.id, document)
    return tuple(replace(document, rank=rank) for rank, document in enumerate(unique.values(), start=1))


def that_count(rankings: Sequence[Listed[S]], searches: Sequence[Span]) -> list[Listed[S]]:
    """Of *rankings*, in order of start, those that no later one took its documents from.

    A ranking takes the place of the earlier ones when it has no document that they had not, and nothing was searched
    between them.
    """
    kept: list[Listed[S]] = []
    for ranking in rankings:
        if kept and _continues(ranking, kept) and not _searched_between(kept[-1].span, ranking.span, searches):
            kept = []
        kept.append(ranking)
    return kept


def _continues(ranking: Listed[S], kept: Sequence[Listed[S]]) -> bool:
    known = {document.id for before in kept for document in before.documents}
    return {document.id for document in ranking.documents} <= known


def _searched_between(first: Span, second: Span, searches: Sequence[Span]) -> bool:
    return any(first.start_unix_nano < span.start_unix_nano <= second.start_unix_nano for span in searches)


def outermost(spans: Sequence[S], is_inside: Callable[[S, S], bool]) -> list[list[S]]:
    """*spans* in groups: each begins with one that is inside no other, and holds those inside of it."""
    tops = [span for span in spans if not any(is_inside(span, other) for other in spans if other is not span)]
    return [[top, *(span for span in spans if span is not top and is_inside(span, top))] for top in tops]
