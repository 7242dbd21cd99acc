"""Search texts, merge what was found, replace it, search again - and stop with BLOCKED when anything is in doubt."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from groundwatch_review.redaction.detectors import active, known_values, repeated
from groundwatch_review.redaction.placeholders import Scope, escape, token_extents
from groundwatch_review.redaction.residual import suspicions
from groundwatch_review.redaction.rules import TYPES, Detector, Span
from groundwatch_review.redaction.unlisted_names import names_in_address
from groundwatch_review.redaction.views import View, views

POLICY_VERSION: Final = "structured-names-3"
_MAX_PASSES: Final = 4


@dataclass(frozen=True, slots=True)
class RedactionLimits:
    """How much work one candidate may cost before it is held for a person."""

    max_bytes: int = 262_144  # UTF-8 bytes of all its texts
    budget_seconds: float = 2.0  # CPU seconds of the searching thread
    hang_seconds: float = 20.0  # wall clock; beyond the budget, because a busy machine is no reason to hold


@dataclass(slots=True)
class DetectorRun:
    """How one detector fared on a candidate."""

    name: str
    version: str
    ok: bool = True
    seconds: float = 0.0
    trouble: str = ""  # closed set: "raised", "bad_offsets", "bad_type", "hung"


@dataclass(frozen=True, slots=True)
class Placeholder:
    token: str
    type: str
    mentions: int


@dataclass(slots=True)
class TextsResult:
    """Redacted texts by path and what is to be known about the work. ``reasons`` empty: nothing is in doubt."""

    texts: dict[str, str]
    runs: list[DetectorRun]
    placeholders: list[Placeholder] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    second_pass_hits: int = 0

    @property
    def complete(self) -> bool:
        """Whether every detector looked at every text; otherwise the texts must not be shown to anybody."""
        return not any(
            reason in ("too_large", "out_of_time") or reason.startswith("detector:") for reason in self.reasons
        )


class _OutOfTimeError(Exception):
    pass


@dataclass(slots=True)
class _Work:
    """One candidate's texts on their way."""

    texts: dict[str, str]
    scope: Scope
    detectors: Sequence[Detector]
    deadline: Callable[[], float]  # CPU seconds left
    ungated: Collection[str]  # paths that the residual gate does not look at
    runs: dict[str, DetectorRun]
    current: str = ""

    def search(self, detectors: Iterable[Detector]) -> dict[str, list[Span]]:
        found: dict[str, list[Span]] = {}
        for path, text in self.texts.items():
            own = token_extents(text, self.scope.types)
            readings = views(text, own)
            spans = [span for detector in detectors for view in readings for span in self._run(detector, view)]
            found[path] = [span for span in spans if not _within(span, own)]
        return found

    def _run(self, detector: Detector, view: View) -> list[Span]:
        self.check()
        run = self.runs.setdefault(detector.name, DetectorRun(detector.name, detector.version))
        self.current = detector.name
        started = time.perf_counter()
        try:
            return [_in_source(span, view) for span in self._timed(detector.find(view))]
        except _OutOfTimeError:
            raise
        except IndexError:
            run.ok, run.trouble = False, "bad_offsets"
        except _BadTypeError:
            run.ok, run.trouble = False, "bad_type"
        except Exception:
            run.ok, run.trouble = False, "raised"  # the message may quote the text: it is not kept
        finally:
            run.seconds += time.perf_counter() - started
        return []

    def _timed(self, spans: Iterable[Span | None]) -> Iterator[Span]:
        for index, span in enumerate(spans):
            if span is None or index % 64 == 0:
                self.check()
            if span is not None:
                yield span

    def check(self) -> None:
        if self.deadline() <= 0:
            raise _OutOfTimeError

    def replace(self, found: dict[str, list[Span]]) -> int:
        """Put tokens in the place of the *found* spans; tokens are numbered in reading order."""
        hits = 0
        joined = {path: merge(spans) for path, spans in found.items()}
        self.scope.expect(
            self.texts[path][span.start : span.end]
            for path, spans in joined.items()
            for span in spans
            if span.type == "PERSON"
        )
        for path, merged in joined.items():
            text = self.texts[path]
            pieces: list[str] = []
            position = 0
            for span in self._timed(merged):
                pieces += [text[position : span.start], self.scope.token(span.type, text[span.start : span.end])]
                position = span.end
            self.texts[path] = "".join([*pieces, text[position:]])
            hits += len(merged)
        return hits


class _BadTypeError(Exception):
    pass


def _in_source(span: Span, view: View) -> Span:
    if span.type not in TYPES:
        raise _BadTypeError
    start, end = view.extent(span.start, span.end)
    return Span(start, end, span.type)


def _within(span: Span, extents: Sequence[tuple[int, int]]) -> bool:
    return any(start <= span.start and span.end <= end for start, end in extents)


