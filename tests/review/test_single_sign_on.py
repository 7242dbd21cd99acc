"""Single sign-on: a person with a role at the provider comes in as that, and nothing else that comes back does."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import oidc_stub
import pytest
from console_people import NOW, ORIGIN, PASSWORD, TLS_ORIGIN, Console, log_in, send
from joserfc.jwk import RSAKey
from oidc_stub import CLIENT, SECRET, Stub
from sqlalchemy import Engine
from starlette.testclient import TestClient

from groundwatch_deploy.config import ConfigError
from groundwatch_deploy.sign_on import require_oidc
from groundwatch_review import accounts, audit
from groundwatch_review.audit import Action
from groundwatch_review.console import ConsoleConfig, OidcConfig, single_sign_on
from groundwatch_review.console.guard import SESSION_COOKIE
from groundwatch_review.console.oidc_config import Unreachable
from groundwatch_review.console.oidc_provider import ANSWER_LIMIT_BYTES, TIMEOUT_SECONDS, Provider
from groundwatch_review.console.single_sign_on import TRY_COOKIE, identity_of

CALLBACK = "/login/oidc/callback"


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """One kind is enough here; what is stored is tested on both in test_accounts."""
    return f"sqlite:///{tmp_path / 'groundwatch.db'}"


@pytest.fixture(scope="module")
def running() -> Iterator[Stub]:
    with oidc_stub.serving(Stub()) as stub:
        yield stub


@pytest.fixture
def stub(running: Stub) -> Stub:
    running.person = {"sub": "u-1", "preferred_username": "anna", "groups": ["rag-reviewers"]}
    running.lies, running.now = {}, lambda: NOW
    running.codes.clear()
    running.asked.clear()
    return running


def config_for(stub: Stub, **changes: Any) -> OidcConfig:
    fields: dict[str, Any] = {
        "issuer": stub.issuer,
        "client_id": CLIENT,
        "public_url": ORIGIN,
        "reviewers": ("rag-reviewers",),
        "admins": ("rag-admins",),
        "holdout": ("rag-holdout",),
    }
    return OidcConfig(**{**fields, **changes})


@pytest.fixture
def console(engine: Engine, stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Console:
    found = Console(engine)
    found.registry = type(found.registry)()
    found.app = found.made(oidc=config_for(stub), oidc_secret=SECRET)
    return found


def begin(browser: TestClient, back: str = "/") -> str:
    """The address at the provider that the console sends the browser to."""
    found = browser.get("/login/oidc", params={"next": back})
    assert found.status_code == 303
    return str(found.headers["location"])


def come_back(browser: TestClient, back: str = "/") -> Any:
    """The whole way: to the provider, which logs the person in, and back."""
    return browser.get(path_of(httpx.get(begin(browser, back)).headers["location"]))


def path_of(address: str) -> str:
    parts = urlsplit(address)
    assert f"{parts.scheme}://{parts.netloc}" == ORIGIN
    return f"{parts.path}?{parts.query}"


def asked_of(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


def nobody_came_in(console: Console, browser: TestClient) -> bool:
    with console.engine.connect() as connection:
        return browser.get("/account").status_code == 401 and accounts.listed(connection) == []


# Who comes in


def test_a_person_with_a_role_comes_in_and_goes_where_the_link_led(console, stub):
    browser = console.browser()
    found = come_back(browser, "/traces?verdict=fail")
    assert (found.status_code, found.headers["location"]) == (303, "/traces?verdict=fail")
    page = browser.get("/account").text
    assert "anna" in page and "<dd>reviewer</dd>" in page
    assert browser.get("/review").status_code == 200
    assert browser.get("/users").status_code == 403
    assert "Change the password" not in page
    assert console.logins() == {"ok": 1.0}


def test_the_request_carries_state_nonce_and_a_challenge_and_no_secret(console, stub):
    browser = console.browser()
    address = begin(browser)
    asked = asked_of(address)
    assert asked["response_type"] == "code"
    assert asked["code_challenge_method"] == "S256"
    assert asked["redirect_uri"] == ORIGIN + CALLBACK
    assert min(len(asked[name]) for name in ("state", "nonce", "code_challenge")) >= 43
    assert SECRET not in address
    held = browser.cookies[TRY_COOKIE]
    assert asked["nonce"] not in held
    assert len({asked_of(begin(browser))[name] for name in ("state", "nonce") for _ in range(2)}) == 4


def test_with_single_sign_on_everybody_has_to_log_in_and_local_users_still_can(console, stub):
    browser = console.browser()
    found = browser.get("/traces?verdict=fail")
    assert found.status_code == 401
    assert "/login/oidc?next=%2Ftraces%3Fverdict%3Dfail" in found.text
    assert "There is no user yet" not in found.text
    console.user("root", "admin")
    assert log_in(browser, "root").status_code == 303


def test_roles_are_those_of_today_and_sessions_with_others_end(console, stub):
    browser, elsewhere = console.browser(), console.browser()
    come_back(elsewhere)
    stub.person["groups"] = ["rag-admins", "rag-holdout"]
    come_back(browser)
    assert elsewhere.get("/review").status_code == 401
    assert browser.get("/users").status_code == 200
    with console.engine.connect() as connection:
        [user] = accounts.listed(connection)
    assert (user.roles, user.holdout, user.sso) == (("admin",), True, True)


def test_who_has_no_role_any_more_loses_the_sessions_of_before(console, stub):
    browser, elsewhere = console.browser(), console.browser()
    come_back(elsewhere)
    stub.person["groups"] = []
    assert elsewhere.get("/review").status_code == 200  # until the provider says so here
    assert come_back(browser).status_code == 403
    assert elsewhere.get("/review").status_code == 401


@pytest.mark.parametrize("groups", [[], ["other"], None, "rag", {"rag-reviewers": 1}, [["rag-reviewers"]], 7])
def test_without_a_role_at_the_provider_nobody_comes_in(console, stub, groups):
    stub.person["groups"] = groups
    browser = console.browser()
    found = come_back(browser)
    assert found.status_code == 403
    assert "has no role here" in found.text
    assert nobody_came_in(console, browser)
    assert console.logins() == {"no_role": 1.0}
    with console.engine.connect() as connection:
        [entry] = audit.newest(connection)
    assert (entry.action, entry.detail) == (Action.LOGIN_FAILED, "no role")


def test_whoever_calls_himself_like_a_local_user_is_somebody_else(console, stub):
    console.user("anna", "admin")
    browser = console.browser()
    come_back(browser)
    page = browser.get("/account").text
    assert "anna.sso" in page and "<dd>reviewer</dd>" in page
    with console.engine.connect() as connection:
        assert {user.name: user.sso for user in accounts.listed(connection)} == {"anna": False, "anna.sso": True}


def test_a_person_of_the_provider_has_no_password_here(console, stub):
    come_back(console.browser())
    for password in ("", "None", PASSWORD):
        assert log_in(console.browser(), "anna", password).status_code == 401
    with pytest.raises(accounts.Unacceptable, match="single sign-on"):
        accounts.change(console.engine, "anna", NOW, password=PASSWORD)
    with pytest.raises(accounts.Unacceptable, match="single sign-on"):
        accounts.change(console.engine, "anna", NOW, roles=["admin"])


def test_an_admin_sees_where_a_role_comes_from_and_may_remove_the_person(console, stub):
    visitor, root = console.browser(), console.logged_in("root", "admin")
    come_back(visitor)
    page = root.get("/users").text
    assert "from the OpenID provider at the last login" in page
    with console.engine.connect() as connection:
        user = accounts.find(connection, "anna")
    assert user is not None
    assert send(root, f"/users/{user.user_id}/remove").status_code == 303
    assert visitor.get("/review").status_code == 401


def test_the_trail_says_who_came_in_how_and_holds_no_name(console, stub):
    stub.person |= {"preferred_username": "mia.canary", "email": "mia.canary@personal.example"}
    come_back(console.browser())
    with console.engine.connect() as connection:
        [entry] = audit.newest(connection)
        [user] = accounts.listed(connection)
    assert (entry.actor, entry.action, entry.detail) == (user.user_id, Action.LOGIN, "oidc reviewer")
    assert "canary" not in repr(entry)


@pytest.mark.parametrize(
    ("path", "claims", "roles"),
    [
        ("realm_access.roles", {"realm_access": {"roles": ["rag-reviewers"]}}, ("reviewer",)),
        ("https://x.example/roles", {"https://x.example/roles": "rag-reviewers"}, ("reviewer",)),
        ("email", {"email": "rag-reviewers", "email_verified": True}, ("reviewer",)),
        ("email", {"email": "rag-reviewers"}, ()),
        ("email", {"email": "rag-reviewers", "email_verified": "true"}, ()),
        ("realm_access.roles", {"realm_access": "rag-reviewers"}, ()),
    ],
)
def test_the_claim_of_the_roles_may_lie_deeper_and_an_address_has_to_be_verified(stub, path, claims, roles):
    config = config_for(stub, role_claim=path)
    assert identity_of(config, {"sub": "u-1", **claims}).roles == roles


def test_where_single_sign_on_is_turned_off_its_sessions_are_over(console, stub):
    browser = console.browser()
    come_back(browser)
    without = console.browser(console.made(registry=None))
    without.cookies.set(SESSION_COOKIE, browser.cookies[SESSION_COOKIE])
    assert browser.get("/account").status_code == 200
    assert without.get("/account").status_code == 401


# Attacks


def lie(**lies: Any) -> dict[str, Any]:
    return lies


LIES = {
    "wrong nonce": lie(claims={"nonce": "x" * 43}),
    "no nonce": lie(claims={"nonce": None}),
    "expired": lie(claims={"exp": int(NOW) - 61, "iat": int(NOW) - 400}),
    "not valid yet": lie(claims={"nbf": int(NOW) + 3600}),
    "other audience": lie(claims={"aud": "another-client"}),
    "other audience, in our name": lie(claims={"aud": "another-client", "azp": CLIENT}),
    "several audiences, meant for another": lie(claims={"aud": [CLIENT, "another"], "azp": "another"}),
    "several audiences without azp": lie(claims={"aud": [CLIENT, "another"]}),
    "other issuer": lie(claims={"iss": "https://evil.example"}),
    "no expiry": lie(claims={"exp": None}),
    "no subject": lie(claims={"sub": None}),
    "a subject that is no text": lie(claims={"sub": {"a": 1}}),
    "other access token": lie(claims={"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}),
    "alg none": lie(unsigned="none"),
    "alg None": lie(unsigned="None"),
    "HMAC with the public key": lie(hmac=True),
    "signed by a stranger": lie(key=RSAKey.generate_key(2048, {"kid": "k1"})),
    "an unknown key": lie(key=RSAKey.generate_key(2048, {"kid": "nobody"})),
    "no token": lie(id_token=None),
    "no JWT": lie(id_token="a.b"),
    "a number": lie(id_token=7),
}


@pytest.mark.parametrize("name", LIES)
def test_a_token_that_does_not_hold_lets_nobody_in(console, stub, name, caplog):
    stub.lies = LIES[name]
    browser = console.browser()
    with caplog.at_level(logging.DEBUG, "groundwatch_review"):
        found = come_back(browser)
    assert found.status_code == 401
    assert nobody_came_in(console, browser)
    assert console.logins() == {"refused": 1.0}
    assert len([r for r in caplog.records if r.name.startswith("groundwatch_review")]) == 1
    assert SECRET not in caplog.text and "eyJ" not in caplog.text and "rag-reviewers" not in caplog.text


def test_an_answer_with_another_state_or_from_another_browser_is_refused(console, stub):
    browser, victim = console.browser(), console.browser()
    mine = path_of(httpx.get(begin(browser)).headers["location"])
    begin(victim)
    for other, path in ((victim, mine), (console.browser(), mine), (browser, mine.replace("state=", "state=x"))):
        assert other.get(path).status_code == 400
        assert nobody_came_in(console, other)
    assert "/token" not in stub.asked  # nothing was even asked


def test_a_code_is_good_once_even_with_the_cookie_of_that_time(console, stub):
    browser = console.browser()
    path = path_of(httpx.get(begin(browser)).headers["location"])
    held = browser.cookies[TRY_COOKIE]
    assert browser.get(path).status_code == 303
    thief = console.browser()
    thief.cookies.set(TRY_COOKIE, held)
    assert thief.get(path).status_code == 400
    assert stub.asked.count("/token") == 1


def test_a_code_of_another_login_is_refused_by_the_provider(console, stub, caplog):
    """A code that leaked is worth nothing without the verifier of the browser that asked for it."""
    stolen = asked_of(httpx.get(begin(console.browser())).headers["location"])["code"]
    browser = console.browser()
    state = asked_of(begin(browser))["state"]
    assert browser.get(CALLBACK, params={"code": stolen, "state": state}).status_code == 401
    assert "the provider refused the code: invalid_grant" in caplog.text
    assert nobody_came_in(console, browser)


@pytest.mark.parametrize("change", ["state", "until", "back", "mac"])
def test_a_cookie_that_was_changed_is_none(console, stub, change):
    browser = console.browser()
    path = path_of(httpx.get(begin(browser)).headers["location"])
    parts = dict(zip(("state", "until", "back", "mac"), browser.cookies[TRY_COOKIE].split("."), strict=True))
    parts[change] = "9" * len(parts[change])
    browser.cookies.set(TRY_COOKIE, ".".join(parts.values()), domain="127.0.0.1", path="/")
    assert browser.get(path).status_code == 400


def test_a_login_that_takes_too_long_is_begun_again(console, stub):
    browser = console.browser()
    path = path_of(httpx.get(begin(browser)).headers["location"])
    console.now += 601
    assert browser.get(path).status_code == 400
    assert nobody_came_in(console, browser)


def test_an_answer_of_another_provider_and_a_refusal_are_told_apart_from_a_login(console, stub):
    stub.lies = {"answer": {"iss": "https://evil.example"}}
    assert come_back(console.browser()).status_code == 400
    stub.lies = {"error": "access_denied\r\n<script>"}
    found = come_back(console.browser())
    assert found.status_code == 401
    assert "the provider let nobody in" in found.text and "<script>" not in found.text.partition("<main")[2]


@pytest.mark.parametrize(
    "back", ["https://evil.example", "//evil.example", "/\\evil.example", "/login/oidc", "/login/oidc/callback?x=1"]
)
def test_nobody_is_led_elsewhere_nor_round_in_circles(console, stub, back):
    assert come_back(console.browser(), back).headers["location"] == "/"


def test_cookies_over_tls_are_bound_to_this_host_and_the_one_of_the_try_ends(console, stub):
    app = console.made(
        ConsoleConfig(tls_in_front=True, allowed_hosts=("desk.example",)),
        oidc=config_for(stub, public_url=TLS_ORIGIN),
        oidc_secret=SECRET,
        registry=None,
    )
    browser = console.browser(app, TLS_ORIGIN)
    begun = browser.get("/login/oidc")
    told = begun.headers["set-cookie"]
    assert told.startswith(f"__Host-{TRY_COOKIE}=") and "samesite=lax" in told.lower()
    assert "; Secure" in told and "HttpOnly" in told and "Path=/" in told
    answer = urlsplit(httpx.get(begun.headers["location"]).headers["location"])
    found = browser.get(f"{answer.path}?{answer.query}")
    set_now = found.headers.get_list("set-cookie")
    assert any(line.startswith(f"__Host-{SESSION_COOKIE}=") and "samesite=strict" in line.lower() for line in set_now)
    assert any(line.startswith(f"__Host-{TRY_COOKIE}=") and "Max-Age=0" in line for line in set_now)


# The provider itself


def test_a_new_key_is_read_when_it_is_first_used(console, stub):
    assert come_back(console.browser()).status_code == 303
    stub.rotate()
    assert come_back(console.browser()).status_code == 303
    stub.rotate(keep=True)
    assert come_back(console.browser()).status_code == 303
    assert stub.asked.count("/keys") == 3  # once, and once for each new one
    assert come_back(console.browser()).status_code == 303
    assert stub.asked.count("/keys") == 3


@pytest.mark.parametrize(
    "told",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://other.example/token"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": None},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"token_endpoint_auth_methods_supported": ["private_key_jwt"]},
        {"jwks_uri": "https://169.254.169.254/latest/meta-data"},
    ],
)
def test_a_provider_that_says_odd_things_of_itself_is_not_used(console, stub, told):
    stub.lies = {"metadata": told}
    found = console.browser().get("/login/oidc")
    assert found.status_code == 502
    assert "169.254" not in found.text
    assert console.logins() == {"unreachable": 1.0}


@pytest.mark.parametrize(
    ("address", "allowed"),
    [("169.254.169.254", True), ("10.0.0.7", False), ("127.0.0.1", True), ("::1", True), ("100.100.100.200", True)],
)
def test_a_name_that_leads_into_the_own_network_is_not_followed(stub, address, allowed):
    """Rebinding: the name is resolved for each request, and the address that was checked is the one used."""
    config = replace(config_for(stub), issuer="https://login.example", allow_private_network=allowed)
    provider = Provider(config, SECRET, lambda: NOW, resolve=lambda _host, _port: [address])
    with pytest.raises(Unreachable, match="resolves to"):
        provider.authorization_url(state="s", nonce="n", verifier="v" * 43)
    assert stub.asked == []


def test_a_provider_that_is_away_is_said_and_comes_back(console, stub):
    gone = config_for(stub, issuer="http://127.0.0.1:9")
    browser = console.browser(console.made(oidc=gone, oidc_secret=SECRET, registry=None))
    assert browser.get("/login/oidc").status_code == 502
    stub.lies = {"metadata": {"issuer": "x"}}
    assert console.browser().get("/login/oidc").status_code == 502
    stub.lies = {}
    assert console.browser().get("/login/oidc").status_code == 303


DEEP = b"[" * 100_000 + b"]" * 100_000
BROKEN = {
    "keys that are too deep": {"/keys": DEEP},
    "keys without end": {"/keys": b" " * (ANSWER_LIMIT_BYTES + 1)},
    "itself too deeply": {"/.well-known/openid-configuration": DEEP},
    "a token that is too deep": {"/token": DEEP},
    "a token without end": {"/token": b" " * (ANSWER_LIMIT_BYTES + 1)},
    "a token of an odd age": {"/token": b'{"id_token": "a.b.c", "expires_in": [1]}'},
    "no object": {"/token": b"[]"},
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_answer_that_nobody_can_read_is_said_and_not_a_failure_of_ours(console, stub, name):
    stub.lies = {"bodies": BROKEN[name]}
    browser = console.browser()
    found = browser.get("/login/oidc")
    if found.status_code == 303:
        found = browser.get(path_of(httpx.get(found.headers["location"]).headers["location"]))
    assert found.status_code == 502
    assert console.logins() == {"unreachable": 1.0}


@pytest.mark.parametrize("told", [{"jwks_uri": "https://[::1"}, {"token_endpoint_auth_methods_supported": 7}])
def test_odd_values_of_the_provider_are_no_failure_of_ours(console, stub, told):
    stub.lies = {"metadata": told}
    assert console.browser().get("/login/oidc").status_code in (303, 502)


def test_keys_of_another_kind_beside_ours_are_left_out(console, stub):
    good = stub.keys[0].as_dict(private=False)
    others = [{"kty": "EC", "crv": "P-999", "x": "AA", "y": "AA"}, {"kty": "OKP", "crv": "Ed25519", "x": "AA"}, 7]
    stub.lies = {"jwks": [*others, {**good, "kid": "e", "use": "enc"}, {"kty": "RSA", "n": 7}, good]}
    assert come_back(console.browser()).status_code == 303


def test_an_answer_that_drips_in_is_given_up(stub):
    times = iter([0.0, TIMEOUT_SECONDS + 1.0])
    provider = Provider(config_for(stub), SECRET, lambda: NOW, clock=lambda: next(times))
    with pytest.raises(Unreachable, match="takes longer than 10 seconds"):
        provider.authorization_url(state="s", nonce="n", verifier="v" * 43)


def test_a_provider_that_hangs_keeps_no_page_of_the_console_waiting(console, stub, monkeypatch):
    """Whoever comes may begin a login. Each one that waits holds a thread, and there are 40 for all pages."""
    turned_away = 60 - single_sign_on.AT_ONCE - single_sign_on.WAITING
    hangs = threading.Event()
    monkeypatch.setattr(Provider, "authorization_url", lambda _self, **_asked: hangs.wait(60) and "https://x.example")
    monkeypatch.setattr(single_sign_on, "WAIT_SECONDS", 60.0)

    async def crowd() -> int:
        transport = httpx.ASGITransport(app=console.app)
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as browser:
            tries = [asyncio.create_task(browser.get("/login/oidc")) for _ in range(60)]
            await asyncio.sleep(0)
            try:
                found = (await asyncio.wait_for(browser.get("/login"), 20)).status_code
                answers = asyncio.as_completed(tries, timeout=20)
                for _ in range(turned_away):  # all but those that hang or wait have their answer
                    await next(answers)
                return found
            finally:
                hangs.set()
                await asyncio.gather(*tries)

    assert asyncio.run(crowd()) == 200
    assert console.logins() == {"busy": float(turned_away)}


def test_to_begin_a_login_opens_no_client(console, stub, monkeypatch):
    """Strangers may do it as often as they like; the certificates of a client take 30 ms to load."""
    browser = console.browser()
    begin(browser)
    monkeypatch.setattr("groundwatch_review.console.oidc_provider.OAuth2Client", None)
    monkeypatch.setattr("groundwatch_review.console.oidc_provider.httpx2.HTTPTransport", None)
    begin(browser)


def test_without_configuration_there_is_nothing_to_begin(console, engine):
    plain = console.browser(console.made(registry=None))
    assert plain.get("/login/oidc").status_code == 404
    assert plain.get(CALLBACK).status_code == 404
    assert plain.get("/").status_code == 200


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"issuer": "http://login.example"}, "issuer is"),
        ({"issuer": "https://user:pw@login.example"}, "issuer is"),
        ({"issuer": "https://login.example?x=1"}, "issuer is"),
        ({"public_url": ""}, "public_url is"),
        ({"public_url": "http://desk.example"}, "public_url is"),
        ({"public_url": "https://desk.example/console"}, "without a path"),
        ({"client_id": ""}, "client_id is empty"),
        ({"scopes": ("profile",)}, "openid"),
        ({"reviewers": (), "admins": ()}, "nobody could come in"),
        ({"admins": ("",)}, "has an empty value"),
        ({"holdout": (" ",)}, "has an empty value"),
        ({"role_claim": ""}, "role_claim is empty"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_at_the_start(stub, changes, said):
    with pytest.raises(ValueError, match=said) as error:
        config_for(stub, **changes)
    assert "user:pw" not in str(error.value)


def test_without_its_extra_the_monitor_says_what_to_install(stub, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "authlib" else object())
    with pytest.raises(ConfigError, match=r"pip install \"groundwatch\[oidc\]\""):
        require_oidc(config_for(stub))
    require_oidc(OidcConfig())
