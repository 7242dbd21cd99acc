"""When the corpus changes, does the expected evidence still stand in it?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from groundwatch_review.gate.items import BadSet, Item
from groundwatch_review.gate.ranking import folded


@dataclass(frozen=True, slots=True)
class BrokenAnchor:
    """Evidence that no document of the corpus holds any more: the item needs a person again."""

    item_id: str
    anchor_id: str


def broken(items: Sequence[Item], corpus: Iterable[str]) -> list[BrokenAnchor]:
    """The anchors of *items* that stand in no text of *corpus*. The texts are read once and not kept."""
    missing = {folded(anchor.text) for item in items for anchor in item.evidence}
    for text in corpus:
        plain = folded(text)
        missing = {anchor for anchor in missing if anchor not in plain}
    return [
        BrokenAnchor(item.id, anchor.id)
        for item in items
        for anchor in item.evidence
        if folded(anchor.text) in missing
    ]


def read_corpus(path: Path) -> Iterable[str]:
    """The ``text`` of each JSON line. Raises :class:`BadSet`, naming the line."""
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield _text(line, f"{path}:{number}")


def _text(line: str, where: str) -> str:
    try:
        text = json.loads(line)["text"]
    except (ValueError, KeyError, TypeError) as error:
        raise BadSet(f'{where}: expected an object with "text"') from error
    if not isinstance(text, str):
        raise BadSet(f"{where}: text is {type(text).__name__}; expected a string")
    return text
