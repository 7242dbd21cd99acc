"""Who may give feedback: with a key, whoever holds a token of the trace, and from a browser only known pages."""

from __future__ import annotations

import re
from collections.abc import Sequence

from groundwatch import feedback_signing
from groundwatch_collector.limits import Reason, Rejected

_PREFLIGHT_SECONDS = 600  # a browser may remember the answer this long
_ORIGIN = re.compile(r"https?://[^/\s?#]+")


class FeedbackAccess:
    """The rule of one collector. Without keys anyone who may send traces may send feedback on any of them."""

    def __init__(self, keys: Sequence[bytes] = (), origins: Sequence[str] = ()) -> None:
        """*keys*: what the SDK signs tokens with. *origins*: pages that may post, as browsers name them.

        Raises ``ValueError`` for an origin that no browser would send, and for origins without a key: whatever a
        visitor's browser may post must bear a token.
        """
        for origin in origins:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f"allowed_origins: found {origin!r}, accepted: like https://shop.example")
        if origins and not keys:
            raise ValueError("allowed_origins: browsers may post with tokens only; set GROUNDWATCH_FEEDBACK_KEY")
        self._keys = tuple(keys)
        self._origins = frozenset(origins)

    @property
    def by_token(self) -> bool:
        """Whether the token is the credential, in the place of any other."""
        return bool(self._keys)

    def subject(self, trace_id: str, by: str, token: object) -> str:
        """Who gives this feedback. Raises :class:`Rejected` (403) where the token does not cover it."""
        if not self._keys:
            return by
        if not token:
            raise _refused("token: missing, accepted: what groundwatch.feedback_token made for this trace")
        signed = feedback_signing.subject_of(self._keys, trace_id, token)
        if signed is None:
            raise _refused("token: not made for this trace with this collector's GROUNDWATCH_FEEDBACK_KEY")
        if by and by != signed:
            raise _refused("by: not whom the token was made for; leave it out, or make the token with user=")
        return signed

    def headers_for(self, origin: str) -> dict[str, str]:
        """What a browser has to be told so that a page of *origin* may read the answer; nothing for other pages."""
        if origin not in self._origins:
            return {}
        return {"access-control-allow-origin": origin, "vary": "origin"}

    def preflight(self, origin: str) -> dict[str, str] | None:
        """The answer to a browser that asks whether a page of *origin* may post; None: it may not."""
        allowed = self.headers_for(origin)
        if not allowed:
            return None
        return allowed | {
            "access-control-allow-methods": "POST",
            "access-control-allow-headers": "content-type",
            "access-control-max-age": str(_PREFLIGHT_SECONDS),
        }


def _refused(message: str) -> Rejected:
    return Rejected(Reason.FEEDBACK_TOKEN, message, 403)
