"""Read what applications hand over: texts, token counts and numbers in their many shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_TEXT_KEYS = ("content", "text", "delta", "answer", "output", "token")
_MAX_TOKENS = 2**53  # beyond that it is not a count


def text_of(value: Any) -> str | None:
    """The text of an answer or of one streamed chunk; None when it has none that is known to us."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "replace")
    if value is None:
        return None
    if isinstance(value, Mapping):
        found = (value.get(key) for key in _TEXT_KEYS)
        return next((text for text in found if isinstance(text, str)), None)
    return _choice_text(value) or _attribute_text(value)


def _choice_text(value: Any) -> str | None:
    """OpenAI: ``choices[0].delta.content`` of a chunk, ``choices[0].message.content`` of a completion."""
    choices = getattr(value, "choices", None)
    if not isinstance(choices, (list, tuple)) or not choices:
        return None
    inner = getattr(choices[0], "delta", None) or getattr(choices[0], "message", None)
    content = getattr(inner, "content", None)
    return content if isinstance(content, str) else None


def _attribute_text(value: Any) -> str | None:
    found = (getattr(value, key, None) for key in _TEXT_KEYS)
    return next((text for text in found if isinstance(text, str)), None)


def tokens_of(usage: Any) -> tuple[int | None, int | None]:
    """Input and output tokens of a usage dict or object, under either of their two usual names."""
    if usage is None:
        return None, None
    return (
        _count(_named(usage, "input_tokens", "prompt_tokens")),
        _count(_named(usage, "output_tokens", "completion_tokens")),
    )


def _named(usage: Any, *keys: str) -> Any:
    is_mapping = type(usage) is dict or isinstance(usage, Mapping)
    for key in keys:
        value = usage.get(key) if is_mapping else getattr(usage, key, None)
        if value is not None:
            return value
    return None


def _count(value: Any) -> int | None:
    if type(value) is int:
        return value if 0 <= value < _MAX_TOKENS else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if math.isfinite(value) and 0 <= value < _MAX_TOKENS else None


def amount_of(value: Any) -> float | None:
    """A cost: finite and not negative."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) and found >= 0 else None
