"""Open a client for an OpenAI-compatible endpoint that cannot be led to where it should not go.

The address comes from the configuration, and still: a mistyped host, a redirect or a name that resolves to a cloud's
metadata service must not receive the traces of users. :class:`AddressGuard` looks before every request.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import openai

from groundwatch_scorer.address_guard import AddressGuard, EndpointRefused, Resolve

OPENAI_URL = "https://api.openai.com/v1"


def open_client(
    base_url: str,
    api_key: str,
    *,
    timeout_seconds: float = 30.0,
    max_retries: int = 1,
    allow_loopback: bool = True,
    allow_private: bool = False,
    resolve: Resolve | None = None,
) -> openai.OpenAI:
    """Return a client for *base_url* ("" is OpenAI's own), or raise :class:`EndpointRefused`.

    Loopback is allowed unless said otherwise, because a model server on the same machine is the usual private set-up.
    Other private networks need *allow_private*. Link-local and metadata addresses are refused always. Redirects are
    not followed, and proxy variables of the environment are not read: a proxy would resolve the name anew.
    """
    base_url = base_url or OPENAI_URL
    check_url(base_url)
    guard = AddressGuard("the judge's endpoint", allow_loopback, allow_private, resolve)
    http = openai.DefaultHttpxClient(
        event_hooks={"request": [guard]}, follow_redirects=False, trust_env=False, timeout=timeout_seconds
    )
    try:
        return openai.OpenAI(
            base_url=base_url,
            api_key=api_key or "none",  # local servers want no key, the client wants a text
            timeout=timeout_seconds,
            max_retries=max_retries,
            http_client=http,
        )
    except (
        Exception
    ) as error:  # the HTTP library is stricter about addresses, and which library depends on the client
        http.close()
        raise EndpointRefused(f"base_url is not an address: {error}") from error


def check_url(base_url: str) -> None:
    """Raise :class:`EndpointRefused` unless *base_url* is a plain http or https address."""
    try:
        parts = urlsplit(base_url)
        host, _port = parts.hostname, parts.port
    except ValueError as error:
        raise EndpointRefused(f"base_url is not an address: {error}") from None
    if parts.scheme not in ("http", "https"):
        raise EndpointRefused(f"base_url starts with {parts.scheme or 'no scheme'!r}; accepted: http:// and https://")
    if not host:
        raise EndpointRefused("base_url names no host; accepted: https://host/v1")
    if parts.username is not None or parts.password is not None:
        raise EndpointRefused("base_url carries a user name; give the key as the API key instead")
    if parts.query or parts.fragment:
        raise EndpointRefused("base_url has a query or fragment; accepted: https://host/v1")
