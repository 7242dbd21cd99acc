"""Logging in with a real browser: cookies as Chromium keeps them, links from elsewhere, every size and scheme."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import browsing
import pytest
from sqlalchemy import Engine

from groundwatch_review import accounts
from groundwatch_review.audit import Action, AuditLog
from groundwatch_review.console import ConsoleConfig, console_app
from groundwatch_review.console.guard import SESSION_COOKIE
from groundwatch_review.passwords import Cost

pytestmark = [pytest.mark.service("chromium"), pytest.mark.timeout(180)]

NOW = 1_790_000_000.0
KEY = b"a" * 32
CHEAP = Cost(n=2**4, r=8, p=1)
PASSWORD = "correct horse battery"
PATIENCE_MS = 40_000  # of a busy machine


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'groundwatch.db'}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing.chromium() as opened:
        yield opened


@pytest.fixture
def served(engine: Engine) -> Iterator[str]:
    """A console with two users, served for real."""
    for name, role in (("anna", "admin"), ("vi", "viewer")):
        accounts.add(engine, name, [role], PASSWORD, NOW, cost=CHEAP)
    app = console_app(engine, ConsoleConfig(), now=lambda: NOW, audit_key=KEY, password_cost=CHEAP)
    with browsing.serving(app) as address:
        yield address


@pytest.fixture
def opened(browser: Any, served: str) -> Iterator[Callable[..., Any]]:
    """Call for a page; what must not happen on it is in its ``trouble``."""
    contexts = []

    def open_one(width: int = 1280, height: int = 860, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, base_url=served, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.trouble = []
        page.on("pageerror", lambda error: page.trouble.append(str(error)))
        page.on("dialog", lambda dialog: (page.trouble.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda r: None if r.url.startswith((served, "data:")) else page.trouble.append(r.url))
        return page

    yield open_one
    for context in contexts:
        context.close()


def log_in(page: Any, name: str = "anna", password: str = PASSWORD) -> None:
    """As a person does: name, Tab, password, Enter."""
    page.locator("input[name=name]").fill(name)
    page.keyboard.press("Tab")
    page.keyboard.type(password)
    with page.expect_navigation():
        page.keyboard.press("Enter")


def shoot(page: Any, folder: Path, name: str) -> None:
    """Keep a screenshot for a person to look at: GROUNDWATCH_SCREENSHOTS names a folder that outlives the test."""
    target = Path(os.environ.get("GROUNDWATCH_SCREENSHOTS", folder)) / f"{name}.png"
    page.screenshot(path=target, full_page=True)
    assert target.stat().st_size > 3000


def test_a_person_logs_in_to_what_was_asked_for_and_out_again(opened, world):
    page = opened()
    assert page.goto(f"/traces/{world.failed[0]}").status == 401
    log_in(page, "vi")
    assert page.url.endswith(f"/traces/{world.failed[0]}")
    assert page.get_by_text("Texts are redacted.").is_visible()
    cookie = next(c for c in page.context.cookies() if c["name"] == SESSION_COOKIE)
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["expires"]) == (True, "Strict", -1)
    assert SESSION_COOKIE not in page.evaluate("document.cookie")
    page.goto("/account")
    with page.expect_navigation():
        page.get_by_role("button", name="Log out").click()
    assert page.goto("/").status == 401
    page.context.add_cookies([cookie])
    assert page.goto("/").status == 401  # ended on the server
    assert page.trouble == []


def test_a_link_from_another_site_opens_for_who_is_logged_in_and_for_nobody_else(opened, served, world):
    """Chromium itself leaves the Strict cookie out of the first request."""
    link = f"data:text/html,<a href='{served}/traces?verdict=fail'>the alert</a>"
    page = opened()
    page.goto("/")
    log_in(page)
    page.goto(link)
    page.get_by_text("the alert").click()
    page.wait_for_selector("table.trace-list")
    assert page.url == f"{served}/traces?verdict=fail"
    stranger = opened()
    stranger.goto(link)
    stranger.get_by_text("the alert").click()
    stranger.wait_for_selector("input[name=password]")
    assert stranger.locator("table.trace-list").count() == 0
    assert page.trouble == stranger.trouble == []


HOSTILE = ("<script>alert(1)</script>", '"><svg onload=alert(1)>', "javascript:alert(1)", "//evil.example/", "\u202e")


def test_what_a_stranger_writes_into_the_form_or_the_address_runs_nothing(opened):
    page = opened()
    for text in HOSTILE:
        page.goto("/login?next=" + page.evaluate("encodeURIComponent", text))
        log_in(page, text[:60], text)
        assert (
            page.get_by_text("Name or password is wrong.").is_visible() or page.get_by_text("Too many").is_visible()
        )
    page.goto("/login?next=javascript:alert(1)")
    log_in(page)
    assert page.url.endswith("/")
    for text in HOSTILE:
        page.goto("/audit?about=" + page.evaluate("encodeURIComponent", text))
        page.goto("/audit?action=" + page.evaluate("encodeURIComponent", text))
        page.goto("/users")
        page.locator("section:has(#add-title) input[name=name]").fill(text)
        with page.expect_navigation():
            page.get_by_role("button", name="Add").click()
    assert page.trouble == []


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")])
def test_pages_of_access_fit_their_screen(opened, engine, world, tmp_path, width, scheme):
    log = AuditLog(engine, KEY, lambda: NOW)
    for number, action in enumerate((Action.RAW_VIEW, Action.VERDICT, Action.EXPORT, Action.ERASURE) * 3):
        log.append("local" if number % 2 else "command", action, f"{number:032x}", "jsonl" if number % 3 else "")
    page = opened(width, color_scheme=scheme)
    page.goto("/")
    fits(page, tmp_path, f"login-{width}-{scheme}")
    log_in(page, password="wrong")
    fits(page, tmp_path, f"login-wrong-{width}-{scheme}")
    log_in(page)
    for path in ("/account", "/users", "/audit", "/"):
        page.goto(path)
        fits(page, tmp_path, f"{path.strip('/') or 'overview-as-admin'}-{width}-{scheme}")
    page.goto("/users")
    page.locator("section:has(#add-title) input[name=name]").fill("bo")
    page.locator("section:has(#add-title) input[name=role_exporter]").check()
    with page.expect_navigation():
        page.get_by_role("button", name="Add").click()
    fits(page, tmp_path, f"users-added-{width}-{scheme}")
    assert page.trouble == []


def fits(page: Any, folder: Path, name: str) -> None:
    shoot(page, folder, name)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} overflows"
