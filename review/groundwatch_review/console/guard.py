"""What every answer of the console passes through: host check, security headers, cross-site request refusal.

Documents, answers and judges' reasons are written by strangers. Pages hold them as text nodes only; the policy
below is the second wall: no script, style, image, frame or connection from anywhere but this origin.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CSRF_COOKIE = "groundwatch_csrf"
SESSION_COOKIE = "groundwatch_session"
CSRF_FIELD = "csrf"
FORM_LIMIT_BYTES = 256 * 1024  # a long label in Chinese: nine bytes a character in a form
FORM_LIMIT_FIELDS = 500  # a verdict for each claim of a long answer

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)

HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not no-referrer: browsers then send "Origin: null" with our own forms, and the origin check is worth more.
    # same-origin tells another origin exactly as much: nothing.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Forbidden(Exception):
    """A write that did not come from one of our own pages; the message says which check it failed."""


_NO_CHARACTER = b"%EF%BF%BD"  # U+FFFD; nothing at all would let what stands around it join to another NUL


class Guard:
    """ASGI wrapper around the whole console, error pages included."""

    def __init__(self, app: ASGIApp, allowed_hosts: Iterable[str], *, tls_in_front: bool = False) -> None:
        self._app = app
        self._tls_in_front = tls_in_front
        self._allowed_hosts = frozenset(host.lower() for host in allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._tls_in_front:  # whatever the proxy says of it: cookies must be Secure
            scope["scheme"] = "https"

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        host = Headers(scope=scope).get("host", "")
        if host_name(host) not in self._allowed_hosts:
            await _wrong_host()(scope, receive, guarded)
            return
        if "\x00" in scope["path"]:
            await PlainTextResponse("An address here holds no NUL.\n", 400)(scope, receive, guarded)
            return
        # PostgreSQL refuses to look for NUL. What stands there instead is found nowhere and falls back.
        asked = scope["query_string"].replace(b"%00", _NO_CHARACTER)
        await self._app({**scope, "query_string": asked}, receive, guarded)


def _wrong_host() -> PlainTextResponse:
    return PlainTextResponse(
        "This Host name is not served here. Names that are: console.allowed_hosts in groundwatch.toml.\n", 421
    )


_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,253}))(?::([0-9]{1,5}))?")


def host_name(host: str) -> str:
    """Name in a Host header without its port; "" when it is not one. A user, path or odd port is no part of one."""
    found = _HOST.fullmatch(host)
    if found is None or int(found[3] or 0) > 65_535:
        return ""
    return (found[1] or found[2]).lower()


def cookies(request: Request) -> Mapping[str, str]:
    """Cookies by name; a header that cannot be read counts as none."""
    jar: SimpleCookie = SimpleCookie()
    try:
        jar.load(request.headers.get("cookie", ""))
    except CookieError:
        return {}
    return {name: morsel.value for name, morsel in jar.items()}


def cookie_name(request: Request, name: str) -> str:
    """*name* as it is sent: over TLS a browser takes ``__Host-`` cookies from this very host and scheme alone."""
    return f"__Host-{name}" if request.url.scheme == "https" else name


def cookie(request: Request, name: str) -> str:
    return cookies(request).get(cookie_name(request, name), "")


def csrf_token(request: Request) -> str:
    """Token that this browser already has, or a new one."""
    held = cookie(request, CSRF_COOKIE)
    return held if len(held) == 43 and held.isascii() else new_csrf_token()


def new_csrf_token() -> str:
    return secrets.token_urlsafe(32)


async def read_form(request: Request) -> Mapping[str, str]:
    """Fields of a form post that came from one of our own pages. Raises :class:`Forbidden` otherwise."""
    check_origin(request.headers)
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/x-www-form-urlencoded":
        raise Forbidden("the content type of a form here is application/x-www-form-urlencoded")
    body = await request.body()  # bounded by the application's max_body_size
    text = body.decode("utf-8", "replace")
    try:
        found = parse_qsl(text, keep_blank_values=True, max_num_fields=FORM_LIMIT_FIELDS)
    except ValueError:
        raise Forbidden(f"the form has too many fields; accepted: up to {FORM_LIMIT_FIELDS}") from None
    fields = {name: value.replace("\x00", "") for name, value in found}  # PostgreSQL keeps no NUL; traces neither
    held, sent = cookie(request, CSRF_COOKIE), fields.get(CSRF_FIELD, "")
    if not held or not hmac.compare_digest(held.encode(), sent.encode()):
        raise Forbidden("the form's token does not match this browser's; reload the page and send it again")
    return fields


def check_origin(headers: Headers) -> None:
    """Refuse a write whose Origin is not the host that it was sent to."""
    origin, host = headers.get("origin"), headers.get("host", "")
    if origin is None:
        raise Forbidden("the request has no Origin header")
    try:
        parts = urlsplit(origin)
    except ValueError:
        raise Forbidden("the Origin header cannot be read") from None
    if parts.scheme not in ("http", "https") or parts.netloc.lower() != host.lower():
        raise Forbidden("the request comes from another origin")
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise Forbidden("the browser says that the request comes from another site")
