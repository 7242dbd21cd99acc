"""Strata of the user's own, as lines of text, in the one ordered list. Checked whole before anything is started.

    vip before novel: app = shop and model in (large, "very large") and latency >= 8

A rule is a name, a place in the list, and conditions that must all hold. The fields and operators are closed; nothing
is ever evaluated as code. A rule that can never be reached is refused, and so is one that cuts a built-in line off.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from groundwatch_collector import question_features
from groundwatch_collector.ragtrace import FAILED_EXECUTION, Outcome, RagTrace
from groundwatch_collector.strata import BUILT_IN, Cuts, Entry, Facts

MAX_STRATA: Final = 16
MAX_RULE_CHARS: Final = 500
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_RESERVED = frozenset({"none", "other", "all"})
_HEAD = re.compile(r"\s*(\S+)\s+before\s+(\S+?)\s*:(.*)", re.DOTALL)
_TOKEN = re.compile(r"""\s*(?:(<=|>=|!=|[=<>(),])|"([^"]*)"|'([^']*)'|([^\s=<>!(),"']+))""")
_NUMBER_OPERATORS = ("<", "<=", ">", ">=")
_TEXT_OPERATORS = ("=", "!=", "in", "not in", "starts with")

OUTCOMES: Final = frozenset(outcome.value for outcome in Outcome)
LANGUAGES: Final = frozenset({"zh", "latin", "other", "unknown"})

TEXT_FIELDS: Final[Mapping[str, Callable[[RagTrace], str]]] = {
    "app": lambda trace: trace.app,
    "version": lambda trace: trace.version,
    "model": lambda trace: trace.model,
    "session": lambda trace: trace.session,
    "outcome": lambda trace: trace.outcome.value,
    "language": lambda trace: question_features.language(trace.query),
}
NUMBER_FIELDS: Final[Mapping[str, Callable[[Facts], float]]] = {
    "score": lambda facts: facts.score,
    "latency": lambda facts: facts.trace.duration_seconds,
    "retries": lambda facts: float(facts.trace.retries),
}
_CLOSED: Final = {"outcome": OUTCOMES, "language": LANGUAGES}


class RuleError(ValueError):
    """The message names the rule, what was found and what is accepted."""


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts that a condition on one field lets through."""

    only: frozenset[str] | None = None  # None: any
    without: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()  # all of them

    def holds(self, value: str) -> bool:
        return (
            (self.only is None or value in self.only)
            and value not in self.without
            and all(value.startswith(prefix) for prefix in self.prefixes)
        )

    def also(self, other: Texts) -> Texts:
        only = other.only if self.only is None else self.only & other.only if other.only is not None else self.only
        return Texts(only, self.without | other.without, (*self.prefixes, *other.prefixes))

    @property
    def empty(self) -> bool:
        if self.only is not None:
            return not any(map(self.holds, self.only))
        longest = max(self.prefixes, key=len, default="")
        return not all(longest.startswith(prefix) for prefix in self.prefixes)

    def within(self, other: Texts) -> bool:
        """Whether *other* lets everything through that this one does."""
        if self.only is not None:
            return all(other.holds(value) for value in self.only if self.holds(value))
        return (
            other.only is None
            and all(any(mine.startswith(p) for mine in self.prefixes) for p in other.prefixes)
            and not any(self.holds(value) for value in other.without)
        )


@dataclass(frozen=True, slots=True)
class Numbers:
    """An interval; *above* and *below* say whether its end is left out."""

    low: float = 0.0
    high: float = math.inf
    above: bool = False
    below: bool = False

    def holds(self, value: float) -> bool:
        return (value > self.low if self.above else value >= self.low) and (
            value < self.high if self.below else value <= self.high
        )

    def also(self, other: Numbers) -> Numbers:
        low, above = max((self.low, self.above), (other.low, other.above))
        high, kept = min((self.high, not self.below), (other.high, not other.below))
        return Numbers(low, high, above, not kept)

    @property
    def empty(self) -> bool:
        return self.low > self.high or (self.low == self.high and (self.above or self.below))

    def within(self, other: Numbers) -> bool:
        return self.empty or self.also(other) == self


Limits = dict[str, Texts | Numbers]  # by field; a field that is missing is not limited


@dataclass(frozen=True, slots=True)
class Rule:
    """One stratum of the user's."""

    name: str
    before: str
    limits: Mapping[str, Texts | Numbers]

    def matches(self, facts: Facts) -> bool:
        return all(_holds(field, limit, facts) for field, limit in self.limits.items())


def _holds(field: str, limit: Texts | Numbers, facts: Facts) -> bool:
    if isinstance(limit, Texts):
        return limit.holds(TEXT_FIELDS[field](facts.trace))
    return limit.holds(NUMBER_FIELDS[field](facts))


