"""Roles: one table says who may use which route, every route is in it, and what is not in it is denied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, select
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.testclient import TestClient

from groundwatch_review import audit
from groundwatch_review.accounts import Role
from groundwatch_review.audit import Action, AuditLog
from groundwatch_review.console import ConsoleConfig, console_app
from groundwatch_review.console.access import (
    EVERYBODY,
    NOBODY,
    PERMISSIONS,
    RULES,
    Access,
    Permission,
    Principal,
)
from groundwatch_review.console.guard import CSRF_COOKIE
from groundwatch_review.tables import reviews

NOW = 1_790_000_000.0
ORIGIN = "http://127.0.0.1:4390"
KEY = b"a" * 32


@pytest.fixture
def database_url(tmp_path: Any) -> str:
    """One kind is enough here; what is stored is tested on both in test_audit and test_accounts."""
    return f"sqlite:///{tmp_path / 'groundwatch.db'}"


def routes_of(app: Any) -> list[BaseRoute]:
    return list(app._app._routes)  # Guard, then Access


def lines_of(routes: list[BaseRoute]) -> set[tuple[str, str]]:
    found = set()
    for route in routes:
        assert isinstance(route, Route | Mount), f"{route} is a kind of route that the table cannot name"
        methods = (route.methods or {"GET"}) - {"HEAD"} if isinstance(route, Route) else {"GET"}
        found |= {(method, route.path) for method in methods}
    return found


def test_every_route_has_a_line_and_every_line_a_route(engine):
    app = console_app(engine, ConsoleConfig(), now=lambda: NOW)
    assert lines_of(routes_of(app)) == set(RULES)


def login_needed(_request: Request) -> Response:
    return PlainTextResponse("log in", 401)


def not_allowed(_request: Request, why: str) -> Response:
    return PlainTextResponse(why, 403)


def client_of(engine: Engine, routes: list[Route], principal: Principal) -> TestClient:
    """A small application behind the same check."""
    log = AuditLog(engine, KEY, lambda: NOW)
    app = Access(
        Router(routes),
        routes,
        who=lambda _request: principal,
        audit=log,
        login_needed=login_needed,
        not_allowed=not_allowed,
    )
    return TestClient(app, base_url=ORIGIN)


def answer(_request: Request) -> Response:
    return PlainTextResponse("reached")


@pytest.mark.parametrize("principal", [EVERYBODY, Principal("rv_1", "root", PERMISSIONS[Role.ADMIN]), NOBODY])
def test_a_route_without_a_line_is_denied_to_everybody(engine, principal):
    client = client_of(engine, [Route("/new-page", answer)], principal)
    found = client.get("/new-page")
    assert found.status_code == 403
    assert "reached" not in found.text


def test_a_method_without_a_line_is_denied(engine):
    client = client_of(engine, [Route("/traces", answer, methods=["GET", "DELETE"])], EVERYBODY)
    assert client.get("/traces").status_code == 200
    assert client.head("/traces").status_code == 200
    assert client.delete("/traces", headers={"origin": ORIGIN}).status_code == 403


def test_what_is_the_same_for_anybody_is_answered_without_looking_for_a_session(engine):
    def nobody_looks(_request: Request) -> Principal:
        raise AssertionError("a session was looked for")

    app = Access(
        Router([Route(path, answer) for path in ("/healthz", "/static", "/traces")]),
        [Route(path, answer) for path in ("/healthz", "/static", "/traces")],
        who=nobody_looks,
        audit=AuditLog(engine, KEY, lambda: NOW),
        login_needed=login_needed,
        not_allowed=not_allowed,
    )
    client = TestClient(app, base_url=ORIGIN)
    assert [client.get(path).text for path in ("/healthz", "/static")] == ["reached", "reached"]
    with pytest.raises(AssertionError, match="looked for"):
        client.get("/traces")


PATHS = {
    "{user_id}": "rv_0123456789abcdef",
    "{trace_id}": "0" * 31 + "1",
    "{candidate_id}": "rc_" + "0" * 24,
    "{view_id}": "sv_" + "0" * 16,
}


def filled(path: str) -> str:
    for name, value in PATHS.items():
        path = path.replace(name, value)
    assert "{" not in path, f"say in PATHS what stands for the parameter of {path}"
    return path


WHO = {"nobody": NOBODY, "everybody": EVERYBODY} | {
    str(role): Principal(f"rv_{role}", role, PERMISSIONS[role]) for role in Role
}


@pytest.mark.parametrize("who", WHO)
def test_each_role_reaches_what_its_table_says_and_nothing_else(engine, who):
    """The whole matrix: every route by every role, through the real check."""
    routes = [Route(path, answer, methods=[method]) for method, path in RULES]
    client = client_of(engine, routes, WHO[who])
    for (method, path), rule in RULES.items():
        found = client.request(method, filled(path), headers={"origin": ORIGIN})
        if who == "nobody":
            expected = 200 if rule.needs is Permission.PUBLIC else 401
        else:
            expected = 200 if rule.needs in WHO[who].permissions else 403
        assert found.status_code == expected, (method, path)
        assert ("reached" in found.text) == (expected == 200), (method, path)


def test_without_a_login_everything_but_users_is_open():
    assert set(Permission) - EVERYBODY.permissions == {Permission.MANAGE_USERS}


MAY = {
    "viewer": {"read"},
    "reviewer": {"read", "read_raw", "read_holdout", "decide"},
    "exporter": {"read", "export"},
    "admin": {"read", "read_raw", "read_holdout", "decide", "export", "read_audit", "manage_users"},
}


@pytest.mark.parametrize("role", Role)
def test_a_role_holds_these_permissions(role):
    """Written out a second time: a permission that moves is a decision, not an accident."""
    assert {str(p) for p in PERMISSIONS[role]} == MAY[role] | {"public", "account"}


def test_a_write_of_another_site_is_refused_before_any_handler(engine):
    path = "/candidates/export"
    client = client_of(engine, [Route(path, answer, methods=["POST"])], EVERYBODY)
    for headers in ({}, {"origin": "https://evil.example"}, {"origin": ORIGIN, "sec-fetch-site": "cross-site"}):
        assert client.post(path, headers=headers).status_code == 403
    with engine.connect() as connection:
        assert audit.newest(connection) == []  # nor can another site fill the trail


# The trail


@pytest.fixture
def client(engine: Engine) -> Iterator[TestClient]:
    app = console_app(engine, ConsoleConfig(), now=lambda: NOW, candidate_key=b"k" * 32, audit_key=KEY)
    with TestClient(app, base_url=ORIGIN) as found:
        yield found


def post(client: TestClient, path: str, **fields: str) -> Any:
    client.get("/candidates")
    form = {"csrf": client.cookies[CSRF_COOKIE], **fields}
    return client.post(path, data=form, headers={"origin": ORIGIN}, follow_redirects=False)


def trail(engine: Engine) -> list[tuple[str, str]]:
    """(action, about), oldest first, without the views of raw text."""
    with engine.connect() as connection:
        found = [(e.action, e.about) for e in audit.newest(connection)][::-1]
    return [entry for entry in found if not entry[0].startswith("raw_")]


def test_each_verdict_and_each_export_has_exactly_one_entry(client, engine, world):
    trace_id = world.failed[0]
    post(client, f"/traces/{trace_id}/decision", decision="confirm", fault_layer="generation")
    candidate_id = client.get("/candidates").text.partition("/candidates/rc_")[2][:24]
    post(client, f"/candidates/rc_{candidate_id}/decision", decision="confirm", read="yes", revision="1")
    post(client, "/candidates/export")
    name = AuditLog(engine, KEY, lambda: NOW).name
    assert trail(engine) == [
        (Action.VERDICT, name(trace_id)),
        (Action.CANDIDATE_DECISION, name(f"rc_{candidate_id}")),
        (Action.EXPORT, ""),
    ]


def test_an_act_that_came_to_nothing_is_followed_by_its_refusal(client, engine, world):
    trace_id = world.failed[0]
    assert post(client, f"/traces/{trace_id}/decision", decision="perhaps").status_code == 400
    name = AuditLog(engine, KEY, lambda: NOW).name(trace_id)
    assert trail(engine) == [(Action.VERDICT, name), (Action.REFUSED, name)]
    with engine.connect() as connection:
        assert audit.newest(connection, actions=[Action.REFUSED])[0].detail == "entry 1: status 400"
        assert connection.execute(select(reviews)).all() == []


def test_without_an_entry_there_is_no_act(client, engine, world, monkeypatch):
    def broken(*_arguments: Any, **_named: Any) -> int:
        raise RuntimeError("the trail cannot be written")

    monkeypatch.setattr(AuditLog, "append", broken)
    with pytest.raises(RuntimeError, match="trail"):
        post(client, f"/traces/{world.failed[0]}/decision", decision="reject")
    with engine.connect() as connection:
        assert connection.execute(select(reviews)).all() == []
