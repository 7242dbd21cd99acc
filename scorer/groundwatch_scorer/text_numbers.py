# ruff: noqa: E501, SIM905 - tables of words and patterns
"""Numbers, quantities and dates of English and Chinese text, brought to one form so that they can be compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from .text import CJK, folded, kept_if_short, stem
from .text_tables import ENGLISH_STOP_WORDS

Dimension = str  # "size", "time", "month", "percent", "money:usd", ..., "w:<stem>" for any other noun, "" when bare


@dataclass(frozen=True, slots=True)
class Quantity:
    """One number of a text. Two that mean the same have the same amount, whatever the spelling."""

    amount: str  # canonical decimal in the base unit, or the text of a version, a time of day or a date
    dimension: Dimension
    start: int  # offsets in the source text, unit included
    end: int
    kind: Literal["number", "date", "label"] = "number"
    soft: bool = (
        False  # a small number in letters: often an article or a count of what follows, so its absence says little
    )

    @property
    def hard_unit(self) -> bool:
        """Whether the unit is one that is never dropped or swapped for another in a paraphrase."""
        return self.dimension != "" and not self.dimension.startswith("w:")


_SIZES = {
    **dict.fromkeys(("b", "byte", "bytes", "字节"), 1),
    **dict.fromkeys(("kb", "kilobyte", "kilobytes"), 10**3),
    **dict.fromkeys(("mb", "megabyte", "megabytes", "兆", "兆字节"), 10**6),
    **dict.fromkeys(("gb", "gigabyte", "gigabytes"), 10**9),
    **dict.fromkeys(("tb", "terabyte", "terabytes"), 10**12),
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_TIMES = {  # milliseconds
    **dict.fromkeys(("ms", "millisecond", "milliseconds", "毫秒"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds", "秒", "秒钟"), 1000),
    **dict.fromkeys(("min", "mins", "minute", "minutes", "分钟"), 60_000),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours", "小时", "个小时"), 3_600_000),
    **dict.fromkeys(("day", "days", "天", "日", "个工作日", "工作日"), 86_400_000),
    **dict.fromkeys(("week", "weeks", "周", "星期", "个星期"), 7 * 86_400_000),
}
_MONTHS = {
    **dict.fromkeys(("month", "months", "个月"), 1),
    **dict.fromkeys(("year", "years", "年", "周年"), 12),
}
_MONEY = {
    **dict.fromkeys(("$", "usd", "dollar", "dollars", "美元"), "usd"),
    **dict.fromkeys(("€", "eur", "euro", "euros", "欧元"), "eur"),
    **dict.fromkeys(("£", "gbp", "pound", "pounds", "英镑"), "gbp"),
    **dict.fromkeys(("¥", "cny", "rmb", "yuan", "元", "块", "块钱", "人民币"), "cny"),
}
_PERCENT = ("%", "percent", "per cent", "个百分点")
_PEOPLE = ("人", "名", "位")

_UNITS: dict[str, tuple[Dimension, int]] = {
    **{unit: ("size", factor) for unit, factor in _SIZES.items()},
    **{unit: ("time", factor) for unit, factor in _TIMES.items()},
    **{unit: ("month", factor) for unit, factor in _MONTHS.items()},
    **{unit: (f"money:{currency}", 1) for unit, currency in _MONEY.items()},
    **dict.fromkeys(_PERCENT, ("percent", 1)),
    **dict.fromkeys(_PEOPLE, ("w:人", 1)),
}
_LATIN_SCALES = {
    "k": 10**3,
    "hundred": 100,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
    "dozen": 12,
}
_CHINESE_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "亿": 10**8}
_CHINESE_DIGITS = {**{c: i for i, c in enumerate("零一二三四五六七八九")}, "〇": 0, "两": 2}
_WORDS = {
    word: value
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
    )
}
_TENS = {word: 10 * (i + 2) for i, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split())}
_MONTH_NAMES = {
    name: i % 12 + 1
    for i, name in enumerate(
        "january february march april may june july august september october november december jan feb mar apr may jun jul aug sep oct nov dec".split()
    )
} | {"sept": 9}

_MONTH = "|".join(sorted(_MONTH_NAMES, key=len, reverse=True))
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
_DATES = (
    (re.compile(r"(?<![\w.-])(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?![\w-])"), (0, 1, 2)),
    (re.compile(r"(?<!\d)(\d{4})年(?:(\d{1,2})月(?:(\d{1,2})[日号])?)?"), (0, 1, 2)),
    (re.compile(r"(?<!\d)()(\d{1,2})月(\d{1,2})[日号]"), (0, 1, 2)),
    (re.compile(rf"(?<![\w.]){_DAY} (?:of )?({_MONTH})\b\.?(?:[ ,]+(\d{{4}}))?"), (2, 1, 0)),
    (re.compile(rf"\b({_MONTH})\.? {_DAY}\b(?:[ ,]+(\d{{4}}))?(?!\w)"), (2, 0, 1)),
    (re.compile(rf"\b({_MONTH})\.?,? (\d{{4}})()\b"), (1, 0, 2)),
)
_DATES_IN_FIGURES = _DATES[:3]  # those without the name of a month
_LATIN = re.compile("[a-z]")
_DIGIT = re.compile(r"\d")
_LABEL = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+){2,}|\d{1,2}:\d{2}(?::\d{2})?)(?![\w])")

_LATIN_UNIT = "|".join(sorted((u for u in _UNITS if u.isascii() and u[0].isalpha()), key=len, reverse=True))
_CHINESE_UNIT = "|".join(sorted((u for u in _UNITS if u[0] > "\u3000"), key=len, reverse=True))
_UNIT = re.compile(
    rf"(?:[ -]?(?:working |business |calendar |full |consecutive )?({_LATIN_UNIT})(?![a-z0-9_]))|\s?([%$€£¥])|\s?({_CHINESE_UNIT})"
    rf"|\s?[个条项件次份种家台张篇]?([{CJK}]{{1,2}})|[ -]([a-z]{{3,}})"
)
_DIGIT_NUMBER = re.compile(
    r"(?P<currency>[$€£¥]\s?)?(?<![a-z0-9_.])(?P<digits>\d{1,3}(?:, ?\d{3})+(?![\d])(?:\.\d+)?|\d+(?:\.\d+)?)"
    r"(?:\s?(?P<chinese>[十百千万亿]+)|(?P<k>k)(?![a-z])|\s(?P<latin>hundred|thousand|million|billion|trillion)\b)?"
    r"(?:st|nd|rd|th)?(?![_\d])"
)
_CHINESE_NUMBER = re.compile(
    r"(?P<percent>百分之)?(?P<digits>[零〇一二两三四五六七八九十百千万亿]+)(?P<point>点[零一二三四五六七八九]+)?"
)
_WORD_NUMBER = re.compile(
    rf"\b(?:(?P<tens>{'|'.join(_TENS)})(?:[ -](?P<unit>{'|'.join(_WORDS)}))?|(?P<word>{'|'.join(_WORDS)}))\b"
    r"(?:[ -](?P<scale>hundred|thousand|million|billion|dozen)\b)?"
)
_SMALL = 10
_RANGE_JOINT = re.compile(r"\s*(?:-|~|–|to|and|or|至|到|或|、|,)\s*")
_LIST_NUMBER = re.compile(r"(?:^|\n)\s*\(?\d{1,2}[.)、．]\s|\[\d{1,3}(?:\s*[,，、]\s*\d{1,3})*\]|【\d{1,3}】")
# In these the characters of a number are not a number.
_CHINESE_NOT_NUMBER = re.compile(
    "[统唯同进专单万第]一|一(?:些|般|样|定|起|直|旦|致|切|下|边|方面|律|并|时|共)|万一|十分|千万别|百科|三方|两者|四川|九江|亿万|之一"
)
_CHINESE_MEASURES = (
    "个天日年月周次名人位条项件份种家台小分秒元块万亿岁号倍层页章节篇张星级届季度成折%千百兆本套部支只点"
)


def quantities(text: str) -> list[Quantity]:
    """All numbers of *text* in order. List numbers and citation markers are not among them."""
    return list(_quantities(text))


@kept_if_short
def _quantities(text: str) -> tuple[Quantity, ...]:
    view = folded(text)
    taken = [match.span() for match in _LIST_NUMBER.finditer(view.text)]
    found: list[Quantity] = []
    for scan in _scans(view.text):
        for quantity in scan(view.text):
            if not any(quantity.start < end and start < quantity.end for start, end in taken):
                found.append(quantity)
                taken.append((quantity.start, quantity.end))
    found.sort(key=lambda q: q.start)
    _share_units(found, view.text)
    if view.offsets is None:
        return tuple(found)
    return tuple(_in_source(q, view.source_span(q.start, q.end)) for q in found)


def _scans(text: str) -> Iterable[Callable[[str], Iterable[Quantity]]]:
    """The kinds of numbers that *text* can have, in the order in which they take their place."""
    if _DIGIT.search(text):
        yield from (_dates, _labels, _digits)
    yield _chinese
    if _LATIN.search(text):
        yield _words


def _in_source(quantity: Quantity, span: tuple[int, int]) -> Quantity:
    return replace(quantity, start=span[0], end=span[1])


def same(claimed: Quantity, stated: Quantity) -> bool:
    """Whether *stated* covers *claimed*: equal amount, and no hard unit that speaks against it."""
    if "date" in (claimed.kind, stated.kind):
        return _date_covers(claimed, stated)
    if claimed.amount != stated.amount:
        return False
    return claimed.dimension == stated.dimension or not (claimed.hard_unit and stated.hard_unit)


def covered(claimed: Quantity, stated: Iterable[Quantity]) -> bool:
    """Whether any of *stated* says what *claimed* says."""
    return claimed.soft or any(same(claimed, other) for other in stated)


class Stated:
    """Numbers that were said, arranged so that each question whether one is among them is a look-up."""

    def __init__(self, found: Iterable[Quantity]) -> None:
        self._by_amount: dict[str, list[Quantity]] = {}
        self._dates: list[Quantity] = []
        for quantity in found:
            if quantity.kind == "date":
                self._dates.append(quantity)
            else:
                self._by_amount.setdefault(quantity.amount, []).append(quantity)
        self._date_parts = frozenset(part for date in self._dates for part in date.amount.split("-"))

    def covers(self, claimed: Quantity) -> bool:
        """As :func:`covered`."""
        if claimed.soft:
            return True
        if claimed.kind == "date":
            year = claimed.amount.removesuffix("--")
            return (year != claimed.amount and year in self._by_amount) or covered(claimed, self._dates)
        return claimed.amount in self._date_parts or covered(claimed, self._by_amount.get(claimed.amount, ()))


def _date_covers(claimed: Quantity, stated: Quantity) -> bool:
    if claimed.kind == stated.kind:
        pairs = zip(claimed.amount.split("-"), stated.amount.split("-"), strict=True)
        return all(mine in ("", other) for mine, other in pairs)
    if claimed.kind == "date":
        return claimed.amount == f"{stated.amount}--"
    return claimed.amount in stated.amount.split("-")


def _dates(text: str) -> Iterable[Quantity]:
    for pattern, order in _DATES if _LATIN.search(text) else _DATES_IN_FIGURES:
        for match in pattern.finditer(text):
            parts = [match.group(i + 1) or "" for i in order]
            year, month, day = (str(_MONTH_NAMES.get(p, p)).lstrip("0") for p in parts)
            if (not month or int(month) <= 12) and (not day or int(day) <= 31):
                yield Quantity(f"{year}-{month}-{day}", "date", match.start(), match.end(), "date")


def _labels(text: str) -> Iterable[Quantity]:
    for match in _LABEL.finditer(text):
        yield Quantity(match.group(1), "", match.start(), match.end(), "label")


def _digits(text: str) -> Iterable[Quantity]:
    for match in _DIGIT_NUMBER.finditer(text):
        amount = Decimal(match["digits"].replace(",", "").replace(" ", ""))
        for scale in match["chinese"] or "":
            amount *= _CHINESE_SCALES[scale]
        amount *= _LATIN_SCALES.get(match["k"] or match["latin"] or "", 1)
        yield _with_unit(text, amount, match.start(), match.end(), (match["currency"] or "").strip())


def _chinese(text: str) -> Iterable[Quantity]:
    for match in _CHINESE_NUMBER.finditer(text):
        run = match["digits"]
        around = text[max(0, match.start() - 1) : match.end() + 2]
        if not match["percent"] and (
            not _is_chinese_number(run, text, match.end()) or _CHINESE_NOT_NUMBER.search(around)
        ):
            continue
        if text[match.end() : match.end() + 1] == "年" and len(run) == 4 and all(c in _CHINESE_DIGITS for c in run):
            yield Quantity(f"{_chinese_value(run)}--", "date", match.start(), match.end() + 1, "date")
            continue
        amount = _chinese_value(run)
        if match["point"]:
            amount += Decimal("0." + "".join(str(_CHINESE_DIGITS[c]) for c in match["point"][1:]))
        if match["percent"]:
            yield Quantity(_canonical(amount), "percent", match.start(), match.end())
        else:
            quantity = _with_unit(text, amount, match.start(), match.end())
            yield replace(quantity, soft=run == "一" or (amount <= _SMALL and not quantity.hard_unit))


def _is_chinese_number(run: str, text: str, end: int) -> bool:
    if len(run) <= 2 and (end >= len(text) or text[end] not in _CHINESE_MEASURES):
        return False
    return any(c in _CHINESE_DIGITS or c == "十" for c in run)


def _chinese_value(run: str) -> Decimal:
    if len(run) > 1 and all(c in _CHINESE_DIGITS for c in run):  # digit by digit, as in 二〇二三
        return Decimal("".join(str(_CHINESE_DIGITS[c]) for c in run))
    total = section = digit = 0
    for character in run:
        scale = _CHINESE_SCALES.get(character)
        if scale is None:
            digit = _CHINESE_DIGITS[character]
        elif scale >= 10**4:
            total, section, digit = (total + section + digit) * scale, 0, 0
        else:
            section, digit = section + (digit or 1) * scale, 0
    return Decimal(total + section + digit)


def _words(text: str) -> Iterable[Quantity]:
    for match in _WORD_NUMBER.finditer(text):
        amount = Decimal(_TENS.get(match["tens"] or "", 0) + _WORDS.get(match["unit"] or match["word"] or "", 0))
        amount *= _LATIN_SCALES.get(match["scale"] or "", 1)
        quantity = _with_unit(text, amount, match.start(), match.end())
        yield replace(quantity, soft=amount <= _SMALL and not quantity.hard_unit)


def _with_unit(text: str, amount: Decimal, start: int, end: int, currency: str = "") -> Quantity:
    if currency:
        return Quantity(_canonical(amount), _UNITS[currency][0], start, end)
    match = _UNIT.match(text, end)
    if match is None:
        return Quantity(_canonical(amount), "", start, end)
    known = match[1] or match[2] or match[3]
    if known:
        dimension, factor = _UNITS[known]
        return Quantity(_canonical(amount * factor), dimension, start, match.end())
    noun = match[4] or ("" if match[5] in ENGLISH_STOP_WORDS else stem(match[5]))
    return Quantity(_canonical(amount), f"w:{noun}" if noun else "", start, end)


def _canonical(amount: Decimal) -> str:
    return format(amount.normalize(), "f")


def _share_units(found: list[Quantity], text: str) -> None:
    """In "3 to 5 days" and "3至5天" the first number has the unit of the second."""
    for i in range(len(found) - 2, -1, -1):
        first, second = found[i], found[i + 1]
        if first.hard_unit or not second.hard_unit or first.kind != "number" or second.kind != "number":
            continue
        if _RANGE_JOINT.fullmatch(text[first.end : second.start]):
            factor = _factor(second, text)
            found[i] = replace(first, amount=_canonical(Decimal(first.amount) * factor), dimension=second.dimension)


def _factor(quantity: Quantity, text: str) -> int:
    unit = re.search(rf"(?:{_LATIN_UNIT}|{_CHINESE_UNIT})$", text[quantity.start : quantity.end])
    return _UNITS[unit.group()][1] if unit else 1
