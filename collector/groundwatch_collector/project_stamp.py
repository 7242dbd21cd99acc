"""Write onto an OTLP body whose key it came with, so that whatever carries the body carries the project too.

Other readers of the body ignore the stamp: it is a protobuf field of a number that OTLP does not use, or a key that
OTLP/JSON does not know. It stands at the very end, written by the receiver: a sender cannot speak for another.
"""

from __future__ import annotations

import re

_TAIL_BYTES = 160  # longer than any stamp: a project has up to 64 letters
_FIELD_431_800_000 = bytes((0x82, 0xEC, 0x97, 0xEF, 0x0C))  # length-delimited; no letter of a project is in it
_NAME = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_JSON_STAMP = re.compile(rb',"groundwatchProject":"([A-Za-z0-9][A-Za-z0-9._-]{0,63})"\}\Z')


def stamped(body: bytes, encoding: str, project: str) -> bytes:
    """*body*, a whole and good request, with *project* at its end. Nothing is written for ""."""
    if not project:
        return body
    name = project.encode("ascii")
    if encoding == "protobuf":
        return b"%s%s%c%s" % (body, _FIELD_431_800_000, len(name), name)
    return b'%s,"groundwatchProject":"%s"}' % (body.rstrip()[:-1], name)  # a good request is an object with spans


def unstamped(body: bytes, encoding: str) -> tuple[bytes, str]:
    """The body as it was sent, and the project ("" without a stamp)."""
    start = max(0, len(body) - _TAIL_BYTES)
    if encoding == "json":
        found = _JSON_STAMP.search(body, start)
        return (body[: found.start()] + b"}", found[1].decode()) if found else (body, "")
    at = body.rfind(_FIELD_431_800_000, start)
    name = body[at + len(_FIELD_431_800_000) + 1 :] if at >= 0 else b""
    is_stamp = bool(_NAME.fullmatch(name)) and body[at + len(_FIELD_431_800_000)] == len(name)
    return (body[:at], name.decode()) if is_stamp else (body, "")
