"""A console with users, and browsers that log in to it and send its forms."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry
from sqlalchemy import Engine
from starlette.testclient import TestClient

from groundwatch_review import accounts, audit
from groundwatch_review.console import ConsoleConfig, console_app
from groundwatch_review.console.guard import CSRF_COOKIE
from groundwatch_review.console.login import RESULTS
from groundwatch_review.passwords import Cost

NOW = 1_790_000_000.0
ORIGIN = "http://127.0.0.1:4390"
TLS_ORIGIN = "https://desk.example"
KEY = b"a" * 32
CHEAP = Cost(n=2**4, r=8, p=1)
PASSWORD = "correct horse battery"


class Console:
    """One console over the test's database, with a clock to move, and as many browsers as wanted."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.now = NOW
        self.registry = CollectorRegistry()
        self.app = self.made()

    def made(self, config: ConsoleConfig | None = None, **options: Any) -> Any:
        """*registry*: None for one more console beside the first."""
        options.setdefault("registry", self.registry)
        return console_app(
            self.engine,
            config or ConsoleConfig(),
            now=lambda: self.now,
            candidate_key=b"k" * 32,
            audit_key=KEY,
            password_cost=CHEAP,
            **options,
        )

    def user(self, name: str, *roles: str, holdout: bool = False) -> accounts.User:
        with self.engine.connect() as connection:
            first = not accounts.exist(connection)
        if first and "admin" not in roles:
            self.user("root", "admin")
        return accounts.add(self.engine, name, roles, PASSWORD, NOW, holdout=holdout, cost=CHEAP)

    def browser(self, app: Any = None, origin: str = ORIGIN) -> TestClient:
        return TestClient(app or self.app, base_url=origin, follow_redirects=False)

    def logged_in(self, name: str, *roles: str, holdout: bool = False) -> TestClient:
        self.user(name, *roles, holdout=holdout)
        browser = self.browser()
        assert log_in(browser, name).status_code == 303
        return browser

    def logins(self) -> dict[str, float]:
        found = {
            n: self.registry.get_sample_value("groundwatch_console_logins_total", {"result": n}) for n in RESULTS
        }
        return {name: value for name, value in found.items() if value}

    def trail(self, *actions: str) -> list[tuple[str, str]]:
        with self.engine.connect() as connection:
            found = audit.newest(connection, limit=1000, actions=actions)[::-1]
        return [(entry.actor, entry.about) for entry in found]


def send(browser: TestClient, path: str, **fields: str) -> Any:
    """Send a form as our own page would."""
    origin = str(browser.base_url).rstrip("/")
    if not csrf_of(browser):
        browser.get("/login")
    return browser.post(path, data={"csrf": csrf_of(browser), **fields}, headers={"origin": origin})


def csrf_of(browser: TestClient) -> str:
    names = (CSRF_COOKIE, f"__Host-{CSRF_COOKIE}")
    return next((value for name in names if (value := browser.cookies.get(name))), "")


def log_in(browser: TestClient, name: str, password: str = PASSWORD, **fields: str) -> Any:
    return send(browser, "/login", name=name, password=password, **fields)
