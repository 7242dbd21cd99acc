"""Who may do what, in one table: every route has one line here, and a route without a line is denied.

The check stands in front of the whole application. A handler is not reached by anybody who may not use it, and no
handler checks a role by itself; what differs inside a page (raw or redacted text) asks the principal of the request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..accounts import Role, User
from ..audit import Action
from .guard import Forbidden, check_origin

logger = logging.getLogger(__name__)


class Permission(StrEnum):
    PUBLIC = "public"  # nobody has to log in
    ACCOUNT = "account"  # whoever is logged in: the own password, logging out
    READ = "read"  # figures, and texts after redaction
    READ_RAW = "read_raw"  # texts as users wrote them; each view is in the audit trail
    READ_HOLDOUT = "read_holdout"  # candidates of the hold-out set
    DECIDE = "decide"
    EXPORT = "export"
    READ_AUDIT = "read_audit"
    MANAGE_USERS = "manage_users"


_VIEWER = frozenset({Permission.PUBLIC, Permission.ACCOUNT, Permission.READ})

PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    Role.VIEWER: _VIEWER,
    # A reviewer reads the raw trace behind a hold-out candidate and ticks its redacted text: nothing is left to hide.
    Role.REVIEWER: _VIEWER | {Permission.READ_RAW, Permission.READ_HOLDOUT, Permission.DECIDE},
    Role.EXPORTER: _VIEWER | {Permission.EXPORT},
    Role.ADMIN: frozenset(Permission),
}


@dataclass(frozen=True, slots=True)
class Rule:
    """What a route needs, and as what its use is written to the audit trail before it runs."""

    needs: Permission
    audit: Action | None = None
    about: str = ""  # path parameter that names the object of the entry
    for_anybody: bool = False  # the same whoever asks, so that nobody's session is looked up for it


RULES: Mapping[tuple[str, str], Rule] = {
    ("GET", "/healthz"): Rule(Permission.PUBLIC, for_anybody=True),
    ("GET", "/static"): Rule(Permission.PUBLIC, for_anybody=True),
    ("GET", "/"): Rule(Permission.READ),
    ("GET", "/api/overview"): Rule(Permission.READ),
    ("GET", "/versions"): Rule(Permission.READ),
    ("GET", "/compare"): Rule(Permission.READ),
    ("GET", "/objectives"): Rule(Permission.READ),
    ("GET", "/alerts"): Rule(Permission.READ),  # its older address
    ("GET", "/traces"): Rule(Permission.READ),
    ("GET", "/traces/{trace_id}"): Rule(Permission.READ),
    ("GET", "/traces/{trace_id}/raw"): Rule(Permission.READ_RAW),
    ("POST", "/views"): Rule(Permission.READ),  # written to the trail when the view has its identifier
    ("GET", "/views/{view_id}"): Rule(Permission.READ),
    ("POST", "/views/{view_id}/remove"): Rule(Permission.READ, Action.VIEW_REMOVED, "view_id"),
    ("POST", "/traces/{trace_id}/decision"): Rule(Permission.DECIDE, Action.VERDICT, "trace_id"),
    ("GET", "/review"): Rule(Permission.DECIDE),
    ("GET", "/labels"): Rule(Permission.READ),
    ("GET", "/candidates"): Rule(Permission.READ),
    ("GET", "/candidates/{candidate_id}"): Rule(Permission.READ),
    ("POST", "/candidates/{candidate_id}/decision"): Rule(
        Permission.DECIDE, Action.CANDIDATE_DECISION, "candidate_id"
    ),
    ("POST", "/candidates/export"): Rule(Permission.EXPORT, Action.EXPORT),
    ("GET", "/login"): Rule(Permission.PUBLIC),
    ("POST", "/login"): Rule(Permission.PUBLIC),  # written to the trail when it is known who it was
    ("GET", "/login/oidc"): Rule(Permission.PUBLIC),
    ("GET", "/login/oidc/callback"): Rule(Permission.PUBLIC),  # as above
    ("POST", "/logout"): Rule(Permission.ACCOUNT, Action.LOGOUT),
    ("GET", "/account"): Rule(Permission.ACCOUNT),
    ("POST", "/account/password"): Rule(Permission.ACCOUNT, Action.USER_CHANGED),
    ("GET", "/users"): Rule(Permission.MANAGE_USERS),
    ("POST", "/users"): Rule(Permission.MANAGE_USERS, Action.USER_ADDED),
    ("POST", "/users/{user_id}"): Rule(Permission.MANAGE_USERS, Action.USER_CHANGED, "user_id"),
    ("POST", "/users/{user_id}/remove"): Rule(Permission.MANAGE_USERS, Action.USER_REMOVED, "user_id"),
    ("GET", "/audit"): Rule(Permission.READ_AUDIT),
}
"""By method and path of the route. HEAD is GET. A page that shows raw text writes that entry itself."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is behind a request. ``actor`` is a random identifier: records carry it, and never the name."""

    actor: str
    name: str
    permissions: frozenset[Permission]
    everybody: bool = False  # nobody has to log in here
    session: str = ""  # the token that the browser sent

    def may(self, permission: Permission) -> bool:
        return permission in self.permissions


