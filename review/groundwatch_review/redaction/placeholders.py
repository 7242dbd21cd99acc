"""Numbered placeholders that live and die with one candidate."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

TOKEN: Final = re.compile(r"\[\[[A-Z_]{2,24}_[A-Z0-9]{1,6}\]\]")
WITHHELD: Final = "[[WITHHELD_1]]"
"""Stands for a whole text that could not be searched to the end."""

_WORD_JOINER: Final = "\u2060"


def escape(text: str, own: Collection[str] = ()) -> str:
    """Break up what only looks like a placeholder, so that nobody can plant one; those in *own* are ours."""

    def broken(match: re.Match[str]) -> str:
        return match.group() if match.group() in own else f"[{_WORD_JOINER}{match.group()[1:]}"

    return TOKEN.sub(broken, text)


def token_extents(text: str, own: Collection[str]) -> list[tuple[int, int]]:
    return [match.span() for match in TOKEN.finditer(text) if match.group() in own]


@dataclass(slots=True)
class Scope:
    """Numbers of one candidate. Equal values get the same token, different values never do.

    Holds the only link between a token and what it hides: drop it when the candidate is finished.
    """

    tokens: dict[str, str] = field(default_factory=dict)  # normalised value -> token
    types: dict[str, str] = field(default_factory=dict)  # token -> type
    mentions: Counter[str] = field(default_factory=Counter)
    _numbers: Counter[str] = field(default_factory=Counter)
    _names: dict[str, set[str]] = field(default_factory=dict)  # word -> names with that word

    def reserve(self, tokens: Collection[str]) -> None:
        """Take over *tokens* of an earlier pass over the same candidate; their numbers are not given out again."""
        for token in tokens:
            kind, _, number = token[2:-2].rpartition("_")
            self.types[token] = kind
            self._numbers[kind] = max(self._numbers[kind], int(number) if number.isdecimal() else 0)

    def expect(self, names: Iterable[str]) -> None:
        """Hear of the *names* that are about to be replaced: a surname may stand before the full name."""
        for name in names:
            whole = _words(normalise("PERSON", name))
            for word in whole.split():
                self._names.setdefault(word, set()).add(whole)

    def token(self, kind: str, value: str) -> str:
        """The token of *value*, made on first sight. Two opinions of its type do not split it."""
        key = normalise(kind, value)
        if key not in self.tokens:
            whole = self._whole(key) if kind == "PERSON" else key
            self.tokens[key] = self.tokens[whole] = self.tokens.get(whole) or self._new(kind)
        token = self.tokens[key]
        self.mentions[token] += 1
        return token

    def _new(self, kind: str) -> str:
        self._numbers[kind] += 1
        token = f"[[{kind}_{self._numbers[kind]}]]"
        self.types[token] = kind
        return token

    def _whole(self, key: str) -> str:
        """The one longest name that *key* is a part of: that is the person. Of two names, nobody can tell: *key*."""
        part = _words(key)
        if not part:
            return key
        rarest = min((self._names.get(word, set()) for word in part.split()), key=len)
        holders = {name for name in rarest if f" {part} " in f" {name} "}
        longest = max(holders, key=len, default=part)
        return longest if all(f" {name} " in f" {longest} " for name in holders) else key


def _words(name: str) -> str:
    return " ".join(name.replace(",", " ").split())


def normalise(kind: str, value: str) -> str:
    """What makes two spellings one value."""
    folded = unicodedata.normalize("NFKC", value).strip().casefold()
    if kind == "PHONE":
        found = "".join(char for char in folded if char.isdecimal())
        return found[-11:] if len(found) in (13, 15) and found.lstrip("0").startswith("86") else found
    if kind in ("BANK_CARD", "IBAN", "CN_ID", "NATIONAL_ID", "PLATE", "MAC"):
        return "".join(char for char in folded if char.isalnum())
    return " ".join(folded.split())
