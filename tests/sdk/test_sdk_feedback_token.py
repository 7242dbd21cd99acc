"""A token lets its holder vote on one trace, and tells nothing to anyone without the key."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import pytest

import groundwatch
from groundwatch import feedback_signing as signing
from groundwatch import names
from groundwatch.settings import ConfigurationError

KEY = b"0123456789abcdef"
TRACE = "ab" * 16


def test_a_token_is_good_for_its_trace_and_its_subject_only():
    token = signing.make(KEY, TRACE, "bob")
    assert signing.subject_of([KEY], TRACE, token) == "bob"
    assert signing.subject_of([KEY], TRACE.upper(), token) == "bob"
    mac = token.partition(".")[2]
    wrong = [
        None,
        5,
        "",
        "x",
        mac,
        f"eve.{mac}",
        f"bob.{mac}A",
        f"bob.{mac[:-1]}",
        f" {token}",
        f"{token}\n",
        f"bob..{mac}",
    ]
    assert [signing.subject_of([KEY], TRACE, bad) for bad in wrong] == [None] * len(wrong)
    assert signing.subject_of([KEY], "ba" * 16, token) is None
    assert signing.subject_of([b"another key, long"], TRACE, token) is None
    assert signing.subject_of([], TRACE, token) is None


def test_a_token_for_anyone_is_22_characters_that_an_address_can_hold():
    token = signing.make(KEY, TRACE)
    assert signing.subject_of([KEY], TRACE, token) == ""
    assert len(token) == 22 and set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def test_a_new_key_can_take_over_while_old_tokens_are_still_out():
    keys = signing.keys_of(" a fresh key of bytes , 0123456789abcdef,")
    assert keys == (b"a fresh key of bytes", KEY)
    old, new = signing.make(KEY, TRACE), signing.make(keys[0], TRACE)
    assert [signing.subject_of(keys, TRACE, token) for token in (old, new)] == ["", ""]


def test_a_key_that_could_be_guessed_is_refused_and_not_repeated():
    with pytest.raises(ConfigurationError, match="feedback_key: found 6 bytes, accepted: at least 16") as error:
        groundwatch.configure(endpoint="http://127.0.0.1:1", feedback_key="secret")
    assert "secret" not in str(error.value)


def test_the_request_and_the_module_give_the_same_token(receiver):
    groundwatch.configure(endpoint=receiver.url, feedback_key=KEY.decode())
    with groundwatch.request("q", user="bob") as r:
        token = r.feedback_token
    assert token == groundwatch.feedback_token(r.trace_id, user="bob")
    groundwatch.feedback(r.trace_id, label="down", user="bob", token=token)
    assert not groundwatch.flush().pending
    (sent,) = receiver.feedback()
    assert signing.subject_of([KEY], r.trace_id, sent["token"]) == sent["by"] == receiver.root()[names.USER_HASH]


def test_without_a_user_the_token_names_nobody(receiver):
    groundwatch.configure(endpoint=receiver.url, feedback_key=KEY.decode())
    with groundwatch.request("q") as r:
        assert signing.subject_of([KEY], r.trace_id, r.feedback_token) == ""


def test_without_a_key_there_is_no_token_and_none_is_sent(configured):
    with groundwatch.request("q") as r:
        assert r.feedback_token == groundwatch.feedback_token(r.trace_id) == ""
    groundwatch.feedback(r.trace_id, token=r.feedback_token)
    groundwatch.flush()
    assert "token" not in configured.feedback()[0]


def test_nothing_raises_before_configure_or_for_a_bad_trace_id(receiver):
    assert groundwatch.feedback_token(TRACE) == groundwatch.request("q").feedback_token == ""
    groundwatch.configure(endpoint=receiver.url, feedback_key=KEY.decode())
    assert groundwatch.feedback_token("nonsense") == ""


def test_settings_do_not_show_the_key(receiver):
    groundwatch.configure(endpoint=receiver.url, feedback_key="a very secret key")
    assert "very secret" not in repr(groundwatch.client._client.settings)  # type: ignore[union-attr]
