"""English names that no list knows: words of no dictionary, where a name stands.

Two such words side by side are read as a name. One alone is, where somebody speaks, is spoken to, owns an address, or
is one of several people. What a dictionary holds is never a name here: "Border Force" and "Grant said" stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Final

from groundwatch_review.redaction.english_names import EPONYM, NameLists, capitalised_runs, shipped_lists
from groundwatch_review.redaction.rules import Detector, Span
from groundwatch_review.redaction.views import View

_UP: Final = r"A-Z\u00c0-\u00de"
_LOW: Final = r"a-z\u00df-\u024f"
_SOLID: Final = rf"(?:[{_UP}][{_LOW}]{{1,24}}|(?:Mc|Mac|De|Di|La|Le|Van|O['’]|D['’])[{_UP}][{_LOW}]{{1,24}})"
_WORD: Final = rf"{_SOLID}(?:-{_SOLID})?"
_NAME: Final = rf"({_WORD})(?![{_UP}{_LOW}0-9_])"
_START: Final = rf"(?<![{_UP}{_LOW}0-9_@./\\\-])"
_SHAPE: Final = re.compile(_WORD)
_CAPITALS: Final = rf"[{_UP}]{{2,24}}"

_SAYING: Final = (
    "said|says|asked|asks|wrote|writes|told|tells|replied|answered|complained|complains|insisted|phoned|"
    "emailed|e-mailed|thinks|thought|forgot|apologised|apologized|earns|lives|moved to|reports to|refuses|"
    "refused|wants|wanted|lost her|lost his"
)
_ADDRESSING: Final = (
    "said to|says to|told|asked|tell|ask|telling|asking|emailed|phoned|thanked|thank|remind|reports to|"
    "report to|reply to|speak to|speak with|spoke to|spoke with|talk to|talk with|talked to|met|meet with|"
    "belongs to|assigned to|signed by|approved by|written by|sent by|hired by|heard|cc|from our colleague|"
    "colleague|manager|engineer|employee|patient|customer|client|tenant|witness|teacher|nurse|lawyer|singer|"
    "songwriter|player|neighbour|neighbor|friend|wife|husband|brother|sister|son|daughter|mother|father|"
    "leave me|love you|owner|applicant|assignee|reporter|contact"
)
_OWNED: Final = (
    r"address|e-?mail|phone|number|mobile|account|salary|birthday|wife|husband|mother|father|son|daughter|"
    r"brother|sister|manager|boss|password|order|ticket|laptop|visa|passport|contract|invoice|leave|desk|"
    r"complaint|request|refund|team|(?:date of )?birth|house|flat|policy|claim|prescription|diagnosis"
)
_PEOPLE: Final = (
    "founders|authors|reviewers|engineers|colleagues|members|witnesses|managers|directors|nurses|teachers|"
    "patients|customers|tenants|applicants|employees|editors|maintainers|friends|children|people|staff|"
    "guests|attendees|team"
)
# What stands before a name and after it; one of the rows has to fit. "" fits everything.
_AROUND: Final = tuple(
    (re.compile(before + "$"), re.compile(after))
    for before, after in (
        ("", rf" (?:has |had |just |also |then |never |still )?(?:{_SAYING})(?![A-Za-z])"),
        (rf"(?<![A-Za-z])(?i:{_ADDRESSING}):? ", ""),
        ("", rf"['’]s (?:(?:new|old|home|work|private|last|first|mobile) )?(?:{_OWNED})(?![A-Za-z])"),
        (
            r"(?:^|[.!?\"“]\s)\s?",
            r", (?:can|could|please|would|will|do|did|are|have|may|I|you|we|thank|thanks)(?![A-Za-z])",
        ),
        (r"[a-z], ", r"[?!]"),
        (rf"(?:said|says|told|wrote|writes|replied) (?:{_WORD} )?to ", ""),
        (r"(?<![A-Za-z])(?i:said|says|asked|replied) ", r" to "),
        (r"(?:^|\n)(?:Why|How|Where|When|Who) (?:is|was|did|does|has) ", r" [a-z]"),
        (r"(?:^|\n)", r" (?:is|was|comes|came) (?:from|at|with|born|married|on leave|ill|away)(?![A-Za-z])"),
        (r"(?i:contract|cv|resume|payslip|invoice|letter|offer|agreement|review|file|report)s?[_\-]", r"[_\-.]"),
    )
)
_BEFORE_AT_MOST: Final = 40  # characters
_CANDIDATE: Final = re.compile(rf"(?<![{_UP}{_LOW}0-9@./\\])({_WORD})(?![{_UP}{_LOW}0-9])")
_TURNED: Final = re.compile(rf"(?:(?:^|\n)|: ){_NAME}, {_NAME}(?=[.;\n(<|]|$)")
_LISTED: Final = re.compile(
    rf"(?i:{_PEOPLE})(?: (?:are|were|is))?:? ({_WORD}(?:, {_WORD}){{0,4}},? (?:and|or|&) {_WORD})(?![A-Za-z])"
)
_SPEAKER: Final = re.compile(rf"(?:^|\n)[\"“]?{_NAME}:(?= )")
_SHOUTED: Final = re.compile(
    rf"(?<![A-Za-z])(?i:name|holder|patient|passenger|customer|employee|applicant)(?: is|:)? "
    rf"({_CAPITALS}),? ({_CAPITALS})(?![A-Za-z0-9_])"
)
_QUIET: Final = re.compile(
    r"(?<![A-Za-z])(?i:my name is|i am|i'm|name's) ([a-z]{3,16}) ([a-z]{3,16})(?![A-Za-z0-9_-])"
)
_QUIET_HERE: Final = re.compile(r"(?:^|[\"“\n]|(?i:it's|this is) )([a-z]{3,16}) ([a-z]{3,16})(?= here(?![a-z]))")


def _strange(word: str, lists: NameLists) -> bool:
    """Whether *word* is written as a name is and no dictionary holds it."""
    if not _SHAPE.fullmatch(word) or lists.is_ordinary(word):
        return False
    return not any(lists.in_dictionary(part) for part in word.split("-"))


def _nothing_else(word: str, lists: NameLists) -> bool:
    """Whether *word* can be a name alone: no list knows it as a place or a product too ("Paris", "Alexa")."""
    listed_doubtful = lists.is_given(word) is False or lists.is_surname(word) is False
    return not listed_doubtful and _strange(word, lists)


def unlisted_names(lists: NameLists | None = None) -> Detector:
    """The detector that knows *lists*; without them, the lists that are shipped."""

    def find(view: View) -> Iterator[Span | None]:
        known = lists or shipped_lists()
        yield None
        yield from _pairs(view.folded, known)
        strange = cache(partial(_nothing_else, lists=known))
        yield None
        yield from _alone(view.folded, strange)
        yield None
        yield from _together(view.folded, strange)
        yield from _odd_cases(view.folded, known)

    return Detector("unlisted_names", "1", find)


def names_in_address(address: str) -> list[str]:
    """Names that a mail address gives away: of ``vrendla.qostrim7@...`` both together, and each that is no word."""
    parts = [part for part in re.split(r"[^A-Za-z]+", address.partition("@")[0].title()) if len(part) >= 3]
    whole = [" ".join(parts)] if len(parts) == 2 else []
    return whole + [part for part in parts if len(part) >= 4 and not shipped_lists().in_dictionary(part)]


def doubtful_words(text: str) -> list[tuple[int, int]]:
    """Where a redacted *text* still has words that may be names: written as one, and in no dictionary.

    Most are places and products. They are for the eyes of the person who reads the text last; too many to hold it.
    """
    known = shipped_lists()
    return [match.span(1) for match in _CANDIDATE.finditer(text) if _strange(match.group(1), known)]


_Strange = Callable[[str], bool]


def _pairs(text: str, lists: NameLists) -> Iterator[Span]:
    for run in capitalised_runs(text):
        yield from _neighbours(text, run, lists)


def _neighbours(text: str, run: Sequence[re.Match[str]], lists: NameLists) -> Iterator[Span]:
    """Strange words side by side; the first may be a given name that is a word too ("Ash", "Roman")."""
    start = 0
    while start < len(run):
        end = start + (lists.is_given(run[start].group()) is False and not lists.is_ordinary(run[start].group()))
        while end < min(len(run), start + 3) and _strange(run[end].group(), lists) and _beside(text, run, start, end):
            end += 1
        if end - start >= 2 and not EPONYM.match(text, run[end - 1].end()):
            yield Span(run[start].start(), run[end - 1].end(), "PERSON")
        start = max(end, start + 1)


def _beside(text: str, run: Sequence[re.Match[str]], start: int, at: int) -> bool:
    return at == start or text[run[at - 1].end()] == " "


def _alone(text: str, strange: _Strange) -> Iterator[Span | None]:
    for match in _CANDIDATE.finditer(text):
        if strange(match.group(1)):
            yield Span(*match.span(1), "PERSON") if _placed(text, *match.span(1)) else None


def _placed(text: str, start: int, end: int) -> bool:
    """Whether what stands around says that a person is meant."""
    left = text[max(0, start - _BEFORE_AT_MOST) : start]
    return any(after.match(text, end) and before.search(left) for before, after in _AROUND)


def _together(text: str, strange: _Strange) -> Iterator[Span]:
    """People that explain each other: ``Surname, Given`` after a label, rows of people, lines of a dialogue."""
    for match in _TURNED.finditer(text):
        if strange(match.group(1)) and strange(match.group(2)):
            yield Span(match.start(1), match.end(2), "PERSON")
    for match in _LISTED.finditer(text):
        row = list(_SHAPE.finditer(text, *match.span(1)))
        if all(strange(word.group()) for word in row):
            yield from (Span(*word.span(), "PERSON") for word in row)
    speakers = [match for match in _SPEAKER.finditer(text) if strange(match.group(1))]
    if len({match.group(1) for match in speakers}) >= 2:
        yield from (Span(*match.span(1), "PERSON") for match in speakers)


def _odd_cases(text: str, lists: NameLists) -> Iterator[Span]:
    for pattern in (_SHOUTED, _QUIET, _QUIET_HERE):
        for match in pattern.finditer(text):
            if not any(lists.in_dictionary(word.title()) for word in match.groups()):
                yield Span(match.start(1), match.end(2), "PERSON")


UNLISTED_NAMES: Final = unlisted_names()
