"""The pages of administrators: users and their roles, and the audit trail."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlalchemy import Engine
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from groundwatch_collector.storage import reader

from .. import accounts, audit, passwords
from ..accounts import Role, User
from ..audit import Action, AuditLog, Entry
from .access import principal_of
from .guard import read_form
from .rendering import Page

ENTRIES_OF_ONE_PAGE = 100
_ENTRY_NUMBER = re.compile(r"[0-9]{1,9}")  # what fits the column
CHECKED_AT_MOST = 20_000
"""Entries of a trail that a page view checks; a longer one is checked by `groundwatch audit verify`."""


@dataclass(frozen=True, slots=True)
class EntryRow:
    entry: Entry
    who: str  # the name behind the actor, or the actor


class Administration:
    def __init__(
        self,
        engine: Engine,
        log: AuditLog,
        audit_key: bytes,
        page: Page,
        *,
        now: Callable[[], float],
        cost: passwords.Cost,
    ) -> None:
        self._engine = engine
        self._log = log
        self._key = audit_key
        self._page = page
        self._now = now
        self._cost = cost

    def routes(self) -> list[Route]:
        return [
            Route("/users", self.users),
            Route("/users", self.add, methods=["POST"]),
            Route("/users/{user_id}", self.change, methods=["POST"]),
            Route("/users/{user_id}/remove", self.remove, methods=["POST"]),
            Route("/audit", self.trail),
        ]

    # Users

    def users(self, request: Request) -> Response:
        return self._users(request)

    def _users(self, request: Request, status: int = 200, **shown: str) -> Response:
        with reader(self._engine).connect() as connection:
            users = accounts.listed(connection)
        context = {"users": users, "roles": tuple(Role), "message": "", "name": "", "password": "", **shown}
        return self._page(request, "users.html", context, status)

    async def add(self, request: Request) -> Response:
        form = await read_form(request)
        return await run_in_threadpool(self._add, request, form)

    def _add(self, request: Request, form: Mapping[str, str]) -> Response:
        name, password = form.get("name", "").strip().lower(), passwords.new_password()
        roles, holdout = _roles(form), form.get("holdout") == "yes"
        try:
            accounts.add(self._engine, name, roles, password, self._now(), holdout=holdout, cost=self._cost)
        except accounts.Unacceptable as error:
            return self._users(request, 400, message=f"Nothing was changed: {error}.")
        return self._users(request, name=name, password=password)

    async def change(self, request: Request) -> Response:
        form = await read_form(request)
        return await run_in_threadpool(self._change, request, form)

    def _change(self, request: Request, form: Mapping[str, str]) -> Response:
        user = self._known(request)
        if form.get("what") == "password":
            password = passwords.new_password()
            accounts.change(self._engine, user.name, self._now(), password=password, cost=self._cost)
            return self._users(request, name=user.name, password=password)
        try:
            holdout = form.get("holdout") == "yes"
            accounts.change(self._engine, user.name, self._now(), roles=_roles(form), holdout=holdout)
        except accounts.Unacceptable as error:
            return self._users(request, 400, message=f"Nothing was changed: {error}.")
        return RedirectResponse("/users", 303)

    async def remove(self, request: Request) -> Response:
        await read_form(request)
        return await run_in_threadpool(self._remove, request)

    def _remove(self, request: Request) -> Response:
        user = self._known(request)
        if user.user_id == principal_of(request).actor:
            return self._users(request, 400, message="Nothing was changed: nobody removes himself.")
        try:
            accounts.remove(self._engine, user.name)
        except accounts.Unacceptable as error:
            return self._users(request, 400, message=f"Nothing was changed: {error}.")
        return RedirectResponse("/users", 303)

    def _known(self, request: Request) -> User:
        with reader(self._engine).connect() as connection:
            user = accounts.by_id(connection, str(request.path_params["user_id"])[:40])
        if user is None:
            raise HTTPException(404, "No user with this identifier is here.")
        return user

    # The audit trail

    def trail(self, request: Request) -> Response:
        asked = request.query_params
        action = asked.get("action", "") if asked.get("action", "") in set(Action) else ""
        about = asked.get("about", "").strip()[:64]
        before = int(asked["before"]) if _ENTRY_NUMBER.fullmatch(asked.get("before", "")) else None
        with reader(self._engine).connect() as connection:
            found = audit.newest(
                connection,
                before=before,
                limit=ENTRIES_OF_ONE_PAGE + 1,
                about=self._log.name(about) if about else "",
                actions=[action] if action else (),
            )
            newest = audit.newest(connection, limit=1)
            names = accounts.names(connection, {entry.actor for entry in found})
        entries = newest[0].seq if newest else 0
        context = {
            "rows": [EntryRow(entry, names.get(entry.actor, entry.actor)) for entry in found[:ENTRIES_OF_ONE_PAGE]],
            "older": found[ENTRIES_OF_ONE_PAGE - 1].seq if len(found) > ENTRIES_OF_ONE_PAGE else "",
            "actions": tuple(Action),
            "action": action,
            "about": about,
            "first_page": before is None,
            "entries": entries,
            "checked": audit.verify(self._engine, self._key) if entries <= CHECKED_AT_MOST else None,
        }
        return self._page(request, "audit.html", context)


def _roles(form: Mapping[str, str]) -> list[str]:
    return [role for role in Role if form.get(f"role_{role}") == "yes"]
