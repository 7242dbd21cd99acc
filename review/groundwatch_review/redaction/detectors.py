"""The detectors in the order in which they speak: where two claim the same text, the longer claim names it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final

from groundwatch_review.redaction import (
    business,
    contact,
    credentials,
    english_names,
    identity,
    names,
    ner,
    network,
    places,
    unlisted_names,
    unlisted_names_zh,
)
from groundwatch_review.redaction.english_names import NameLists
from groundwatch_review.redaction.rules import Detector, Span
from groundwatch_review.redaction.views import View, fold

DETECTORS: Final = (
    credentials.PEM,
    credentials.SECRETS,
    contact.EMAILS,
    identity.CN_IDS,
    identity.CARDS,
    identity.IBANS,
    identity.NATIONAL_IDS,
    identity.PASSPORTS,
    network.NETWORK,
    contact.PHONES,
    contact.ACCOUNTS,
    business.ORDERS,
    business.ACCOUNT_NUMBERS,
    identity.PLATES,
    places.BIRTHS,
    places.POSITIONS,
    places.ADDRESSES,
    places.ADDRESSES_ZH,
    names.NAMES,
    english_names.ENGLISH_NAMES,
    unlisted_names.UNLISTED_NAMES,
    unlisted_names_zh.UNLISTED_NAMES_ZH,
)


@cache
def active() -> tuple[Detector, ...]:
    """The rules, and the models for names where the extra ``ner`` is installed. The first call loads the models."""
    return (*DETECTORS, *ner.available())


def knowing(lists: NameLists, detectors: Sequence[Detector]) -> tuple[Detector, ...]:
    """*detectors*, those of names with other *lists* than the shipped ones."""
    others = {
        detector.name: detector
        for detector in (english_names.english_names(lists), unlisted_names.unlisted_names(lists), ner.english(lists))
    }
    return tuple(others.get(detector.name, detector) for detector in detectors)


def known_values(values: Iterable[tuple[str, str]]) -> Detector:
    """A detector of values that the trace's own metadata names, in any case and any grouping of their digits."""
    patterns = [
        (kind, re.compile(_spellings(fold(value)), re.IGNORECASE))
        for kind, value in values
        if len(value.strip()) >= 2
    ]

    def find(view: View) -> Iterator[Span]:
        for kind, pattern in patterns:
            for match in pattern.finditer(view.folded):
                yield Span(match.start(), match.end(), kind)

    return Detector("known_values", "1", find)


def _spellings(value: str) -> str:
    """Separators may come and go between the characters of a number; a name keeps its shape."""
    value = value.strip()
    compact = re.sub(r"[ .()\-]", "", value)
    if compact.lstrip("+").isdecimal():
        body = r"[ .()\-]{0,2}".join(map(re.escape, compact))
    else:
        body = r"\s{1,3}".join(map(re.escape, value.split()))
    left = r"(?<![A-Za-z0-9])" if value[0].isascii() and value[0].isalnum() else ""
    right = r"(?![A-Za-z0-9])" if value[-1].isascii() and value[-1].isalnum() else ""
    return left + body + right


def repeated(values: Sequence[tuple[str, str]]) -> Detector:
    """A detector of values that were found elsewhere in the candidate: here no context may give them away."""

    def find(view: View) -> Iterator[Span]:
        for kind, raw in values:
            value = fold(raw)
            start = view.folded.find(value)
            while start >= 0:
                end = start + len(value)
                if _whole(view.folded, start, end):
                    yield Span(start, end, kind)
                start = view.folded.find(value, end)

    return Detector("repeated_values", "1", find)


def _whole(text: str, start: int, end: int) -> bool:
    """Not a part of a longer ASCII word or number."""
    return not (_joined(text[start - 1 : start], text[start]) or _joined(text[end - 1], text[end : end + 1]))


def _joined(left: str, right: str) -> bool:
    return left.isascii() and left.isalnum() and right.isascii() and right.isalnum()
