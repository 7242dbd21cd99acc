"""Hash and check passwords.

scrypt from the standard library (OpenSSL): it needs memory as well as time, which is what makes guessing on graphics
cards dear, and it is no further dependency. Argon2id would be as good and is a compiled package more.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import unicodedata
from base64 import b64decode, b64encode
from dataclasses import dataclass

MIN_CHARACTERS = 12
MAX_CHARACTERS = 256
_MAX_MEMORY_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one hash: about 128 * n * r bytes of memory, worked through p times."""

    n: int = 2**15
    r: int = 8
    p: int = 3


COST = Cost()
"""32 MiB, three times: one of the settings that OWASP's password storage page gives as equal in strength. It takes
less memory than most of them, because a console has few people and stands beside the monitor."""


class Unfit(ValueError):
    """A password that must not be used; the message says what is accepted."""


def check_fit(password: str, name: str) -> None:
    """Raise :class:`Unfit` for a password that is too short, too long, or the user's own name."""
    if not MIN_CHARACTERS <= len(password) <= MAX_CHARACTERS:
        raise Unfit(f"the password has {len(password)} characters; accepted: {MIN_CHARACTERS} to {MAX_CHARACTERS}")
    if name and name in password.lower() and len(password) < len(name) + MIN_CHARACTERS:
        raise Unfit("the password is made of the user's name; accepted: one that is not")
    if len(set(password)) < 5:
        raise Unfit("the password repeats a few characters; accepted: at least 5 different ones")


def new_password() -> str:
    """A random one, 120 bits."""
    return secrets.token_urlsafe(15)


def hashed(password: str, cost: Cost = COST, salt: bytes | None = None) -> str:
    """*password* as it is kept: ``scrypt$n$r$p$salt$hash``."""
    salt = secrets.token_bytes(16) if salt is None else salt
    key = _derive(password, salt, cost)
    return f"scrypt${cost.n}${cost.r}${cost.p}${b64encode(salt).decode()}${b64encode(key).decode()}"


def matches(password: str, kept: str) -> bool:
    """Whether *password* is the one of *kept*; compared in constant time. A damaged record matches nothing."""
    try:
        kind, n, r, p, salt, key = kept.split("$")
        expected = b64decode(key, validate=True)
        found = _derive(password, b64decode(salt, validate=True), Cost(int(n), int(r), int(p)))
    except ValueError:
        return False
    return kind == "scrypt" and hmac.compare_digest(found, expected)


def _derive(password: str, salt: bytes, cost: Cost) -> bytes:
    # The same letters typed on another keyboard are the same password.
    text = unicodedata.normalize("NFKC", password).encode("utf-8", "replace")
    return hashlib.scrypt(text, salt=salt, n=cost.n, r=cost.r, p=cost.p, maxmem=_MAX_MEMORY_BYTES, dklen=32)
