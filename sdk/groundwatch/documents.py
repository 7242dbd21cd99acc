"""Documents as applications hold them: dicts, strings, pairs, LangChain, LlamaIndex and Haystack objects.

On the caller's thread only a snapshot is taken (:func:`snapshot`), because a reranker may write new scores into
the same objects a moment later. Reading the fields out of it is the background worker's work (:func:`read`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass
from itertools import islice
from typing import Any

MAX_LISTED = 1000  # documents of one list that are sent at all; a longer list is cut, and marked

_IDS = ("id", "doc_id", "document_id", "chunk_id", "node_id", "id_", "_id")
_TEXTS = ("content", "text", "page_content", "passage", "chunk", "body")
_SCORES = ("score", "relevance_score", "similarity", "_score")
_VERSIONS = ("version", "doc_version", "document_version")
_TITLES = ("title", "name")
_METADATA = ("metadata", "meta", "payload")
_METADATA_KEYS = frozenset(_METADATA)
_COPIED_OR_COUNTED = frozenset((*_METADATA, *_TEXTS))
_WITHOUT_TEXT = frozenset((*_IDS, *_SCORES, *_VERSIONS))
_ONLY_STRINGS = {str}
_READ = frozenset((*_IDS, *_TEXTS, *_SCORES, *_VERSIONS, *_TITLES, *_METADATA))


@dataclass(frozen=True, slots=True)
class Document:
    """A retrieved document, spelled out. Optional: plain dicts and framework objects are understood too."""

    id: str
    text: str | None = None
    score: float | None = None
    title: str | None = None
    version: str | None = None


@dataclass(slots=True)
class Fields:
    """What could be read from one document; values are not cleaned yet."""

    id: Any = None
    text: Any = None
    score: Any = None
    title: Any = None
    version: Any = None


class Snapshot:
    """The documents of one list, copied. Equal dicts are one flat list of values: see :func:`_snapshot_of_equals`."""

    __slots__ = ("_keys", "_values", "size", "total")

    def __init__(self, values: list[Any], keys: tuple[Any, ...], total: int, size: int) -> None:
        self._values = values
        self._keys = keys  # of each document, when *values* is flat; else ()
        self.total = total  # how many documents there were
        self.size = size  # estimated bytes held

    @property
    def items(self) -> list[Any]:
        """The documents, or the first ``MAX_LISTED`` of them."""
        keys, width = self._keys, len(self._keys)
        if not width:
            return self._values
        return [
            dict(zip(keys, self._values[at : at + width], strict=True)) for at in range(0, len(self._values), width)
        ]

    def forget_texts(self) -> None:
        """Let go of the texts where they are not wanted, so that waiting requests do not hold them."""
        if not self._forget_columns():
            self._values, self._keys = [without_text(item) for item in self.items], ()
        self.size = 200 * min(self.total, MAX_LISTED)

    def _forget_columns(self) -> bool:
        """The same without reading each document: where all say who they are, and none in a dict of its own."""
        keys, width = self._keys, len(self._keys)
        if not _METADATA_KEYS.isdisjoint(keys) or (ident := next((key for key in _IDS if key in keys), None)) is None:
            return False
        if None in self._values[keys.index(ident) :: width]:
            return False
        kept = [at for at, key in enumerate(keys) if key in _WITHOUT_TEXT]
        columns = [self._values[at::width] for at in kept]
        self._keys = tuple(keys[at] for at in kept)
        self._values = [value for row in zip(*columns, strict=True) for value in row]
        return True


def snapshot(documents: object) -> Snapshot | None:
    """Copy *documents* shallowly, or return None when they can only be read once (a generator)."""
    if type(documents) is list and documents and type(documents[0]) is dict and len(documents) <= MAX_LISTED:
        made = _snapshot_of_equals(documents)
        if made is not None:
            return made
    if isinstance(documents, (str, bytes, Mapping, Document)):
        documents = (documents,)
    if not isinstance(documents, Iterable) or not isinstance(documents, Sized):
        return None
    total = len(documents)
    size = 200 * min(total, MAX_LISTED)
    items: list[Any] = []
    for document in documents if total <= MAX_LISTED else islice(documents, MAX_LISTED):
        copied = _copy_dict(document) if type(document) is dict else _copy(document)
        items.append(copied)
        size += _text_size(copied)
    return Snapshot(items, (), total, size)


def _snapshot_of_equals(documents: list[Any]) -> Snapshot | None:
    """Dicts with the same keys in the same order as one flat list, or None for others.

    One object instead of one for each document: the garbage collector counts objects, and runs on the thread that
    makes them.
    """
    keys = tuple(documents[0])
    values: list[Any] = []
    for document in documents:
        if type(document) is not dict or tuple(document) != keys:
            return None
        values += document.values()
    width = len(keys)
    if not width or len(values) != width * len(documents):  # another thread is changing them
        return None
    size = 200 * len(documents)
    for key in _COPIED_OR_COUNTED.intersection(keys):
        column = values[keys.index(key) :: width]
        if key in _METADATA_KEYS:
            values[keys.index(key) :: width] = [v.copy() if type(v) is dict else v for v in column]
        elif set(map(type, column)) == _ONLY_STRINGS:
            size += sum(map(len, column)) * (1 if column[0].isascii() else 3)  # a list is in one language, mostly
        else:
            return None
    return Snapshot(values, keys, len(documents), size)


def _copy_dict(document: dict[str, Any]) -> dict[str, Any]:
    copied = document.copy()
    for key in _METADATA:
        if key in copied and type(copied[key]) is dict:
            copied[key] = copied[key].copy()
    return copied


def _copy(document: Any) -> Any:
    kind = type(document)
    if kind is dict:
        return _copy_dict(document)
    if kind is str or kind is Document or kind is bytes or document is None:
        return document
    if isinstance(document, (tuple, list)):
        return tuple(_copy(part) for part in document[:3])
    if isinstance(document, (int, float)):
        return document
    return _copy_object(document)


_plans: dict[type, tuple[str, ...]] = {}


def _copy_object(document: Any) -> dict[str, Any]:
    """Read an object's attributes now: reading them later, in another thread, may reach into a closed session."""
    if isinstance(document, Mapping):
        return _copy(dict(document))  # type: ignore[no-any-return]
    node = getattr(document, "node", None)  # LlamaIndex: NodeWithScore(node, score)
    if node is not None:
        return {**_copy_object(node), "score": getattr(document, "score", None)}
    own = getattr(document, "__dict__", None) or {}
    copied = {name: own[name] for name in own if name in _READ}
    copied.update((name, getattr(document, name, None)) for name in _class_plan(type(document)) if name not in copied)
    return {name: value for name, value in copied.items() if not callable(value)}


