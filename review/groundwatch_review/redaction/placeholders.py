"""Numbered placeholders that live and die with one candidate."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection
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

    def reserve(self, tokens: Collection[str]) -> None:
        """Take over *tokens* of an earlier pass over the same candidate; their numbers are not given out again."""
        for token in tokens:
            kind, _, number = token[2:-2].rpartition("_")
            self.types[token] = kind
            self._numbers[kind] = max(self._numbers[kind], int(number) if number.isdecimal() else 0)

    def token(self, kind: str, value: str) -> str:
        """The token of *value*, made on first sight. Two opinions of its type do not split it."""
        key = normalise(kind, value)
        token = self.tokens.get(key) or self._alias(kind, key) or self._new(kind)
        self.tokens[key] = token
        self.mentions[token] += 1
        return token

    def _new(self, kind: str) -> str:
        self._numbers[kind] += 1
        token = f"[[{kind}_{self._numbers[kind]}]]"
        self.types[token] = kind
        return token

    def _alias(self, kind: str, key: str) -> str | None:
        """A part of exactly one known full name is that person; of two, nobody can tell."""
        if kind != "PERSON":
            return None
        whole = {
            token
            for value, token in self.tokens.items()
            if self.types[token] == kind and key in value.replace(",", " ").split()
        }
        return whole.pop() if len(whole) == 1 else None


def normalise(kind: str, value: str) -> str:
    """What makes two spellings one value."""
    folded = unicodedata.normalize("NFKC", value).strip().casefold()
    if kind == "PHONE":
        found = "".join(char for char in folded if char.isdecimal())
        return found[-11:] if len(found) in (13, 15) and found.lstrip("0").startswith("86") else found
    if kind in ("BANK_CARD", "IBAN", "CN_ID", "NATIONAL_ID", "PLATE", "MAC"):
        return "".join(char for char in folded if char.isalnum())
    return " ".join(folded.split())
