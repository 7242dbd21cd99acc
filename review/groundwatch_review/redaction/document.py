"""Redact a whole candidate, leaf by leaf, along its published schema.

The schema says which leaves are free text: those are searched. Leaves with a closed vocabulary or a fixed shape
(enums, digests, ids) are checked against it. A key that the schema does not know blocks the candidate: nobody decided
what it may hold.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from groundwatch_review.redaction.engine import (
    POLICY_VERSION,
    DetectorRun,
    Placeholder,
    RedactionLimits,
    TextsResult,
    redact_texts,
)
from groundwatch_review.redaction.placeholders import TOKEN, WITHHELD
from groundwatch_review.redaction.rules import Detector
from groundwatch_review.schema import CANDIDATE_SCHEMA

Status = Literal["CLEAN", "REDACTED", "BLOCKED"]

# Numbering of placeholders follows the reader: question, evidence, answer, then what was said about them.
_READING_ORDER: Final = ("question", "evidence", "answer", "expectation", "fault")
_WRITTEN_HERE: Final = "redaction"

# Written by whoever runs the application, not by its users: searched like the rest, but a commit id or a key id is
# random by nature and must not hold every candidate.
_OPERATORS: Final = frozenset(
    {
        "answer.app_version",
        "answer.prompt_version",
        "answer.model",
        "evidence.corpus_version",
        "evidence.index_version",
        "provenance.key_id",
        "provenance.exporter_version",
        "governance.license",
        "governance.residency",
        "fault.detector",
    }
)


@dataclass(frozen=True)
class RedactionResult:
    """A candidate after redaction. BLOCKED with ``reasons``: keep it, show it, never export it."""

    document: dict[str, Any]
    status: Status
    detectors: tuple[DetectorRun, ...]
    counts: Mapping[str, int]
    placeholders: tuple[Placeholder, ...]
    residual_flags: tuple[str, ...]
    second_pass_hits: int
    fields_scanned: tuple[str, ...]
    reasons: tuple[str, ...]

    def report(self) -> dict[str, Any]:
        """The candidate's ``redaction`` block, without the reproduction check that the caller adds."""
        # Reasons stand among the flags: the schema then refuses the export even if a status were edited by hand.
        blocking = [reason for reason in self.reasons if reason != "residual"]
        return {
            "status": self.status,
            "policy_version": POLICY_VERSION,
            "detectors": [{"name": d.name, "version": d.version, "ok": d.ok} for d in self.detectors],
            "counts": dict(sorted(self.counts.items())),
            "fields_scanned": sorted(self.fields_scanned),
            "placeholders": [{"token": p.token, "type": p.type, "mentions": p.mentions} for p in self.placeholders],
            "residual": {
                "flags": [*self.residual_flags, *(f"blocked:{reason}" for reason in blocking)],
                "second_pass_hits": self.second_pass_hits,
            },
            "repro": {"checked": False},
            "irreversible": True,
        }


def redact_candidate(
    document: Mapping[str, Any],
    known_values: Sequence[tuple[str, str]] = (),
    *,
    detectors: Sequence[Detector] | None = None,
    limits: RedactionLimits | None = None,
) -> RedactionResult:
    """Return a redacted copy of *document* with its ``redaction`` block filled in; the argument is not touched.

    When the search could not be finished, every free text is withheld: what was not searched is not stored.
    """
    copied = copy.deepcopy(dict(document))
    own = _declared_tokens(copied)
    earlier = copied.pop(_WRITTEN_HERE, None)
    walk = _walk(copied)
    result = redact_texts(walk.texts, known_values, own=own, ungated=_OPERATORS, detectors=detectors, limits=limits)
    unchanged = result.complete and all(result.texts[path] == text for path, text in walk.texts.items())
    _write_back(copied, walk, result)
    outcome = _result(copied, walk, result)
    if isinstance(earlier, dict) and earlier.get("status") in ("CLEAN", "REDACTED", "BLOCKED"):
        return _after(earlier, outcome, unchanged)
    outcome.document[_WRITTEN_HERE] = outcome.report()
    return outcome


def _after(earlier: Mapping[str, Any], outcome: RedactionResult, unchanged: bool) -> RedactionResult:
    """A second pass confirms the first or adds to it; it never lifts a block."""
    flags = earlier.get("residual", {}).get("flags", [])
    report = outcome.report()
    news = [flag for flag in report["residual"]["flags"] if flag not in flags]
    if unchanged and not news:
        block = copy.deepcopy(dict(earlier))
    else:
        block = {**report, "repro": earlier.get("repro", report["repro"])}
        block["residual"]["flags"] = [*flags, *news]
    if earlier["status"] == "BLOCKED" or news:
        block["status"] = "BLOCKED"
    outcome.document[_WRITTEN_HERE] = block
    before = ("blocked_before",) if earlier["status"] == "BLOCKED" and not outcome.reasons else ()
    return replace(outcome, status=block["status"], reasons=(*outcome.reasons, *before))


@dataclass(slots=True)
class _Walk:
    texts: dict[str, str]  # path -> free text, in reading order
    places: dict[str, tuple[Any, str | int]]  # path -> container and key, to write back
    reasons: list[str]


def _walk(document: dict[str, Any]) -> _Walk:
    walk = _Walk({}, {}, [])
    first = [key for key in _READING_ORDER if key in document]
    for key in [*first, *(key for key in document if key not in first)]:
        _visit(walk, document, key, CANDIDATE_SCHEMA["properties"].get(key), str(key))
    return walk


