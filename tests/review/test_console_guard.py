"""Strangers' text is inert, other sites cannot write, other names are not answered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, insert, select
from starlette.testclient import TestClient

from groundwatch_collector.ragtrace import Citation, Document, Stage
from groundwatch_collector.tables import feedback
from groundwatch_review.console import ConsoleConfig, console_app
from groundwatch_review.console.guard import CSRF_COOKIE, POLICY, host_name
from groundwatch_review.console.marking import Range, is_deceptive, marked, passage, visible
from groundwatch_review.tables import reviews
from groundwatch_scorer.judgement import (
    AnnotatorKind,
    Assessment,
    ClaimVerdict,
    Evidence,
    FaultFinding,
    FaultLayer,
    Verdict,
)

NOW = 1_790_000_000.0
ORIGIN = "http://127.0.0.1:4390"
HOSTILE = (
    "<script>alert(1)</script>",
    '"><svg onload=alert(1)>',
    "javascript:alert(1)",
    "' onmouseover='alert(1)",
    "![x](https://evil.example/pixel.png)",
    '<base href="https://evil.example/">',
    "</textarea></title></style><img src=x onerror=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "safe\u202egnp.exe",
)


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """One kind is enough: nothing here depends on the database."""
    return f"sqlite:///{tmp_path / 'groundwatch.db'}"


@pytest.fixture
def client(engine: Engine) -> Iterator[TestClient]:
    app = console_app(engine, ConsoleConfig(), now=lambda: NOW, candidate_key=b"k" * 32)
    with TestClient(app, base_url=ORIGIN) as found:
        yield found


def hostile_trace(engine: Engine, add_trace: Any, payload: str) -> str:
    """A trace that carries *payload* wherever a stranger can write."""
    document = Document(payload, 1, 1.0, payload, title=payload, version=payload)
    evidence = (Evidence(payload, 0, len(payload), payload),)
    claim = ClaimVerdict(payload, 0, len(payload), Verdict.CONTRADICTED, 0.9, payload, evidence)
    trace_id = str(
        add_trace(
            query=payload,
            rewritten_query=payload + " again",
            answer=payload,
            version=payload,
            candidates=(document,),
            reranked=(document,),
            context=(document,),
            citations=(Citation(payload, payload),),
            model=payload,
            error_class=payload,
            outcome_reason=payload,
            convention=payload,
            flags=(payload,),
            sources={payload: payload},
            stages=(Stage("other", "a", "", payload, NOW - 60, 0.5, "error", payload, 2),),
            judged=Assessment(payload, AnnotatorKind.LLM, (claim,), flags=(payload,), explanation=payload),
            finding=FaultFinding(FaultLayer.GENERATION, 0.9, payload, evidence),
        )
    )
    with engine.begin() as connection:
        values = {"name": payload, "sentiment": "negative", "label": payload, "comment": payload, "position": 0}
        connection.execute(insert(feedback).values(feedback_id="f1", trace_id=trace_id, received_at=NOW, **values))
    return trace_id


@pytest.mark.parametrize("payload", HOSTILE)
def test_hostile_text_is_text_on_every_page(client, engine, add_trace, payload):
    trace_id = hostile_trace(engine, add_trace, payload)
    form = {"decision": "confirm", "fault_layer": "generation", "note": payload}
    client.get("/review")
    token = client.cookies[CSRF_COOKIE]
    paths = ["/", "/traces", "/traces?q=" + "%3Cscript%3E", f"/traces/{trace_id}", "/review", "/candidates"]
    pages = [client.get(path).text for path in paths]
    client.post(f"/traces/{trace_id}/decision", data={**form, "csrf": token}, headers={"origin": ORIGIN})
    pages += [client.get(f"/traces/{trace_id}").text, client.get("/candidates").text]
    for page in pages:
        tags = re.findall(r"<\s*(script|img|base|style|iframe|object|svg[^>]*onload)[^>]*>", page)
        assert tags == ["script"]  # our own file in the head
        assert not re.search(r"<[^>]*\s(on\w+|style)\s*=", re.sub(r'"[^"]*"', '""', page))
        assert "\u202e" not in re.sub(r'value="[^"]*"', "", page)  # what a form sends back must stay as it is
        assert 'href="javascript' not in page
        assert "49{% raw" not in page


def test_every_answer_carries_the_policy(client, world):
    for path in ("/", "/traces", "/static/console.css", "/nope", "/healthz", "/api/overview"):
        headers = client.get(path).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


def test_the_policy_allows_nothing_from_elsewhere():
    directives = dict(part.split(" ", 1) for part in POLICY.split("; "))
    assert directives.pop("default-src") == "'none'"
    assert directives.pop("frame-ancestors") == directives.pop("base-uri") == "'none'"
    assert set(directives.values()) == {"'self'"}


def test_pages_are_not_stored_by_browsers_or_proxies(client, world):
    assert client.get("/").headers["cache-control"] == "no-store"


ODD_HOSTS = (
    "user@localhost",
    "localhost:99999",
    "localhost:x",
    "localhost/x",
    "localhost#",
    "localhost:",
    "[::1",
    "local host",
)


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "[", "localhost@evil.example", *ODD_HOSTS]
)
def test_another_host_name_is_not_answered(client, world, host):
    answer = client.get("/", headers={"host": host})
    assert answer.status_code == 421
    assert "manual-assistant" not in answer.text


@pytest.mark.parametrize("host", ["localhost:4390", "LOCALHOST", "127.0.0.1", "[::1]:4390"])
def test_our_own_names_are_answered_on_any_port(client, host):
    assert client.get("/", headers={"host": host}).status_code == 200


@given(st.text())
def test_no_host_header_breaks_the_check(host):
    assert isinstance(host_name(host), str)


@pytest.mark.parametrize(
    ("headers", "change"),
    [
        ({}, {}),  # no Origin
        ({"origin": "null"}, {}),
        ({"origin": "https://evil.example"}, {}),
        ({"origin": "http://["}, {}),  # cannot be read
        ({"origin": "http://127.0.0.1:9999"}, {}),
        ({"origin": ORIGIN, "sec-fetch-site": "cross-site"}, {}),
        ({"origin": ORIGIN, "content-type": "text/plain"}, {}),
        ({"origin": ORIGIN}, {"csrf": "wrong"}),
        ({"origin": ORIGIN}, {"csrf": ""}),
        ({"origin": ORIGIN}, {"csrf": "é"}),
        ({"origin": ORIGIN}, {f"field_{number}": "" for number in range(500)}),  # too many
    ],
)
def test_a_write_that_is_not_from_our_own_page_is_refused(client, engine, world, headers, change):
    client.get("/review")
    fields = {"csrf": client.cookies[CSRF_COOKIE], "decision": "reject", **change}
    answer = client.post(f"/traces/{world.failed[0]}/decision", data=fields, headers=headers)
    assert answer.status_code == 403
    assert "Nothing was changed" in answer.text
    with engine.connect() as connection:
        assert connection.execute(select(reviews)).all() == []


def test_a_write_without_the_cookie_is_refused(client, world):
    answer = client.post(
        f"/traces/{world.failed[0]}/decision", data={"csrf": "", "decision": "reject"}, headers={"origin": ORIGIN}
    )
    assert answer.status_code == 403


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(client):
    cookie = client.get("/").headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie


def test_a_form_has_a_bound(client, world):
    body = {"csrf": "x", "note": "n" * 300_000}
    answer = client.post(f"/traces/{world.failed[0]}/decision", data=body, headers={"origin": ORIGIN})
    assert answer.status_code == 413


def test_no_number_in_an_address_breaks_a_page(client, world):
    for number in ("9" * 30, "9" * 5000, "nan", "1e400", "x"):
        assert client.get("/traces", params={"until": number}).status_code == 200, number
        assert client.get("/audit", params={"before": number}).status_code == 200, number


@pytest.mark.parametrize("path", ["/traces?version=%00", "/traces?q=%00", "/review?version=a%00", "/traces?q=%0%000"])
def test_what_postgresql_cannot_look_for_is_not_found(client, world, path):
    answer = client.get(path)
    assert answer.status_code == 200
    assert not any(trace_id in answer.text for trace_id in world.failed)


def test_an_address_that_postgresql_cannot_look_for_is_refused(client):
    assert client.get("/users/%00").status_code == 400


def test_a_character_that_postgresql_cannot_keep_is_left_out_of_a_form(client, engine, world):
    client.get("/review")
    fields = {"csrf": client.cookies[CSRF_COOKIE], "decision": "reject", "note": "not\x00 so"}
    client.post(f"/traces/{world.failed[0]}/decision", data=fields, headers={"origin": ORIGIN})
    with engine.connect() as connection:
        assert connection.scalar(select(reviews.c.note)) == "not so"


@pytest.mark.parametrize("path", ["/traces/" + "0" * 31 + "1/decision", "/candidates/export"])
def test_writes_are_not_reached_by_links(client, path):
    assert client.get(path).status_code in (404, 405)


# Marking


@given(st.text())
def test_marking_keeps_every_visible_character_and_no_deceptive_one(text):
    shown = str(visible(text))
    assert not any(is_deceptive(shown, index) for index in range(len(shown)) if shown[index] != "\u200d")
    plain = re.sub(r'<span class="ctrl"[^>]*>[^<]*</span>', "", shown)
    kept = "".join(c for i, c in enumerate(text) if not is_deceptive(text, i))
    assert visible(kept).unescape() == re.sub("<[^>]*>", "", plain).replace("&lt;", "<").replace("&gt;", ">").replace(
        "&#34;", '"'
    ).replace("&#39;", "'").replace("&amp;", "&")


@given(st.text(), st.lists(st.tuples(st.integers(-5, 60), st.integers(-5, 60))))
def test_any_ranges_over_any_text_give_balanced_marks(text, spans):
    shown = str(marked(text, [Range(start, end, "claim", n) for n, (start, end) in enumerate(spans, 1)]))
    assert shown.count("<span") == shown.count("</span>")
    assert "<script" not in shown


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("a\u202eb", "RLO"),
        ("a\u2066b", "LRI"),
        ("a\u200bb", "ZWSP"),
        ("a\x00b", "00"),
        ("a\x1bb", "ESC"),
        ("pay\u200dpal", "ZWJ"),
    ],
)
def test_a_character_that_deceives_is_a_labelled_box(text, label):
    assert f">{label}</span>" in visible(text)


@pytest.mark.parametrize("text", ["👩\u200d💻", "团队版，50 MB。", "a\tb\nc", "naïve é", "مرحبا"])
def test_honest_text_is_left_alone(text):
    assert visible(text) == text


def test_a_quote_that_its_document_does_not_hold_is_shown_alone():
    assert passage("some text", 0, 4, "other") == '<mark class="quote" title="passage">other</mark>'
    assert passage(None, 0, 4, "some").count("mark") == 2
    assert str(passage("x" * 500 + "some" + "y" * 500, 500, 504, "some")).startswith("… x")