def order(lines: Sequence[str], cuts: Cuts) -> tuple[Entry, ...]:
    """The whole list: what is built in, and each rule before the stratum that it names, in the order of *lines*.

    Raises :class:`RuleError` for a line that cannot be read, a name that is taken, a place that does not exist, and
    anything that can never be reached.
    """
    rules = [parse(line) for line in lines]
    if len(rules) + len(BUILT_IN) > MAX_STRATA:
        raise RuleError(f"rules: found {len(rules)}, accepted: up to {MAX_STRATA - len(BUILT_IN)}")
    places: list[Entry | Rule] = list(BUILT_IN)
    for rule in rules:
        names = [place.name for place in places]
        if rule.name in names:
            raise RuleError(f"rule {rule.name}: the name is taken; accepted: a name that no other stratum has")
        if rule.before not in names:
            raise RuleError(
                f"rule {rule.name}: no stratum {rule.before!r} to stand before; known: {', '.join(names)}"
            )
        places.insert(names.index(rule.before), rule)
    _refuse_unreachable(places, cuts)
    return tuple(Entry(place.name, place.matches) for place in places)


# Reading one line.


def parse(line: str) -> Rule:
    """Read ``NAME before STRATUM: FIELD OPERATOR VALUE and ...``."""
    if len(line) > MAX_RULE_CHARS:
        raise RuleError(f"rule: found {len(line)} characters, accepted: up to {MAX_RULE_CHARS}")
    head = _HEAD.fullmatch(line)
    if head is None:
        raise RuleError(f"rule {line!r}: accepted: NAME before STRATUM: FIELD OPERATOR VALUE [and ...]")
    name, before, rest = head.groups()
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise RuleError(
            f"rule {name!r}: not a name; accepted: lower-case letters, digits and _, up to 32, not 'none'"
        )
    reading = _Reading(name, rest)
    limits: Limits = {}
    while True:
        field, limit = reading.condition()
        limits[field] = _both(limits.get(field), limit)
        if not reading.another():
            break
    if any(limit.empty for limit in limits.values()):
        raise RuleError(f"rule {name}: its conditions exclude each other, no trace can match")
    return Rule(name, before, limits)


def _both(one: Texts | Numbers | None, other: Texts | Numbers) -> Texts | Numbers:
    if isinstance(one, Texts) and isinstance(other, Texts):
        return one.also(other)
    if isinstance(one, Numbers) and isinstance(other, Numbers):
        return one.also(other)
    return other


