"""Sentences, words and numbers of English and Chinese text, each with exact character offsets."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from operator import add
from typing import Literal, TypeVar

from .text_tables import (
    ABBREVIATIONS,
    CHINESE_PARTICLES,
    CHINESE_STOP_BIGRAMS,
    ENGLISH_STOP_WORDS,
    TRADITIONAL_TO_SIMPLIFIED,
)

CJK = "\u3400-\u9fff\uf900-\ufaff"
T = TypeVar("T")
SentenceKind = Literal["sentence", "item", "heading", "row", "code"]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A stretch of a text: ``source[start:end]`` without surrounding blanks."""

    start: int
    end: int
    kind: SentenceKind = "sentence"


@dataclass(frozen=True, slots=True)
class View:
    """A text folded for comparison (NFKC, lower case, simplified characters) with the way back to its source."""

    text: str
    offsets: tuple[int, ...] | None  # source offset per character of text; None: the same offsets

    def source_span(self, start: int, end: int) -> tuple[int, int]:
        """Offsets in the source of ``text[start:end]``; a character that folded into several comes back whole."""
        if self.offsets is None:
            return start, end
        if start >= end:
            return self.offsets[start], self.offsets[start]
        return self.offsets[start], self.offsets[end - 1] + 1


class _FoldTable(dict[int, str]):
    """Translation table that learns each character once."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        folded = unicodedata.normalize("NFKC", character).lower()
        self[code] = folded = "".join(TRADITIONAL_TO_SIMPLIFIED.get(c, c) for c in folded) or character
        return folded


_FOLD = _FoldTable({0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"', 0x2013: "-", 0x2014: "-", 0x00A0: " "})


_SHORT = 500  # characters


def kept_if_short(work: Callable[[str], T]) -> Callable[[str], T]:
    """Keep the last results for short texts: a claim is asked the same many times while it is read."""
    kept = lru_cache(maxsize=4096)(work)

    @wraps(work)
    def asked(text: str) -> T:
        return kept(text) if len(text) <= _SHORT else work(text)

    return asked


@kept_if_short
def folded(text: str) -> View:
    """Fold *text* for comparison. Offsets survive: see :meth:`View.source_span`."""
    if text.isascii():
        return View(text.lower(), None)
    whole = text.translate(_FOLD)
    if len(whole) == len(text):  # folding never shortens, so equal length means one to one
        return View(whole, None)
    offsets: list[int] = []
    for index, character in enumerate(text):
        offsets.extend([index] * len(character.translate(_FOLD)))
    return View(whole, (*offsets, len(text)))


def is_cjk(token: str) -> bool:
    """Whether *token* is written in Chinese characters."""
    return "\u3400" <= token[0] <= "\ufaff"


@kept_if_short
def is_chinese(text: str) -> bool:
    """Whether Chinese characters make up a good part of the letters of *text*."""
    chinese = len(_CJK_CHARACTER.findall(text))
    return chinese > 0 and chinese * 4 >= len(_LATIN_WORD.findall(text)) * 3


_CJK_CHARACTER = re.compile(f"[{CJK}]")
_LATIN_WORD = re.compile(r"[A-Za-z]+")

# --- sentences ---------------------------------------------------------------------------------------------------

_FENCE = re.compile(r"\s*(```|~~~)")
_ITEM = re.compile(
    r"\s*(?:[-*+•·▪●]\s+|\(?\d{1,2}[.)、．]\s*(?!\d)|\(?[a-z][.)]\s+|[（(][一二三四五六七八九十\d]{1,3}[)）]|[一二三四五六七八九十]{1,3}、)"
)
_HEADING = re.compile(r"\s*#{1,6}\s")
_ROW = re.compile(r"\s*\|.*\|\s*$")
_PROMPT = re.compile(r"\s*(?:>>>|\.\.\.)\s")
_MARKER = r"(?:\s*\[(?:\d{1,3}|\^\d{1,3})(?:\s*[,，、]\s*\d{1,3})*\]|\s*【\d{1,3}】)"
_BREAK = re.compile(
    rf"(?:[。！？；!?…]+|\.+)[\"'”’」』）)\]]*{_MARKER}*(?=\s|$)|[。！？；]+[\"'”’」』）)\]]*{_MARKER}*"
)
_LAST_WORD = re.compile(r"([\w.]+)$")
_SOFT_WRAP_CHARACTERS = (
    40  # a shorter line that does not end a sentence is a heading or a list line, not a wrapped one
)


def sentences(text: str) -> list[Sentence]:
    """Split *text* into sentences, list items, table rows and lines of code, in order, without blanks around."""
    found: list[Sentence] = []
    for start, end, kind in _blocks(text):
        if kind in ("code", "row", "heading"):
            _add(found, text, start, end, kind)
        else:
            _split_block(found, text, start, end, kind)
    return found


def _blocks(text: str) -> list[tuple[int, int, SentenceKind]]:
    """Runs of lines that belong together: a paragraph with its soft line breaks, or one line of another kind."""
    blocks: list[tuple[int, int, SentenceKind]] = []
    in_fence = False
    joins = False  # whether the next line may continue the last block
    position = 0
    for line in text.splitlines(keepends=True):
        start, position = position, position + len(line)
        if _FENCE.match(line):
            in_fence, joins = not in_fence, False
            continue
        kind = "code" if in_fence else _line_kind(line)
        if not line.strip():
            joins = False
            continue
        if joins and kind == "sentence":
            blocks[-1] = (blocks[-1][0], position, blocks[-1][2])
        else:
            blocks.append((start, position, kind))
        joins = kind in ("sentence", "item") and _wraps(line)
    return blocks


def _line_kind(line: str) -> SentenceKind:
    if _PROMPT.match(line):
        return "code"
    if _ROW.match(line):
        return "row"
    if _HEADING.match(line):
        return "heading"
    return "item" if _ITEM.match(line) else "sentence"


def _wraps(line: str) -> bool:
    bare = line.strip()
    return (
        len(bare) >= _SOFT_WRAP_CHARACTERS
        and bare[-1] not in ".!?。！？；…:："
        and not _CJK_CHARACTER.match(bare[-1])
    )


def _split_block(found: list[Sentence], text: str, start: int, end: int, kind: SentenceKind) -> None:
    here = start
    for match in _BREAK.finditer(text, start, end):
        if match.group()[0] == "." and _is_abbreviation(text[here : match.start()], match.group()):
            continue
        _add(found, text, here, match.end(), kind)
        here = match.end()
    _add(found, text, here, end, kind)


def _is_abbreviation(before: str, ending: str) -> bool:
    if ending.startswith(".."):
        return False
    last = _LAST_WORD.search(before)
    if last is None:
        return not before.strip()
    word = last.group(1).lower()
    if word in ABBREVIATIONS or (len(word) == 1 and word.isalpha()):
        return True
    # "1." at the very start is a list number, "u.s." is an abbreviation
    return (word.isdigit() and before.strip() == last.group(1)) or bool(re.fullmatch(r"(?:[a-z]\.)+[a-z]", word))


def _add(found: list[Sentence], text: str, start: int, end: int, kind: SentenceKind) -> None:
    piece = text[start:end]
    left = len(piece) - len(piece.lstrip())
    bare = piece.strip()
    if not bare:
        return
    if not any(c.isalnum() for c in bare):
        if found and found[-1].kind == kind:  # stray punctuation belongs to what stands before it
            found[-1] = Sentence(found[-1].start, start + left + len(bare), kind)
        return
    found.append(Sentence(start + left, start + left + len(bare), kind))


# --- words -------------------------------------------------------------------------------------------------------

_WORD = re.compile(rf"[{CJK}]+|[^\W{CJK}]+(?:'[a-z]+)?")
_DIGITS = re.compile(r"\d+(?:[.,]\d+)*\w{0,3}")
MARKERS = re.compile(_MARKER)
_PARTICLES = re.compile(f"[{CHINESE_PARTICLES}]+")


def tokens(text: str) -> list[str]:
    """Content tokens of *text*: stems of words without stop words, and bigrams of Chinese. Numbers are not in it."""
    return list(_tokens(text))


@kept_if_short
def _tokens(text: str) -> tuple[str, ...]:
    return tuple(tokens_of_folded(folded(text).text))


def tokens_of_folded(text: str) -> list[str]:
    """As :func:`tokens`, of a text that is folded already."""
    found: list[str] = []
    bare = MARKERS.sub(" ", text) if "[" in text or "【" in text else text
    for run in _WORD.findall(bare):
        if is_cjk(run):
            _add_chinese_tokens(found, run)
        elif run not in ENGLISH_STOP_WORDS and not _DIGITS.fullmatch(run) and (len(run) > 1 or not run.isascii()):
            found.append(stem(run))
    return found


def _add_chinese_tokens(found: list[str], run: str) -> None:
    for piece in _PARTICLES.split(run):
        if len(piece) == 1:
            found.append(piece)
        else:
            pairs = list(map(add, piece, piece[1:]))
            found += pairs if CHINESE_STOP_BIGRAMS.isdisjoint(pairs) else _without_stop_pairs(pairs)


def _without_stop_pairs(pairs: list[str]) -> list[str]:
    return [pair for pair in pairs if pair not in CHINESE_STOP_BIGRAMS]


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Light English stem: plural, tense and adverb endings, enough to match forms and never meanings."""
    word = word.removesuffix("'s")
    if len(word) <= 3 or not word.isascii() or "_" in word:
        return word
    word = _ending_cut(_ending_cut(word, _PLURALS), _ENDINGS)
    if len(word) > 4 and word[-1] == word[-2] and word[-1] not in "lsz":
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word[-1] == "e" else word


def _ending_cut(word: str, endings: tuple[tuple[str, str, int], ...]) -> str:
    for ending, replacement, left in endings:
        if word.endswith(ending) and len(word) - len(ending) >= left:
            return word[: len(word) - len(ending)] + replacement
    return word


# The last number is how many letters must be left.
_PLURALS = (
    ("sses", "ss", 2),
    ("ies", "y", 2),
    ("xes", "x", 2),
    ("ches", "ch", 2),
    ("shes", "sh", 2),
    ("ss", "ss", 1),
    ("us", "us", 1),
    ("is", "is", 1),
    ("s", "", 3),
)
_ENDINGS = (
    ("ation", "at", 3),
    ("ingly", "", 3),
    ("edly", "", 3),
    ("ment", "", 4),
    ("ness", "", 4),
    ("ied", "y", 2),
    ("ing", "", 3),
    ("ity", "", 4),
    ("ion", "", 4),
    ("ed", "", 3),
    ("er", "", 4),
    ("or", "", 5),
    ("ly", "", 4),
)
