"""Citation marks of every form, rewritten as ``[1]`` without moving a character.

Applications cite as ``[1]``, by document id (``[manual-en:refunds]``), by name (``(source: refunds.md)``,
``[doc 2]``, ``[来源1]``) or as a model's file search does. A mark says nothing about the world: read as a claim it
would be one that no passage supports.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from groundwatch_collector.ragtrace import RagTrace

_BRACKETED = re.compile(r"\[([^\[\]\n]{1,200})\]|【([^【】\n]{1,200})】|[(（]([^()（）\n]{1,200})[)）]")
_BETWEEN = re.compile(r"\s*[,，、;；]\s*")
_KIND = re.compile(
    r"(?:sources?|docs?|documents?|passages?|chunks?|context|refs?|references?|see"
    r"|来源|资料|文档|文件|参考|引用|出处|片段|见)\s*[:：#]?\s*",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\^?#?\d{1,3}")
_FILE_SEARCH = re.compile(r"\d{1,3}(?::\d{1,4})?†.*")
_LIKE_AN_ID = re.compile(r"[^\W\d].*[-_/:#.\d]|[-_/:#].*[^\W\d]")
_PLAIN = "[1]"


def with_plain_marks(answer: str, trace: RagTrace) -> str:
    """*answer*, equally long, with each citation mark of another form as blanks and ``[1]``."""
    names = frozenset(_names(trace))

    def rewritten(found: re.Match[str]) -> str:
        inner = found[1] or found[2] or found[3]
        parts = _BETWEEN.split(inner.strip())
        round_brackets = found[3] is not None
        if not all(_is_mark(part, names, round_brackets) for part in parts):
            return found[0]
        return _PLAIN.rjust(len(found[0]))

    return _BRACKETED.sub(rewritten, answer)


def _is_mark(part: str, names: frozenset[str], round_brackets: bool) -> bool:
    """In round brackets a number, a year or a word may be what is said; "source: ..." and "a-12" are not."""
    if _FILE_SEARCH.fullmatch(part):
        return True
    kind = _KIND.match(part)
    if part.casefold() in names and (not round_brackets or _LIKE_AN_ID.search(part)):
        return True
    rest = part[kind.end() :] if kind else part
    if kind and rest.casefold() in names:
        return True
    return bool(_NUMBER.fullmatch(rest)) and (bool(kind) or not round_brackets)


def _names(trace: RagTrace) -> Iterable[str]:
    for citation in trace.citations:
        yield from _folded(citation.document_id, citation.marker.strip("[]【】()（） "))
    for documents in (trace.candidates, trace.reranked, trace.context):
        for document in documents or ():
            yield from _folded(document.id, document.title or "")


def _folded(*texts: str) -> Iterable[str]:
    return (text.strip().casefold() for text in texts if text.strip())
