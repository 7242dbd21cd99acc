"""Secrets: vendor shapes, keys in PEM, JSON web tokens, connection strings, tokens in links, key = value."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from groundwatch_review.redaction.rules import LEFT, Detector, Rule, Span, by_rules
from groundwatch_review.redaction.views import STOP, View

# Shapes that the vendors publish. The prefix decides; lengths are lower bounds, so that a cut key is found too.
_VENDOR: Final = (
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,20}",  # AWS
    r"AKID[A-Za-z0-9]{20,60}",  # Tencent Cloud
    r"LTAI[A-Za-z0-9]{12,30}",  # Alibaba Cloud
    r"AKLT[A-Za-z0-9]{16,60}",  # Volcano Engine
    r"AIza[A-Za-z0-9_\-]{24,48}",  # Google
    r"ya29\.[A-Za-z0-9_\-]{16,512}",
    r"GOCSPX-[A-Za-z0-9_\-]{16,64}",
    r"gh[oprsu]_[A-Za-z0-9]{16,255}",  # GitHub
    r"github_pat_[A-Za-z0-9_]{16,255}",
    r"gl(?:pat|ptt|dt|rt|cbt|soat)-[A-Za-z0-9_\-]{16,64}",  # GitLab
    r"hf_[A-Za-z0-9]{16,64}",  # Hugging Face
    r"npm_[A-Za-z0-9]{20,64}",
    r"pypi-[A-Za-z0-9_\-]{32,255}",
    r"[sp]k-[A-Za-z0-9_\-]{16,255}",  # OpenAI, Anthropic, DeepSeek, DashScope, Langfuse ...
    r"(?:sk|rk|pk)_(?:test|live)_[A-Za-z0-9]{10,255}",  # Stripe
    r"whsec_[A-Za-z0-9+/=]{16,255}",
    r"xox[abeoprs]-[A-Za-z0-9\-]{10,255}",  # Slack
    r"xapp-[A-Za-z0-9\-]{10,255}",
    r"SG\.[A-Za-z0-9_\-]{16,64}\.[A-Za-z0-9_\-]{16,64}",  # SendGrid
    r"(?:gsk|glsa|glc|dop_v1|shpat|shpss|lin_api|ntn|pscale_tkn|r8|tvly|pplx|xai|nvapi)[_\-][A-Za-z0-9_\-]{20,255}",
    r"hv[sbr]\.[A-Za-z0-9_\-]{16,255}",  # Vault
    r"dapi[0-9a-f]{32}",  # Databricks
    r"(?:ATATT|ATCTT)[A-Za-z0-9_\-=]{20,255}",  # Atlassian
    r"PMAK-[A-Za-z0-9\-]{16,128}",  # Postman
    r"AGE-SECRET-KEY-1[A-Z0-9]{20,64}",
    r"[0-9]{8,10}:AA[A-Za-z0-9_\-]{30,40}",  # Telegram bot
    r"sess(?:ion)?_[A-Za-z0-9]{16,128}",
)

_PLACEHOLDER_WORDS: Final = (
    "your",
    "example",
    "placeholder",
    "changeme",
    "xxxx",
    "****",
    "redacted",
    "dummy",
    "....",
)
_CODE_WORDS: Final = frozenset(
    [
        "none",
        "null",
        "nil",
        "true",
        "false",
        "string",
        "password",
        "passwd",
        "secret",
        "token",
        "required",
        "optional",
        "incorrect",
        "wrong",
        "invalid",
        "expired",
        "missing",
        "reset",
        "changed",
        "secretstr",
        "str",
        "bytes",
        "env",
        "undefined",
    ]
)
_QUOTE: Final = r"""["'`]"""


def entropy(value: str) -> float:
    """Shannon entropy in bits per character."""
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts)


def is_placeholder(value: str) -> bool:
    """Whether *value* is what documentation writes where a secret goes: ``<your-key>``, ``${KEY}``, ``xxxx``."""
    lower = value.lower()
    shouted = value.replace("_", "").replace("-", "").isalpha() and value.isupper()
    return (
        len(set(lower)) <= 3
        or value[0] in "<${[*%("
        or shouted
        or lower.strip("'\"") in _CODE_WORDS
        or any(word in lower for word in _PLACEHOLDER_WORDS)
    )


def _varied(match: re.Match[str], _view: View) -> bool:
    """Vendor shapes need only real variety: ``sk-xxxxxxxxxxxx`` is a sample, AKIA...EXAMPLE still goes."""
    body = re.split(r"[-_]", match.group(), maxsplit=1)[-1]
    return (len(set(body.lower())) >= 5 and any(char.isdigit() for char in match.group())) or len(set(body)) >= 12


def _userinfo(match: re.Match[str], _view: View) -> bool:
    user, colon, password = match.group(1).partition(":")
    if not colon:
        return len(user) >= 16 and any(char.isdigit() for char in user) and entropy(user) > 3
    return bool(password) and not (is_placeholder(password) or password in ("password", "pass", "pwd"))


def _token_value(match: re.Match[str], _view: View) -> bool:
    value = match.group(1)
    letters, numbers = any(c.isalpha() for c in value), any(c.isdigit() for c in value)
    return not is_placeholder(value) and letters and numbers and entropy(value) >= 2.8


def _password_value(match: re.Match[str], _view: View) -> bool:
    """A digit or a sign among letters, or letters in quotes. Program text such as ``getpass()`` is no password."""
    value = match.group(1)
    if is_placeholder(value) or value.endswith("(") or "()" in value:
        return False
    quoted = match.string[match.start(1) - 1] in "\"'`" and value.isalpha()
    marked = any(c.isdigit() for c in value) or (
        any(c in "!@#$%^&*?" for c in value) and any(map(str.isalpha, value))
    )
    return marked or quoted


