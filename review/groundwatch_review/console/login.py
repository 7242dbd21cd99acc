"""Who is behind a request, logging in and out, and the own password."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Counter
from sqlalchemy import Engine
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from groundwatch_collector.storage import reader

from .. import accounts, passwords
from ..accounts import User
from ..audit import Action, AuditLog
from .access import EVERYBODY, NOBODY, Principal, principal_for, principal_of
from .guard import CSRF_COOKIE, SESSION_COOKIE, cookie, new_csrf_token, read_form
from .login_limits import LoginLimits
from .rendering import Page, href, remove_cookie, set_cookie
from .sessions import Sessions

HASHES_AT_ONCE = 2
"""Each takes 32 MiB and a core for a while; more must wait, or strangers could take all of both."""

HASH_WAIT_SECONDS = 5.0


RESULTS = ("ok", "wrong", "limited", "busy", "refused", "no_role", "unreachable")


class LoginMetrics:
    """Logins by what came of them."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self._logins = Counter(
            "groundwatch_console_logins",
            "Tries to log in to the console. ok; wrong: name or password; limited: too many tries; busy: too many at "
            "once; of single sign-on: refused: state, code or token do not hold; no_role; unreachable: no provider.",
            ["result"],
            registry=registry,
        )
        for result in RESULTS:
            self._logins.labels(result)

    def count(self, result: str) -> None:
        self._logins.labels(result).inc()


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of one try to log in."""

    token: str = ""  # of the new session; "" when there is none
    status: int = 200
    message: str = ""
    wait_seconds: float = 0.0
    known_as: str = ""  # the identifier behind the name that was tried with a wrong password


class Login:
    def __init__(
        self,
        engine: Engine,
        *,
        audit: AuditLog,
        sessions: Sessions,
        limits: LoginLimits,
        metrics: LoginMetrics,
        page: Page,
        now: Callable[[], float],
        cost: passwords.Cost,
        always: bool,
        sso: str = "",
    ) -> None:
        self._engine = engine
        self._audit = audit
        self._sessions = sessions
        self._limits = limits
        self._metrics = metrics
        self._page = page
        self._now = now
        self._cost = cost
        self._always = always or bool(sso)
        self._sso = sso  # what single sign-on is called on the button; "" where there is none
        self._hashing = threading.BoundedSemaphore(HASHES_AT_ONCE)

    def routes(self) -> list[Route]:
        return [
            Route("/login", self.form),
            Route("/login", self.log_in, methods=["POST"]),
            Route("/logout", self.log_out, methods=["POST"]),
            Route("/account", self.account),
            Route("/account/password", self.change_password, methods=["POST"]),
        ]

    def who(self, request: Request) -> Principal:
        """The user of the request's session; everybody where nobody has to log in; else nobody."""
        token = cookie(request, SESSION_COOKIE)
        user = self._sessions.user_of(token)
        if user is not None and (self._sso or not user.sso):  # whom a provider let in that is used no more
            return principal_for(user, token)
        return NOBODY if self._always or self._has_users() else EVERYBODY

    def _has_users(self) -> bool:
        with reader(self._engine).connect() as connection:
            return accounts.exist(connection)

    # Logging in

    def login_needed(self, request: Request) -> Response:
        """The form at the address that was asked for, or a closed answer for programs."""
        asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        if request.url.path.startswith("/api/"):
            return JSONResponse({"error": "log in first"}, 401)
        back = own_path(asked) if request.method in ("GET", "HEAD") else "/"
        if _came_from_elsewhere(request):
            return self._page(request, "come_in.html", {"next": back}, 401)
        return self._form(request, back, 401)

    def form(self, request: Request) -> Response:
        if principal_of(request) is not NOBODY:
            return RedirectResponse("/", 303)
        return self._form(request, own_path(request.query_params.get("next", "/")), 200)

    def _form(self, request: Request, back: str, status: int, message: str = "", name: str = "") -> Response:
        no_users = not self._sso and not self._has_users()
        context = {"next": back, "message": message, "name": name, "no_users": no_users, "sso": self._sso}
        return self._page(request, "login.html", context, status)

    async def log_in(self, request: Request) -> Response:
        form = await read_form(request)
        name, back = form.get("name", "").strip().lower(), own_path(form.get("next", "/"))
        address = request.client.host if request.client else ""
        replaced = cookie(request, SESSION_COOKIE)
        tried = await run_in_threadpool(self._try, name, form.get("password", ""), address, replaced)
        if not tried.token:
            response = await run_in_threadpool(self._form, request, back, tried.status, tried.message, name)
            if tried.wait_seconds:
                response.headers["retry-after"] = str(int(tried.wait_seconds) + 1)
            response.background = self._noting(tried)
            return response
        response = RedirectResponse(back, 303)
        set_cookie(response, request, SESSION_COOKIE, tried.token)
        set_cookie(response, request, CSRF_COOKIE, new_csrf_token())
        return response

    def _noting(self, tried: Tried) -> BackgroundTask | None:
        """The entry of a failed login, written once it is answered: the time of the answer must not tell of the name.

        A name that nobody has gets none: strangers could fill the trail.
        """
        if not tried.known_as:
            return None
        return BackgroundTask(self._audit.append, "nobody", Action.LOGIN_FAILED, tried.known_as)

    def _try(self, name: str, password: str, address: str, replaced: str) -> Tried:
        user, refused = self._checked(name, password, address)
        if user is None:
            return refused
        self._audit.append(user.user_id, Action.LOGIN)
        self._metrics.count("ok")
        return Tried(self._sessions.open(user, replaced))

    def _checked(self, name: str, password: str, address: str) -> tuple[User | None, Tried]:
        """The user of this name and password, within the bounds of trying; or None and the refusal."""
        wait = self._limits.take(name, address)
        if wait:
            self._metrics.count("limited")
            return None, Tried("", 429, f"Too many tries. Wait {int(wait // 60) + 1} minutes.", wait)
        with self._one_of_few() as free:
            if not free:
                self._metrics.count("busy")
                return None, Tried("", 503, "Too many people log in at once. Try again in a moment.", 5.0)
            user, known_as = accounts.check(self._engine, name, password, self._cost)
        if user is None:
            self._metrics.count("wrong")
            return None, Tried("", 401, "Name or password is wrong.", known_as=known_as)
        self._limits.forgive(name, address)
        return user, Tried()

    @contextmanager
    def _one_of_few(self) -> Iterator[bool]:
        free = self._hashing.acquire(timeout=HASH_WAIT_SECONDS)
        try:
            yield free
        finally:
            if free:
                self._hashing.release()

    async def log_out(self, request: Request) -> Response:
        await read_form(request)
        await run_in_threadpool(self._sessions.end, principal_of(request).session)
        response = RedirectResponse("/login", 303)
        remove_cookie(response, request, SESSION_COOKIE)
        return response

    # The own account

    def account(self, request: Request) -> Response:
        return self._account(request)

    def _account(self, request: Request, status: int = 200, message: str = "") -> Response:
        with reader(self._engine).connect() as connection:
            user = accounts.by_id(connection, principal_of(request).actor)
        context = {"user": user, "message": message, "done": request.query_params.get("done", "") == "password"}
        return self._page(request, "account.html", context, status)

    async def change_password(self, request: Request) -> Response:
        form = await read_form(request)
        address = request.client.host if request.client else ""
        return await run_in_threadpool(self._change_password, request, form, address)

    def _change_password(self, request: Request, form: Mapping[str, str], address: str) -> Response:
        """The old password is asked for again: a browser left open must not be enough to take the account."""
        who = principal_of(request)
        if form.get("new", "") != form.get("again", ""):
            return self._account(request, 400, "The new password and its repetition differ.")
        user, refused = self._checked(who.name, form.get("old", ""), address)
        if user is None:
            response = self._account(request, refused.status, refused.message)
            response.background = self._noting(refused)
            return response
        try:
            accounts.change(self._engine, who.name, self._now(), password=form.get("new", ""), cost=self._cost)
        except passwords.Unfit as error:
            return self._account(request, 400, f"Nothing was changed: {error}.")
        response = RedirectResponse(href("/account", done="password"), 303)
        set_cookie(response, request, SESSION_COOKIE, self._sessions.open(user))  # the others have ended
        return response


_NEVER_BACK_TO = ("/login", "/login/oidc", "/login/oidc/callback", "/logout")


def own_path(text: str) -> str:
    """*text* when it is a path of this console, else "/": nobody is led elsewhere after logging in."""
    plain = text.isascii() and text.isprintable() and " " not in text and "\\" not in text
    if not plain or not text.startswith("/") or text.startswith("//"):
        return "/"
    parts = urlsplit(text)
    return "/" if parts.scheme or parts.netloc or parts.path in _NEVER_BACK_TO else text


def _came_from_elsewhere(request: Request) -> bool:
    """A link in a mail or chat: browsers leave SameSite=Strict cookies out of that one request, so that somebody who
    is logged in seems not to be. A page of ours that opens the same address again settles it."""
    headers = request.headers
    return (
        request.method == "GET"
        and headers.get("sec-fetch-site", "") in ("cross-site", "same-site")
        and headers.get("sec-fetch-mode", "") == "navigate"
        and not cookie(request, SESSION_COOKIE)
    )
