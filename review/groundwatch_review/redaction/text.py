"""Redact one text."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from groundwatch_review.redaction.document import Status
from groundwatch_review.redaction.engine import Placeholder, RedactionLimits, redact_texts
from groundwatch_review.redaction.placeholders import WITHHELD, Scope
from groundwatch_review.redaction.rules import Detector


@dataclass(frozen=True)
class TextResult:
    """A text after redaction. BLOCKED with ``reasons``: do not pass it on. Offsets are Unicode code points."""

    text: str
    status: Status
    placeholders: tuple[Placeholder, ...]
    flags: tuple[str, ...]  # what the residual gate saw: "digits", "at_sign", "token"
    reasons: tuple[str, ...]


def redact_text(
    text: str,
    scope: Scope | None = None,
    *,
    known_values: Sequence[tuple[str, str]] = (),
    own: Collection[str] = (),
    detectors: Sequence[Detector] | None = None,
    limits: RedactionLimits | None = None,
) -> TextResult:
    """Redact *text*. Texts of one item share a *scope*, so that equal values get equal tokens.

    Token-like text in the input is broken up unless it is listed in *own*, the tokens of an earlier pass.
    """
    result = redact_texts({"text": text}, known_values, own=own, scope=scope, detectors=detectors, limits=limits)
    status: Status = "BLOCKED" if result.reasons else "REDACTED" if result.placeholders else "CLEAN"
    return TextResult(
        text=result.texts["text"] if result.complete else WITHHELD,
        status=status,
        placeholders=tuple(result.placeholders),
        flags=tuple(flag.partition(":")[0] for flag in result.flags),
        reasons=tuple(result.reasons),
    )
