"""E-mail addresses, phone numbers, messenger ids and user names."""

from __future__ import annotations

import re
from typing import Final

from groundwatch_review.redaction.rules import LEFT, RIGHT, Rule, both, by_rules, context, digits
from groundwatch_review.redaction.views import View

# Letters that can belong to a mail address beside ASCII ones: accented Latin, Greek, Cyrillic, Arabic, Indic ...
# but not Chinese, Japanese or Korean, which stand glued to an address without being part of it.
_WORD: Final = r"0-9A-Za-z\u00c0-\u02af\u0370-\u1fff"
_CJK: Final = r"\u3400-\u9fff\u3040-\u30ff\uac00-\ud7af"


def _not_git(match: re.Match[str], _view: View) -> bool:
    return not match.group().startswith("git@")


_EMAIL: Final = (
    Rule(
        "EMAIL",
        re.compile(rf"[{_WORD}._%+'\-]{{1,64}}@(?:[{_WORD}\-]{{1,63}}\.){{1,8}}[{_WORD}\-]{{2,24}}"),
        view="folded",
        needs=("@",),
        accepts=_not_git,
    ),
    # A Chinese domain has no visible end: take the run of characters on both sides.
    Rule(
        "EMAIL",
        re.compile(
            rf"[{_WORD}{_CJK}._%+\-]{{1,64}}@[{_WORD}\-]{{0,30}}[{_CJK}][{_WORD}{_CJK}\-]{{0,30}}\.[{_WORD}{_CJK}.]{{2,30}}"
        ),
        view="folded",
        needs=("@",),
    ),
    Rule(
        "EMAIL",
        re.compile(
            r"[A-Za-z0-9._%+\-]{1,64} {0,2}[\[({] ?(?:at|AT|At) ?[\])}] {0,2}"
            r"[A-Za-z0-9\-]{1,63}(?: {0,2}(?:[\[({] ?(?:dot|DOT|Dot) ?[\])}]|\.) {0,2}[A-Za-z0-9\-]{1,63}){1,5}"
        ),
        needs=("at]", "at)", "at}", "at "),
    ),
    Rule(
        "EMAIL",
        re.compile(r"[A-Za-z0-9._%+\-]{1,64} at [A-Za-z0-9\-]{1,63}(?: dot [A-Za-z0-9\-]{2,63}){1,4}" + RIGHT),
        needs=(" dot ",),
    ),
)

_TOLL_FREE: Final = re.compile(r"^(?:1?8(?:00|33|44|55|66|77|88)|[48]00|0?800)")
_PHONE_WORDS: Final = (
    r"phone|mobile|cell|call|text|tel|fax|dial|ring|landline|whatsapp|sms|reach|contact|number is|"
    r"电话|手机|座机|传真|号码|拨打|联系|致电|短信"
)
# Labels are often glued to the number: tel13800000000.
_AFTER_WORD: Final = r"(?:(?<![A-Za-z0-9])|(?<=[Tt]el)|(?<=TEL)|(?<=[Pp]hone)|(?<=[Mm]obile))"
_EXT: Final = r"(?:\s{0,2}(?:ext\.?|x|转|#|分机)\s{0,2}[0-9]{1,6})?"


def _grouped(match: re.Match[str], _view: View) -> bool:
    """A number in few groups; a row of a table has many short ones."""
    groups = re.findall(r"[0-9]+", match.group())
    return len(groups) <= 5 and len(digits(match.group())) >= 2 * len(groups)


def _personal(match: re.Match[str], _view: View) -> bool:
    """Toll-free hotlines are published numbers."""
    group = 1 if match.re.groups and match.start(1) >= 0 else 0
    return not _TOLL_FREE.match(digits(match.group(group)))


def _uk(match: re.Match[str], view: View) -> bool:
    found = digits(match.group())
    spelled = " " in match.group() or "-" in match.group()
    return len(found) in (10, 11) and (spelled or found.startswith("07") or context(_PHONE_WORDS)(match, view))