def _visit(walk: _Walk, container: Any, key: str | int, schema: Mapping[str, Any] | None, path: str) -> None:
    value = container[key]
    if schema is None:
        walk.reasons.append(f"unknown_key:{_safe(path)}")
        _collect(walk, container, key, path)
        return
    schema = _resolved(schema)
    if isinstance(value, str):
        _leaf(walk, container, key, schema, path)
    elif isinstance(value, dict):
        _mapping(walk, value, schema, path)
    elif isinstance(value, list):
        for index in range(len(value)):
            _visit(walk, value, index, schema.get("items", {}), f"{path}[{index}]")


def _leaf(walk: _Walk, container: Any, key: str | int, schema: Mapping[str, Any], path: str) -> None:
    """Free text is searched; a leaf of fixed shape must have that shape, or it is searched and blocks."""
    value = container[key]
    pattern = schema.get("pattern")
    if "enum" in schema or "const" in schema:
        fits = value in schema.get("enum", [schema.get("const")])
    elif pattern or schema.get("format") == "date-time":
        fits = (
            re.search(pattern or r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$", value) is not None
        )
    else:
        fits = False
        _collect(walk, container, key, path)
        return
    if not fits:
        walk.reasons.append(f"bad_value:{_safe(path)}")
        _collect(walk, container, key, path)


def _mapping(walk: _Walk, value: dict[str, Any], schema: Mapping[str, Any], path: str) -> None:
    known = schema.get("properties", {})
    open_ended = schema.get("additionalProperties", False)
    for key in value:
        rule = known.get(key, open_ended if isinstance(open_ended, dict) else None)
        if key not in known and rule is not None:  # a free key is a leaf of its own
            walk.texts[_free(walk, f"{path}.{_safe(key)}", "#key")] = key
        _visit(walk, value, key, rule, f"{path}.{_safe(key)}")


def _collect(walk: _Walk, container: Any, key: str | int, path: str) -> None:
    """Take every text below *container[key]*, known to the schema or not."""
    value = container[key]
    if isinstance(value, str):
        own = _free(walk, path)
        walk.texts[own] = value
        walk.places[own] = (container, key)
    elif isinstance(value, dict | list):
        children: Iterator[str | int] = iter(value) if isinstance(value, dict) else iter(range(len(value)))
        for child in children:
            _collect(walk, value, child, f"{path}.{_safe(str(child))}")


def _free(walk: _Walk, path: str, mark: str = "") -> str:
    """A path that no other leaf has: odd keys are not quoted, so two of them would share one and hide a leaf."""
    if path + mark not in walk.texts:
        return path + mark
    return f"{path}~{len(walk.texts)}{mark}"


def _write_back(document: dict[str, Any], walk: _Walk, result: TextsResult) -> None:
    for path, (container, key) in walk.places.items():
        container[key] = result.texts[path] if result.complete else WITHHELD
    changed = [path for path in walk.texts if path.endswith("#key") and result.texts.get(path) != walk.texts[path]]
    walk.reasons += [f"personal_key:{path.rpartition('.')[0]}" for path in changed]
    if any(not reason.startswith("bad_value") for reason in walk.reasons):
        _drop_unknown(document, CANDIDATE_SCHEMA, changed)


def _drop_unknown(value: Any, schema: Mapping[str, Any], changed: Sequence[str]) -> None:
    """Remove what no schema knows and keys that were personal: a blocked candidate is stored, stray keys are not."""
    schema = _resolved(schema)
    if isinstance(value, list):
        for item in value:
            _drop_unknown(item, schema.get("items", {}), changed)
    if not isinstance(value, dict):
        return
    known, open_ended = schema.get("properties", {}), schema.get("additionalProperties", False)
    for key in list(value):
        if key in known:
            _drop_unknown(value[key], known[key], changed)
        elif not isinstance(open_ended, dict) or changed:
            del value[key]


def _result(document: dict[str, Any], walk: _Walk, result: TextsResult) -> RedactionResult:
    reasons = list(dict.fromkeys([*walk.reasons, *result.reasons]))
    status: Status = "BLOCKED" if reasons else "REDACTED" if result.placeholders else "CLEAN"
    counts = Counter(placeholder.type for placeholder in result.placeholders)
    return RedactionResult(
        document=document,
        status=status,
        detectors=tuple(result.runs),
        counts=counts,
        placeholders=tuple(result.placeholders),
        residual_flags=tuple(result.flags),
        second_pass_hits=result.second_pass_hits,
        fields_scanned=tuple(sorted({re.sub(r"\[\d+\]", "[]", path) for path in walk.texts})),
        reasons=tuple(reasons),
    )


def _resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref")
    return CANDIDATE_SCHEMA["$defs"][reference.rpartition("/")[2]] if reference else schema


def _declared_tokens(document: Mapping[str, Any]) -> frozenset[str]:
    """Tokens that an earlier redaction of this very candidate issued."""
    block = document.get(_WRITTEN_HERE)
    listed = block.get("placeholders", []) if isinstance(block, dict) else []
    tokens = {item.get("token", "") for item in listed if isinstance(item, dict)}
    return frozenset(token for token in tokens if isinstance(token, str) and TOKEN.fullmatch(token)) | {WITHHELD}


def _safe(name: str) -> str:
    """A key as it may stand in a report: an odd one could itself be somebody's data."""
    return (
        name
        if re.fullmatch(r"[A-Za-z_][A-Za-z_.\[\]0-9]{0,60}", name) and not re.search(r"\d{5}", name)
        else "(odd key)"
    )
