"""Redaction of one text: what must go, what must stay, and what happens when a detector fails."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundwatch_review.redaction import (
    DETECTORS,
    RedactionLimits,
    Scope,
    evaluate,
    evaluate_file,
    redact_file,
    redact_text,
)
from groundwatch_review.redaction.engine import merge
from groundwatch_review.redaction.placeholders import TOKEN, WITHHELD
from groundwatch_review.redaction.rules import TYPES, Detector, Span

VALUES = {
    "EMAIL": "wang.lei@mail.example.org",
    "PHONE": "13812345678",
    "CN_ID": "11010519491231002X",
    "BANK_CARD": "4000056655665556",
    "IBAN": "DE89370400440532013000",
    "IP": "203.0.113.77",
    "MAC": "00:1A:2B:3C:4D:5E",
    "API_KEY": "ghp_q1W2e3R4t5Y6u7I8o9P0aSdFgHjKlZxCvBnM",
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTYifQ.c2lnbmF0dXJl",
    "IM_ID": "wxid_q8w7e6r5t4y3",
    "ORDER_ID": "SF1234567890123",
    "PLATE": "沪A12345",
}

SPELLINGS = [
    ("Ring me on 07911 123456 tonight", "07911 123456", "PHONE"),
    ("+44 (0)20 7946 0958 is our line", "20 7946 0958", "PHONE"),
    ("4155550199 is my cell", "4155550199", "PHONE"),
    ("Telefon 030/23125 123", "23125 123", "PHONE"),
    ("电话(021)6555 1234", "6555 1234", "PHONE"),
    ("手机１３８１２３４５６７８", "１３８１２３４５６７８", "PHONE"),
    ("手机138\u200b1234\u200b5678", "138\u200b1234\u200b5678", "PHONE"),
    ("josé.álvarez@correo.example", "josé.álvarez@", "EMAIL"),
    ("jane(at)example(dot)com", "jane(at)", "EMAIL"),
    ("mailto:bob%2Btag%40example.com", "bob%2Btag", "EMAIL"),
    ('{"email":"bob\\u0040example.com"}', "bob\\u0040", "EMAIL"),
    ("bob&#64;example.com", "bob&#64;", "EMAIL"),
    ("身份证：110105 1949 1231 002x", "1949 1231", "CN_ID"),
    ("身份证号110105194912310021填错了", "110105194912310021", "CN_ID"),  # wrong check digit: context decides
    ("卡号 6222 0200 0000 0000 008", "6222 0200", "BANK_CARD"),
    ("NI number QQ123456C", "123456", "NATIONAL_ID"),
    ("passport no: X1234567", "X1234567", "PASSPORT"),
    ("from [2001:db8::1:2:3] today", "2001:db8::1:2:3", "IP"),
    ("my order 48213377 is late", "48213377", "ORDER_ID"),
    ("customer id: 99887766", "99887766", "ACCOUNT_ID"),
    ("会员号 88213455", "88213455", "ACCOUNT_ID"),
    ("用户名：li_ming88", "li_ming88", "USERNAME"),
    ("/home/bob77/.ssh/config", "bob77", "USERNAME"),
    ("住址：上海市徐汇区漕溪北路1200弄3号楼502室", "漕溪北路1200弄3号楼502室", "ADDRESS"),
    ("221B Baker Street, London NW1 6XE", "221B Baker Street", "ADDRESS"),
    ("生于1985年3月4日", "1985年3月4日", "DOB"),
    ("lat 39.9042, lon 116.4074", "39.9042", "GEO"),
    ("password: Tr0ub4dor&3", "Tr0ub4dor&3", "API_KEY"),
    ("密码是qwe123456吗", "qwe123456", "API_KEY"),
    ('{"password":"correcthorse"}', "correcthorse", "API_KEY"),
    ("postgresql://u:pa55@w0rd@h/db", "pa55@w0rd", "CONN_STRING"),
    ("redis://:p%40ssW0rd-77@cache:6379/0", "ssW0rd-77", "CONN_STRING"),
    ("https://api.example.com/?api_key=abcd1234efgh5678", "abcd1234efgh5678", "URL_TOKEN"),
    ("我叫王小丽，想退货", "王小丽", "PERSON"),
    ("My name is Alice Moreno.", "Alice Moreno", "PERSON"),
]

HARMLESS = [
    "Use port 8080; Python 3.12.1 came out on 2024-05-06, see PEP 3156 and issue 12345.",
    "password: required, at least 8 characters. Your token is invalid or expired.",
    "用户可以在订单页面查看订单状态，订单超过30天自动关闭，企业版保留365天，上限500MB。",
    "version 2.3.4.5; listens on 127.0.0.1:8080, gateway 192.168.1.1, a slice x[1::2] and a::b",
    "@property and @functools.lru_cache(maxsize=128); x = 3.14159, 2.71828",
    "export DB_PASSWORD=${DB_PASSWORD}; use sk-xxxxxxxxxxxxxxxxxxxxxxxx; Bearer YOUR_TOKEN_HERE",
    "index up to 10,000 documents of 2,000,000 characters; error 0x80070005",
    "客户经理会在3个工作日内联系您，高级设置里可以打开安全模式。",
]

PEM_BODY = "MIIEpAIBAAKCAQEA7bq3dYk2Zx0pQm8sVt1uWc4RfLhKjNoGiBvXzCyAeSdT"


@pytest.mark.parametrize(("text", "value", "kind"), SPELLINGS)
def test_every_spelling_of_a_value_goes(text: str, value: str, kind: str) -> None:
    result = redact_text(text)
    assert value not in result.text
    assert kind in {placeholder.type for placeholder in result.placeholders}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize(
    "frame", ["查询{}是什么", "他说（{}）。", "😀{}🙏", "é{}ü", "Ж {} Ж", "{}", "\u3000{}\u3000", "「{}」"]
)
def test_values_glued_to_other_scripts_go(kind: str, frame: str) -> None:
    text = frame.format(VALUES[kind])
    assert VALUES[kind] not in redact_text(text).text


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_stays(text: str) -> None:
    result = redact_text(text)
    assert (result.status, result.text) == ("CLEAN", text)


@pytest.mark.parametrize(
    "key",
    [
        f"-----BEGIN RSA PRIVATE KEY-----\n{PEM_BODY}\n{PEM_BODY}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\\n{PEM_BODY}\\n-----END PRIVATE KEY-----",
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{PEM_BODY}",
        f"{PEM_BODY}\n-----END PRIVATE KEY-----",
    ],
)
def test_private_keys_go_whole_even_escaped_or_cut(key: str) -> None:
    result = redact_text(f"密钥如下：{key}请检查")
    assert PEM_BODY[:24] not in result.text
    assert result.text.endswith("请检查")


def test_offsets_are_code_points_so_an_emoji_does_not_shift_the_mask() -> None:
    assert redact_text("😀😀 a@example.com 😀!").text == "😀😀 [[EMAIL_1]] 😀!"


def test_equal_values_get_equal_tokens_and_different_ones_different_tokens() -> None:
    text = "Call 138-1234-5678 or 13812345678, not 13812345679; also +86 138 1234 5678."
    assert redact_text(text).text == "Call [[PHONE_1]] or [[PHONE_1]], not [[PHONE_2]]; also [[PHONE_1]]."


def test_a_scope_numbers_across_texts_and_another_scope_starts_again() -> None:
    scope = Scope()
    assert redact_text("a@example.com", scope).text == "[[EMAIL_1]]"
    assert redact_text("b@example.com a@example.com", scope).text == "[[EMAIL_2]] [[EMAIL_1]]"
    assert redact_text("b@example.com").text == "[[EMAIL_1]]"


def test_a_value_found_by_its_context_goes_where_it_has_none() -> None:
    result = redact_text("My order number is 48213377. The agent typed 48213377 twice, then 482133779.")
    assert result.text.count("[[ORDER_ID_1]]") == 2
    assert "482133779" in result.text


def test_parts_of_one_known_name_share_its_number() -> None:
    result = redact_text("My name is Alice Moreno. Moreno called; Alice was out.")
    assert result.text == "My name is [[PERSON_1]]. [[PERSON_1]] called; [[PERSON_1]] was out."


def test_known_values_go_in_any_case_and_grouping() -> None:
    known = [("PERSON", "Noah Iyer"), ("PHONE", "5550123")]
    result = redact_text("noah  iyer said 555-0123; Noahs and 15550123 stay", known_values=known)
    assert result.text == "[[PERSON_1]] said [[PHONE_1]]; Noahs and 15550123 stay"


def test_a_planted_token_is_broken_up_and_cannot_be_taken_for_ours() -> None:
    result = redact_text("[[EMAIL_1]] wrote to a@example.com")
    assert result.text == "[\u2060[EMAIL_1]] wrote to [[EMAIL_1]]"
    assert [(p.token, p.mentions) for p in result.placeholders] == [("[[EMAIL_1]]", 1)]


def test_overlaps_are_joined_not_cut() -> None:
    spans = [Span(0, 5, "PHONE"), Span(3, 12, "ORDER_ID"), Span(11, 13, "IP"), Span(20, 21, "IP")]
    assert merge(spans) == [Span(0, 13, "ORDER_ID"), Span(20, 21, "IP")]


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ("the code 73628194 is left", "digits"),
        ("7 3 6 2 8 1 9 4 5 6", "digits"),
        ("root@host", "at_sign"),
        ("blob a8F3kQ9zL2mX7vB1", "token"),
    ],
)
def test_what_still_looks_personal_holds_the_text(text: str, flag: str) -> None:
    result = redact_text(text)
    assert (result.status, result.flags) == ("BLOCKED", (flag,))


def _raising(_view: object) -> list[Span]:
    raise RuntimeError("quotes the text: a@example.com")


def _hanging(_view: object) -> list[Span]:
    threading.Event().wait(60)
    return []


FAULTS = {
    "raised": (_raising, "detector:broken:raised"),
    "bad_offsets": (lambda _view: [Span(0, 10_000, "EMAIL")], "detector:broken:bad_offsets"),
    "backwards": (lambda _view: [Span(5, 2, "EMAIL")], "detector:broken:bad_offsets"),
    "negative": (lambda _view: [Span(-3, 2, "EMAIL")], "detector:broken:bad_offsets"),
    "bad_type": (lambda _view: [Span(0, 1, "SHOE_SIZE")], "detector:broken:bad_type"),
    "hung": (_hanging, "detector:broken:hung"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_detector_that_fails_blocks_and_withholds_the_text(fault: str) -> None:
    find, reason = FAULTS[fault]
    broken = Detector("broken", "1", find)
    limits = RedactionLimits(hang_seconds=0.3)
    result = redact_text("plain text, personal or not", detectors=(*DETECTORS, broken), limits=limits)
    assert (result.status, result.text) == ("BLOCKED", WITHHELD)
    assert reason in result.reasons
    assert "example" not in "".join(result.reasons)


def test_a_detector_that_never_stops_finding_is_unstable() -> None:
    eager = Detector("eager", "1", lambda view: [Span(i, i + 1, "IP") for i, c in enumerate(view.ascii) if c == "["])
    result = redact_text("[ ] [", detectors=(eager,))
    assert result.status in ("REDACTED", "BLOCKED")
    assert "[ ]" not in result.text


@pytest.mark.parametrize(
    ("limits", "reason"),
    [(RedactionLimits(max_bytes=10), "too_large"), (RedactionLimits(budget_seconds=0.0), "out_of_time")],
)
def test_beyond_its_limits_a_text_is_withheld(limits: RedactionLimits, reason: str) -> None:
    result = redact_text("mail a@example.com now", limits=limits)
    assert (result.status, result.text, result.reasons) == ("BLOCKED", WITHHELD, (reason,))


SHAPES = [
    "a.", "a@", "@", "1", "1 ", "1-", "中", "+", "(", "a:", "/", "%41", "key=", "-----BEGIN PRIVATE KEY-----",
    "eyJa.", "Aa ", "市区路1号", "[[EMAIL_1]]", "0f", "王李", "\\u0041", "http://", "passport ", "&#x41;",
    "1 Aa ", "GB26", "Vrendla: x\n", "Qostrim, ", "联系人高稷屹", "said to ",
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_hostile_shapes_are_done_or_blocked_and_never_passed_through(shape: str) -> None:
    """The time is bounded by the budget itself: what takes longer is BLOCKED, which is a right answer too."""
    result = redact_text((shape * 50_000)[:50_000] + " bob@example.com")
    assert result.status == "BLOCKED" or "bob@example.com" not in result.text
    assert result.status != "CLEAN"


PIECES = st.sampled_from(
    [*VALUES.values(), *(text for text, _v, _k in SPELLINGS), "[[EMAIL_1]]", "\ud800", "\x00", "中"]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(PIECES, st.text(max_size=12)), max_size=6).map("".join))
def test_a_second_pass_changes_nothing_and_the_text_can_be_stored(text: str) -> None:
    first = redact_text(text)
    tokens = [placeholder.token for placeholder in first.placeholders]
    second = redact_text(first.text, own=[*tokens, WITHHELD])
    assert second.text == first.text
    first.text.encode()  # no lone surrogate is left
    assert "\x00" not in first.text


def test_every_type_can_be_a_placeholder() -> None:
    assert all(TOKEN.fullmatch(f"[[{kind}_1]]") for kind in TYPES)


def test_a_json_file_is_redacted_leaf_by_leaf_with_its_keys_as_context(tmp_path: Path) -> None:
    source = {
        "user": {"password": "correct-h0rse", "phone": 13812345678, "n": 3},
        "ok": True,
        "tags": ["a@example.com"],
    }
    path = tmp_path / "in.json"
    path.write_text(json.dumps(source))
    text, report = redact_file(path)
    found = json.loads(text)
    assert found == {
        "user": {"password": "[[API_KEY_1]]", "phone": "[[PHONE_1]]", "n": 3},
        "ok": True,
        "tags": ["[[EMAIL_1]]"],
    }
    assert report == {"status": "REDACTED", "counts": {"API_KEY": 1, "EMAIL": 1, "PHONE": 1}, "reasons": []}


def test_a_text_file_is_redacted_as_text(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("写信给a@example.com吧\n", encoding="utf-8")
    text, report = redact_file(path)
    assert text == "写信给[[EMAIL_1]]吧\n"
    assert report["status"] == "REDACTED"


def test_evaluation_counts_what_was_missed() -> None:
    rows: list[dict[str, Any]] = [
        {
            "id": "1",
            "kind": "pii",
            "lang": "en",
            "text": "mail a@example.com",
            "spans": [{"start": 5, "end": 18, "type": "EMAIL"}],
        },
        {
            "id": "2",
            "kind": "pii",
            "lang": "en",
            "text": "The Qzorba file",
            "spans": [{"start": 4, "end": 10, "type": "PERSON"}],
        },
        {
            "id": "3",
            "kind": "hard_negative",
            "neg_kind": "public",
            "lang": "en",
            "text": "press@example.com",
            "spans": [],
        },
        {"id": "4", "kind": "hard_negative", "neg_kind": "date", "lang": "en", "text": "on 2024-01-01", "spans": []},
    ]
    report = evaluate(rows)
    assert report["recall"]["EMAIL/en"] == {"found": 1, "of": 1, "rate": 1.0}
    assert report["recall"]["PERSON/en"]["found"] == 0
    assert report["hard_negatives_changed"]["all"] == {"found": 1, "of": 2, "rate": 0.5}
    assert report["silent_leak_rate"] == 0.5
    assert report["missed"] == ["2:PERSON", "3:changed:public"]


@pytest.mark.shared_data
def test_the_published_figures_hold_on_the_labelled_set(shared_data: Path) -> None:
    """docs/redaction.md has the figures; the margins leave room for a changed rule, not for a lost type."""
    report = evaluate_file(shared_data / "pii_dev.jsonl.gz")
    recall = report["recall"]
    assert recall["STRUCTURED/all"]["rate"] >= 0.99
    assert recall["SECRETS/all"]["rate"] == 1.0
    assert all(r["rate"] >= 0.95 for name, r in recall.items() if r["of"] >= 10 and not name.startswith("PERSON"))
    assert recall["PERSON/zh"]["rate"] >= 0.95
    assert recall["PERSON/en"]["rate"] >= 0.95
    assert report["silent_leak_rate"] <= 0.01
    assert report["hard_negatives_changed"]["all"]["rate"] <= 0.05
    assert report["silent_leak_rate_structured"] <= 0.01
    assert report["hold_rate_hard_negatives"] <= 0.2


@pytest.mark.shared_data
def test_names_of_the_labelled_set_are_found_when_no_list_holds_them(shared_data: Path) -> None:
    """By what stands around them, and because no dictionary holds them: 104 of 106, without that 49."""
    report = evaluate_file(shared_data / "pii_dev.jsonl.gz", models=False, unseen_names=True)
    assert report["recall"]["PERSON/en"]["rate"] >= 0.9
    assert report["silent_leak_rate"] <= 0.02
    assert report["hard_negatives_changed"]["all"]["rate"] <= 0.05


def _people(identifier: str, text: str, **who: str) -> dict[str, Any]:
    spans = [
        {"start": text.index(name), "end": text.index(name) + len(name), "type": "PERSON", "entity": entity}
        for name, entity in who.items()
    ]
    return {"id": identifier, "kind": "pii", "lang": "en", "text": text, "spans": spans}


def test_evaluation_tells_who_got_the_placeholder_of_somebody_else() -> None:
    def capitals(view: Any) -> list[Span]:
        return [Span(m.start(), m.end(), "PERSON") for m in re.finditer(r"[A-Z][a-z]+", view.folded)]

    rows = [
        _people("apart", "Ann and Bob", Ann="p1", Bob="p2"),
        _people("split", "Ann is Annie", Ann="p1", Annie="p1"),
        _people("hidden", "😀 Ann%20Bob", Ann="p1"),
        _people("missed", "ann went", ann="p1"),
    ]
    found = evaluate(rows, [Detector("capitals", "1", capitals)])["consistency"]
    assert found == {"rows": 3, "kept": 2, "rate": 0.6667, "mentions": 5, "broken": ["split"]}


def test_names_that_no_list_knows_can_be_measured(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    name = "Bernadette"
    span = {"start": 4, "end": 4 + len(name), "type": "PERSON"}
    row = {"id": "1", "kind": "pii", "lang": "en", "text": f"The {name} file.", "spans": [span]}
    path.write_text(json.dumps(row))
    known, unseen = (
        evaluate_file(path, models=False, unseen_names=without)["recall"]["PERSON/en"]["found"]
        for without in (False, True)
    )
    assert (known, unseen) == (1, 0)