class _Reading:
    """The tokens of one rule, taken from the front. A quoted text is never an operator."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._tokens: list[tuple[str, bool]] = []  # token, quoted
        position = 0
        while text[position:].strip():
            found = _TOKEN.match(text, position)
            if found is None:
                raise self._error(f"cannot read {text[position:].strip()[:40]!r}")
            symbol, double, single, word = found.groups()
            quoted = double if double is not None else single
            self._tokens.append((quoted, True) if quoted is not None else (symbol or word, False))
            position = found.end()

    def _error(self, what: str) -> RuleError:
        return RuleError(f"rule {self._name}: {what}")

    def _take(self, wanted: str) -> tuple[str, bool]:
        if not self._tokens:
            raise self._error(f"ends where {wanted} is expected")
        return self._tokens.pop(0)

    def another(self) -> bool:
        if not self._tokens:
            return False
        word, quoted = self._take("and")
        if quoted or word != "and":
            raise self._error(f"found {word!r}, accepted: and")
        return True

    def condition(self) -> tuple[str, Texts | Numbers]:
        field, _ = self._take("a field")
        if field in NUMBER_FIELDS:
            return field, self._number(field)
        if field in TEXT_FIELDS:
            return field, self._text(field)
        raise self._error(f"no field {field!r}; accepted: {', '.join((*TEXT_FIELDS, *NUMBER_FIELDS))}")

    def _number(self, field: str) -> Numbers:
        operator, quoted = self._take("an operator")
        if quoted or operator not in _NUMBER_OPERATORS:
            raise self._error(f"{field}: no operator {operator!r}; accepted: {' '.join(_NUMBER_OPERATORS)}")
        word, _ = self._take("a number")
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self._error(f"{field}: found {word!r}, accepted: a number")
        strict = operator in ("<", ">")
        asked = Numbers(high=value, below=strict) if operator[0] == "<" else Numbers(low=value, above=strict)
        return _whole(field).also(asked)

    def _text(self, field: str) -> Texts:
        operator = self._operator(field)
        values = self._values() if operator.endswith("in") else frozenset({self._value()})
        if operator == "starts with":
            limit = Texts(prefixes=tuple(values))
        else:
            self._refuse_unknown(field, values)
            limit = Texts(only=values) if operator in ("=", "in") else Texts(without=values)
        return Texts(only=_CLOSED[field]).also(limit) if field in _CLOSED else limit

    def _operator(self, field: str) -> str:
        word, quoted = self._take("an operator")
        joined = {"not": "in", "starts": "with"}.get(word)
        if joined is not None and not quoted and self._tokens and self._tokens[0] == (joined, False):
            word = f"{word} {self._tokens.pop(0)[0]}"
        if quoted or word not in _TEXT_OPERATORS:
            raise self._error(f"{field}: no operator {word!r}; accepted: {', '.join(_TEXT_OPERATORS)}")
        return word

    def _value(self) -> str:
        word, quoted = self._take("a value")
        if not quoted and word in ("=", "!=", "<", "<=", ">", ">=", "(", ")", ",", "and"):
            raise self._error(f"found {word!r} where a value is expected; quote it if it is one")
        return word

    def _values(self) -> frozenset[str]:
        self._expect("(")
        values = {self._value()}
        while (word := self._take(", or )")) != (")", False):
            if word != (",", False):
                raise self._error(f"found {word[0]!r}, accepted: , or )")
            values.add(self._value())
        return frozenset(values)

    def _expect(self, symbol: str) -> None:
        word = self._take(symbol)
        if word != (symbol, False):
            raise self._error(f"found {word[0]!r}, accepted: {symbol}")

    def _refuse_unknown(self, field: str, values: frozenset[str]) -> None:
        unknown = sorted(values - _CLOSED.get(field, values))
        if unknown:
            raise self._error(f"{field}: found {unknown[0]!r}, accepted: {', '.join(sorted(_CLOSED[field]))}")


# What can be reached.


def _refuse_unreachable(places: Sequence[Entry | Rule], cuts: Cuts) -> None:
    """Outcome and language are closed sets: one pair of them at least must be left by each single line before."""
    taken: list[Mapping[str, Texts | Numbers]] = []
    for place in places:
        needs, takes = (place.limits, place.limits) if isinstance(place, Rule) else _built_in(place.name, cuts)
        if all(_covered(cell, taken) for cell in _cells(needs)):
            kind = "rule" if isinstance(place, Rule) else "the built-in stratum"
            raise RuleError(f"{kind} {place.name}: can never be reached, what it matches goes to lines before it")
        if takes is not None:
            taken.append(takes)


def _cells(needs: Mapping[str, Texts | Numbers]) -> list[Mapping[str, Texts | Numbers]]:
    cells: list[Mapping[str, Texts | Numbers]] = []
    for outcome in sorted(OUTCOMES):
        for language in sorted(LANGUAGES):
            cell: Limits = {"outcome": Texts(frozenset({outcome})), "language": Texts(frozenset({language}))}
            joined = {**needs, **{field: _both(needs.get(field), limit) for field, limit in cell.items()}}
            if not any(limit.empty for limit in joined.values()):
                cells.append(joined)
    return cells


def _covered(cell: Mapping[str, Texts | Numbers], taken: Sequence[Mapping[str, Texts | Numbers]]) -> bool:
    return any(all(_within(cell, field, limit) for field, limit in earlier.items()) for earlier in taken)


def _within(cell: Mapping[str, Texts | Numbers], field: str, other: Texts | Numbers) -> bool:
    one = cell.get(field)
    if isinstance(other, Texts):
        return (one if isinstance(one, Texts) else Texts()).within(other)
    return (one if isinstance(one, Numbers) else _whole(field)).within(other)


def _whole(field: str) -> Numbers:
    return Numbers(high=1.0) if field == "score" else Numbers()


def _built_in(name: str, cuts: Cuts) -> tuple[Limits, Limits | None]:
    """What a trace needs to get there, and what certainly goes there; None where fields do not tell."""
    failed, refused = (frozenset(o.value for o in group) for group in (FAILED_EXECUTION, _DECLINED))
    certain: dict[str, Limits] = {
        "error_timeout": {"outcome": Texts(failed)},
        "cancelled": {"outcome": Texts(frozenset({Outcome.CANCELLED.value}))},
        "normal_b0": {"score": Numbers(high=cuts.b1, below=True)},
        "normal_b1": {"score": Numbers(high=cuts.b2, below=True)},
        "normal_b2": {"score": Numbers(high=cuts.b3, below=True)},
        "normal_b3": {},
    }
    if name == "refusal":
        return {}, {"outcome": Texts(refused)}
    return (certain[name], certain[name]) if name in certain else ({}, None)


_DECLINED: Final = frozenset({Outcome.REFUSED, Outcome.NO_RESULT})
