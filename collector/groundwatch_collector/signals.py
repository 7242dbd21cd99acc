"""Cheap hints of a bad answer, read from every trace. They steer where judging looks, never what it finds.

A wrong hint costs precision of the estimate, not its correctness: inclusion stays a matter of the hash.
English and Chinese. Under a millisecond a trace, so everything is bounded before it is looked at.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache

from groundwatch_collector.ragtrace import RagTrace

MAX_ANSWER_CHARS = 2_000
MAX_CONTEXT_CHARS = 24_000
_MAX_TERMS = 120
_WORD = re.compile(r"[a-z][a-z0-9_\-]{3,}")
_CJK = re.compile("[\u4e00-\u9fff]{2,}")
_DIGIT = re.compile(r"\d")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_MARKER = re.compile(r"\[\d{1,3}\]|【\d{1,3}】")
_LIST_MARK = re.compile(r"^\s*\d{1,2}[.)、]\s", re.MULTILINE)
_ENDINGS = ("ing", "ed", "es", "s")
_BIAS = -2.2


@dataclass(frozen=True, slots=True)
class Signals:
    """Each in [0, 1]; 0 is what a good answer looks like, also where nothing is known."""

    unsupported_terms: float = 0.0  # share of the answer's terms that its context does not contain
    unsupported_numbers: float = 0.0  # share of the answer's numbers that its context does not contain
    missing_citation: float = 0.0
    short_answer: float = 0.0
    retries: float = 0.0
    weak_retrieval: float = 0.0  # best score low among scores that look like a similarity
    language_mismatch: float = 0.0  # asked in one script, answered in another
    reasked: float = 0.0  # nearly the same question was answered in this session a few minutes ago


_WEIGHTS = {
    "unsupported_terms": 3.2,
    "unsupported_numbers": 1.6,
    "missing_citation": 0.4,
    "short_answer": 0.3,
    "retries": 0.5,
    "weak_retrieval": 0.8,
    "language_mismatch": 0.8,
    "reasked": 0.8,
}


def measure(trace: RagTrace, *, reasked: float = 0.0) -> Signals:
    """*reasked*: how near the question is to one that this session was answered before; the trace cannot tell."""
    answer = (trace.answer or "")[:MAX_ANSWER_CHARS]
    context = _context(trace)
    return Signals(
        unsupported_terms=_missing_share(_terms(answer), context),
        unsupported_numbers=_missing_share(_numbers(answer), context),
        missing_citation=float(bool(answer) and bool(context) and not _MARKER.search(answer) and not trace.citations),
        short_answer=float(trace.answer is not None and len(answer) < _short_length(answer)),
        retries=min(1.0, trace.retries / 2),
        weak_retrieval=_weak_retrieval(trace),
        language_mismatch=_language_mismatch(trace.query or "", answer),
        reasked=reasked,
    )


def score(signals: Signals) -> float:
    """One number in [0, 1], larger for answers that look worse. Not a probability of failure."""
    total = _BIAS + sum(weight * getattr(signals, name) for name, weight in _WEIGHTS.items())
    return 1.0 / (1.0 + math.exp(-total))


def _context(trace: RagTrace) -> str | None:
    """What the answer could rest on; "" when that is known to be nothing, None when it is not known."""
    shown = trace.shown_texts
    if shown is None:
        return None
    parts, room = [], MAX_CONTEXT_CHARS
    for body in shown:
        parts.append(body[:room])
        room -= len(parts[-1])
        if room <= 0:
            break
    text = "\n".join([part for part in parts if part]).lower()
    return None if shown and not text else text


def _terms(answer: str) -> list[str]:
    lowered = answer.lower()
    words = [_stem(word) for word in _WORD.findall(lowered)]
    runs = [] if lowered.isascii() else _CJK.findall(lowered)
    pairs = [run[i : i + 2] for run in runs for i in range(len(run) - 1)]
    return list(dict.fromkeys(words + pairs))[:_MAX_TERMS]


@lru_cache(maxsize=16_384)
def _stem(word: str) -> str:
    """Cut an English ending, so that "deletes" is found in "deleted": terms are looked up as substrings."""
    if not word.endswith(_ENDINGS):
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def _numbers(answer: str) -> list[str]:
    if not _DIGIT.search(answer):
        return []
    bare = _MARKER.sub(" ", answer) if "[" in answer or "【" in answer else answer
    bare = _LIST_MARK.sub(" ", bare) if "\n" in bare or _LIST_MARK.match(bare) else bare
    return list(dict.fromkeys(_NUMBER.findall(bare)))[:_MAX_TERMS]


def _missing_share(terms: list[str], context: str | None) -> float:
    if not terms or context is None:
        return 0.0
    return len([term for term in terms if term not in context]) / len(terms)


def _short_length(answer: str) -> int:
    return 8 if _is_chinese(answer) else 25  # a Chinese character says about three Latin letters


def _is_chinese(text: str) -> bool:
    return not text.isascii() and _CJK.search(text) is not None


def _weak_retrieval(trace: RagTrace) -> float:
    ranking = trace.ranking_scores
    if ranking is None:
        return 0.0
    if not ranking:
        return 1.0
    scores = [score for score in ranking if score is not None]
    if not scores or not all(0.0 <= value <= 1.0 for value in scores):
        return 0.0  # BM25 and the like have no common scale
    return max(0.0, 1.0 - max(scores) / 0.5)


def _language_mismatch(query: str, answer: str) -> float:
    asked, answered = _is_chinese(query), _is_chinese(answer)
    return float(bool(query) and len(answer) >= 20 and asked != answered)
