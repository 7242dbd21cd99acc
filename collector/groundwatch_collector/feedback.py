"""Read a feedback record, whatever words the application uses for good and bad."""

from __future__ import annotations

import math
from hashlib import blake2b
from typing import Any, Literal

import orjson

from groundwatch_collector.limits import Reason, Rejected
from groundwatch_collector.mapping.values import Notes, label, number, text
from groundwatch_collector.ragtrace import Feedback

Sentiment = Literal["positive", "negative", "neutral"]

MAX_COMMENT_CHARS = 16_384  # what the receiver accepts
_SENTIMENTS: dict[str, Sentiment] = {"positive": "positive", "negative": "negative", "neutral": "neutral"}
_POSITIVE_WORDS = """
    up thumbs_up thumbsup thumb_up like liked good great yes true helpful correct accept accepted resolved solved
    satisfied 👍 赞 点赞 好 好评 有用 有帮助 正确 满意 已解决 是
"""
_NEGATIVE_WORDS = """
    down thumbs_down thumbsdown thumb_down dislike disliked bad poor no false unhelpful not_helpful incorrect wrong
    reject rejected unresolved unsolved dissatisfied complaint hallucination inaccurate outdated incomplete
    👎 踩 点踩 差 差评 没用 无用 没有帮助 错误 不正确 不满意 未解决 否 投诉
"""
# The event itself says that the answer did not help, whatever label comes with it.
_NEGATIVE_EVENT_WORDS = """
    handoff handover hand_off human_handoff transfer_to_human escalation escalated complaint
    转人工 转接人工 转接客服 人工客服 人工 投诉
"""
_POSITIVE = frozenset(_POSITIVE_WORDS.split())
_NEGATIVE = frozenset(_NEGATIVE_WORDS.split())
_NEGATIVE_EVENTS = frozenset(_NEGATIVE_EVENT_WORDS.split())
_FIVE_POINT_NAMES = ("rating", "star", "csat", "评分", "打分", "星", "满意度")


def read(body: bytes, received_at: float) -> Feedback:
    """Read one record of the span log. Raises :class:`Rejected` for what can never be read."""
    try:
        raw = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise Rejected(Reason.BAD_FEEDBACK, "feedback: not JSON") from None
    if not isinstance(raw, dict):
        raise Rejected(Reason.BAD_FEEDBACK, f"feedback: found {type(raw).__name__}, accepted: a JSON object")
    return _feedback(raw, received_at)


def _feedback(raw: dict[str, Any], received_at: float) -> Feedback:
    notes = Notes()
    trace_id = normal_trace_id(raw.get("trace_id"))
    name = label(raw.get("name"), notes, 64) or "feedback"
    given = raw.get("score", raw.get("value"))
    word = label(given if isinstance(given, str) and number(given, notes) is None else raw.get("label"), notes, 64)
    score = float(given) if isinstance(given, bool) else number(given, notes)
    comment = (text(raw.get("comment"), notes) or "")[:MAX_COMMENT_CHARS]
    by = label(raw.get("by", raw.get("user_hash")), notes, 64)
    identifier = label(raw.get("id", raw.get("feedback_id")), notes, 64)
    return Feedback(
        id=identifier or _derived_id(trace_id, name, by, word, score, comment),
        trace_id=trace_id,
        name=name,
        sentiment=_stated(raw.get("sentiment")) or sentiment(name, word, score),
        score=score,
        label=word,
        comment=comment,
        by=by,
        received_at=received_at,
    )


def _stated(value: object) -> Sentiment | None:
    return _SENTIMENTS.get(value) if isinstance(value, str) else None


def normal_trace_id(value: object) -> str:
    """Return 32 lowercase hexadecimal digits; a UUID with dashes is accepted."""
    found = value.strip().lower().replace("-", "") if isinstance(value, str) else ""
    if len(found) != 32 or any(digit not in "0123456789abcdef" for digit in found) or found == "0" * 32:
        raise Rejected(Reason.BAD_FEEDBACK, "feedback.trace_id: accepted: 32 hexadecimal digits, not all zero")
    return found


def sentiment(name: str, word: str, score: float | None) -> Sentiment:
    """What the user meant: the event's name, then the label's word, then the score.

    Scores of something called a rating or stars are read on 1 to 5: up to 2 is negative, from 4 positive. Any other
    score is read on 0 to 1: below a half is negative, above it positive; below zero is always negative.
    """
    if _normal(name) in _NEGATIVE_EVENTS:
        return "negative"
    if _normal(word) in _NEGATIVE:
        return "negative"
    if _normal(word) in _POSITIVE:
        return "positive"
    if score is None or not math.isfinite(score):
        return "neutral"
    low, high = (2.0, 4.0) if any(part in name.lower() for part in _FIVE_POINT_NAMES) else (0.4999, 0.5001)
    if score <= low:
        return "negative"
    return "positive" if score >= high else "neutral"


def _normal(word: str) -> str:
    return word.strip().strip(":").lower().replace(" ", "_").replace("-", "_")


def _derived_id(*parts: object) -> str:
    """The same report sent twice without an id is one report."""
    return "auto-" + blake2b(repr(parts).encode("utf-8", "replace"), digest_size=16).hexdigest()
