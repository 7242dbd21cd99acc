"""Saved views of the trace list: one's own or shared, as addresses that can be kept, within bounds, in the trail."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from console_people import NOW, Console, send
from sqlalchemy import Engine
from starlette.testclient import TestClient

from groundwatch_review import audit, saved_views
from groundwatch_review.audit import Action

FAILED = {"verdict": "fail", "version": "1.5.0", "sort": "worst", "window": "7d"}


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """One kind is enough here; what is stored is tested on both in test_accounts."""
    return f"sqlite:///{tmp_path / 'groundwatch.db'}"


@pytest.fixture
def console(engine: Engine, add_trace: Callable[..., str]) -> Console:
    add_trace(version="1.5.0", query="how big can an attachment be?")
    return Console(engine)


def save(browser: TestClient, name: str, filters: dict[str, str] | None = None, **fields: str) -> Any:
    return send(browser, "/views", name=name, filters=urlencode(filters if filters is not None else FAILED), **fields)


def links(browser: TestClient) -> dict[str, str]:
    """Addresses of the views that the list offers, by name."""
    page = browser.get("/traces").text
    found = re.findall(r'href="(/views/sv_[0-9a-f]+)".*?<bdi>(.*?)</bdi>', page)
    return {name: address for address, name in found}


def asked(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


def test_a_view_leads_to_the_same_list_under_an_address_that_says_what_is_chosen(console):
    browser = console.logged_in("anna", "reviewer")
    saved = save(browser, "  failed  since 1.5.0 ")
    assert saved.status_code == 303
    opened = browser.get(links(browser)["failed since 1.5.0"])
    assert opened.status_code == 303
    assert asked(opened.headers["location"]) == {"app": "manual-assistant", **FAILED}
    page = browser.get(opened.headers["location"])
    assert page.status_code == 200
    assert 'aria-current="true"' in page.text
    assert browser.get(saved.headers["location"]).text == page.text


def test_a_picked_stretch_of_time_is_part_of_the_view(console):
    browser = console.logged_in("anna", "reviewer")
    save(browser, "the incident", {"since": f"{NOW - 600}", "until": f"{NOW - 60}"})
    address = browser.get(links(browser)["the incident"]).headers["location"]
    assert (asked(address)["since"], asked(address)["until"]) == (f"{NOW - 600}", f"{NOW - 60}")


def test_only_known_filters_are_kept(console):
    browser = console.logged_in("anna", "reviewer")
    odd = {"verdict": "nope", "sort": "evil", "x": "1", "after": "1~2", "view": "y", "window": "1y", "next": "//evil"}
    save(browser, "odd", odd)
    assert asked(browser.get(links(browser)["odd"]).headers["location"]) == {"app": "manual-assistant"}


def test_ones_own_views_are_for_nobody_else_and_shared_ones_are(console):
    anna = console.logged_in("anna", "reviewer")
    bert = console.logged_in("bert", "reviewer")
    save(anna, "mine")
    save(anna, "ours", shared="yes")
    assert list(links(anna)) == ["mine", "ours"]
    assert list(links(bert)) == ["ours"]
    own = links(anna)["mine"]
    assert bert.get(own).status_code == 404  # not 403: that it exists is nobody else's business
    assert send(bert, f"{own}/remove").status_code == 404
    assert send(bert, f"{links(bert)['ours']}/remove").status_code == 403
    assert list(links(anna)) == ["mine", "ours"]


def test_a_shared_view_is_removed_by_its_maker_or_an_admin(console):
    anna, root = console.logged_in("anna", "reviewer"), console.logged_in("rita", "admin")
    for browser in (anna, root):
        save(anna, "ours", shared="yes")
        assert send(browser, f"{links(anna)['ours']}/remove").status_code == 303
        assert links(anna) == {}


def test_a_view_with_a_search_is_not_offered_to_who_may_not_search(console):
    anna = console.logged_in("anna", "reviewer")
    vera = console.logged_in("vera", "viewer")
    save(anna, "about zebras", {"q": "zebra"}, shared="yes")
    address = links(anna)["about zebras"]
    assert links(vera) == {}
    assert vera.get(address).status_code == 404
    assert "zebra" not in vera.get("/traces").text
    save(vera, "sneaky", {"q": "zebra", "verdict": "fail"})
    assert asked(vera.get(links(vera)["sneaky"]).headers["location"]) == {
        "app": "manual-assistant",
        "verdict": "fail",
    }


def test_saving_under_the_same_name_replaces_and_keeps_the_address(console):
    browser = console.logged_in("anna", "reviewer")
    save(browser, "failed")
    before = links(browser)
    save(browser, "failed", {"verdict": "pass"}, shared="yes")
    assert links(browser) == before
    assert asked(browser.get(before["failed"]).headers["location"])["verdict"] == "pass"


@pytest.mark.parametrize("name", ["", "   ", "x" * 61, "a\u202eb", "a\x07b"])
def test_a_name_that_cannot_be_read_is_refused_with_what_is_accepted(console, name):
    browser = console.logged_in("anna", "reviewer")
    found = save(browser, name)
    assert found.status_code == 400
    assert "accepted: 1 to 60" in found.text
    assert links(browser) == {}


def test_there_is_a_bound_for_each_owner_and_for_all_shared_views(console, monkeypatch):
    monkeypatch.setattr(saved_views, "VIEWS_OF_ONE_OWNER", 2)
    monkeypatch.setattr(saved_views, "SHARED_VIEWS", 1)
    browser = console.logged_in("anna", "reviewer")
    save(browser, "a", shared="yes")
    found = save(browser, "b", shared="yes")
    assert found.status_code == 400
    assert "1 shared views, which is the most" in found.text
    save(browser, "b")
    assert "you have 2 saved views" in save(browser, "c").text
    assert save(browser, "b", {"verdict": "pass"}).status_code == 303  # one that is there can still be changed
    assert "shared views, which is the most" in save(browser, "b", shared="yes").text


def test_each_change_is_in_the_trail_without_its_words(console, engine):
    browser = console.logged_in("anna", "reviewer")
    save(browser, "mia.canary@personal.example", {"q": "canary"})
    save(browser, "")
    send(browser, f"{next(iter(links(browser).values()))}/remove")
    with engine.connect() as connection:
        found = audit.newest(connection, actions=[Action.VIEW_SAVED, Action.VIEW_REMOVED, Action.REFUSED])[::-1]
    assert [entry.action for entry in found] == ["view_saved", "view_saved", "refused", "view_removed"]
    assert found[0].about == found[3].about != ""
    assert "canary" not in repr(found)


def test_a_view_that_is_not_there_and_a_form_of_another_site(console):
    browser = console.logged_in("anna", "reviewer")
    for address in ("/views/sv_0123456789abcdef", "/views/..%2fx", "/views/" + "9" * 300):
        assert browser.get(address).status_code == 404
    found = browser.post("/views", data={"name": "x", "filters": ""}, headers={"origin": "https://evil.example"})
    assert found.status_code == 403
    assert links(browser) == {}


def test_where_nobody_logs_in_views_are_of_this_machine(console):
    browser = console.browser()
    browser.get("/traces")  # gives the token of the form
    save(browser, "failed")
    assert list(links(console.browser())) == ["failed"]
