"""Words and sentences of English and Chinese text, as the demo's retrieval sees them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_STOP_WORDS = """
    a about after all also am an and any are as at be been but by can could did do does each for from get gets give
    got had has have hello hey hi how i if im in into is it its just me my of on one or our please pls so some tell
    than that the their them then there these they this to up us want was we what whats when where which who whose
    why will with would you your yours use used using should may might not no until
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())

# Question words and fillers of Chinese: they separate content and carry none themselves.
_CHINESE_FILLERS = re.compile(
    "怎么办|怎么样|时候|怎么|怎样|什么|多少|多久|多大|几个|几点|几天|几位|几台|几次|几号|几|可以|能够|能不能|能|吗|呢|吧|呀|啊|请问|"
    "的|了|是|我们|我|你们|你|要|给|有|哪些|哪个|哪家|哪|在|会|和|与|用|被|把|到|将|得|为|或|且|谁|这|那|里|之后|以后|之前|每"
)
_TOKEN = re.compile(r"[a-z_]+(?:[.-][a-z_]+)*\d*|\d[\d,.:]*|[\u3400-\u9fff]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"”')\]]*\s+(?=[\"“'(*`]*[A-Z0-9\u3400-\u9fff])|(?<=[。！？])|\n{2,}")
_NUMBER = re.compile(r"\d[\d,.:]*")


def normalise(text: str) -> str:
    """Full-width forms, letter case and apostrophes made alike."""
    return unicodedata.normalize("NFKC", text).casefold().replace("’", "'")


def tokens(text: str) -> list[str]:
    """Stemmed words without stop words, numbers, and pairs of neighbouring Chinese characters."""
    return [token for part in _TOKEN.findall(normalise(text)) for token in _expand(part)]


def is_chinese(text: str) -> bool:
    return any("\u3400" <= character <= "\u9fff" for character in text)


def sentences(text: str) -> list[str]:
    """The sentences of *text*, verbatim; a blank line ends one too."""
    return [sentence.strip() for sentence in _SENTENCE_END.split(text) if sentence and sentence.strip()]


def numbers(text: str) -> list[str]:
    return [found.rstrip(",.:") for found in _NUMBER.findall(text)]


def without_fillers(text: str) -> str:
    """Chinese *text* with a space in place of each question word and filler."""
    return _CHINESE_FILLERS.sub(" ", text)


def _expand(part: str) -> Iterator[str]:
    if "\u3400" <= part[0] <= "\u9fff":
        yield from _bigrams(part)
    elif part[0].isdigit():
        yield part.rstrip(",.:").replace(",", "")
    else:
        yield from _dotted(part)


def _bigrams(run: str) -> Iterator[str]:
    for piece in _CHINESE_FILLERS.split(run):
        yield from (piece[i : i + 2] for i in range(len(piece) - 1))


def _dotted(word: str) -> Iterator[str]:
    """``json.dumps`` and ``sign-on`` are one word and its two parts."""
    parts = [p for p in re.split(r"[._-]+", word) if p]
    if len(parts) > 1:
        yield word
    yield from (stem(p) for p in parts if p not in STOP_WORDS and len(p) > 1)


def stem(word: str) -> str:
    """Cut the common English endings. Crude on purpose: both sides of a match pass through here."""
    for ending, kept, shortest in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= shortest:
            return word[: len(word) - len(ending)] + kept
    return word


_ENDINGS = (
    ("ations", "ate", 3), ("ation", "ate", 3), ("sses", "ss", 2), ("ies", "y", 2), ("ing", "", 4), ("ied", "y", 2),
    ("ers", "", 4), ("er", "", 4), ("ed", "", 3), ("ss", "ss", 1), ("es", "", 3), ("ly", "", 4), ("us", "us", 1),
    ("s", "", 2), ("e", "", 3),
)  # fmt: skip
