"""Log in through an OpenID Connect provider: send the browser there, and let in who comes back with a role.

The browser holds the state of one try in a signed cookie, so that strangers who begin and never come back cost no
memory. Nonce and verifier are made of the state with the key: neither is ever in the browser's hands.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Engine
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from .. import accounts
from ..accounts import Identity
from ..audit import Action, AuditLog
from .guard import CSRF_COOKIE, SESSION_COOKIE, cookie, cookie_name, new_csrf_token
from .login import LoginMetrics, own_path
from .oidc_config import OidcConfig, Unreachable, Untrusted
from .rendering import Page, set_cookie
from .sessions import Sessions

if TYPE_CHECKING:
    from .oidc_provider import Provider

logger = logging.getLogger(__name__)

TRY_COOKIE: Final = "groundwatch_oidc"
TRY_SECONDS: Final = 600.0
AT_ONCE: Final = 4
"""Questions to the provider; whoever begins a login makes us ask it, and each may take its time."""

WAITING: Final = 8
"""That wait for one of those; each holds a thread, which the pages of everybody else need too."""

WAIT_SECONDS: Final = 2.0


class Tries:
    """Logins that were begun, each by one browser and finished once."""

    def __init__(self, key: bytes, now: Callable[[], float]) -> None:
        self._key = key
        self._now = now
        self._finished: dict[str, float] = {}  # states; grows only by logins that the provider let through
        self._lock = threading.Lock()

    def begin(self, back: str) -> tuple[str, str]:
        """A new state, and the cookie that the browser has to come back with."""
        state = secrets.token_urlsafe(32)
        until = int(self._now() + TRY_SECONDS)
        told = f"{state}.{until}.{urlsafe_b64encode(back.encode()).decode()}"
        return state, f"{told}.{self._made(f'cookie:{told}')}"

    def back(self, held: str, state: str) -> str | None:
        """Where this browser wanted to go; None when it did not begin this login, or too long ago, or finished it."""
        told, _dot, mac = held.rpartition(".")
        if not hmac.compare_digest(self._made(f"cookie:{told}").encode(), mac.encode()):
            return None
        begun, until, back = told.split(".")
        if not hmac.compare_digest(begun.encode(), state.encode()) or self._now() > int(until):
            return None
        with self._lock:
            return None if begun in self._finished else urlsafe_b64decode(back).decode()

    def finish(self, state: str) -> bool:
        """Whether this was the first to come back with *state*."""
        now = self._now()
        with self._lock:
            self._finished = {old: until for old, until in self._finished.items() if until >= now}
            if state in self._finished:
                return False
            self._finished[state] = now + TRY_SECONDS
            return True

    def nonce(self, state: str) -> str:
        return self._made(f"nonce:{state}")

    def verifier(self, state: str) -> str:
        return self._made(f"verifier:{state}")

    def _made(self, text: str) -> str:
        made = hmac.new(self._key, text.encode("utf-8", "replace"), hashlib.sha256).digest()
        return urlsafe_b64encode(made).rstrip(b"=").decode()


class SingleSignOn:
    def __init__(
        self,
        engine: Engine,
        config: OidcConfig,
        provider: Provider | None,
        *,
        key: bytes,
        audit: AuditLog,
        sessions: Sessions,
        metrics: LoginMetrics,
        page: Page,
        now: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._config = config
        self._provider = provider
        self._tries = Tries(hmac.new(key or secrets.token_bytes(32), b"oidc", hashlib.sha256).digest(), now)
        self._audit = audit
        self._sessions = sessions
        self._metrics = metrics
        self._page = page
        self._now = now
        self._asking = threading.BoundedSemaphore(AT_ONCE)
        self._room = threading.BoundedSemaphore(AT_ONCE + WAITING)

    def routes(self) -> list[Route]:
        return [Route("/login/oidc", self.begin), Route("/login/oidc/callback", self.come_back)]

    def begin(self, request: Request) -> Response:
        provider = self._in_use()
        state, held = self._tries.begin(own_path(request.query_params.get("next", "/")))
        try:
            with self._one_of_few():
                address = provider.authorization_url(
                    state=state, nonce=self._tries.nonce(state), verifier=self._tries.verifier(state)
                )
        except (Unreachable, Untrusted, _Busy) as error:
            return self._failed(request, error)
        response = RedirectResponse(address, 303)
        _set_try(response, request, held)
        return response

    def come_back(self, request: Request) -> Response:
        response = self._come_back(request, self._in_use())
        _set_try(response, request, "")
        return response

    def _come_back(self, request: Request, provider: Provider) -> Response:
        asked = request.query_params
        state = asked.get("state", "")
        back = self._tries.back(cookie(request, TRY_COOKIE), state)
        if back is None:
            return self._refused(
                request,
                400,
                "refused",
                "this login was not begun in this browser, took longer than 10 minutes, or was finished before",
            )
        if asked.get("iss", self._config.issuer) != self._config.issuer:  # RFC 9207
            return self._refused(request, 400, "refused", "the answer comes from another provider")
        if "code" not in asked:
            return self._refused(request, 401, "refused", "the provider let nobody in")
        try:
            with self._one_of_few():
                claims = provider.claims(
                    asked["code"][:4096], nonce=self._tries.nonce(state), verifier=self._tries.verifier(state)
                )
        except (Unreachable, Untrusted, _Busy) as error:
            return self._failed(request, error)
        if not self._tries.finish(state):
            return self._refused(request, 400, "refused", "this login was finished before")
        return self._let_in(request, claims, own_path(back))

    def _let_in(self, request: Request, claims: Mapping[str, Any], back: str) -> Response:
        identity = identity_of(self._config, claims)
        if not identity.roles:
            accounts.shut_out(self._engine, identity)
            self._audit.append("nobody", Action.LOGIN_FAILED, identity.digest, "no role")
            why = f"your account there has no role here; its claim {self._config.role_claim!r} would have to give one"
            return self._refused(request, 403, "no_role", why)
        user = accounts.enter(self._engine, identity, self._now())
        self._audit.append(user.user_id, Action.LOGIN, detail=f"oidc {','.join(user.roles)}")
        self._metrics.count("ok")
        response = RedirectResponse(back, 303)
        set_cookie(response, request, SESSION_COOKIE, self._sessions.open(user, cookie(request, SESSION_COOKIE)))
        set_cookie(response, request, CSRF_COOKIE, new_csrf_token())
        return response

    def _in_use(self) -> Provider:
        if self._provider is None:
            raise HTTPException(404, "Single sign-on is not configured here ([oidc] issuer).")
        return self._provider

    @contextmanager
    def _one_of_few(self) -> Iterator[None]:
        if not self._room.acquire(blocking=False):
            raise _Busy
        try:
            if not self._asking.acquire(timeout=WAIT_SECONDS):
                raise _Busy
            try:
                yield
            finally:
                self._asking.release()
        finally:
            self._room.release()

    def _failed(self, request: Request, error: Exception) -> Response:
        if isinstance(error, _Busy):
            return self._refused(request, 503, "busy", "too many people log in at once; try again in a moment")
        if isinstance(error, Unreachable):
            logger.error("single sign-on: %s", error)
            return self._refused(request, 502, "unreachable", "the provider cannot be asked; the log says why")
        logger.warning("single sign-on: %s", error)
        return self._refused(request, 401, "refused", "what the provider sent does not hold; the log says why")

    def _refused(self, request: Request, status: int, result: str, why: str) -> Response:
        self._metrics.count(result)
        message = f"Nobody was logged in: {why}."
        context = {"next": "/", "message": message, "name": "", "no_users": False, "sso": self._config.name}
        return self._page(request, "login.html", context, status)


class _Busy(Exception):
    """Too many questions to the provider are under way."""


def _set_try(response: Response, request: Request, held: str) -> None:
    """Lax, unlike every other cookie here: it has to come along when the provider sends the browser back."""
    response.set_cookie(
        cookie_name(request, TRY_COOKIE),
        held,
        max_age=int(TRY_SECONDS) if held else 0,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
        path="/",
    )


def identity_of(config: OidcConfig, claims: Mapping[str, Any]) -> Identity:
    """Who came, as what: a role for each list that holds one of the person's values, and none by default."""
    held = _values(config.role_claim, claims)
    roles = tuple(role for role, values in config.values_of_roles.items() if held & set(values))
    name = claims.get(config.name_claim)
    return Identity(
        issuer=config.issuer,
        subject=claims["sub"],
        name=name if isinstance(name, str) else "",
        roles=roles,
        holdout=bool(held & set(config.holdout)),
    )


def _values(path: str, claims: Mapping[str, Any]) -> set[str]:
    """The texts of a claim. An address counts only when the provider says that it was verified."""
    if path == "email" and claims.get("email_verified") is not True:
        return set()
    found: Any = claims.get(path)
    if found is None:
        found = claims
        for part in path.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    listed = found if isinstance(found, list) else [found]
    return {value for value in listed if isinstance(value, str)}
