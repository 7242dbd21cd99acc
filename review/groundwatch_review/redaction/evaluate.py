"""Measure redaction on labelled text, and redact a file."""

from __future__ import annotations

import gzip
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundwatch_review.redaction.consistency import ConsistencyTally, hidden_extents
from groundwatch_review.redaction.detectors import DETECTORS, active, knowing
from groundwatch_review.redaction.engine import Placeholder, merge, redact_texts
from groundwatch_review.redaction.english_names import NameLists, shipped_lists
from groundwatch_review.redaction.placeholders import WITHHELD, Scope
from groundwatch_review.redaction.rules import Detector, Span
from groundwatch_review.redaction.text import redact_text
from groundwatch_review.redaction.views import views

SECRET_TYPES = frozenset({"API_KEY", "JWT", "PRIVATE_KEY", "CONN_STRING", "URL_TOKEN"})


def redact_file(path: Path) -> tuple[str, dict[str, Any]]:
    """Redact the text of *path*; return it with a report. A JSON document is redacted leaf by leaf and stays valid.

    BLOCKED in the report: hold the text back. It is withheld already where the search could not be finished.
    """
    source = _text_of(path)
    try:
        parsed = json.loads(source)
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict | list):
        return _redact_json(parsed)
    result = redact_text(source)
    return result.text, _report(result.status, result.placeholders, result.reasons)


def _text_of(path: Path) -> str:
    """Raises ``ValueError`` for what is not UTF-8 text: read wrongly, nothing would be found in it."""
    body = path.read_bytes()
    if b"\0" in body:
        raise ValueError("not text; accepted: UTF-8")
    return body.decode("utf-8-sig")


def _redact_json(document: Any) -> tuple[str, dict[str, Any]]:
    leaves: dict[str, str] = {}
    shape = _take_leaves(document, "", leaves)
    result = redact_texts(leaves)
    texts = result.texts if result.complete else dict.fromkeys(leaves, WITHHELD)
    reasons = list(result.reasons)
    cleaned = _put_leaves(shape, texts, reasons)
    status = "BLOCKED" if reasons else "REDACTED" if result.placeholders else "CLEAN"
    return json.dumps(cleaned, ensure_ascii=False, indent=2), _report(status, result.placeholders, reasons)


@dataclass(frozen=True, slots=True)
class _Leaf:
    path: str
    announced: str  # the key in front of the value: context for the rules, taken off again afterwards
    original: str | int | float