_PASSWORD: Final = r"(?:password|passwd|passphrase|pwd)"  # noqa: S105
_LABEL: Final = (
    r"(?:api[_\- ]?key|apikey|access[_\- ]?key(?:[_\- ]?id)?|secret[_\- ]?(?:access[_\- ]?)?key|secret[_\- ]?id|"
    r"client[_\- ]?secret|secret|auth[_\- ]?token|access[_\- ]?token|refresh[_\- ]?token|token|session(?:[_\- ]?id)?|"
    r"sessionid|cookie|private[_\- ]?key|encryption[_\- ]?key|account[_\- ]?key|credential)"
)
_ASSIGN: Final = rf"{_QUOTE}?[ \t]{{0,3}}(?:[:=]|:=|=>|[ \t]is[ \t])[ \t]{{0,3}}{_QUOTE}?"
_VALUE: Final = rf"""([^\s"'`,;&<>{STOP}\u0080-\U0010ffff][^\s"'`,;&{STOP}\u0080-\U0010ffff]"""

_URL_KEYS: Final = (
    r"(?:[a-z_\-]{0,24}token|code|x-amz-(?:signature|credential|security-token)|sig|signature|[a-z_\-]{0,12}key|auth|"
    r"secret|session(?:_?id)?|sid|password|passwd|pwd|ticket|otp|jwt|invite|nonce)"
)

_RULES: Final = (
    Rule("API_KEY", re.compile(LEFT + "(?:" + "|".join(_VENDOR) + ")"), accepts=_varied),
    Rule(
        "JWT",
        re.compile(LEFT + r"eyJ[A-Za-z0-9_\-]{8,4096}\.[A-Za-z0-9_\-]{2,8192}(?:\.[A-Za-z0-9_\-]{0,2048}){0,3}"),
        needs=("eyj",),
    ),
    Rule(
        "API_KEY",
        re.compile(r"(?i:bearer|basic)[ \t]{1,3}([A-Za-z0-9._~+/=\-]{12,4096})"),
        group=1,
        needs=("bearer", "basic"),
        accepts=_token_value,
    ),
    Rule(
        "CONN_STRING",
        re.compile(LEFT + r"""[A-Za-z][A-Za-z0-9+.\-]{1,20}://([^\s/?#"'<>\x1a]{1,256})@"""),
        group=1,
        needs=("://",),
        accepts=_userinfo,
    ),
    Rule(
        "URL_TOKEN",
        re.compile(rf"""[?&#;](?i:{_URL_KEYS})=([^\s&#"'<>,;\x1a]{{8,4096}})"""),
        group=1,
        needs=("=",),
        accepts=_token_value,
    ),
    Rule(
        "URL_TOKEN",
        re.compile(
            r"(?i:hooks\.slack\.com/(?:services|workflows)|discord(?:app)?\.com/api/webhooks)/([A-Za-z0-9/_\-]{8,256})"
        ),
        group=1,
        needs=("hooks.slack.com", "webhooks"),
    ),
    Rule(
        "URL_TOKEN",
        re.compile(
            r"(?i:/(?:reset|invite|verify|confirm|unsubscribe|magic|share|activate)[a-z_\-]{0,12})/([A-Za-z0-9_\-]{16,512})"
        ),
        group=1,
        needs=("://",),
        accepts=_token_value,
    ),
    Rule(
        "API_KEY",
        re.compile(rf"(?i:{_LABEL})(?![A-Za-z]){_ASSIGN}{_VALUE}{{11,511}})"),
        view="folded",
        group=1,
        needs=("key", "secret", "token", "session", "cookie", "credential"),
        accepts=_token_value,
    ),
    Rule(
        "API_KEY",
        re.compile(rf"(?i:{_PASSWORD})(?![A-Za-z]){_ASSIGN}{_VALUE}{{5,127}})"),
        view="folded",
        group=1,
        needs=("pass", "pwd"),
        accepts=_password_value,
    ),
    Rule(
        "API_KEY",
        re.compile(rf"(?:密码|口令|密钥|秘钥|令牌|凭证|授权码|验证码|暗号)[是为:=\s\"'“]{{0,4}}{_VALUE}{{5,127}})"),
        view="folded",
        group=1,
        accepts=_password_value,
    ),
)

_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_BODY: Final = re.compile(r"[A-Za-z0-9+/=\s\\:,\-]{0,16384}")
_BODY_CHARS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\\ \n\r\t")
_MAX_KEY: Final = 16384


def _pem(view: View) -> Iterator[Span]:
    """Whole private keys. One without its end goes as far as key characters go; one without its start, backwards."""
    text = view.folded
    if "PRIVATE KEY" not in text:
        return
    done = 0
    for begin in _BEGIN.finditer(text):
        if begin.start() < done:
            continue
        end = _END.search(text, begin.end(), begin.end() + _MAX_KEY)
        body = _BODY.match(text, begin.end())
        done = end.end() if end else body.end() if body else begin.end()
        yield Span(begin.start(), done, "PRIVATE_KEY")
    for end in _END.finditer(text):
        start = end.start()
        while start > max(0, end.start() - _MAX_KEY) and text[start - 1] in _BODY_CHARS:
            start -= 1
        yield Span(start, end.end(), "PRIVATE_KEY")


SECRETS: Final = by_rules("secrets", "1", _RULES)
PEM: Final = Detector("private_keys", "1", _pem)
