"""Talk to an OpenID Connect provider: what it says of itself, its keys, and the code that a person came back with.

Authlib does the protocol and joserfc the signatures. Nothing that a provider answers is believed before it is checked
against the configuration, and no request leaves for an address that the configuration does not allow.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import OAuth2Client
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet, RSAKey

from groundwatch_scorer.address_guard import AddressGuard, EndpointRefused, Resolve

from .oidc_config import OidcConfig, Unreachable, Untrusted, is_loopback, is_safe

TIMEOUT_SECONDS: Final = 10.0
"""For a connection, for each piece of an answer, and for all of an answer behind its head."""

KNOWN_FOR_SECONDS: Final = 3600.0
CLOCK_SKEW_SECONDS: Final = 60
ANSWER_LIMIT_BYTES: Final = 1024 * 1024

SIGNATURES: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Public keys only: "none" is no signature, and an HMAC could be made with what everybody may read there."""


_TROUBLE: Final = (
    httpx2.HTTPError,
    httpx2.InvalidURL,
    EndpointRefused,
    OSError,
    ValueError,
    TypeError,  # Authlib reads numbers out of the answer
    RecursionError,  # an answer that is nested too deeply
)
"""What asking a provider ends with that is away, or answers what nobody can read."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What the provider said of itself."""

    at: float
    authorization_endpoint: str
    token_endpoint: str
    authentication: str  # how this console shows its secret
    keys: KeySet


