"""Single sign-on with a real provider and a real browser, which keeps cookies as browsers do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browsing
import oidc_provider
import pytest
from oidc_provider import CLIENT, SECRET
from sqlalchemy import Engine

from groundwatch_review.console import ConsoleConfig, OidcConfig, console_app

pytestmark = [pytest.mark.service("chromium"), pytest.mark.service("oidc_provider"), pytest.mark.timeout(180)]


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'groundwatch.db'}"


@pytest.fixture
def served(engine: Engine) -> Iterator[str]:
    """A console at 127.0.0.1, whose provider is at localhost: another site, as a real one would be."""
    port = oidc_provider.free_port()
    address = f"http://127.0.0.1:{port}"
    with oidc_provider.running(f"{address}/login/oidc/callback") as issuer:
        config = OidcConfig(issuer, CLIENT, address, reviewers=("rag-reviewers",))
        app = console_app(
            engine, ConsoleConfig(), now=time.time, audit_key=b"a" * 32, oidc=config, oidc_secret=SECRET
        )
        with browsing.serving(app, port):
            yield address


def come_in(page: Any, served: str, name: str) -> None:
    """Follow a link to the list, and log in at the provider, which asks who comes and whether that is meant."""
    page.goto(f"{served}/traces?verdict=fail")
    page.get_by_role("link", name="Log in with single sign-on").click()
    page.fill("input[name=login]", name)
    page.fill("input[name=password]", "any")
    page.click("button[type=submit]")
    page.get_by_role("button", name="Continue").click()


def test_a_person_comes_in_through_a_certified_provider_and_one_without_a_role_does_not(served, add_trace):
    add_trace()
    with browsing.chromium() as browser:
        page = browser.new_context().new_page()
        page.set_default_timeout(40_000)
        come_in(page, served, "anna")
        page.wait_for_url(f"{served}/traces?verdict=fail")
        page.get_by_role("link", name="anna").click()
        assert "reviewer" in page.inner_text("main")
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url(f"{served}/login")

        stranger = browser.new_context().new_page()
        stranger.set_default_timeout(40_000)
        come_in(stranger, served, "nora")
        stranger.get_by_text("your account there has no role here").wait_for()
        stranger.goto(f"{served}/traces")
        assert stranger.get_by_role("button", name="Log in", exact=True).is_visible()
