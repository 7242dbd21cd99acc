"""What a rule is: a bounded pattern on one view, with the check that a pattern cannot express."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from groundwatch_review.redaction.views import View

TYPES: Final = frozenset(
    [
        "PERSON",
        "EMAIL",
        "PHONE",
        "CN_ID",
        "NATIONAL_ID",
        "PASSPORT",
        "BANK_CARD",
        "IBAN",
        "IP",
        "MAC",
        "API_KEY",
        "JWT",
        "PRIVATE_KEY",
        "CONN_STRING",
        "URL_TOKEN",
        "ORDER_ID",
        "ACCOUNT_ID",
        "USERNAME",
        "IM_ID",
        "PLATE",
        "ADDRESS",
        "DOB",
        "GEO",
    ]
)
"""Every type that a placeholder can name; a detector that reports another one has failed."""

# ASCII look-arounds in place of \b.
LEFT: Final = r"(?<![A-Za-z0-9])"
RIGHT: Final = r"(?![A-Za-z0-9])"


class Span(NamedTuple):
    start: int
    end: int
    type: str


Check = Callable[["re.Match[str]", View], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    type: str
    pattern: re.Pattern[str]
    view: Literal["ascii", "folded"] = "ascii"
    group: int = 0  # the part that must go
    needs: tuple[str, ...] = ()  # lower case; a text without any of them is not searched
    accepts: Check | None = None


@dataclass(frozen=True, slots=True)
class Detector:
    """A named step of redaction. ``find`` reports spans in the coordinates of the view that it was given.

    A None among them is no find: it lets the caller stop a search that has taken its time. A detector that may look
    at much text without a find gives one every few milliseconds.
    """

    name: str
    version: str
    find: Callable[[View], Iterable[Span | None]]


def by_rules(name: str, version: str, rules: Sequence[Rule]) -> Detector:
    """A detector that is a table of rules."""
    return Detector(name, version, lambda view: _apply(rules, view))


def _apply(rules: Sequence[Rule], view: View) -> Iterator[Span | None]:
    for rule in rules:
        yield None
        if rule.needs and not any(word in view.lower for word in rule.needs):
            continue
        text = view.ascii if rule.view == "ascii" else view.folded
        for match in rule.pattern.finditer(text):
            if match.start(rule.group) >= 0 and (rule.accepts is None or rule.accepts(match, view)):
                yield Span(match.start(rule.group), match.end(rule.group), rule.type)


def context(words: str, before: int = 32, after: int = 0) -> Check:
    """Accept a match that has one of *words* (a pattern, any case) close to it."""
    pattern = re.compile(words, re.IGNORECASE)

    def accepts(match: re.Match[str], view: View) -> bool:
        start, end = match.span()
        return bool(
            pattern.search(view.folded[max(0, start - before) : start] + " " + view.folded[end : end + after])
        )

    return accepts


def either(*checks: Check) -> Check:
    return lambda match, view: any(check(match, view) for check in checks)


def both(*checks: Check) -> Check:
    return lambda match, view: all(check(match, view) for check in checks)


def digits(text: str) -> str:
    """Only the ASCII digits of *text*."""
    return "".join(char for char in text if "0" <= char <= "9")


def id_like(match: re.Match[str], _view: View) -> bool:
    """A value with at least five digits that are not all the same: 00000000 is a sample, not somebody's number."""
    found = digits(match.group(1))
    return len(found) >= 5 and len(set(found)) > 1