def _class_plan(kind: type) -> tuple[str, ...]:
    """Which of our names a class itself provides, as properties, slots or defaults."""
    plan = _plans.get(kind)
    if plan is None:
        plan = tuple(name for name in _READ if hasattr(kind, name))
        if len(_plans) < 256:  # a bound: types can be made at run time
            _plans[kind] = plan
    return plan


def _text_size(copied: Any) -> int:
    if type(copied) is dict:
        text = copied.get("content") or copied.get("text") or copied.get("page_content")
    elif type(copied) is Document:
        text = copied.text
    elif type(copied) is tuple:
        return sum(map(_text_size, copied))
    else:
        text = copied
    return estimated_bytes(text) if isinstance(text, str) else 0


def estimated_bytes(text: str) -> int:
    """Bytes of *text* in UTF-8, near enough for a bound and without encoding it."""
    return len(text) if text.isascii() else 3 * len(text)


def without_text(copied: Any) -> Any:
    """Let go of the text where it is not wanted, so that waiting requests do not hold it."""
    fields = read(copied)
    ident = fields.id if fields.id is not None else (derived_id(fields.text) if fields.text else None)
    return {"id": ident, "score": fields.score, "version": fields.version}


def read(copied: Any) -> Fields:
    """Find the fields of one snapshot item."""
    if isinstance(copied, Document):
        return Fields(copied.id, copied.text, copied.score, copied.title, copied.version)
    if isinstance(copied, (str, bytes)):
        return Fields(text=copied)
    if isinstance(copied, tuple):
        return _read_tuple(copied)
    if isinstance(copied, dict):
        return _read_mapping(copied)
    return Fields(id=copied)


def _read_tuple(parts: tuple[Any, ...]) -> Fields:
    """``(document, score)`` as vector stores return it, ``(id, score)`` or ``(id, score, text)``."""
    if not parts:
        return Fields()
    if isinstance(parts[0], dict | Document):
        fields = read(parts[0])
    else:
        fields = Fields(id=parts[0], text=parts[2] if len(parts) > 2 else None)
    if len(parts) > 1:
        fields.score = parts[1]
    return fields


def _read_mapping(found: Mapping[str, Any]) -> Fields:
    inner: Mapping[str, Any] = next((found[key] for key in _METADATA if isinstance(found.get(key), Mapping)), {})
    return Fields(
        id=_first(found, inner, _IDS),
        text=_first(found, {}, _TEXTS),
        score=_first(found, inner, _SCORES),
        title=_first(found, inner, _TITLES),
        version=_first(found, inner, _VERSIONS),
    )


def _first(outer: Mapping[str, Any], inner: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    for source in (outer, inner):
        for key in keys:
            if (value := source.get(key)) is not None:
                return value
    return None


def derived_id(text: object) -> str:
    """Name a document that has no id after its text, so that the same text keeps the same name."""
    raw = text if isinstance(text, bytes) else str(text).encode("utf-8", "replace")
    return f"text-{hashlib.sha256(raw).hexdigest()[:16]}"


def number(value: object) -> float | None:
    """Read a score; None for what is not a finite number."""
    if value is None or isinstance(value, (bool, str, bytes)):
        return None
    try:
        found = float(value)  # type: ignore[arg-type]  # numpy and Decimal convert; others raise
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None
