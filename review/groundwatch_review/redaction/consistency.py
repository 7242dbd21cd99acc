"""Whether equal people got equal placeholders and different people different ones, on rows that say who is who."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, NamedTuple

from groundwatch_review.redaction.placeholders import Scope, normalise, token_extents


class _Hidden(NamedTuple):
    """What one placeholder of the redacted text stands for."""

    start: int  # in the source
    end: int
    token: str


class ConsistencyTally:
    """Rows in which at least one mention with an ``entity`` was replaced."""

    def __init__(self) -> None:
        self._rows = 0
        self._mentions = 0
        self._broken: list[str] = []

    def add(self, row: Mapping[str, Any], redacted: str, scope: Scope) -> None:
        """Count *row* after its text became *redacted* under *scope*. A mention that was missed says nothing here."""
        people = [span for span in row["spans"] if "entity" in span]
        if not people:
            return
        hidden = _hidden(row["text"], redacted, scope)
        said = [(span["entity"], token) for span in people for token in _tokens_over(span, hidden or ())]
        if hidden is not None and not said:
            return
        self._rows += 1
        self._mentions += len(said)
        if hidden is None or any((a == b) != (x == y) for (a, x), (b, y) in combinations(said, 2)):
            self._broken.append(str(row["id"]))

    def report(self) -> dict[str, Any]:
        kept = self._rows - len(self._broken)
        rate = round(kept / self._rows, 4) if self._rows else None
        return {"rows": self._rows, "kept": kept, "rate": rate, "mentions": self._mentions, "broken": self._broken}


def _tokens_over(span: Mapping[str, Any], hidden: tuple[_Hidden, ...]) -> list[str]:
    return [one.token for one in hidden if one.start < span["end"] and span["start"] < one.end]


def hidden_extents(source: str, redacted: str, scope: Scope) -> list[tuple[int, int]] | None:
    """Which parts of *source* have no letter left in *redacted*; None where the two cannot be laid side by side."""
    hidden = _hidden(source, redacted, scope)
    return None if hidden is None else [(one.start, one.end) for one in hidden]


def _hidden(source: str, redacted: str, scope: Scope) -> tuple[_Hidden, ...] | None:
    """Where the placeholders of *redacted* stand in *source*; None where the two cannot be laid side by side."""
    literals: list[str] = []
    tokens: list[str] = []
    position = 0
    for start, end in token_extents(redacted, scope.types):
        literals.append(redacted[position:start])
        tokens.append(redacted[start:end])
        position = end
    return _aligned(source, [*literals, redacted[position:]], tokens, scope)


def _aligned(
    source: str, literals: list[str], tokens: list[str], scope: Scope, done: tuple[_Hidden, ...] = ()
) -> tuple[_Hidden, ...] | None:
    """Lay what is left of *source* along the remaining *literals* and *tokens*, one token a step."""
    at = len(done)
    start = done[-1].end if done else 0
    if not source.startswith(literals[at], start):
        return None
    start += len(literals[at])
    if at == len(tokens):
        return done if start == len(source) else None
    for end in _ends(source, start, tokens[at], scope):
        found = _aligned(source, literals, tokens, scope, (*done, _Hidden(start, end, tokens[at])))
        if found is not None:
            return found
    return None


def _ends(source: str, start: int, token: str, scope: Scope) -> Iterator[int]:
    """Where a value that *token* stands for can end, when it begins at *start*."""
    kind = scope.types[token]
    values = {value for value, own in scope.tokens.items() if own == token}
    longest = min(len(source), start + 4 * max(map(len, values), default=0))
    return (end for end in range(start + 1, longest + 1) if normalise(kind, source[start:end]) in values)
