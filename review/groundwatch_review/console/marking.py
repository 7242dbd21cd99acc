"""Show a stranger's text: as text nodes, with highlights, and with every character that could deceive made visible.

The only elements ever written here are ``span``, ``mark`` and ``a`` with class names of ours; the text is escaped.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

_SHORT = {
    0x00AD: "SHY",
    0x061C: "ALM",
    0x180E: "MVS",
    0x200B: "ZWSP",
    0x200C: "ZWNJ",
    0x200D: "ZWJ",
    0x200E: "LRM",
    0x200F: "RLM",
    0x2028: "LSEP",
    0x2029: "PSEP",
    0x202A: "LRE",
    0x202B: "RLE",
    0x202C: "PDF",
    0x202D: "LRO",
    0x202E: "RLO",
    0x2060: "WJ",
    0x2066: "LRI",
    0x2067: "RLI",
    0x2068: "FSI",
    0x2069: "PDI",
    0xFEFF: "BOM",
    0x1B: "ESC",
    0x7F: "DEL",
}
_ORDINARY = frozenset("\n\t")


def is_deceptive(text: str, index: int) -> bool:
    """Whether the character draws nothing itself but changes what a reader sees: controls and format characters."""
    character = text[index]
    if character in _ORDINARY:
        return False
    if character == "\u200d":  # joins family and flag emoji: harmless between two symbols, a trick between letters
        around = text[max(0, index - 1) : index] + text[index + 1 : index + 2]
        return not (len(around) == 2 and all(unicodedata.category(c) in ("So", "Sk", "Mn") for c in around))
    return unicodedata.category(character) in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")


def visible(text: str | None) -> Markup:
    """Escape *text*, with control, bidi and zero-width characters as labelled boxes instead of themselves."""
    if not text:
        return Markup("")
    parts: list[Markup] = []
    start = 0
    for index in range(len(text)):
        if is_deceptive(text, index):
            parts += [escape(text[start:index]), _box(text[index])]
            start = index + 1
    parts.append(escape(text[start:]))
    return Markup("").join(parts)


def plain(text: str) -> str:
    """*text* for where no element can stand (options, tooltips, titles): the same characters named in brackets."""
    return "".join(f"[{_label(c)}]" if is_deceptive(text, i) else c for i, c in enumerate(text))


def _box(character: str) -> Markup:
    name = unicodedata.name(character, "control character")
    title = f"U+{ord(character):04X} {name}"
    return Markup('<span class="ctrl" title="{}">{}</span>').format(title, _label(character))


def _label(character: str) -> str:
    return _SHORT.get(ord(character), f"{ord(character):02X}")


@dataclass(frozen=True, slots=True)
class Range:
    """A stretch of the text to mark. ``number`` becomes a link to the card that explains it."""

    start: int
    end: int
    css: str  # our own class names
    number: int = 0
    label: str = ""  # said to screen readers, and shown as the tooltip


def marked(text: str | None, ranges: Iterable[Range]) -> Markup:
    """*text* as :func:`visible` gives it, with *ranges* wrapped; of ranges that overlap the earlier one wins."""
    if not text:
        return Markup("")
    parts: list[Markup] = []
    position = 0
    for span in _apart(ranges, len(text)):
        parts.append(visible(text[position : span.start]))
        parts.append(_wrap(span, visible(text[span.start : span.end])))
        position = span.end
    parts.append(visible(text[position:]))
    return Markup("").join(parts)


def _apart(ranges: Iterable[Range], length: int) -> Sequence[Range]:
    kept: list[Range] = []
    for span in sorted(ranges, key=lambda r: (r.start, -r.end)):
        begins_free = not kept or span.start >= kept[-1].end
        if 0 <= span.start < span.end <= length and begins_free:
            kept.append(span)
    return kept


def _wrap(span: Range, inner: Markup) -> Markup:
    if not span.number:
        return Markup('<mark class="{}" title="{}">{}</mark>').format(span.css, span.label, inner)
    link = Markup('<a class="claim-number" href="#claim-{0}" aria-label="claim {0}: {1}">{0}</a>').format(
        span.number, span.label
    )
    return Markup('<span class="{}" id="said-{}" title="{}">{}{}</span>').format(
        span.css, span.number, span.label, inner, link
    )


def passage(text: str | None, start: int, end: int, quote: str, around: int = 160) -> Markup:
    """The quote inside what stands around it in its document; the bare quote when the document does not hold it."""
    if text is None or not 0 <= start < end <= len(text) or text[start:end] != quote:
        return marked(quote, [Range(0, len(quote), "quote", label="passage")])
    first, last = max(0, start - around), min(len(text), end + around)
    body = marked(text[first:last], [Range(start - first, end - first, "quote", label="passage")])
    return Markup("{}{}{}").format("… " if first else "", body, " …" if last < len(text) else "")
