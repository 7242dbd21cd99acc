"""Good replies of a model, kept for a while: the same text need not be paid for twice."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LONGEST_SECONDS = 86_400.0
"""A model behind the same name may be replaced; and what is erased elsewhere must not live on here for long."""
_LONGEST_REPLY = 64 * 1024  # characters; a longer one is not worth its place


@dataclass(frozen=True, slots=True)
class Kept:
    nonce: str  # the sentences of the reply are numbered as this nonce says
    reply: Mapping[str, Any]


class ReplyCache:
    """At most *capacity* replies, by the digest of what was asked; the least recently used go first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[str, tuple[float, str, str]] = OrderedDict()  # until when, nonce, reply as JSON
        self._lock = threading.Lock()

    def get(self, key: str, now: float) -> Kept | None:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            until, nonce, text = found
            if now >= until:
                del self._kept[key]
                return None
            self._kept.move_to_end(key)
        return Kept(nonce, json.loads(text))

    def put(self, key: str, nonce: str, reply: Mapping[str, Any], now: float) -> None:
        text = json.dumps(reply, ensure_ascii=False)
        if not self._capacity or len(text) > _LONGEST_REPLY:
            return
        with self._lock:
            self._kept[key] = (now + LONGEST_SECONDS, nonce, text)
            self._kept.move_to_end(key)
            while len(self._kept) > self._capacity:
                self._kept.popitem(last=False)
