"""With a key, feedback needs the token of its trace; without one nothing changes."""

from __future__ import annotations

import pytest

from groundwatch import feedback_signing
from groundwatch_collector.feedback_access import FeedbackAccess
from groundwatch_collector.limits import Rejected

KEY = b"a feedback key, long enough"
TRACE = "ab" * 16


def test_without_a_key_everyone_is_who_they_say():
    access = FeedbackAccess()
    assert (access.by_token, access.subject(TRACE, "bob", None)) == (False, "bob")
    assert access.subject(TRACE, "", "anything") == ""


def test_the_subject_is_the_one_that_was_signed():
    access = FeedbackAccess([KEY])
    token = feedback_signing.make(KEY, TRACE, "bob")
    assert access.by_token
    assert access.subject(TRACE, "", token) == access.subject(TRACE, "bob", token) == "bob"
    assert access.subject(TRACE, "", feedback_signing.make(KEY, TRACE)) == ""


@pytest.mark.parametrize(
    ("by", "token", "said"),
    [
        ("", None, "token: missing"),
        ("", "", "token: missing"),
        ("", 7, "not made for this trace"),
        ("", "x" * 22, "not made for this trace"),
        ("", feedback_signing.make(KEY, "ba" * 16), "not made for this trace"),
        ("", feedback_signing.make(b"another key, also long", TRACE), "not made for this trace"),
        ("eve", feedback_signing.make(KEY, TRACE, "bob"), "by: not whom the token was made for"),
        ("eve", feedback_signing.make(KEY, TRACE), "by: not whom the token was made for"),
    ],
)
def test_what_the_token_does_not_cover_is_refused(by, token, said):
    with pytest.raises(Rejected, match=said) as refused:
        FeedbackAccess([KEY]).subject(TRACE, by, token)
    assert (refused.value.status, refused.value.reason) == (403, "feedback_token")


def test_only_named_pages_may_post_from_a_browser():
    access = FeedbackAccess([KEY], ["https://shop.example"])
    told = access.preflight("https://shop.example")
    assert told is not None and told["access-control-allow-origin"] == "https://shop.example"
    assert access.preflight("https://evil.example") is None
    assert access.headers_for("https://shop.example.evil") == access.headers_for("") == {}


@pytest.mark.parametrize("origin", ["*", "shop.example", "https://shop.example/", "null", ""])
def test_an_origin_that_no_browser_sends_is_refused(origin):
    with pytest.raises(ValueError, match="like https://shop"):
        FeedbackAccess([KEY], [origin])


def test_browsers_may_not_post_where_no_token_is_asked_for():
    with pytest.raises(ValueError, match="GROUNDWATCH_FEEDBACK_KEY"):
        FeedbackAccess([], ["https://shop.example"])
