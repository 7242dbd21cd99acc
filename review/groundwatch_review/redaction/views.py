"""Same-length readings of a text, so that one rule finds a value however it was spelled.

``\\b`` is never used: between a Chinese character and a digit there is no word boundary, and a rule that needs one
never fires in Chinese text. Rules look at ASCII neighbours instead, on a view where nothing else is left.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final
from urllib.parse import unquote

STOP: Final = "\x1a"
"""Stands where a placeholder of ours is: no rule matches it, and it is not white space."""


class _Fold(dict[int, str]):
    """Code point -> its one-character NFKC form; the mapping must not change the length."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        folded = unicodedata.normalize("NFKC", char)
        digit = unicodedata.decimal(folded, None) if len(folded) == 1 else None
        kept = str(digit) if digit is not None else folded if len(folded) == 1 else char
        if unicodedata.category(kept) in ("Cc", "Cf") and kept not in "\n\r\t":
            kept = " "  # zero-width and control characters split numbers; a rule sees a separator
        self[code] = kept
        return kept


class _Ascii(dict[int, str]):
    def __missing__(self, code: int) -> str:
        kept = _FOLD[code]
        kept = kept if kept.isascii() else " "
        self[code] = kept
        return kept


_FOLD: Final = _Fold()
_ASCII: Final = _Ascii()

_ESCAPE: Final = re.compile(
    r"(?:%[0-9A-Fa-f]{2}){1,64}|\\u[0-9A-Fa-f]{4}|&#x?[0-9A-Fa-f]{1,6};|&(?:amp|commat|period);"
)


@dataclass(frozen=True)
class View:
    """One reading of a text. ``folded`` keeps other scripts, ``ascii`` has a space at their place."""

    folded: str
    ascii: str
    origins: Sequence[tuple[int, int]] | None = None  # per character: its extent in the source; None: the same index

    @cached_property
    def lower(self) -> str:
        """Lower-cased folded text for cheap "does this word occur at all" tests; offsets may differ."""
        return self.folded.lower()

    def extent(self, start: int, end: int) -> tuple[int, int]:
        """Where ``[start, end)`` of this view lies in the source text. Raises ``IndexError`` outside the view."""
        if not 0 <= start < end <= len(self.ascii):
            raise IndexError(f"span {start}..{end} is outside a text of {len(self.ascii)} characters")
        if self.origins is None:
            return start, end
        return self.origins[start][0], self.origins[end - 1][1]


def views(text: str, stops: Sequence[tuple[int, int]] = ()) -> tuple[View, ...]:
    """The plain view and, where the text holds percent, JSON or HTML escapes, the decoded one.

    *stops* are extents of our own placeholders, hidden from every rule. Both views are always searched: a decoded
    ``@`` would otherwise end a password early and leave its tail.
    """
    plain = View(_overlay(text.translate(_FOLD), stops), _overlay(text.translate(_ASCII), stops))
    decoded = _decoded(text, stops)
    return (plain,) if decoded is None else (plain, decoded)


def fold(text: str) -> str:
    """*text* with every character in its compatibility form, the same length."""
    return text.translate(_FOLD)


def _overlay(text: str, stops: Sequence[tuple[int, int]]) -> str:
    pieces = []
    position = 0
    for start, end in stops:  # in order and apart
        pieces += [text[position:start], STOP * (end - start)]
        position = end
    return "".join([*pieces, text[position:]])


def _decoded(text: str, stops: Sequence[tuple[int, int]]) -> View | None:
    if "%" not in text and "\\u" not in text and "&" not in text:
        return None
    pieces: list[str] = []
    origins: list[tuple[int, int]] = []
    position = 0
    for match in _ESCAPE.finditer(text):
        decoded = _decode(match.group())
        pieces += [text[position : match.start()], decoded]
        origins += [(index, index + 1) for index in range(position, match.start())]
        origins += [match.span()] * len(decoded)
        position = match.end()
    if position == 0:
        return None
    pieces.append(text[position:])
    origins += [(index, index + 1) for index in range(position, len(text))]
    return _hide("".join(pieces), origins, stops)


def _hide(text: str, origins: list[tuple[int, int]], stops: Sequence[tuple[int, int]]) -> View:
    hidden = set().union(*(range(start, end) for start, end in stops)) if stops else set()
    own = [(index, index + 1) for index, (start, _end) in enumerate(origins) if start in hidden]
    return View(_overlay(text.translate(_FOLD), own), _overlay(text.translate(_ASCII), own), origins)


def _decode(escape: str) -> str:
    if escape.startswith("%"):
        return unquote(escape, errors="replace")
    if escape.startswith("\\u"):
        return chr(int(escape[2:], 16))
    return html.unescape(escape)