def _take_leaves(value: Any, key: str, leaves: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return [(_take_leaves(name, "", leaves), _take_leaves(item, name, leaves)) for name, item in value.items()]
    if isinstance(value, list):
        return tuple(_take_leaves(item, key, leaves) for item in value)
    if value is None or isinstance(value, bool):
        return value
    leaf = _Leaf(str(len(leaves)), f"{key}: " if key else "", value)
    leaves[leaf.path] = f"{leaf.announced}{value}"
    return leaf


def _put_leaves(shape: Any, texts: Mapping[str, str], reasons: list[str]) -> Any:
    if isinstance(shape, list):
        return {str(_put_leaves(name, texts, reasons)): _put_leaves(item, texts, reasons) for name, item in shape}
    if isinstance(shape, tuple):
        return [_put_leaves(item, texts, reasons) for item in shape]
    if not isinstance(shape, _Leaf):
        return shape
    text = texts[shape.path]
    if text != WITHHELD and not text.startswith(shape.announced):
        reasons.append("personal_key")
        return WITHHELD
    text = text.removeprefix(shape.announced)
    return shape.original if text == str(shape.original) else text


def _report(status: str, placeholders: Sequence[Placeholder], reasons: Sequence[str]) -> dict[str, Any]:
    counts = Counter(placeholder.type for placeholder in placeholders)
    return {"status": status, "counts": dict(sorted(counts.items())), "reasons": sorted(set(reasons))}


def evaluate_file(path: Path, *, models: bool = True, unseen_names: bool = False) -> dict[str, Any]:
    """Run :func:`evaluate` on JSON lines, gzipped or not; without *models* by the rules alone.

    *unseen_names*: as if no list had ever held a part of the English names that are labelled in the file. Raises
    ``ValueError`` for rows without labels.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        rows = [_row(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise ValueError("no labelled rows in it; expected one JSON object a line")
    detectors = active() if models else DETECTORS
    return evaluate(rows, knowing(_without_names_of(rows), detectors) if unseen_names else detectors)


def _without_names_of(rows: Iterable[Mapping[str, Any]]) -> NameLists:
    labelled = [row["text"][span["start"] : span["end"]] for row in rows for span in row["spans"] if _is_name(span)]
    words = {part for name in labelled for part in re.split(r"[\s,\-]+", name) if part}
    return shipped_lists().without(words | {word.title() for word in words})


def _is_name(span: Mapping[str, Any]) -> bool:
    return bool(span["type"] == "PERSON")


_LABELS = ("id", "text", "lang", "kind")


def _row(path: Path, number: int, line: str) -> Mapping[str, Any]:
    row = json.loads(line)
    missing = [name for name in _LABELS if not isinstance(row, dict) or name not in row]
    if missing:
        raise ValueError(f"{path}, line {number}: expected an object with {', '.join(_LABELS)}; no {missing[0]}")
    return dict(row)


def evaluate(rows: Iterable[Mapping[str, Any]], detectors: Sequence[Detector] | None = None) -> dict[str, Any]:
    """Compare redaction with labels: recall by type and language, harm done to clean text, leaks that nothing held,
    and whether each person has one placeholder and nobody else's.

    A labelled span counts as found when it is covered whole, under any type.
    """
    tally = _Tally(active() if detectors is None else detectors)
    for row in rows:
        tally.add(row)
    return tally.report()


def detect(text: str, detectors: Sequence[Detector]) -> list[Span]:
    """Everything that *detectors* cover in *text*, merged."""
    spans = [
        Span(*view.extent(span.start, span.end), span.type)
        for view in views(text)
        for detector in detectors
        for span in detector.find(view)
        if span is not None
    ]
    return merge(spans)


class _Tally:
    def __init__(self, detectors: Sequence[Detector]) -> None:
        self.detectors = detectors
        self.spans: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self.negatives: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self.items = {
            "personal": 0,
            "leaking": 0,
            "held": 0,
            "silent": 0,
            "structured_silent": 0,
            "clean_held": 0,
            "clean": 0,
        }
        self.consistency = ConsistencyTally()
        self.texts: list[str] = []
        self.missed: list[str] = []

    def add(self, row: Mapping[str, Any]) -> None:
        text = row["text"]
        scope = Scope()
        result = redact_text(text, scope, detectors=self.detectors)
        self.consistency.add(row, result.text, scope)
        self.texts.append(text)
        held = result.status == "BLOCKED"
        if row["kind"] == "pii":
            self._personal(row, self._covered(text, result.text, scope), held)
        else:
            self._clean(row, result.text != text, held)

    def _covered(self, text: str, redacted: str, scope: Scope) -> Sequence[tuple[int, int]]:
        """What the output hides, the second mention of a name included; by the detectors where nobody can tell."""
        hidden = hidden_extents(text, redacted, scope)
        if hidden is not None:
            return hidden
        return [(span.start, span.end) for span in detect(text, self.detectors)]

    def _personal(self, row: Mapping[str, Any], covered: Sequence[tuple[int, int]], held: bool) -> None:
        missed = []
        for span in row["spans"]:
            found = any(start <= span["start"] and span["end"] <= end for start, end in covered)
            for key in _groups(span["type"], row["lang"]):
                self.spans[key][0] += found
                self.spans[key][1] += 1
            missed += [] if found else [span["type"]]
        self.missed += [f"{row['id']}:{kind}" for kind in missed]
        self.items["personal"] += 1
        self.items["held"] += held
        self.items["leaking"] += bool(missed)
        self.items["silent"] += bool(missed) and not held
        self.items["structured_silent"] += any(kind != "PERSON" for kind in missed) and not held

    def _clean(self, row: Mapping[str, Any], changed: bool, held: bool) -> None:
        kind = row.get("neg_kind") or "none"
        for key in ("all", row["lang"], kind):
            self.negatives[key][0] += changed
            self.negatives[key][1] += 1
        self.items["clean"] += 1
        self.items["clean_held"] += held
        if changed:
            self.missed.append(f"{row['id']}:changed:{kind}")

    def report(self) -> dict[str, Any]:
        items = self.items
        return {
            "recall": {key: _share(*pair) for key, pair in sorted(self.spans.items())},
            "hard_negatives_changed": {key: _share(*pair) for key, pair in sorted(self.negatives.items())},
            "consistency": self.consistency.report(),
            "detectors": [detector.name for detector in self.detectors],
            "items": items,
            "silent_leak_rate": _rate(items["silent"], items["personal"]),
            "silent_leak_rate_structured": _rate(items["structured_silent"], items["personal"]),
            "hold_rate_personal": _rate(items["held"], items["personal"]),
            "hold_rate_hard_negatives": _rate(items["clean_held"], items["clean"]),
            "milliseconds_per_kilobyte": _milliseconds_per_kilobyte(self.texts, self.detectors),
            "missed": sorted(self.missed),
        }


def _milliseconds_per_kilobyte(texts: Sequence[str], detectors: Sequence[Detector]) -> float:
    """CPU time for the rows joined to documents of about 16 KB: a single row would measure the start of a thread."""
    seconds, size, document = 0.0, 0, ""
    for index, text in enumerate(texts):
        document += text + "\n"
        if len(document) < 16_384 and index < len(texts) - 1:
            continue
        started = time.process_time()
        redact_text(document, detectors=detectors)
        seconds += time.process_time() - started
        size += len(document.encode())
        document = ""
    return round(seconds * 1000 / (size / 1024), 2) if size else 0.0


def _groups(kind: str, lang: str) -> Iterator[str]:
    yield f"{kind}/{lang}"
    yield f"{kind}/all"
    if kind != "PERSON":
        yield f"STRUCTURED/{lang}"
        yield "STRUCTURED/all"
    if kind in SECRET_TYPES:
        yield "SECRETS/all"


def _share(part: int, whole: int) -> dict[str, float]:
    return {"found": part, "of": whole, "rate": _rate(part, whole)}


def _rate(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0
