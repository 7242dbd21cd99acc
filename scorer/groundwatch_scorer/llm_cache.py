"""Good replies of a model, kept for a while: the same text need not be paid for twice.

A reply quotes the trace that it was asked about, and an erasure does not reach this memory. So each reply is sealed
with a key that is made of the text that was asked and is not kept: only who still has that text can read it.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256, shake_256
from typing import Any

LONGEST_SECONDS = 86_400.0
"""A model behind the same name may be replaced."""
_LONGEST_REPLY = 64 * 1024  # characters; a longer one is not worth its place


@dataclass(frozen=True, slots=True)
class Kept:
    nonce: str  # the sentences of the reply are numbered as this nonce says
    reply: Mapping[str, Any]


class ReplyCache:
    """At most *capacity* replies, found again by *key*, which is secret; the least recently used go first.

    The key is a digest of all that was asked. Here it is used and forgotten.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[str, tuple[float, _Sealed]] = (
            OrderedDict()
        )  # by a digest of the key: until when, what
        self._lock = threading.Lock()

    def get(self, key: str, now: float) -> Kept | None:
        name = _name(key)
        with self._lock:
            found = self._kept.get(name)
            if found is None:
                return None
            until, sealed = found
            if now >= until:
                del self._kept[name]
                return None
            self._kept.move_to_end(name)
        nonce, reply = json.loads(sealed.opened(key))
        return Kept(nonce, reply)

    def put(self, key: str, nonce: str, reply: Mapping[str, Any], now: float) -> None:
        text = json.dumps([nonce, reply], ensure_ascii=False)
        if not self._capacity or len(text) > _LONGEST_REPLY:
            return
        name, sealed = _name(key), _sealed(key, text)
        with self._lock:
            self._kept[name] = (now + LONGEST_SECONDS, sealed)
            self._kept.move_to_end(name)
            while len(self._kept) > self._capacity:
                self._kept.popitem(last=False)


def _name(key: str) -> str:
    """What the reply is found by. The key cannot be had from it."""
    return sha256(b"name" + key.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Sealed:
    """Text under a stream of SHAKE-256: a cipher from the standard library, since this is the only place for one."""

    salt: bytes
    data: bytes

    def opened(self, key: str) -> str:
        return _mixed(self.data, key, self.salt).decode()


def _sealed(key: str, text: str) -> _Sealed:
    salt = secrets.token_bytes(16)
    return _Sealed(salt, _mixed(text.encode(), key, salt))


def _mixed(data: bytes, key: str, salt: bytes) -> bytes:
    stream = shake_256(b"seal" + salt + key.encode()).digest(len(data))
    return (int.from_bytes(data) ^ int.from_bytes(stream)).to_bytes(len(data))