_PHONE: Final = (
    # Mainland China, mobile and fixed line.
    Rule(
        "PHONE",
        re.compile(_AFTER_WORD + r"(?:\(?(?:\+|00)?86\)?[ .\-]{0,2})?1[3-9](?:[ .\-]{0,2}[0-9]){9}(?![0-9])"),
        accepts=_grouped,
    ),
    Rule("PHONE", re.compile(r"(?<![0-9A-Za-z])\+86[ .\-]{0,2}1[3-9](?:[ .\-]{0,2}[0-9]){9}(?![0-9])")),
    Rule(
        "PHONE",
        re.compile(
            r"(?<![0-9A-Za-z.])\(?0(?:10|2[0-9]|[3-9][0-9]{2})\)?[ \-]{0,2}[2-9][0-9]{2,3}[ \-]?[0-9]{4}"
            rf"{_EXT}(?![0-9])"
        ),
        view="folded",
        accepts=_personal,
    ),
    # International notation.
    Rule(
        "PHONE",
        re.compile(rf"(?<![A-Za-z0-9])\+(?![0-9]\.[0-9]{{3}})[1-9](?:[ .()\-]{{0,2}}[0-9]){{6,14}}{_EXT}(?![0-9])"),
        view="folded",
    ),
    Rule("PHONE", re.compile(r"(?<![A-Za-z0-9.\-])00[1-9](?:[ \-]?[0-9]){8,13}(?![0-9A-Za-z])")),
    # North America: written with separators, or bare beside a word for phone.
    Rule(
        "PHONE",
        re.compile(
            r"(?<![A-Za-z0-9.\-])(?:\+?1[ .\-]{1,2})?(?:\([2-9][0-9]{2}\)[ .\-]{0,2}|[2-9][0-9]{2}[ .\-])"
            rf"[2-9][0-9]{{2}}[ .\-][0-9]{{4}}{_EXT}(?![0-9])"
        ),
        accepts=_personal,
    ),
    Rule(
        "PHONE",
        re.compile(LEFT + r"1?[2-9][0-9]{2}[2-9][0-9]{6}" + RIGHT),
        accepts=both(_personal, context(_PHONE_WORDS, after=16)),
    ),
    # United Kingdom.
    Rule(
        "PHONE",
        re.compile(r"(?<![A-Za-z0-9.\-])0[127][0-9]{2,4}[ \-]?[0-9]{3,4}[ \-]?[0-9]{3,6}(?![0-9A-Za-z\-])"),
        accepts=both(_uk, _personal),
    ),
    # Any notation after a word that announces it.
    Rule(
        "PHONE",
        re.compile(
            r"(?:(?i:telephone|phone|mobile|cell|telefon|telefono|tel|fax|whatsapp)(?![a-z])|电话|手机|座机|传真)[^0-9+(\n]{0,10}"
            r"([+(]?[0-9](?:[ .()/\-]{0,2}[0-9]){6,14})(?![0-9A-Za-z])"
        ),
        view="folded",
        group=1,
        accepts=_personal,
    ),
)


def _handle(match: re.Match[str], _view: View) -> bool:
    """A word is not a user name; a word with a digit or an underscore in it is."""
    value = match.group(1)
    return any(char.isdigit() or char == "_" for char in value) and any(char.isalpha() for char in value)


_NOT_USERS: Final = frozenset(
    [
        "user",
        "username",
        "name",
        "you",
        "me",
        "app",
        "root",
        "runner",
        "ubuntu",
        "shared",
        "public",
        "default",
        "node",
        "admin",
    ]
)


def _home(match: re.Match[str], _view: View) -> bool:
    return match.group(1).lower() not in _NOT_USERS and match.group(1)[0] not in "<$%{"


_ACCOUNT: Final = (
    Rule(
        "IM_ID",
        re.compile(
            r"(?:QQ|qq|Qq)(?:号码|号|群号|群| (?i:number|no\.?|id))?(?:[是为:\s]|(?i: is )){0,3}"
            r"([1-9][0-9]{4,10})(?![0-9A-Za-z])"
        ),
        view="folded",
        group=1,
    ),
    Rule("IM_ID", re.compile(LEFT + r"wxid_[A-Za-z0-9_\-]{4,40}"), needs=("wxid",)),
    Rule(
        "IM_ID",
        re.compile(
            r"(?:微信|(?i:wechat|weixin|vx|line|skype))(?:号码|号| ?(?i:id))?[是为:\s]{0,3}"
            r"([A-Za-z][A-Za-z0-9_\-]{5,24})"
        ),
        view="folded",
        group=1,
        accepts=_handle,
    ),
    Rule("IM_ID", re.compile(LEFT + r"(?:t\.me|wa\.me|m\.me)/[A-Za-z0-9_+]{4,32}"), needs=(".me/",)),
    Rule(
        "USERNAME",
        re.compile(r"(?<![A-Za-z0-9._%+\-])(@[A-Za-z][A-Za-z0-9_]{2,38})(?![A-Za-z0-9_]|[.(@])"),
        group=1,
        needs=("@",),
        accepts=lambda match, _view: any(char.isdigit() for char in match.group(1)),
    ),
    Rule(
        "USERNAME",
        re.compile(
            r"""(?:/home/|/Users/|[A-Za-z]:\\{1,2}Users\\{1,2}|[A-Za-z]:/Users/)([^/\\\s"':;,*?<>|\x1a]{2,64})"""
        ),
        view="folded",
        group=1,
        needs=("/home/", "users"),
        accepts=_home,
    ),
    Rule(
        "USERNAME",
        re.compile(
            r"(?:(?i:user[_ ]?name|username|user|login|nickname|screen name)(?![A-Za-z_])|"
            r"用户名|登录名|用户|账号|帐号|账户|昵称)"
            r"""["'”]?(?:是|为|[:=\s"'“]|(?i: is )){0,3}([A-Za-z][A-Za-z0-9_.\-]{2,38})"""
        ),
        view="folded",
        group=1,
        accepts=_handle,
    ),
)

EMAILS: Final = by_rules("emails", "1", _EMAIL)
PHONES: Final = by_rules("phones", "1", _PHONE)
ACCOUNTS: Final = by_rules("usernames", "1", _ACCOUNT)
