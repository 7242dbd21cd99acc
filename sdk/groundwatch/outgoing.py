"""Every text on its way out: made encodable, redacted, cut at the caps. Nothing leaves by another way."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from groundwatch.quiet import tell_once

_SURROGATES = re.compile("[\ud800-\udfff]")
SLACK_CHARS = 4096  # redaction sees this much beyond the cap, so that a cap does not hide half a secret from it
NAME_CHARS = 512  # ids, names, reasons


@dataclass(slots=True)
class Outgoing:
    """Cleans the texts of one span; collects what had to be cut or mended."""

    redact: Callable[[str], str] | None
    max_text_chars: int
    truncated: list[str] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)
    redaction_failures: int = 0

    def name(self, value: Any, label: str) -> str | None:
        """A short text: an id, a model, a reason. *label* is how the mark calls it when it is cut."""
        cleaned, cut = self._clean(value, NAME_CHARS)
        if cut:
            self.truncated.append(label)
        return cleaned

    def text(self, value: Any, label: str, already_cut: int = 0) -> str | None:
        """A long text: query, answer."""
        cleaned, cut = self._clean(value, self.max_text_chars)
        if cut or already_cut:
            self.truncated.append(label)
        return cleaned

    def measured(self, value: Any) -> tuple[str | None, int]:
        """A document's text, and how many characters a cap took from its end."""
        return self._clean(value, self.max_text_chars)

    def _clean(self, value: Any, cap: int) -> tuple[str | None, int]:
        text = _as_text(value)
        if text is None:
            return None, 0
        cut = max(len(text) - cap - SLACK_CHARS, 0)
        if cut:
            text = text[: cap + SLACK_CHARS]
        redacted = self.redacted(self._encodable(text))
        if redacted is None:
            return None, 0
        return redacted[:cap], cut + max(len(redacted) - cap, 0)

    def _encodable(self, text: str) -> str:
        """Replace what UTF-8 has no bytes for. Cutting may split nothing: a str holds whole characters."""
        try:
            text.encode()
        except UnicodeEncodeError:
            self.flags.add("surrogate_replaced")
            return _SURROGATES.sub("\ufffd", text)
        return text

    def redacted(self, text: str) -> str | None:
        """Fail closed: what could not be redacted does not leave."""
        if self.redact is None or not text:
            return text
        try:
            redacted = self.redact(text)
            if not isinstance(redacted, str):
                raise TypeError(f"redact returned {type(redacted).__name__}, not str")
            return self._encodable(str.__str__(redacted))
        except Exception as error:
            self.redaction_failures += 1
            self.flags.add("redaction_failed")
            tell_once(
                f"redact:{type(error).__name__}",
                "groundwatch: redact failed (%s); the value was dropped, not sent",
                type(error).__name__,
            )
            return None


def _as_text(value: Any) -> str | None:
    """Exactly a str: a subclass may override everything that follows."""
    if value is None:
        return None
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "replace")
    try:
        return str.__str__(str(value))
    except Exception:  # a broken __str__ of the host's class
        return None


def keyed_hash(key: bytes, value: str) -> str:
    """Name a person without naming them: the same key gives the same 32 digits, another key others."""
    return hmac.new(key, value.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:32]
