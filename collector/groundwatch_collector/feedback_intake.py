"""Check what `POST /v1/feedback` received and write it the one way that the span log keeps it."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import math
import re
from typing import Any

import orjson

from groundwatch_collector.feedback_access import FeedbackAccess
from groundwatch_collector.limits import Limits, Reason, Rejected
from groundwatch_collector.otlp_json import parse_json
from groundwatch_collector.span_intake import Intake

_TEXT_CHARS = {"name": 64, "label": 64, "by": 64, "id": 64, "comment": 16_384}
_KEYS = ("trace_id", "name", "score", "label", "comment", "by", "id", "sentiment", "token")
_SENTIMENTS = ("positive", "negative", "neutral")
_TRACE_ID = re.compile(r"[0-9a-fA-F]{32}")


def read_feedback(
    body: bytes, limits: Limits, project: str = "", access: FeedbackAccess | None = None
) -> tuple[str, bytes]:
    """The feedback's id and its canonical JSON. Raises :class:`Rejected` naming the key that is wrong.

    Without an id of its own, feedback of the same name by the same subject on the same trace is one feedback.
    """
    raw, has_surrogates = parse_json(body, limits)
    if not isinstance(raw, dict):
        raise _bad(f"body: found {type(raw).__name__}, accepted: a JSON object")
    _refuse_unknown(raw)
    intake = Intake(limits, surrogates=has_surrogates)
    record: dict[str, Any] = {"trace_id": _trace_id(raw.get("trace_id"))}
    record |= {key: _text(raw.get(key), key, intake) for key in _TEXT_CHARS}
    if not record["name"]:
        raise _bad('name: missing, accepted: what kind of feedback it is, for example "thumbs"')
    if access is not None:
        record["by"] = access.subject(record["trace_id"], record["by"], raw.get("token"))
    record["score"] = _score(raw.get("score"))
    record["id"] = record["id"] or derived_id(record["trace_id"], record["name"], record["by"])
    if raw.get("sentiment") is not None:
        record["sentiment"] = _sentiment(raw["sentiment"])
    if project:
        record["project"] = project  # of the key; a sender cannot give it
    return record["id"], orjson.dumps(record)


def derived_id(trace_id: str, name: str, by: str) -> str:
    return hashlib.sha256(json.dumps([trace_id, name, by]).encode()).hexdigest()[:32]


def _bad(message: str) -> Rejected:
    return Rejected(Reason.BAD_FEEDBACK, message)


def _refuse_unknown(raw: dict[str, Any]) -> None:
    for key in raw:
        if key not in _KEYS:
            near = difflib.get_close_matches(key.lower()[:64], _KEYS, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"accepted: {', '.join(_KEYS)}"
            raise _bad(f"unknown key {key[:64]!r}; {hint}")


def _trace_id(value: object) -> str:
    if not isinstance(value, str) or not _TRACE_ID.fullmatch(value) or not value.strip("0"):
        raise _bad(f"trace_id: found {_shape(value)}, accepted: 32 hex digits, not all zero")
    return value.lower()


def _text(value: object, key: str, intake: Intake) -> str:
    if value is None:
        return ""
    most = _TEXT_CHARS[key]
    if not isinstance(value, str) or len(value) > most:
        raise _bad(f"{key}: found {_shape(value)}, accepted: a string of up to {most} characters")
    return intake.text(value)


def _score(value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, bool) and isinstance(value, int | float):
        with contextlib.suppress(OverflowError):  # a whole number of 400 digits
            if math.isfinite(value):
                return float(value)
    raise _bad(f"score: found {_shape(value)}, accepted: a finite number")


def _sentiment(value: object) -> str:
    if not isinstance(value, str) or value not in _SENTIMENTS:
        near = difflib.get_close_matches(str(value).lower()[:64], _SENTIMENTS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"accepted: {', '.join(_SENTIMENTS)}"
        raise _bad(f"sentiment: found {_shape(value)}; {hint}")
    return value


def _shape(value: object) -> str:
    """What was found, without repeating what a person wrote."""
    if value is None:
        return "nothing"
    return f"a string of {len(value)} characters" if isinstance(value, str) else type(value).__name__
