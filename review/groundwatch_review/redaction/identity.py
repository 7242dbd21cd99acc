"""Numbers that a state, a bank or a business gives to a person.

A checksum lifts confidence and never vetoes: beside a word such as 身份证 or "card number" a value goes even when its
check digit is wrong, because people mistype.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from stdnum import luhn
from stdnum.iso7064 import mod_11_2, mod_97_10

from groundwatch_review.redaction.rules import (
    LEFT,
    RIGHT,
    Detector,
    Rule,
    Span,
    by_rules,
    context,
    digits,
    either,
    id_like,
)
from groundwatch_review.redaction.views import View

_CN_ID_WORDS: Final = r"身份证|身份證|证件|id card|identity card|resident id"
_CARD_WORDS: Final = r"card|银行卡|信用卡|储蓄卡|借记卡|卡号|账号|visa|mastercard|amex|(?<![a-z])cc(?![a-z])"


def _cn_checksum(match: re.Match[str], _view: View) -> bool:
    return bool(mod_11_2.is_valid(re.sub(r"[ \-]", "", match.group()).upper()))


def _cn_length(match: re.Match[str], _view: View) -> bool:
    return len(re.sub(r"[^0-9Xx]", "", match.group(1))) in (15, 18)


_DATE6: Final = r"[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])"

_CN: Final = (
    Rule(
        "CN_ID",
        re.compile(
            LEFT + rf"[1-9][0-9]{{5}}[ \-]?(?:18|19|20){_DATE6}[ \-]?[0-9]{{3}}[ \-]?[0-9Xx]" + RIGHT,
        ),
        accepts=either(_cn_checksum, context(_CN_ID_WORDS)),
    ),
    Rule("CN_ID", re.compile(LEFT + rf"[1-9][0-9]{{5}}{_DATE6}[0-9]{{3}}" + RIGHT), accepts=context(_CN_ID_WORDS)),
    Rule(
        "CN_ID",
        re.compile(r"(?:身份证|身份證|证件)(?:号码|号)?[^0-9\n]{0,8}([1-9][0-9 \-]{13,21}[0-9Xx])(?![0-9A-Za-z])"),
        view="folded",
        group=1,
        accepts=_cn_length,
    ),
)

_TW_LETTERS: Final = "ABCDEFGHJKLMNPQRSTUVXYWZIO"


def _tw_checksum(match: re.Match[str], _view: View) -> bool:
    number = match.group()
    code = _TW_LETTERS.index(number[0]) + 10
    values = [code // 10, code % 10, *map(int, number[1:])]
    return sum(w * v for w, v in zip((1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1), values, strict=True)) % 10 == 0


_NATIONAL: Final = (
    Rule("NATIONAL_ID", re.compile(r"(?<![A-Za-z0-9\-])[0-9]{3}-[0-9]{2}-[0-9]{4}(?![A-Za-z0-9\-])")),  # US SSN, ITIN
    Rule(  # UK national insurance
        "NATIONAL_ID",
        re.compile(LEFT + r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-D]" + RIGHT),
    ),
    Rule("NATIONAL_ID", re.compile(LEFT + r"[A-Z]{1,2}[0-9]{6} ?\([0-9A]\)")),  # Hong Kong
    Rule(
        "NATIONAL_ID",
        re.compile(LEFT + r"[A-Z]{1,2}[0-9]{7}" + RIGHT),
        accepts=context(r"香港身份|hkid|hong kong id"),
    ),
    Rule(  # Taiwan
        "NATIONAL_ID",
        re.compile(LEFT + r"[A-Z][1289][0-9]{8}" + RIGHT),
        accepts=either(_tw_checksum, context(r"身分證|身分证|身份|台湾|national id")),
    ),
    Rule(
        "NATIONAL_ID",
        re.compile(
            r"(?i:ssn|social security(?: number| no)?|national insurance(?: number| no)?|ni (?:number|no)|"
            r"national id|tax ?id|tin|itin|steuer-?id|aadhaar|nif|dni|bsn|codice fiscale|"
            r"driver'?s? licen[cs]e)(?![A-Za-z])[^0-9\n]{0,14}?"
            r"(?<![A-Za-z0-9])([A-Z]{0,3}[0-9][0-9A-Z \-]{4,14}[0-9A-Z])(?![A-Za-z0-9])"
        ),
        group=1,
        accepts=id_like,
    ),
)

_CERTIFICATE: Final = Rule(
    "NATIONAL_ID",
    re.compile(
        r"(?:驾照|驾驶证|军官证|士兵证|社保卡|居住证|医保卡)(?:号码|编号|号)?[是为:\s]{0,4}"
        r"([0-9A-Za-z][0-9A-Za-z\-]{5,19})(?![0-9A-Za-z])"
    ),
    view="folded",
    group=1,
    accepts=id_like,
)

_PASSPORT: Final = (
    Rule(
        "PASSPORT",
        re.compile(
            r"(?:(?i:passport)|护照|通行证|旅行证|回乡证|台胞证)[^0-9\n]{0,24}?(?<![A-Za-z0-9])"
            r"([A-Z]{0,2}[0-9]{6,10}[A-Z]?)(?![A-Za-z0-9])"
        ),
        view="folded",
        group=1,
        accepts=id_like,
    ),
)


def _card(match: re.Match[str], view: View) -> bool:
    number = digits(match.group())
    if len(set(number)) < 2:
        return False
    plausible = 14 <= len(number) <= 19 or (len(number) == 13 and number[0] == "4")
    return (plausible and bool(luhn.is_valid(number))) or context(_CARD_WORDS, before=20)(match, view)


# ISO 13616: length of an IBAN by country. A wrong length is a different string that happens to pass mod 97.
_IBAN_TABLE: Final = """
AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24
DE22 DJ27 DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27
GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20
LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28
PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28
TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30
"""
_IBAN_LENGTHS: Final = {item[:2]: int(item[2:]) for item in _IBAN_TABLE.split()}


def _iban(text: str) -> int | None:
    """Length of the IBAN at the start of *text*, spaces included, or None."""
    wanted = _IBAN_LENGTHS.get(text[:2].upper())
    seen = 0
    for index, char in enumerate(text):
        seen += char != " "
        if seen == wanted:
            compact = text[: index + 1].replace(" ", "").upper()
            return index + 1 if mod_97_10.is_valid(compact[4:] + compact[:4]) else None
    return None


_IBAN_START: Final = re.compile(r"(?<![A-Za-z0-9])(?=([A-Za-z]{2}[0-9]{2}(?: ?[A-Za-z0-9]){11,30}))")


def _ibans(view: View) -> Iterator[Span]:
    for match in _IBAN_START.finditer(view.ascii):
        if length := _iban(match.group(1)):
            yield Span(match.start(), match.start() + length, "IBAN")


_FINANCE: Final = (
    Rule("BANK_CARD", re.compile(LEFT + r"[2-6](?:[ \-]?[0-9]){12,18}" + RIGHT), accepts=_card),
    Rule(
        "IBAN",
        re.compile(r"(?i:iban)(?![a-z])[^A-Za-z0-9\n]{0,6}([A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{2,4}){3,8})(?![A-Za-z0-9])"),
        group=1,
        needs=("iban",),
    ),
)

_REGIONS: Final = "京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼使"


def _three_digits(match: re.Match[str], _view: View) -> bool:
    return len(digits(match.group())) >= 3


_VEHICLE: Final = (
    Rule(
        "PLATE",
        re.compile(rf"[{_REGIONS}][A-Z][·•.\- ]?[A-HJ-NP-Z0-9]{{4,5}}[A-HJ-NP-Z0-9挂学警港澳](?![A-Za-z0-9])"),
        view="folded",
        accepts=_three_digits,
    ),
    Rule("PLATE", re.compile(LEFT + r"[A-HJ-PR-Y][A-Z][0-9]{2} [A-Z]{3}" + RIGHT)),  # United Kingdom
    Rule(
        "PLATE",
        re.compile(
            r"(?:(?i:licen[cs]e plate|number plate|plate|registration(?: number)?|vehicle reg)(?![A-Za-z])|"
            r"车牌号码|车牌号|车牌)"
            r"[^A-Za-z0-9\n]{0,4}(?:(?i:is|no\.?|number)[ :#]{1,2})?([A-Z0-9](?:[ \-]?[A-Z0-9]){4,7})(?![A-Za-z0-9])"
        ),
        view="folded",
        group=1,
        accepts=lambda match, _view: len(digits(match.group(1))) >= 2,
    ),
)

CN_IDS: Final = by_rules("cn_ids", "1", _CN)
NATIONAL_IDS: Final = by_rules("national_ids", "1", (*_NATIONAL, _CERTIFICATE))
PASSPORTS: Final = by_rules("passports", "1", _PASSPORT)
CARDS: Final = by_rules("cards", "1", _FINANCE)
IBANS: Final = Detector("ibans", "1", _ibans)
PLATES: Final = by_rules("plates", "1", _VEHICLE)
