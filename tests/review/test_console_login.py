"""Logging in: with a user nothing is shown without a session, and what each role reads is what it may."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from console_people import KEY, NOW, ORIGIN, PASSWORD, TLS_ORIGIN, Console, csrf_of, log_in, send
from sqlalchemy import Engine, func, insert, select, update
from starlette.testclient import TestClient

from groundwatch_collector import storage
from groundwatch_collector.ragtrace import Citation, Document
from groundwatch_collector.tables import feedback
from groundwatch_review import accounts, audit
from groundwatch_review import candidates as store
from groundwatch_review.audit import Action, AuditLog
from groundwatch_review.console import ConsoleConfig
from groundwatch_review.console.access import RULES, Permission
from groundwatch_review.console.guard import CSRF_COOKIE, SESSION_COOKIE
from groundwatch_review.console.login import own_path
from groundwatch_review.console.login_limits import TRIES
from groundwatch_review.tables import audit_log, candidates, console_users
from groundwatch_scorer.judgement import (
    AnnotatorKind,
    Assessment,
    ClaimVerdict,
    Evidence,
    FaultFinding,
    FaultLayer,
    Verdict,
)

CANARY = "mia.canary@personal.example"


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """One kind is enough here; what is stored is tested on both in test_audit and test_accounts."""
    return f"sqlite:///{tmp_path / 'groundwatch.db'}"


@pytest.fixture
def console(engine: Engine) -> Console:
    return Console(engine)


# Whether anybody has to log in


def test_without_users_this_machine_needs_no_login_and_each_page_says_so(console, world):
    page = console.browser().get("/").text
    assert "No login: no user was made, and this console listens on this machine only." in page
    assert "Log in" not in page


def test_with_the_first_user_everybody_has_to_log_in_at_once(console, world):
    browser = console.browser()
    assert browser.get("/traces").status_code == 200
    console.user("anna", "admin")
    found = browser.get("/traces")
    assert found.status_code == 401
    assert "manual-assistant" not in found.text
    assert 'name="password"' in found.text


def test_a_console_that_others_reach_needs_a_login_although_there_is_no_user(console, world):
    found = console.browser(console.made(login_always=True, registry=None)).get("/")
    assert found.status_code == 401
    assert "There is no user yet" in found.text
    assert "manual-assistant" not in found.text


def test_nothing_but_the_form_its_files_and_the_health_is_open(console, world):
    console.user("anna", "admin")
    browser = console.browser()
    open_to_all = {line for line, rule in RULES.items() if rule.needs is Permission.PUBLIC}
    files = {("GET", "/healthz"), ("GET", "/static")}
    sso = {("GET", "/login/oidc"), ("GET", "/login/oidc/callback")}
    assert open_to_all == {*files, ("GET", "/login"), ("POST", "/login"), *sso}
    for path in ("/nope", "/traces/" + world.failed[0], "/candidates", "/review", "/users", "/audit", "/account"):
        assert browser.get(path).status_code == 401, path
    assert browser.get("/api/overview").json() == {"error": "log in first"}
    for method, path in RULES:
        if method == "POST" and path != "/login":
            assert browser.post(path, headers={"origin": ORIGIN}).status_code == 401, path


# Logging in and out


def test_a_login_leads_back_to_what_was_asked_for(console, world):
    console.user("anna", "admin")
    browser = console.browser()
    page = browser.get("/traces?verdict=fail").text
    back = re.search(r'name="next" value="([^"]*)"', page)
    assert back is not None
    found = log_in(browser, "anna", next=back[1])
    assert (found.status_code, found.headers["location"]) == (303, "/traces?verdict=fail")
    assert browser.get("/traces?verdict=fail").status_code == 200


@pytest.mark.parametrize("name", ["anna", "nobody", ""])
def test_a_wrong_name_and_a_wrong_password_get_the_same_answer(console, name):
    console.user("anna", "admin")
    found = log_in(console.browser(), name, "wrong horse battery")
    assert found.status_code == 401
    assert "Name or password is wrong." in found.text
    assert SESSION_COOKIE not in found.headers.get("set-cookie", "")
    assert console.logins() == {"wrong": 1}


def test_the_answer_to_a_wrong_password_does_not_wait_for_the_trail(console, monkeypatch):
    """A commit takes milliseconds, and only a name that exists has one: it must come after the answer."""
    console.user("anna", "admin")
    browser = console.browser()
    browser.get("/login")
    order = []
    append = AuditLog.append

    def noting(*arguments: Any, **named: Any) -> int:
        order.append("trail")
        return append(*arguments, **named)

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body"):
                order.append("answer")
            await send(message)

        await console.app(scope, receive, sending)

    monkeypatch.setattr(AuditLog, "append", noting)
    stranger = TestClient(watched, base_url=ORIGIN, cookies=browser.cookies)
    form = {"csrf": csrf_of(browser), "name": "anna", "password": "wrong"}
    assert stranger.post("/login", data=form, headers={"origin": ORIGIN}).status_code == 401
    assert order == ["answer", "trail"]


def test_the_session_cookie_is_out_of_reach_of_scripts_other_sites_and_plain_http(console):
    console.user("anna", "admin")
    plain = log_in(console.browser(), "anna").headers.get_list("set-cookie")
    session = next(cookie for cookie in plain if cookie.startswith(SESSION_COOKIE))
    assert "HttpOnly" in session
    assert "SameSite=strict" in session
    assert "Max-Age" not in session  # it ends with the browser
    over_tls = console.browser(
        console.made(ConsoleConfig(allowed_hosts=("desk.example",)), registry=None), TLS_ORIGIN
    )
    cookies = log_in(over_tls, "anna").headers.get_list("set-cookie")
    assert len(cookies) == 2
    for cookie in cookies:
        assert cookie.startswith("__Host-")
        assert "Secure" in cookie
        assert "Path=/" in cookie
        assert "Domain" not in cookie


def test_behind_a_proxy_with_tls_cookies_are_secure_whatever_the_proxy_says(console):
    console.user("anna", "admin")
    config = ConsoleConfig(allowed_hosts=("desk.example",), tls_in_front=True)
    browser = console.browser(console.made(config, registry=None), "http://desk.example")
    cookie = browser.get("/login").headers["set-cookie"]
    assert cookie.startswith("__Host-")
    assert "Secure" in cookie


def test_a_login_gives_a_new_session_and_a_new_form_token(console):
    console.user("anna", "admin")
    browser = console.browser()
    planted = "p" * 43
    browser.cookies.set(SESSION_COOKIE, planted, "127.0.0.1")
    browser.cookies.set(CSRF_COOKIE, planted, "127.0.0.1")
    log_in(browser, "anna")
    assert planted not in (browser.cookies[SESSION_COOKIE], browser.cookies[CSRF_COOKIE])
    assert browser.get("/account").status_code == 200


def test_a_cookie_from_before_logging_out_opens_nothing(console, world):
    browser = console.logged_in("anna", "admin")
    held = browser.cookies[SESSION_COOKIE]
    assert send(browser, "/logout").status_code == 303
    assert SESSION_COOKIE not in browser.cookies
    replayed = console.browser()
    replayed.cookies.set(SESSION_COOKIE, held)
    assert replayed.get("/").status_code == 401


def test_idle_sessions_and_long_ones_end(console, world):
    browser = console.logged_in("anna", "admin")
    for _half_hour in range(23):
        console.now += 1800
        assert browser.get("/account").status_code == 200
    console.now += 1800
    assert browser.get("/account").status_code == 401
    log_in(browser, "anna")
    console.now += 3600
    assert browser.get("/account").status_code == 401


def test_guessing_is_stopped_counted_and_says_when_to_come_again(console):
    console.user("anna", "admin")
    browser = console.browser()
    for _try in range(TRIES["pair"]):
        assert log_in(browser, "anna", "wrong horse battery").status_code == 401
    found = log_in(browser, "anna")  # the right one: too late
    assert found.status_code == 429
    assert int(found.headers["retry-after"]) > 800
    assert console.logins() == {"wrong": 5, "limited": 1}
    console.now += 901
    assert log_in(browser, "anna").status_code == 303


def test_a_form_of_another_site_logs_nobody_in(console):
    console.user("anna", "admin")
    browser = console.browser()
    browser.get("/login")
    fields = {"name": "anna", "password": PASSWORD, "csrf": csrf_of(browser)}
    for headers, change in (
        ({}, {}),
        ({"origin": "https://evil.example"}, {}),
        ({"origin": ORIGIN}, {"csrf": "x" * 43}),
    ):
        found = browser.post("/login", data={**fields, **change}, headers=headers)
        assert found.status_code == 403
        assert SESSION_COOKIE not in browser.cookies


def test_a_link_in_a_mail_opens_for_who_is_logged_in(console, world):
    """Browsers leave the Strict cookie out of that first request; a page of ours opens the address again."""
    console.user("anna", "admin")
    elsewhere = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    found = console.browser().get("/traces?verdict=fail", headers=elsewhere)
    assert found.status_code == 401
    assert '<meta http-equiv="refresh" content="0;url=/traces?verdict=fail">' in found.text
    assert "manual-assistant" not in found.text


@pytest.mark.parametrize(
    "text",
    ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "/a\nb", "", "/login", "/é"],
)
def test_nobody_is_led_elsewhere_after_logging_in(text):
    assert own_path(text) == "/"


@pytest.mark.parametrize("text", ["/", "/traces?q=a%20b&verdict=fail", "/traces/" + "0" * 32])
def test_own_addresses_are_kept(text):
    assert own_path(text) == text


# The own password


def test_the_own_password_is_changed_with_the_present_one_and_other_sessions_end(console):
    browser = console.logged_in("anna", "admin")
    other = console.browser()
    log_in(other, "anna")
    new = {"new": "another horse battery", "again": "another horse battery"}
    assert send(browser, "/account/password", old="wrong horse battery", **new).status_code == 401
    differ = send(browser, "/account/password", old=PASSWORD, new="another horse", again="another hors")
    assert "differ" in differ.text
    short = send(browser, "/account/password", old=PASSWORD, new="short", again="short")
    assert "5 characters; accepted: 12 to 256" in short.text
    assert other.get("/account").status_code == 200
    assert send(browser, "/account/password", old=PASSWORD, **new).status_code == 303
    assert browser.get("/account").status_code == 200
    assert other.get("/account").status_code == 401
    assert log_in(console.browser(), "anna", "another horse battery").status_code == 303


# Users


def test_an_admin_makes_changes_and_removes_users(console):
    admin = console.logged_in("anna", "admin")
    page = send(admin, "/users", name="Bo", role_exporter="yes", holdout="yes").text
    password = re.search(r'<code class="secret">([^<]+)</code>', page)
    assert password is not None
    bo = console.browser()
    assert log_in(bo, "bo", password[1]).status_code == 303
    assert password[1] not in admin.get("/users").text
    with console.engine.connect() as connection:
        user = accounts.find(connection, "bo")
    assert user is not None
    assert (user.roles, user.holdout) == ((accounts.Role.EXPORTER,), True)
    assert bo.get("/users").status_code == 403
    assert send(admin, f"/users/{user.user_id}", role_viewer="yes").status_code == 303
    assert bo.get("/").status_code == 401  # the session ended with the change
    reset = re.search(r'secret">([^<]+)<', send(admin, f"/users/{user.user_id}", what="password").text)
    assert reset is not None
    assert log_in(bo, "bo", reset[1]).status_code == 303
    assert send(admin, f"/users/{user.user_id}/remove").status_code == 303
    assert bo.get("/").status_code == 401
    with console.engine.connect() as connection:
        assert [user.name for user in accounts.listed(connection)] == ["anna"]
    assert [action for action in actions(console) if action.startswith("user_")] == [
        "user_added",
        "user_changed",
        "user_changed",
        "user_removed",
    ]


def actions(console: Console) -> list[str]:
    with console.engine.connect() as connection:
        return [entry.action for entry in audit.newest(connection, limit=1000)][::-1]


def test_no_admin_locks_himself_out(console):
    anna = console.user("anna", "admin")
    admin = console.browser()
    log_in(admin, "anna")
    assert send(admin, f"/users/{anna.user_id}/remove").status_code == 400
    assert "last admin" in send(admin, f"/users/{anna.user_id}", role_viewer="yes").text
    assert admin.get("/users").status_code == 200
    assert send(admin, "/users/rv_0123456789abcdef", role_viewer="yes").status_code == 404


def test_without_users_nobody_makes_one_by_a_click(console):
    browser = console.browser()
    assert browser.get("/users").status_code == 403
    assert send(browser, "/users", name="mallory", role_admin="yes").status_code == 403
    with console.engine.connect() as connection:
        assert not accounts.exist(connection)


# What each role reads


@pytest.fixture
def canary(engine: Engine, add_trace: Callable[..., str]) -> str:
    """A trace with personal data in every text of it, judged to fail, complained about."""
    document = Document(f"file-{CANARY}.pdf", 1, 0.9, f"{CANARY} signed.", title=f"Mail of {CANARY}")
    quote = Evidence(document.id, 0, len(CANARY), CANARY)
    answer = f"The contact is {CANARY}."
    claim = ClaimVerdict(answer, 0, len(answer), Verdict.SUPPORTED, 0.9, f"says {CANARY}", (quote,))
    trace_id = str(
        add_trace(
            query=f"who is {CANARY}?",
            rewritten_query=f"person {CANARY}",
            answer=answer,
            candidates=(document,),
            reranked=(document,),
            context=(document,),
            citations=(Citation(document.id, f"[{CANARY}]"),),
            error_class=CANARY,
            outcome_reason=CANARY,
            session=CANARY,
            user_hash=CANARY,
            judged=Assessment("llm:x", AnnotatorKind.LLM, (claim,), explanation=f"it names {CANARY}"),
            finding=FaultFinding(FaultLayer.GENERATION, 0.9, f"because of {CANARY}", (quote,)),
        )
    )
    with engine.begin() as connection:
        values = {"name": "thumbs", "sentiment": "negative", "label": CANARY, "comment": f"ask {CANARY}"}
        row = {"feedback_id": "f1", "trace_id": trace_id, "received_at": NOW, "position": 0, **values}
        connection.execute(insert(feedback).values(row))
    return trace_id


def pages_of(trace_id: str, candidate_id: str = "") -> list[str]:
    """Every page of the table of permissions that can be opened, for this trace."""
    named = {"{trace_id}": trace_id, "{candidate_id}": candidate_id}
    elsewhere = ("/static", "/views", "/login/oidc")  # files; and what only leads to other pages
    paths = [path for method, path in RULES if method == "GET" and not path.startswith(elsewhere)]
    filled = []
    for path in paths:
        whole = f"/compare?a={trace_id}&b={trace_id}" if path == "/compare" else path
        filled.append(re.sub(r"\{\w+\}", lambda found: named[found[0]], whole))
    return filled


@pytest.mark.parametrize("role", ["viewer", "exporter"])
def test_who_may_not_read_raw_text_finds_none_on_any_page(console, canary, role):
    browser = console.logged_in("vi", role)
    candidate_id = made_candidate(console.engine, canary)
    for path in pages_of(canary, candidate_id):
        assert "canary" not in browser.get(path).text, path
    assert console.trail(Action.RAW_VIEW, Action.RAW_LIST) == []
    assert browser.get(f"/traces/{canary}/raw").status_code == 403
    assert browser.get("/review").status_code == 403


def made_candidate(engine: Engine, trace_id: str) -> str:
    from groundwatch_review import desk

    if hasattr(desk, "confirm"):
        desk.confirm(engine, trace_id, "generation", f"by {CANARY}", "rv_0123456789abcdef", NOW)
    return store.create(engine, trace_id, b"k" * 32, NOW)


def test_a_redacted_page_still_says_what_happened(console, canary):
    page = console.logged_in("vi", "viewer").get(f"/traces/{canary}").text
    assert "Texts are redacted." in page
    assert "[[EMAIL_1]]" in page
    assert "Show them as they were written" not in page
    assert 'class="claim claim-supported"' in page  # the claim is found again in the redacted answer


def test_a_search_tells_a_viewer_nothing_of_the_raw_text(console, canary):
    """Otherwise letter after letter could be asked for."""
    viewer, reviewer = console.logged_in("vi", "viewer"), console.logged_in("re", "reviewer")
    for browser, hits in ((viewer, {True}), (reviewer, {True, False})):
        found = {f"/traces/{canary}" in browser.get(f"/traces?q={q}").text for q in ("mia.canary", "zoe.canary")}
        assert found == hits


def test_each_raw_view_has_exactly_one_entry_before_the_text_leaves(console, canary):
    browser = console.logged_in("re", "reviewer")
    with console.engine.connect() as connection:
        user = accounts.find(connection, "re")
    assert user is not None
    name = AuditLog(console.engine, KEY, lambda: NOW).name(canary)
    seen = 0
    for path in pages_of(canary):
        found = browser.get(path)
        seen += CANARY in found.text
        assert console.trail(Action.RAW_VIEW) == [(user.user_id, name)] * seen, path
    assert seen == 2  # the raw page and the desk


def test_a_reviewer_sees_raw_text_after_one_more_click(console, canary):
    browser = console.logged_in("re", "reviewer")
    page = browser.get(f"/traces/{canary}").text
    assert CANARY not in page
    assert f'href="/traces/{canary}/raw"' in page
    assert CANARY in browser.get(f"/traces/{canary}/raw").text


def test_without_a_login_raw_views_are_in_the_trail_too(console, canary):
    browser = console.browser()
    name = AuditLog(console.engine, KEY, lambda: NOW).name(canary)
    assert CANARY in browser.get(f"/traces/{canary}").text
    assert console.trail(Action.RAW_VIEW) == [("local", name)]
    assert CANARY in browser.get("/traces").text
    assert console.trail(Action.RAW_LIST) == [("local", "")]


def test_without_an_entry_no_raw_text_leaves(console, canary):
    with console.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE audit_log")
    browser = TestClient(console.app, base_url=ORIGIN, raise_server_exceptions=False)
    found = browser.get(f"/traces/{canary}")
    assert found.status_code == 500
    assert CANARY not in found.text


def test_a_verdict_carries_the_identifier_of_who_is_logged_in_whatever_the_browser_says(console, canary):
    browser = console.logged_in("re", "reviewer")
    with console.engine.connect() as connection:
        user = accounts.find(connection, "re")
    assert user is not None
    browser.cookies.set("groundwatch_reviewer", "rv_ffffffffffffffff")
    assert send(browser, f"/traces/{canary}/decision", decision="reject").status_code == 303
    assert console.trail(Action.VERDICT)[0][0] == user.user_id
    with console.engine.connect() as connection:
        from groundwatch_review.tables import reviews

        assert connection.scalar(select(reviews.c.reviewer)) == user.user_id


# The hold-out set


@pytest.fixture
def holdout(console: Console, canary: str) -> str:
    """A candidate of the hold-out set; its question is told by a word that redaction leaves."""
    candidate_id = made_candidate(console.engine, canary)
    with console.engine.begin() as connection:
        document = orjson.loads(connection.scalar(select(candidates.c.document)) or "{}")
        document |= {"split": "HOLDOUT"}
        document["question"]["text"] = "a heldoutquestion"
        values = {"document": orjson.dumps(document).decode(), "redaction_status": "REDACTED"}
        connection.execute(update(candidates).values(values))
    return candidate_id


@pytest.mark.parametrize(
    ("roles", "grant", "may"),
    [
        (["viewer"], False, False),
        (["exporter"], False, False),
        (["exporter"], True, True),
        (["viewer"], True, True),
        (["reviewer"], False, True),
        (["admin"], False, True),
    ],
)
def test_the_hold_out_set_is_read_with_its_own_permission_only(console, holdout, roles, grant, may):
    browser = console.logged_in("ex", *roles, holdout=grant)
    found = [browser.get(path) for path in ("/candidates", f"/candidates/{holdout}")]
    assert [("heldoutquestion" in page.text) for page in found] == [may, may]
    assert found[1].status_code == (200 if may else 403)
    if Permission.EXPORT.value in roles or roles == ["exporter"]:
        exported = send(browser, "/candidates/export")
        assert exported.status_code == 200
        assert "heldoutquestion" not in exported.text  # it is never part of the download


def test_a_candidate_whose_redaction_is_in_doubt_is_for_those_who_may_read_raw_text(console, holdout):
    with console.engine.begin() as connection:
        connection.execute(update(candidates).values(redaction_status="BLOCKED"))
    exporter = console.logged_in("ex", "exporter", holdout=True)
    reviewer = console.logged_in("re", "reviewer")
    assert exporter.get(f"/candidates/{holdout}").status_code == 403
    assert "heldoutquestion" not in exporter.get("/candidates").text
    assert reviewer.get(f"/candidates/{holdout}").status_code == 200


def test_no_page_offers_what_its_reader_may_not_do(console, canary):
    candidate_id = made_candidate(console.engine, canary)
    offers = {
        "/": 'class="call" href="/review',
        "/labels": 'href="/review',
        "/candidates": 'action="/candidates/export"',
        f"/candidates/{candidate_id}": f'action="/candidates/{candidate_id}/decision"',
        f"/traces/{canary}": f'href="/traces/{canary}/raw"',
    }
    with console.engine.begin() as connection:
        document = orjson.loads(connection.scalar(select(candidates.c.document)) or "{}") | {"split": "DEV"}
        values = {"document": orjson.dumps(document).decode(), "redaction_status": "REDACTED"}
        connection.execute(update(candidates).values(values))
    offered = {
        "viewer": set(),
        "exporter": {"/candidates"},
        "reviewer": set(offers) - {"/candidates"},
        "admin": set(offers),
    }
    for role, expected in offered.items():
        browser = console.logged_in(f"a-{role}", role)
        assert {path for path, form in offers.items() if form in browser.get(path).text} == expected, role


# The trail's page


def test_the_page_of_the_trail_tells_who_and_finds_by_identifier(console, canary):
    reviewer = console.logged_in("re", "reviewer")
    reviewer.get(f"/traces/{canary}/raw")
    admin = console.logged_in("anna", "admin")
    page = admin.get(f"/audit?about={canary}").text
    assert "The chain is whole" in page
    assert page.count("raw view") >= 1
    assert ">re<" in page
    assert canary not in page.replace(f'value="{canary}"', "")
    assert "No entry matches" in admin.get("/audit?about=" + "f" * 32).text


def test_the_page_of_the_trail_names_the_first_broken_link(console):
    admin = console.logged_in("anna", "admin")
    for _view in range(3):
        admin.get("/nope")
        send(admin, "/users", name="!", role_admin="yes")
    with console.engine.begin() as connection:
        connection.exec_driver_sql("DROP TRIGGER audit_log_no_update")
        connection.execute(update(audit_log).where(audit_log.c.seq == 2).values(actor="rv_0"))
    assert "The chain is broken at entry 2:" in admin.get("/audit").text


def test_the_trail_is_paged(console):
    log = AuditLog(console.engine, KEY, lambda: NOW)
    for number in range(230):
        log.append("local", Action.RAW_VIEW, f"{number:032x}")
    browser = console.browser()
    path, found = "/audit", []
    while path:
        page = browser.get(path).text
        found += [int(n) for n in re.findall(r'<td class="num">(\d+)</td>', page)]
        link = re.search(r'rel="next" href="([^"]+)"', page)
        path = link[1].replace("&amp;", "&") if link else ""
    assert found == list(range(230, 0, -1))


def test_the_trail_holds_no_personal_text(console, canary):
    """After everything that writes to it."""
    reviewer = console.logged_in("mia.canary", "reviewer", "admin", "exporter")
    for path in pages_of(canary):
        reviewer.get(path)
    send(reviewer, f"/traces/{canary}/decision", decision="confirm", fault_layer="generation", note=CANARY)
    send(reviewer, "/candidates/export")
    log_in(console.browser(), "mia.canary", CANARY)
    log_in(console.browser(), CANARY, CANARY)
    send(reviewer, "/users", name=CANARY, role_viewer="yes")
    send(reviewer, "/logout")
    with storage.reader(console.engine).connect() as connection:
        assert (connection.scalar(select(func.count()).select_from(audit_log)) or 0) >= 8
        assert connection.scalar(select(func.count()).select_from(console_users)) == 2
        rows = str(connection.execute(select(audit_log)).all())
    assert "canary" not in rows
    assert canary not in rows
