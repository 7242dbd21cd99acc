"""Find the words that a model quotes in the document it quotes them from."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

from groundwatch_scorer.text import folded

_IGNORED = frozenset("\"'`´“”„‘’‚«»‹›「」『』＂＇\u200b\u200c\u200d\ufeff\u00ad")
_SHORTEST = 3  # characters; what is shorter stands everywhere
_SHORTEST_CJK = 2


@dataclass(frozen=True, slots=True)
class Squeezed:
    """A text without blanks and quotation marks, folded, with the way back to its source."""

    text: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]


@lru_cache(maxsize=64)
def squeezed(text: str) -> Squeezed:
    characters: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    start = 0
    while start < len(text):
        end = start + 1
        while end < len(text) and unicodedata.combining(text[end]):
            end += 1  # an accent that stands apart belongs to its letter
        for character in _fold(text[start:end]):
            characters.append(character)
            starts.append(start)
            ends.append(end)
        start = end
    return Squeezed("".join(characters), tuple(starts), tuple(ends))


@lru_cache(maxsize=8192)
def _fold(cluster: str) -> str:
    whole = folded(unicodedata.normalize("NFKC", cluster)).text
    return "".join(c for c in whole if not c.isspace() and c not in _IGNORED)


def find_quote(quote: str, text: str) -> tuple[int, int] | None:
    """Offsets of *quote* in *text*, whatever the blanks, quotation marks and character widths; None: not there."""
    wanted, there = squeezed(quote), squeezed(text)
    shortest = _SHORTEST if wanted.text.isascii() else _SHORTEST_CJK
    if len(wanted.text) < shortest:
        return None
    at = there.text.find(wanted.text)
    return None if at < 0 else (there.starts[at], there.ends[at + len(wanted.text) - 1])


def find_most(quote: str, text: str) -> tuple[int, int] | None:
    """Offsets of the longest piece of *quote* that stands in *text*: for quotes from a text with parts masked out."""
    whole = find_quote(quote, text)
    if whole is not None:
        return whole
    wanted, there = squeezed(quote), squeezed(text)
    match = SequenceMatcher(None, wanted.text, there.text, autojunk=False).find_longest_match()
    if match.size < _SHORTEST:
        return None
    return there.starts[match.b], there.ends[match.b + match.size - 1]
