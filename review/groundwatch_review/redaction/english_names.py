"""English names without a model: lists of given names and surnames, and the words around them.

A name counts when two parts agree (a known given name and a capitalised word after it, any capitalised word and a
known surname after it), or when a given name stands alone that is nothing else. What is also a word, a place or a
product ("Grant", "Paris", "Alexa") never counts alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Final

from groundwatch_review.redaction.rules import Detector, Span
from groundwatch_review.redaction.views import View

_LETTER: Final = r"A-Za-z\u00c0-\u024f"
_PART: Final = rf"[{_LETTER}](?:[{_LETTER}]|['’\-](?=[A-Z\u00c0-\u00de])){{1,24}}"
_WORD: Final = re.compile(rf"(?<![{_LETTER}0-9@]){_PART}(?![{_LETTER}0-9]|['’](?:t|ll|ve|re|d)(?![a-z]))")
# What may stand between two parts of a name: an initial, a particle, and the comma of "Surname, Given".
_GAP: Final = re.compile(
    r" (?:[A-Z]\.? ){0,2}(?:(?:de|du|da|di|do|dos|del|della|von|van|der|den|ter|bin|ibn|ben|al|el|la|le) ){0,2}|, "
)
# contract_Okafor.docx, files/Haddad_2024.pdf: a surname in the name of a file.
_FILE: Final = re.compile(rf"(?<![{_LETTER}])({_PART})(?=[A-Za-z0-9_\-]{{0,40}}\.[a-z]{{2,4}}(?![{_LETTER}0-9]))")
# "Petrov, Diaz and Sato": surnames that explain each other.
_ROW: Final = re.compile(rf"({_PART}), ((?:{_PART}, ){{0,4}})({_PART}),? and ({_PART})")
_SMALL: Final = re.compile(r"(?<![A-Za-z0-9@._/\-])([a-z]{3,14}) ([a-z]{4,16})(?![A-Za-z0-9@_/\-])")

_SUFFIX: Final = re.compile(
    r"(?:opoulos|akis|idis|ovic|evic|ovich|evich|ski|sky|ska|sson|ssen|wicz|enko|chuk|yan|shvili|escu|oglu|"
    r"[nrlktbdzms]ov|[nrlktbdzms]ova|qvist|strom|mann|stein|baum)$"
)
_PREFIX: Final = re.compile(r"^(?:O['’]|D['’]|Mc|Mac(?=[A-Z])|Al-|El-|Ben-|Abu-|Fitz)[A-Za-z]")
EPONYM: Final = re.compile(
    r"(?:['’]s)?[ \-](?:\w+ )?(?:law|laws|theorem|theory|algorithm|effect|test|tests|model|method|rule|smoothing|"
    r"disease|syndrome|distribution|equation|constant|scale|transform|filter|index|coefficient|process|graph|tree|code|coding|"
    r"conjecture|inequality|prize|score|update|estimator|correction|regression|network|machine|diagram|matrix)\b"
)


@dataclass(frozen=True, slots=True)
class NameLists:
    """Word -> whether it can stand alone: known given names and surnames; and words that are no part of a name."""

    given: Mapping[str, bool]
    surnames: Mapping[str, bool]
    ordinary: Mapping[str, bool]
    dictionary: Mapping[str, bool] = field(default_factory=dict)  # stems of words; places and brands with a capital

    def without(self, words: Iterable[str]) -> NameLists:
        """The same lists as if nobody had ever heard of *words*."""
        gone = {_key(word) for word in words}

        def left(known: Mapping[str, bool]) -> dict[str, bool]:
            return {word: alone for word, alone in known.items() if word not in gone}

        return replace(
            self,
            given=left(self.given),
            surnames=left(self.surnames),
            dictionary={word: True for word in self.dictionary if word.islower() or word not in gone},
        )

    def is_given(self, word: str) -> bool | None:
        """True: a given name and nothing else; False: that and a word; None: not known."""
        key = _key(word)
        if key in self.given:
            return self.given[key]
        parts = key.split("-")
        return True if len(parts) == 2 and all(part in self.given for part in parts) else None

    def is_surname(self, word: str) -> bool | None:
        """As :meth:`is_given`, for surnames; endings and beginnings of surnames count too."""
        key = _key(word)
        if key in self.surnames:
            return self.surnames[key]
        if _PREFIX.match(word) or all(part in self.surnames for part in key.split("-")):
            return True
        return True if len(key) >= 6 and _SUFFIX.search(key) and key[0].isupper() else None

    def is_ordinary(self, word: str) -> bool:
        """Whether *word* is one that stands capitalised beside names and is no part of them."""
        return word in self.ordinary

    def in_dictionary(self, word: str) -> bool:
        """Whether *word* is a word of the language, in one of its forms, or known as a place, a people or a brand."""
        key = _key(word)
        return key in self.dictionary or any(stem in self.dictionary for stem in _stems(key.lower()))


@cache
def shipped_lists() -> NameLists:
    """The lists that come with this package."""
    return NameLists(
        *map(_list, ("given_names.txt", "surnames.txt", "ordinary_words.txt", "dictionary.txt")),
    )


def _list(name: str) -> Mapping[str, bool]:
    return {line.rstrip("?"): not line.endswith("?") for line in shipped_lines(name)}


def shipped_lines(name: str) -> list[str]:
    """The lines of a list that comes with this package, without its remarks."""
    text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def _key(word: str) -> str:
    """How the lists spell *word*: no accents, one capital."""
    plain = "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))
    return plain.title() if plain.isupper() and len(plain) > 2 else plain


_ENDINGS: Final = (
    ("ies", "y"),
    ("es", ""),
    ("es", "e"),
    ("s", ""),
    ("ed", ""),
    ("ed", "e"),
    ("ing", ""),
    ("ing", "e"),
    ("ly", ""),
)


def _stems(word: str) -> Iterator[str]:
    """What *word* can be a form of, itself first; not shorter than three letters."""
    yield word
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            yield word.removesuffix(ending) + instead


_TOWNS: Final = (
    "Abu Dhabi|Addis Ababa|Ann Arbor|Baja California|Banja Luka|Baton Rouge|Belo Horizonte|Buenos Aires|Burkina Faso|"
    "Cape Town|Cape Verde|Chiang Mai|Ciudad Juarez|Colorado Springs|Corpus Christi|Costa Rica|Da Nang|"
    "Dar es Salaam|Den Haag|Des Moines|East Timor|El Paso|El Salvador|Fort Worth|Grand Rapids|Ho Chi Minh|Hong Kong|"
    "Jersey City|Kansas City|Kuala Lumpur|La Paz|La Plata|Las Palmas|Las Vegas|Le Havre|Le Mans|Los Angeles|"
    "Mar del Plata|Mexico City|Monte Carlo|Mountain View|New Delhi|New Orleans|New York|Nizhny Novgorod|Novi Sad|"
    "Nuevo Leon|Palma de Mallorca|Palo Alto|Panama City|Phnom Penh|Port Louis|Port Said|Porto Alegre|Puerto Rico|"
    "Quebec City|Reggio Emilia|Rio de Janeiro|Saint Petersburg|Salt Lake City|San Antonio|San Diego|San Francisco|"
    "San Jos[eé]|San Juan|San Marino|San Mateo|San Salvador|San Sebastian|Santa Barbara|Santa Clara|Santa Cruz|"
    "Santa Fe|Santa Monica|Santiago de Chile|Santo Domingo|S[aã]o Paulo|Saudi Arabia|Sierra Leone|Sri Lanka|"
    "St\\.? Louis|Tel Aviv|Terre Haute|Virginia Beach|West Virginia"
)
_TOWN: Final = re.compile(rf"(?<![{_LETTER}])(?:{_TOWNS})(?![{_LETTER}])")


def capitalised_runs(text: str) -> Iterator[list[re.Match[str]]]:
    """Neighbouring capitalised words: ``Ana B. Cruz``, ``Cruz, Ana``. A town of several words is none of them."""
    towns = [match.span() for match in _TOWN.finditer(text)][::-1]
    run: list[re.Match[str]] = []
    for match in _WORD.finditer(text):
        while towns and towns[-1][1] <= match.start():
            towns.pop()
        if not match.group()[0].isupper() or (towns and towns[-1][0] <= match.start()):
            continue
        if run and not _GAP.fullmatch(text, run[-1].end(), match.start()):
            yield run
            run = []
        run.append(match)
    if run:
        yield run


def english_names(lists: NameLists | None = None) -> Detector:
    """The detector that knows *lists*; without them, the lists that are shipped."""

    def find(view: View) -> Iterator[Span | None]:
        known = lists or shipped_lists()
        for search in (_capitalised, _file_names, _rows, _small):
            yield None
            yield from search(view.folded, known)

    return Detector("english_names", "1", find)


def _file_names(text: str, lists: NameLists) -> Iterator[Span]:
    for match in _FILE.finditer(text):
        if match.group(1)[0].isupper() and lists.is_surname(match.group(1)):
            yield Span(*match.span(1), "PERSON")


def _rows(text: str, lists: NameLists) -> Iterator[Span]:
    for match in _ROW.finditer(text):
        names = [word for word in _WORD.finditer(text, *match.span()) if word.group() != "and"]
        if all(name.group()[0].isupper() and lists.is_surname(name.group()) for name in names):
            yield from (Span(*name.span(), "PERSON") for name in names)


def _small(text: str, lists: NameLists) -> Iterator[Span]:
    """Names typed without capitals, where both parts are names and nothing else."""
    for match in _SMALL.finditer(text):
        if lists.is_given(match.group(1).title()) and lists.is_surname(match.group(2).title()):
            yield Span(*match.span(), "PERSON")


def _capitalised(text: str, lists: NameLists) -> Iterator[Span]:
    for run in capitalised_runs(text):
        position = 0
        while position < len(run):
            length = _length(text, run[position : position + 4], lists)
            if length:
                yield Span(run[position].start(), run[position + length - 1].end(), "PERSON")
            position += max(length, 1)


def _length(text: str, words: list[re.Match[str]], lists: NameLists) -> int:
    """How many of *words*, from the first, are one name; 0: none."""
    first = words[0].group()
    if lists.is_ordinary(first) or (first.isupper() and len(words) == 1):
        return 0
    if _turned(text, words, lists):
        return 2
    given, following = lists.is_given(first), _following(text, words, lists)
    surname = lists.is_surname(following[0]) if following else None
    if given and not first.isupper():
        return 0 if EPONYM.match(text, words[0].end()) else 1 + len(following)
    agree = (surname and (given is not None or not first.isupper())) or (surname is not None and given is not None)
    return 1 + len(following) if agree else 0


def _turned(text: str, words: list[re.Match[str]], lists: NameLists) -> bool:
    """``Surname, Given``."""
    if len(words) < 2 or text[words[0].end()] != ",":
        return False
    return bool(lists.is_surname(words[0].group())) and lists.is_given(words[1].group()) is not None


def _following(text: str, words: list[re.Match[str]], lists: NameLists) -> list[str]:
    """At most two words that can belong to the same name."""
    kept: list[str] = []
    for before, match in pairwise(words[:3]):
        if lists.is_ordinary(match.group()) or text[before.end()] == ",":
            break
        kept.append(match.group())
    return kept


ENGLISH_NAMES: Final = english_names()