def merge(spans: Sequence[Span]) -> list[Span]:
    """Union of overlapping extents. The longest member names the union; nothing is cut off for a better score."""
    merged: list[Span] = []
    longest = 0
    for span in sorted(spans, key=lambda s: (s.start, -s.end)):
        length = span.end - span.start
        if merged and span.start < merged[-1].end:
            kind = span.type if length > longest else merged[-1].type
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end), kind)
            longest = max(longest, length)
        else:
            merged.append(span)
            longest = length
    return merged


def redact_texts(
    texts: dict[str, str],
    known: Sequence[tuple[str, str]] = (),
    *,
    own: Collection[str] = (),
    ungated: Collection[str] = (),
    scope: Scope | None = None,
    detectors: Sequence[Detector] | None = None,
    limits: RedactionLimits | None = None,
) -> TextsResult:
    """Redact *texts* (path -> text, in reading order) as one candidate.

    *known* are (type, value) pairs that must go wherever they stand; *own* are tokens that an earlier pass over this
    candidate issued. Never raises for any text: a detector that fails, hangs or lies, or work beyond *limits*, is a
    reason, and the texts of an incomplete search must not be used.
    """
    limits = limits or RedactionLimits()
    scope = scope or Scope()
    detectors = active() if detectors is None else detectors
    runs = {d.name: DetectorRun(d.name, d.version) for d in (known_values(()), *detectors)}
    if sum(len(text.encode(errors="replace")) for text in texts.values()) > limits.max_bytes:
        return TextsResult(dict(texts), list(runs.values()), reasons=["too_large"])
    scope.reserve(own)
    escaped = {path: escape(_clean(text), own) for path, text in texts.items()}
    work = _Work(escaped, scope, (known_values(known), *detectors), lambda: 0.0, ungated, runs)
    return _supervise(work, limits)


def _supervise(work: _Work, limits: RedactionLimits) -> TextsResult:
    """Run in a thread of its own, so that a detector that never returns cannot take the caller with it."""
    box: list[TextsResult] = []

    def body() -> None:
        started = time.thread_time()
        work.deadline = lambda: limits.budget_seconds - (time.thread_time() - started)
        box.append(_redact(work))

    thread = threading.Thread(target=body, name="groundwatch-redaction", daemon=True)
    thread.start()
    thread.join(limits.hang_seconds)
    if box:
        return box[0]
    hung = work.runs.get(work.current)
    if hung:
        hung.ok, hung.trouble = False, "hung"
    return TextsResult({}, list(work.runs.values()), reasons=[f"detector:{work.current}:hung"])


def _redact(work: _Work) -> TextsResult:
    result = TextsResult(work.texts, list(work.runs.values()))
    try:
        for attempt in range(_MAX_PASSES):
            hits = work.replace(_everywhere(work))
            result.second_pass_hits += hits if attempt else 0
            if not hits:
                break
        else:
            result.reasons.append("unstable")
        result.flags = _residual(work)
    except _OutOfTimeError:
        result.reasons.append("out_of_time")
    except Exception:
        result.reasons.append("detector:engine:raised")
    return _finish(work, result)


def _finish(work: _Work, result: TextsResult) -> TextsResult:
    result.runs = list(work.runs.values())
    result.reasons += [f"detector:{run.name}:{run.trouble}" for run in result.runs if not run.ok]
    result.reasons += ["residual"] if result.flags else []
    result.placeholders = [
        Placeholder(token, kind, count)
        for token, kind in work.scope.types.items()
        if (count := sum(text.count(token) for text in work.texts.values()))
    ]
    return result


def _everywhere(work: _Work) -> dict[str, list[Span]]:
    """What the detectors find, and the same values again wherever they stand without the word that gave them away."""
    found = work.search(work.detectors)
    values = _values(work, found)
    if not values:
        return found
    again = work.search([repeated(values)])
    return {path: spans + again[path] for path, spans in found.items()}


def _values(work: _Work, found: dict[str, list[Span]]) -> list[tuple[str, str]]:
    values: dict[str, str] = {}
    for path, spans in found.items():
        for span in spans:
            value = work.texts[path][span.start : span.end]
            for part in (value, *(value.replace(",", " ").split() if span.type == "PERSON" else ())):
                if _telling(span.type, part):
                    values.setdefault(part, span.type)
            for name in names_in_address(value) if span.type == "EMAIL" else ():
                values.setdefault(name, "PERSON")
    return [(kind, value) for value, kind in values.items()]


def _telling(kind: str, value: str) -> bool:
    """Long enough to be searched for on its own: a surname of one character would hit half of the words."""
    if kind == "PERSON":
        return len(value) >= (3 if value.isascii() else 2) and value[0].isupper() == value.isascii()
    return len(value) >= 5


def _residual(work: _Work) -> list[str]:
    flags = []
    for path, text in work.texts.items():
        work.check()
        if path in work.ungated:
            continue
        plain = views(text, token_extents(text, work.scope.types))[0]
        flags += [f"{name}:{path}" for name in suspicions(plain)]
    return flags


def _clean(text: str) -> str:
    """Lone surrogates cannot be written as UTF-8, and NUL cannot be stored everywhere."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\x00", "\ufffd")
