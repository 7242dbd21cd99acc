"""Ingest keys: who may write, and for which project. A key grants no reading, and only its hash is kept."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from groundwatch_collector.limits import Reason, Rejected

DEFAULT_PROJECT = "default"  # of a key that names none
_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_KEY_BYTES = 32  # 256 random bits: nothing to guess, so a plain SHA-256 of it is safe at rest
_KEY_PREFIX = "gwk_"  # lets secret scanners find a key that was committed by mistake


@dataclass(frozen=True, slots=True)
class IngestKey:
    project: str
    digest: bytes  # SHA-256 of the key


def parse_ingest_key(line: str) -> IngestKey:
    """Read ``PROJECT:SHA256`` or ``SHA256`` alone. Raises ``ValueError`` that does not repeat the line."""
    project, colon, digest = line.rpartition(":")
    if not _DIGEST.fullmatch(digest):
        raise ValueError("not a SHA-256 digest; accepted: PROJECT:DIGEST with 64 lowercase hex digits")
    if colon and not _PROJECT.fullmatch(project):
        raise ValueError(
            "not a project name; accepted: 1 to 64 letters, digits, '.', '_' and '-', the first a letter or digit"
        )
    return IngestKey(project or DEFAULT_PROJECT, bytes.fromhex(digest))


def parse_ingest_keys(lines: Sequence[str]) -> tuple[IngestKey, ...]:
    """Read every line. Raises ``ValueError`` where one key would stand for two projects."""
    keys = tuple(parse_ingest_key(line) for line in lines)
    project_of: dict[bytes, str] = {}
    for key in keys:
        other = project_of.setdefault(key.digest, key.project)
        if other != key.project:
            raise ValueError(
                f"one key stands for {other!r} and for {key.project!r}; accepted: a key for each project"
            )
    return keys


def new_ingest_key(project: str) -> tuple[str, str]:
    """A random key and the line that lets the collector know it."""
    if not _PROJECT.fullmatch(project):
        parse_ingest_key(f"{project}:{'0' * 64}")  # says what is accepted
    key = _KEY_PREFIX + secrets.token_urlsafe(_KEY_BYTES)
    return key, f"{project}:{hashlib.sha256(key.encode()).hexdigest()}"


class IngestKeys:
    """The keys of one collector."""

    def __init__(self, lines: Sequence[str] = ()) -> None:
        self._keys = parse_ingest_keys(lines)
        self.projects = tuple(dict.fromkeys(key.project for key in self._keys))

    def project_of(self, authorization: bytes) -> str:
        """The project whose key *authorization* (``Bearer KEY``) bears; "" where no key is asked for.

        Raises :class:`Rejected`, in the same time whichever key was near.
        """
        if not self._keys:
            return ""
        scheme, _, key = authorization.partition(b" ")
        digest = hashlib.sha256(key.strip()).digest()
        found = ""
        for known in self._keys:  # all of them, always
            if hmac.compare_digest(digest, known.digest):
                found = known.project
        if scheme.lower() != b"bearer" or not found:
            raise Rejected(
                Reason.UNAUTHORIZED,
                "an ingest key is needed: Authorization: Bearer KEY",
                401,
                {"www-authenticate": "Bearer"},
            )
        return found