class Provider:
    def __init__(
        self,
        config: OidcConfig,
        secret: str,
        now: Callable[[], float],
        *,
        resolve: Resolve | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._secret = secret
        self._now = now
        here = is_loopback(urlsplit(config.issuer))
        guard = AddressGuard("the OpenID provider's address", here, config.allow_private_network, resolve)
        self._http: dict[str, Any] = {
            "event_hooks": {"request": [guard]},
            "follow_redirects": False,
            "trust_env": False,  # a proxy would resolve the name anew
            "timeout": TIMEOUT_SECONDS,
            "headers": {"accept-encoding": "identity"},  # what is counted is what is read
        }
        self._clock = clock
        self._known: _Known | None = None
        self._lock = threading.Lock()

    def authorization_url(self, *, state: str, nonce: str, verifier: str) -> str:
        """Where the browser is sent. Raises :class:`Unreachable`."""
        # Without a client: whoever comes may begin a login, and to open one takes 30 ms of the processor.
        address: str = prepare_grant_uri(
            self._metadata().authorization_endpoint,
            self._config.client_id,
            "code",
            redirect_uri=self._config.callback,
            scope=" ".join(self._config.scopes),
            state=state,
            nonce=nonce,
            code_challenge=create_s256_code_challenge(verifier),
            code_challenge_method="S256",
        )
        return address

    def claims(self, code: str, *, nonce: str, verifier: str) -> Mapping[str, Any]:
        """What the provider says of the person who came back with *code*.

        Raises :class:`Untrusted` for a code or token that does not hold, and :class:`Unreachable`.
        """
        known = self._metadata()
        token = self._exchange(known, code, verifier)
        text = token.get("id_token")
        if not isinstance(text, str):
            raise Untrusted("the provider sent no ID token")
        try:
            decoded = self._decoded(text, known)
            options: Any = {
                "iss": {"essential": True, "value": self._config.issuer},
                "aud": {"essential": True, "value": self._config.client_id},
                "sub": {"essential": True},
            }
            asked = {
                "nonce": nonce,
                "client_id": self._config.client_id,
                "access_token": token.get("access_token"),
            }
            checked = CodeIDToken(decoded.claims, decoded.header, options, asked)
            checked.validate(now=int(self._now()), leeway=CLOCK_SKEW_SECONDS)
        except (JoseError, ValueError, TypeError) as error:  # the names of its errors and claims, never a value
            claim = getattr(error, "claim", "")
            raise Untrusted(f"the ID token does not hold: {type(error).__name__} {claim}".rstrip()) from None
        found: dict[str, Any] = dict(checked)
        if not isinstance(found["sub"], str) or not 1 <= len(found["sub"]) <= 255:
            raise Untrusted("the ID token does not hold: its subject is no text of up to 255 characters")
        return found

    def _decoded(self, text: str, known: _Known) -> jwt.Token:
        """The token, its signature checked; keys are read anew once where none of those known made it."""
        try:
            return jwt.decode(text, known.keys, algorithms=list(SIGNATURES))
        except (JoseError, ValueError):
            known = self._metadata(anew=True)
            return jwt.decode(text, known.keys, algorithms=list(SIGNATURES))

    def _exchange(self, known: _Known, code: str, verifier: str) -> Mapping[str, Any]:
        with self._client(known) as client:
            try:
                found: Mapping[str, Any] = client.fetch_token(
                    known.token_endpoint,
                    grant_type="authorization_code",
                    code=code,
                    code_verifier=verifier,
                    redirect_uri=self._config.callback,
                )
            except OAuthError as error:
                raise Untrusted(f"the provider refused the code: {_word(error.error)}") from None
            except _TROUBLE as error:
                raise Unreachable(f"the token endpoint: {_said(error)}") from None
        return found

    def _client(self, known: _Known) -> Any:
        return OAuth2Client(
            client_id=self._config.client_id,
            client_secret=self._secret or None,
            token_endpoint_auth_method=known.authentication if self._secret else "none",
            scope=" ".join(self._config.scopes),
            redirect_uri=self._config.callback,
            transport=self._transport(),
            **self._http,
        )

    def _transport(self) -> httpx2.BaseTransport:
        return _Bounded(httpx2.HTTPTransport(trust_env=False), self._clock)

    # What the provider says of itself

    def _metadata(self, *, anew: bool = False) -> _Known:
        known = self._known
        if known is not None and not anew and self._now() - known.at < KNOWN_FOR_SECONDS:
            return known
        with self._lock:
            if self._known is known or self._known is None:  # else another request has just asked
                self._known = self._asked()
            return self._known

    def _asked(self) -> _Known:
        issuer = self._config.issuer
        told = self._json(issuer.rstrip("/") + "/.well-known/openid-configuration")
        if told.get("issuer") != issuer:
            raise Unreachable("the provider calls itself by another issuer than [oidc] issuer")
        keys = self._keys(self._address(told, "jwks_uri"))
        offered = told.get("token_endpoint_auth_methods_supported")
        offered = offered if isinstance(offered, list) and offered else ["client_secret_basic"]
        ways = [way for way in ("client_secret_basic", "client_secret_post") if way in offered]
        if not ways and self._secret:
            raise Unreachable("the provider takes the secret neither as client_secret_basic nor client_secret_post")
        return _Known(
            at=self._now(),
            authorization_endpoint=self._address(told, "authorization_endpoint"),
            token_endpoint=self._address(told, "token_endpoint"),
            authentication=ways[0] if ways else "none",
            keys=keys,
        )

    def _address(self, told: Mapping[str, Any], name: str) -> str:
        found = told.get(name)
        try:
            safe = isinstance(found, str) and is_safe(urlsplit(found))
        except ValueError:
            safe = False
        if not safe:
            raise Unreachable(f"the provider names no {name} with https")
        return str(found)

    def _keys(self, address: str) -> KeySet:
        held = self._json(address).get("keys")
        found = [_key(told) for told in (held if isinstance(held, list) else [])]
        usable: list[Any] = [key for key in found if key is not None]
        if not usable:
            raise Unreachable("the provider publishes no RSA or EC key for signatures that can be read")
        return KeySet(usable)

    def _json(self, address: str) -> Mapping[str, Any]:
        try:
            with httpx2.Client(transport=self._transport(), **self._http) as client:
                answer = client.get(address)
            if answer.status_code != 200:
                raise Unreachable(f"{urlsplit(address).path} answered {answer.status_code}")
            found = answer.json()
        except _TROUBLE as error:
            raise Unreachable(f"{urlsplit(address).path}: {_said(error)}") from None
        if not isinstance(found, dict):
            raise Unreachable(f"{urlsplit(address).path} is no JSON object")
        return found


def _key(told: Any) -> RSAKey | ECKey | None:
    """A public key for signatures; None for what is none, of another kind or cannot be read (RFC 7517, section 5)."""
    if not isinstance(told, dict) or told.get("use", "sig") != "sig":
        return None
    try:
        if told.get("kty") == "RSA":
            return RSAKey.import_key(told)
        return ECKey.import_key(told) if told.get("kty") == "EC" else None
    except (JoseError, ValueError, TypeError, KeyError):
        return None


class _Bounded(httpx2.BaseTransport):
    """No answer is longer than a bound, nor takes longer: a time-out of each piece lets one drip in for ever."""

    def __init__(self, inner: httpx2.BaseTransport, clock: Callable[[], float]) -> None:
        self._inner = inner
        self._clock = clock

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = self._inner.handle_request(request)
        if answer.headers.get("content-encoding", "identity") != "identity":
            answer.close()
            raise Unreachable("an answer is packed, which was not asked for")
        assert isinstance(answer.stream, httpx2.SyncByteStream)
        answer.stream = _Pieces(answer.stream, self._clock)
        return answer

    def close(self) -> None:
        self._inner.close()


class _Pieces(httpx2.SyncByteStream):
    def __init__(self, inner: httpx2.SyncByteStream, clock: Callable[[], float]) -> None:
        self._inner = inner
        self._clock = clock

    def __iter__(self) -> Iterator[bytes]:
        until, left = self._clock() + TIMEOUT_SECONDS, ANSWER_LIMIT_BYTES
        for piece in self._inner:
            left -= len(piece)
            if left < 0:
                raise Unreachable(f"an answer is longer than {ANSWER_LIMIT_BYTES} bytes")
            if self._clock() > until:
                raise Unreachable(f"an answer takes longer than {TIMEOUT_SECONDS:g} seconds")
            yield piece

    def close(self) -> None:
        self._inner.close()


def _said(error: Exception) -> str:
    """A refused address is named in full: it is the administrator who has to allow it."""
    return str(error) if isinstance(error, EndpointRefused) else type(error).__name__


def _word(text: object) -> str:
    """An error code of the protocol; what is none is not repeated."""
    found = str(text)[:40]
    return found if found.replace("_", "").isalpha() and found.isascii() else "error"
