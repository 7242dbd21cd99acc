"""Street addresses, positions and dates of birth: shape plus context, deliberately basic."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from groundwatch_review.redaction.rules import LEFT, RIGHT, Detector, Rule, Span, both, by_rules, context, either
from groundwatch_review.redaction.views import View

_STREET: Final = (
    r"(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Court|Ct|Boulevard|Blvd|Way|Place|Pl|Terrace|Ter|Square|Sq|"
    r"Close|Crescent|Parkway|Pkwy|Highway|Hwy|Circle|Cir|Trail|Row|Mews|Gardens|Grove|Hill)"
)
_UNIT: Final = r"(?:,? (?:Apt|Apartment|Suite|Ste|Unit|Flat|Floor|Room|#)\.? ?[A-Za-z0-9\-]{1,6})?"
_TOWN: Final = (
    r"(?:,?\s{1,2}[A-Z][A-Za-z.'\-]{1,20}(?: [A-Z][A-Za-z.'\-]{1,20}){0,2}"
    r"(?:,? [A-Z]{2},? [0-9]{5}(?:-[0-9]{4})?|,? [A-Z]{1,2}[0-9][A-Z0-9]? ?[0-9][A-Z]{2}|,? [A-Z]{2})" + RIGHT + ")?"
)

_WESTERN: Final = (
    Rule(
        "ADDRESS",
        re.compile(
            LEFT
            + r"[0-9]{1,6}[A-Za-z]? (?:[A-Z][A-Za-z'.\-]{1,20} ){1,4}"
            + _STREET
            + r"(?![A-Za-z])\.?"
            + _UNIT
            + _TOWN
        ),
    ),
    Rule("ADDRESS", re.compile(r"(?i:p\.? ?o\.? box) [0-9]{1,6}" + _TOWN), needs=("box",)),
    Rule(
        "ADDRESS",
        re.compile(
            r"[A-ZÄÖÜ][A-Za-zäöüß\-]{2,30}(?:straße|strasse|str\.|weg|platz|allee|gasse) [0-9]{1,4}[a-z]?"
            r"(?:,? [0-9]{5} [A-ZÄÖÜ][A-Za-zäöüß\-]{2,30})?"
        ),
        view="folded",
    ),
)

_CJK: Final = r"\u4e00-\u9fff"
# A house number, then floor, unit and room; found first, so that the costly look to the left is rare.
_HOUSE: Final = re.compile(
    r"(?:[0-9]{1,5}(?:-[0-9]{1,4})?(?:号楼|号|弄|室|栋|幢|组|单元|楼|层|座)[A-Z]?[院内]?){1,6}"
)
_RUN: Final = re.compile(rf"[{_CJK}0-9A-Za-z]{{1,48}}$")
_PLACE: Final = re.compile(r"路|街|大道|巷|弄|胡同|村|镇|乡|小区|花园|大厦|广场|公寓|新城|苑|庄")
_LEAD: Final = re.compile(
    r"^.{0,12}?(?:住在|居住地|居住于|地址是|地址为|地址|住址是|住址为|住址|户籍地|户籍|籍贯|位于|寄到|寄往|送到|送往|邮寄至|寄至|家在|在|是)"
)


def _chinese(view: View) -> Iterator[Span]:
    text = view.folded
    for house in _HOUSE.finditer(text):
        run = _RUN.search(text[max(0, house.start() - 48) : house.start()])
        if not run or not _PLACE.search(run.group()):
            continue
        lead = _LEAD.match(run.group())
        start = (
            house.start() - len(run.group()) + (lead.end() if lead and _PLACE.search(run.group(), lead.end()) else 0)
        )
        yield Span(start, house.end(), "ADDRESS")


_COORDINATE: Final = r"[\-+]?[0-9]{1,3}\.[0-9]{3,10}(?: ?°)?(?: ?[NSEW](?![A-Za-z]))?"
_GEO_WORDS: Final = (
    r"gps|coordinate|latitude|longitude|(?<![a-z])lat(?![a-z])|(?<![a-z])lon|"
    r"location|position|坐标|经纬|定位|位置|dropped"
)


def _on_earth(match: re.Match[str], _view: View) -> bool:
    first, second = (abs(float(number)) for number in re.findall(r"[0-9]{1,3}\.[0-9]+", match.group())[:2])
    return max(first, second) <= 180 and min(first, second) <= 90


def _precise(match: re.Match[str], _view: View) -> bool:
    return (
        all(len(part) >= 4 for part in re.findall(r"\.([0-9]+)", match.group()))
        and max(float(number) for number in re.findall(r"[0-9]{1,3}\.[0-9]+", match.group())) > 10
    )


_GEO: Final = (
    Rule(
        "GEO",
        re.compile(rf"(?<![0-9A-Za-z.\[,]){_COORDINATE}[ ,;/]{{1,3}}{_COORDINATE}(?![0-9A-Za-z]|, ?[\-0-9])"),
        view="folded",
        accepts=both(_on_earth, either(_precise, context(_GEO_WORDS))),
    ),
    Rule(
        "GEO",
        re.compile(
            r"[0-9]{1,3} ?° ?[0-9]{1,2} ?['′][ 0-9.\"″]{0,8}[NSEW][ ,]{1,3}"
            r"[0-9]{1,3} ?° ?[0-9]{1,2} ?['′][ 0-9.\"″]{0,8}[NSEW]"
        ),
        view="folded",
    ),
)

_LABELLED: Final = Rule(
    "GEO",
    re.compile(
        r"(?:(?<![A-Za-z])(?i:latitude|longitude|lat|lon|lng)(?![A-Za-z])|经度|纬度)[\"']?[是为:=\s]{0,4}"
        r"([\-+]?[0-9]{1,3}\.[0-9]{3,10})(?![0-9])"
    ),
    view="folded",
    group=1,
)

_MONTH: Final = r"(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_DATE: Final = (
    r"((?:[0-9]{4}[ \-/.][0-9]{1,2}[ \-/.][0-9]{1,2}|[0-9]{1,2}[\-/.][0-9]{1,2}[\-/.][0-9]{2,4}|[0-9]{8}|"
    rf"[0-9]{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH},? [0-9]{{4}}|{_MONTH} [0-9]{{1,2}}(?:st|nd|rd|th)?,? [0-9]{{4}}|"
    r"[0-9]{2,4}年[0-9]{1,2}月(?:[0-9]{1,2}[日号])?)(?![0-9]))"
)
_BIRTH: Final = (
    Rule(
        "DOB",
        re.compile(
            r"(?:(?i:born(?: on| in)?|date of birth|birth ?date|birthday|d\.?o\.?b\.?)(?![a-z])|"
            r"出生日期|出生年月日|出生年月|生日|出生于|出生|生于)"
            rf"""[是为:=,\s"'(]{{0,4}}(?:(?i:is|on|was) )?{_DATE}"""
        ),
        view="folded",
        group=1,
    ),
    Rule("DOB", re.compile(rf"{_DATE}[ ]?(?:出生|生人|生(?![效产活成日态]))"), view="folded", group=1, needs=("生",)),
)

ADDRESSES: Final = by_rules("addresses", "1", _WESTERN)
ADDRESSES_ZH: Final = Detector("addresses_zh", "1", _chinese)
POSITIONS: Final = by_rules("positions", "1", (*_GEO, _LABELLED))
BIRTHS: Final = by_rules("births", "1", _BIRTH)
