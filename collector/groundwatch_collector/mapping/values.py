"""Attribute values that may be anything: read what is there, note what was wrong, never raise."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

import orjson

from groundwatch import names
from groundwatch_collector.ragtrace import Document

MAX_DOCUMENTS = 500  # per list; a retriever that returns more is not asking a person to read them
MAX_COUNT = 2**53  # integers above it do not survive JSON
MAX_SECONDS = 7 * 86_400.0  # of one request; a longer one is a clock that was never set
MAX_COST_USD = 10_000.0  # of one request
HIDDEN = "__REDACTED__"  # OpenInference's placeholder: hidden, not text
_TEXT_KEYS = ("content", "text", "page_content")
_ID, _RANK, _SCORE = names.DOC_ID, names.DOC_RANK, names.DOC_SCORE
_CONTENT = "content"
_PLAIN_KEYS = {_ID, _RANK, _SCORE, _CONTENT}
_SURROGATE = re.compile("[\ud800-\udfff]")


class Found(NamedTuple):
    """A value and the attribute that it was read from."""

    value: str
    attribute: str


@dataclass(slots=True)
class Notes:
    """What a mapping noticed on its way: flags, and for each field the attribute that gave it."""

    flags: set[str] = field(default_factory=set)
    sources: dict[str, str] = field(default_factory=dict)

    def take(self, name: str, found: Found | None) -> str | None:
        """Return the value of *found* and remember that field *name* came from it."""
        if found is None:
            return None
        self.sources[name] = found.attribute
        return found.value


def text(value: object, notes: Notes) -> str | None:
    """Return *value* as clean text; None when it is absent, hidden or not text."""
    if value is None:
        return None
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str):
        notes.flags.add("wrong_type")
        return None
    if value == HIDDEN:
        notes.flags.add("content_hidden")
        return None
    return _clean(value, notes)


def _clean(value: str, notes: Notes) -> str:
    if "\x00" in value:
        notes.flags.add("nul_stripped")
        value = value.replace("\x00", "")
    if not value.isascii() and _SURROGATE.search(value):
        notes.flags.add("surrogate_replaced")
        value = _SURROGATE.sub("\ufffd", value)
    return value


def label(value: object, notes: Notes, limit: int = 200) -> str:
    """Return a short name (model, session, error class); "" when it is unknown."""
    if value is None:
        return ""
    if type(value) is str and len(value) <= limit and value.isascii() and "\x00" not in value and value != HIDDEN:
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    found = text(value, notes) or ""
    if len(found) > limit:
        notes.flags.add("label_cut")
    return found[:limit]


def first_text(attributes: Mapping[str, Any], keys: Iterable[str], notes: Notes) -> Found | None:
    """The first of *keys* that holds non-empty text."""
    for key in keys:
        if key in attributes:
            found = text(attributes[key], notes)
            if found:
                return Found(found, key)
    return None


def number(value: object, notes: Notes) -> float | None:
    """Return *value* as a finite float; numbers written as strings are accepted."""
    if value is None or isinstance(value, bool):
        return None
    if not isinstance(value, (int, float, str)):
        notes.flags.add("wrong_type")
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        notes.flags.add("wrong_type")
        return None
    if not math.isfinite(found):
        notes.flags.add("nan_dropped")
        return None
    return found


def count(value: object, notes: Notes) -> int | None:
    """Return *value* as a non-negative integer below 2**53."""
    found = number(value, notes)
    if found is None:
        return None
    if not 0 <= found < MAX_COUNT:
        notes.flags.add("count_out_of_range")
        return None
    return int(found)


def amount(value: object, notes: Notes, most: float) -> float | None:
    """Return *value* as a number from 0 to *most*; one that cannot be true would spoil every sum it is added to."""
    found = number(value, notes)
    if found is None or 0 <= found <= most:
        return found
    notes.flags.add("amount_out_of_range")
    return None


def parse(value: object, notes: Notes) -> Any:
    """Return structured *value*: JSON text is parsed, anything else is returned as it is; None when it is broken."""
    if not isinstance(value, (str, bytes)):
        return value
    try:
        return orjson.loads(value)
    except (orjson.JSONDecodeError, ValueError):
        return _parse_leniently(value, notes)


def _parse_leniently(value: str | bytes, notes: Notes) -> Any:
    """NaN and lone surrogates are what ``json.dumps`` writes by default, so they are read too."""
    try:
        parsed = json.loads(value, parse_constant=lambda _word: notes.flags.add("nan_dropped"))
    except (ValueError, RecursionError):
        notes.flags.add("json_invalid")
        return None
    return parsed


def looks_like_json(value: str) -> bool:
    return value[:1] in ("{", "[", '"') and value[-1:] in ("}", "]", '"')


def documents(value: object, notes: Notes) -> tuple[Document, ...] | None:
    """Read a list of documents from JSON text or a structured list; None when it is not a list."""
    if value is None or value == HIDDEN:
        return None
    raw, clean = _parse_list(value, notes)
    if (plain := _plain_entries(raw, clean)) is not None:
        return tuple(Document(entry[_ID], entry[_RANK], entry.get(_SCORE), entry.get(_CONTENT)) for entry in plain)
    if isinstance(raw, dict):
        raw = raw.get("documents", raw.get("nodes", raw.get("source_nodes")))
    if not isinstance(raw, list):
        notes.flags.add("documents_invalid")
        return None
    if len(raw) > MAX_DOCUMENTS:
        notes.flags.add("documents_cut")
    read = [_document(entry, position, notes) for position, entry in enumerate(raw[:MAX_DOCUMENTS], start=1)]
    return renumbered(tuple(document for document in read if document is not None), notes)


def plain_documents(value: object) -> Sequence[Mapping[str, Any]] | None:
    """A list as it was sent, where :func:`documents` would find nothing to mend, join or renumber; else None.

    For who needs one property of each document: making the documents takes twice as long as reading the list.
    """
    return _plain_entries(*_parse_list(value, Notes()))


def _parse_list(value: object, notes: Notes) -> tuple[Any, bool]:
    """What *value* holds, and whether its texts are known to be clean without looking at each.

    Strict JSON has no lone surrogates, and a NUL only as an escape.
    """
    if type(value) is str and "\\u0000" not in value:
        try:
            return orjson.loads(value), True
        except ValueError:
            pass
    return parse(value, notes), False


def _plain_entries(raw: object, clean: bool) -> list[dict[str, Any]] | None:
    """The entries of *raw*, when all are as our SDK writes them; reading them otherwise takes three times as long."""
    if not clean or type(raw) is not list or len(raw) > MAX_DOCUMENTS:
        return None
    before = 0
    for entry in raw:
        rank = entry.get(_RANK) if type(entry) is dict else None
        if type(rank) is not int or not before < rank < MAX_COUNT or not _is_plain(entry):
            return None
        before = rank
    return raw


def _is_plain(entry: dict[str, Any]) -> bool:
    """Whether nothing in *entry*, from a clean list, is to be mended. Its rank is not looked at."""
    identifier, body, score = entry.get(_ID), entry.get(_CONTENT), entry.get(_SCORE)
    if (len(entry) != 4 or score is None or body is None) and not entry.keys() <= _PLAIN_KEYS:
        return False
    if type(identifier) is not str or not 0 < len(identifier) <= 200 or identifier == HIDDEN:
        return False
    if score is not None and (type(score) is not float or not math.isfinite(score)):
        return False
    return body is None or (type(body) is str and body != HIDDEN)


def _document(entry: object, position: int, notes: Notes) -> Document | None:
    if isinstance(entry, str):
        entry = {"content": entry}
    if isinstance(entry, dict) and isinstance(entry.get("document"), dict):
        entry = {**entry, **entry["document"]}
    if isinstance(entry, dict) and isinstance(entry.get("node"), dict):
        entry = {**entry["node"], **entry}
    if not isinstance(entry, dict):
        notes.flags.add("documents_invalid")
        return None
    raw: dict[str, Any] = entry
    nested = raw.get("metadata")
    metadata: dict[str, Any] = nested if isinstance(nested, dict) else {}
    found = next((raw[key] for key in _TEXT_KEYS if raw.get(key) is not None), None)
    return make_document(
        notes,
        identifier=raw.get(names.DOC_ID, raw.get("id_")),
        rank=count(raw.get(names.DOC_RANK), notes) or position,
        score=raw.get(names.DOC_SCORE, metadata.get("relevance_score", metadata.get("score"))),
        content=found,
        cut=raw.get(names.DOC_CUT),
        version=raw.get(names.DOC_VERSION, metadata.get("version")),
        title=raw.get(names.DOC_TITLE, metadata.get("title")),
    )


def make_document(
    notes: Notes,
    *,
    identifier: object,
    rank: int,
    score: object = None,
    content: object = None,
    cut: object = None,
    version: object = None,
    title: object = None,
) -> Document:
    """Build one document; an id that is missing is derived from the text, and the trace says so."""
    body = text(content, notes)
    cut_characters = count(cut, notes) or 0
    if cut_characters:
        notes.flags.add("documents_cut")
    return Document(
        id=label(identifier, notes) or _derived_id(body, rank, notes),
        rank=rank,
        score=number(score, notes),
        text=body,
        cut=cut_characters,
        version=label(version, notes) or None,
        title=label(title, notes) or None,
    )


def _derived_id(body: str | None, rank: int, notes: Notes) -> str:
    notes.flags.add("document_id_derived")
    if not body:
        return f"rank-{rank}"
    return "text-" + blake2b(body.encode("utf-8", "replace"), digest_size=6).hexdigest()


def renumbered(found: tuple[Document, ...], notes: Notes) -> tuple[Document, ...]:
    """Keep the sender's ranks when they rise strictly; otherwise the order of the list is the rank."""
    ranks = [document.rank for document in found]
    if all(a < b for a, b in pairwise(ranks)):
        return found
    if len(set(ranks)) == len(ranks):
        return tuple(sorted(found, key=lambda document: document.rank))
    notes.flags.add("ranks_renumbered")
    return tuple(
        Document(d.id, rank, d.score, d.text, d.cut, d.version, d.title) for rank, d in enumerate(found, start=1)
    )
