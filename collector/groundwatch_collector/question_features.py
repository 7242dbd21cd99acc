"""A question as a set of hashed features: words and their pieces, Chinese characters and pairs. No text is kept.

The same in every process: the hash is CRC-32. The cost is bounded by characters and by a number of features.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final
from zlib import crc32

DIMENSIONS: Final = 4096
KEYS: Final = 2 * DIMENSIONS  # a key is a dimension and, in its lowest bit, a sign
MAX_CHARS: Final = 600
MAX_FEATURES: Final = 256
_GRAM = 4
_LONGEST_WORD = 32
_CJK = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u3040-\u30ff\uac00-\ud7af"
_RUNS = re.compile(f"[{_CJK}]+|[^\\W_{_CJK}]+")
_DIGITS = re.compile(r"\d+")


def keys(text: str) -> tuple[int, ...]:
    """The distinct keys of *text* in the order of their first appearance; empty where it has no letters."""
    found: dict[int, None] = {}
    for run in _RUNS.findall(_plain(text)):
        found.update(dict.fromkeys(_pairs(run) if _is_cjk(run[0]) else _word(run)))
        if len(found) >= MAX_FEATURES:
            break
    return tuple(found)[:MAX_FEATURES]


def _plain(text: str) -> str:
    """Lower case, full-width forms and accents in one spelling, and no particular numbers: the kind is wanted."""
    cut = text[:MAX_CHARS]
    folded = cut.lower() if cut.isascii() else unicodedata.normalize("NFKC", cut).casefold()[: 2 * MAX_CHARS]
    return _DIGITS.sub("0", folded)


def _is_cjk(character: str) -> bool:
    return "\u3040" <= character <= "\u9fff" or "\uac00" <= character <= "\ud7af" or "\uf900" <= character <= "\ufaff"


@lru_cache(maxsize=8_192)
def _word(word: str) -> tuple[int, ...]:
    """A word of up to four letters is one feature; a longer one brings its pieces, so that endings matter less."""
    cut = word[:_LONGEST_WORD]
    whole = _key("w" + cut)
    if len(cut) <= _GRAM:
        return (whole,)
    return (whole, *(_key(cut[i : i + _GRAM]) for i in range(len(cut) - _GRAM + 1)))


def _pairs(run: str) -> list[int]:
    cut = run[:MAX_FEATURES]
    return [*map(_character, cut), *(_character(cut[i : i + 2]) for i in range(len(cut) - 1))]


@lru_cache(maxsize=16_384)
def _character(piece: str) -> int:
    return _key(piece)


def _key(feature: str) -> int:
    return crc32(feature.encode("utf-8", "surrogatepass")) % KEYS


_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]")


def language(text: str | None) -> str:
    """By its script: ``zh`` with any Chinese character, else ``latin``, ``other``, or ``unknown`` without letters."""
    cut = (text or "")[:MAX_CHARS]
    if _HAN.search(cut):
        return "zh"
    if _LATIN.search(cut):
        return "latin"
    return "other" if _RUNS.search(_DIGITS.sub("", cut)) else "unknown"