EVERYBODY = Principal("local", "", frozenset(Permission) - {Permission.MANAGE_USERS}, everybody=True)
"""Whoever reaches a console without users that listens on this machine only. The first user is made by whoever may
write the database: of several people on one machine none shall lock out the others by a click."""

NOBODY = Principal("", "", frozenset({Permission.PUBLIC}))


def principal_for(user: User, session: str) -> Principal:
    """*user* with what the roles and the grant of the hold-out set allow."""
    permissions = frozenset().union(*(PERMISSIONS[role] for role in user.roles))
    if user.holdout:
        permissions |= {Permission.READ_HOLDOUT}
    return Principal(user.user_id, user.name, permissions, session=session)


def principal_of(request: Request) -> Principal:
    """Who is behind *request*; nobody where the check was not passed."""
    found = getattr(request.state, "principal", NOBODY)
    return found if isinstance(found, Principal) else NOBODY


class Audit(Protocol):
    """Adds one entry to the audit trail and returns its number."""

    def append(self, actor: str, action: Action, about: str = "", detail: str = "") -> int: ...


@dataclass(frozen=True, slots=True)
class _Asked:
    """The route that will answer. One that is not in the table has a path and no rule: it is denied."""

    path: str = ""  # of the route; "" where no route will answer
    rule: Rule | None = None
    about: str = ""  # the object that the entry in the audit trail names


def _asked(routes: Iterable[BaseRoute], scope: Scope) -> _Asked:
    for route in routes:
        match, child = route.matches(scope)
        if match is Match.FULL:
            path = route.path if isinstance(route, Route | Mount) else "?"
            method = "GET" if scope["method"] == "HEAD" else scope["method"]
            rule = RULES.get((method, path))
            about = child["path_params"].get(rule.about, "") if rule is not None and rule.about else ""
            return _Asked(path, rule, str(about))
    return _Asked()


class Access:
    """ASGI wrapper that lets a request through only with the permission of its route."""

    def __init__(
        self,
        app: ASGIApp,
        routes: Iterable[BaseRoute],
        *,
        who: Callable[[Request], Principal],
        audit: Audit,
        login_needed: Callable[[Request], Response],
        not_allowed: Callable[[Request, str], Response],
    ) -> None:
        self._app = app
        self._routes = tuple(routes)
        self._who = who
        self._audit = audit
        self._login_needed = login_needed
        self._not_allowed = not_allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        asked = _asked(self._routes, scope)
        same = asked.rule is not None and asked.rule.for_anybody
        principal = NOBODY if same else await run_in_threadpool(self._who, request)
        request.state.principal = principal
        refusal = await self._refusal(request, principal, asked)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        if asked.rule is not None and asked.rule.audit is not None:
            number = await run_in_threadpool(self._audit.append, principal.actor, asked.rule.audit, asked.about)
            send = self._noting_refusal(send, principal, asked.about, number)
        await self._app(scope, receive, send)

    async def _refusal(self, request: Request, principal: Principal, asked: _Asked) -> Response | None:
        """The answer of the refusal, or None for who may pass."""
        if asked.path and asked.rule is None:
            logger.error(
                "the route %s %s has no line in the table of permissions; denied", request.method, asked.path
            )
            return self._not_allowed(request, "nobody is allowed to use this page")
        needs = asked.rule.needs if asked.rule is not None else Permission.ACCOUNT  # a wrong address is no secret
        if not principal.may(needs):
            if principal is NOBODY:
                return await run_in_threadpool(self._login_needed, request)
            return self._not_allowed(request, f"this needs the permission {needs.value!r}")
        if request.method not in ("GET", "HEAD", "OPTIONS"):
            try:
                check_origin(request.headers)
            except Forbidden as error:
                return self._not_allowed(request, str(error))
        return None

    def _noting_refusal(self, send: Send, principal: Principal, about: str, number: int) -> Send:
        """The entry was written before the act, so that no act lacks one; what then came to nothing is noted too."""

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 400:
                detail = f"entry {number}: status {message['status']}"
                await run_in_threadpool(self._audit.append, principal.actor, Action.REFUSED, about, detail)
            await send(message)

        return noting
