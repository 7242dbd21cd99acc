"""Prometheus rules as values, written as YAML. What is written runs on Prometheus 2.42 and newer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_RECORD = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_TOO_NEW = re.compile(
    r"\b(histogram_avg|histogram_stddev|mad_over_time|sort_by_label|limitk|limit_ratio|info|"
    r"double_exponential_smoothing|holt_winters|ts_of_\w+|first_over_time)\s*\("
)


@dataclass(frozen=True, slots=True)
class Recording:
    """A series that Prometheus computes and keeps."""

    record: str
    expr: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Alert:
    """A condition with words for the person who is told of it."""

    alert: str
    expr: str
    severity: str
    summary: str  # one sentence to a tired person; may hold template actions
    description: str
    pending: str = ""  # how long the condition must hold, e.g. "10m"
    keep_firing: str = ""  # how long it must be gone before the alert ends
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated in order, one after another."""

    name: str
    rules: Sequence[Recording | Alert]
    interval: str = "1m"


def to_yaml(groups: Iterable[Group], heading: str = "") -> str:
    """Write a rule file."""
    lines = [*(f"# {line}".rstrip() for line in heading.splitlines()), "groups:"]
    for group in groups:
        lines += [f"  - name: {_text(group.name)}", f"    interval: {group.interval}", "    rules:"]
        for rule in group.rules:
            lines += _recording(rule) if isinstance(rule, Recording) else _alert(rule)
    return "\n".join(lines) + "\n"


def _recording(rule: Recording) -> Iterator[str]:
    yield f"      - record: {rule.record}"
    yield from _expression(rule.expr)
    yield from _mapping("labels", rule.labels)


def _alert(rule: Alert) -> Iterator[str]:
    yield f"      - alert: {rule.alert}"
    yield from _expression(rule.expr)
    if rule.pending:
        yield f"        for: {rule.pending}"
    if rule.keep_firing:
        yield f"        keep_firing_for: {rule.keep_firing}"
    yield from _mapping("labels", {"severity": rule.severity, **rule.labels})
    words = {"summary": rule.summary, "description": rule.description, **rule.annotations}
    yield from _mapping("annotations", words)


def _expression(expr: str) -> Iterator[str]:
    lines = expr.strip().splitlines()
    if len(lines) == 1:
        yield f"        expr: {_text(lines[0])}"
        return
    yield "        expr: |-"
    yield from (f"          {line}".rstrip() for line in lines)


def _mapping(name: str, values: Mapping[str, str]) -> Iterator[str]:
    if values:
        yield f"        {name}:"
        yield from (f"          {key}: {_text(value)}" for key, value in values.items())


def _text(value: str) -> str:
    """A JSON string is a YAML string; plain words stay readable."""
    return value if re.fullmatch(r"[A-Za-z][\w.-]*", value) else json.dumps(value, ensure_ascii=False)


def problems(groups: Sequence[Group]) -> list[str]:
    """What Prometheus 2.42 would refuse or a person would miss, without Prometheus: one line each."""
    found = [f"group {name} is there twice" for name in _repeated(group.name for group in groups)]
    rules = [rule for group in groups for rule in group.rules]
    recorded = {(rule.record, str(sorted(rule.labels.items())), rule.expr) for rule in _recordings(rules)}
    names = {record for record, _labels, _expr in recorded}
    for rule in rules:
        name = rule.record if isinstance(rule, Recording) else rule.alert
        found += [f"{name}: {problem}" for problem in _problems(rule, names)]
    return found


def _recordings(rules: Iterable[Recording | Alert]) -> list[Recording]:
    return [rule for rule in rules if isinstance(rule, Recording)]


def _repeated(values: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    return [value for value in values if value in seen or seen.add(value)]  # type: ignore[func-returns-value]


def _problems(rule: Recording | Alert, recorded: set[str]) -> Iterator[str]:
    if isinstance(rule, Recording) and not _RECORD.fullmatch(rule.record):
        yield "no name that Prometheus accepts"
    if _TOO_NEW.search(rule.expr):
        yield "uses a function that Prometheus 2.42 or 3 does not have"
    if rule.expr.count("(") != rule.expr.count(")"):
        yield "its brackets do not close"
    for used in set(re.findall(r"\b\w+:\w+:\w+\b", rule.expr)) - recorded:
        yield f"reads {used}, which no rule records"
    if isinstance(rule, Alert):
        yield from (f"its {word} is empty" for word in ("summary", "description") if not getattr(rule, word).strip())
