"""Signed permission to give feedback on one answer: whoever holds it may vote on that trace, and on no other.

The application and the collector share the key (``GROUNDWATCH_FEEDBACK_KEY``). The collector keeps nothing for it:
a token is right or wrong by itself, and as long as the key is the same it does not expire.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Sequence

MIN_KEY_BYTES = 16
_PURPOSE = b"groundwatch feedback 1\0"  # the same key signs nothing else by accident
_MAC_BYTES = 16
_TOKEN = re.compile(r"(?:([0-9A-Za-z_-]{1,64})\.)?[0-9A-Za-z_-]{22}")


def keys_of(text: str) -> tuple[bytes, ...]:
    """The keys in a setting: one, or several with commas while one takes over from another. The first one signs.

    Raises ``ValueError`` for a key that could be guessed; the message does not repeat it.
    """
    keys = tuple(part.strip().encode("utf-8", "replace") for part in text.split(",") if part.strip())
    for key in keys:
        if len(key) < MIN_KEY_BYTES:
            raise ValueError(f"found {len(key)} bytes, accepted: at least {MIN_KEY_BYTES} random ones for each key")
    return keys


def make(key: bytes, trace_id: str, subject: str = "") -> str:
    """The token for *trace_id* (32 hexadecimal digits), given to *subject* (a keyed hash, or "" for anyone)."""
    mac = base64.urlsafe_b64encode(_mac(key, trace_id, subject)).rstrip(b"=").decode()
    return f"{subject}.{mac}" if subject else mac


def subject_of(keys: Sequence[bytes], trace_id: str, token: object) -> str | None:
    """Who *token* was given to ("" for anyone); None when it is not a token for *trace_id*.

    Takes the same time whatever is wrong with a token of the right form.
    """
    found = _TOKEN.fullmatch(token) if isinstance(token, str) else None
    if found is None:
        return None
    subject = found[1] or ""
    given = found[0].encode()
    # Every key is compared, so that the time tells nothing about which one was near.
    right = [hmac.compare_digest(make(key, trace_id, subject).encode(), given) for key in keys]
    return subject if any(right) else None


def _mac(key: bytes, trace_id: str, subject: str) -> bytes:
    message = _PURPOSE + trace_id.lower().encode("ascii", "replace") + b"\0" + subject.encode("utf-8", "replace")
    return hmac.new(key, message, hashlib.sha256).digest()[:_MAC_BYTES]
