"""How a request ended when the program did not record it: ordered rules, first match, and the rule is kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from groundwatch_collector.ragtrace import Outcome

_TIMEOUTS = ("timeout", "timedout", "deadlineexceeded")
_CANCELLATIONS = ("generatorexit", "cancellederror", "cancelled", "canceled", "clientdisconnect")
_CUT_SHORT = frozenset({"length", "max_tokens", "max_output_tokens"})
_FILTERED = frozenset({"content_filter", "refusal", "safety", "blocked"})
_OPEN_END = (
    re.compile(  # how only a broken text ends: nothing, a mark that opens or goes on, a word with a space behind
        r"(\A\s*|[,;:(\[{（「『《、，；：]\s*|[^\s.!?。！？…)\]}»”\"'`|*][ \t]+)\Z"
    )
)
_ENDED = frozenset({"stop", "end_turn", "stop_sequence", "eos"})


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of the end of a request."""

    error_classes: Sequence[str] = ()  # of the root and the answer call, outermost first
    status_messages: Sequence[str] = ()
    failed: bool = False  # the root or the answer call has status ERROR
    finish_reasons: Sequence[str] = ()  # of the answer call
    streaming: bool = False
    usage_known: bool = False  # the last part of a stream carries it
    call_unended: bool = False  # the answer call shows its prompt, and neither an answer, a reason nor tokens
    shown_is_prefix: bool = False  # the request returned only the beginning of what the model wrote
    outlived: bool = False  # the streaming answer call went on after the request had ended without an answer
    documents: int | None = None  # None: not known
    refusal_field: bool = False
    answer: str | None = None


def infer(evidence: Evidence) -> tuple[Outcome, str]:
    """Return the outcome and the name of the rule that gave it. ``answered`` needs an answer, not only a status."""
    return _execution(evidence) or _text(evidence)


def _execution(evidence: Evidence) -> tuple[Outcome, str] | None:
    if _any_of(_TIMEOUTS, evidence.error_classes):
        return Outcome.TIMEOUT, "error_class"
    if _any_of(_CANCELLATIONS, evidence.error_classes) or _any_of(("abandoned stream",), evidence.status_messages):
        return Outcome.CANCELLED, "error_class"
    if evidence.failed:
        return Outcome.ERROR, "status"
    return _broken_off(evidence)


def _broken_off(evidence: Evidence) -> tuple[Outcome, str] | None:
    if "error" in evidence.finish_reasons:  # the call did not fail, so whoever read it went away
        return Outcome.CANCELLED, "finish_reason"
    if evidence.shown_is_prefix or evidence.outlived:
        return Outcome.CANCELLED, "answer_cut_short" if evidence.shown_is_prefix else "root_ended_first"
    if evidence.call_unended and evidence.answer:
        return Outcome.CANCELLED, "call_without_end"
    if not evidence.streaming or evidence.finish_reasons or evidence.usage_known:
        return None
    if _OPEN_END.search(evidence.answer or ""):
        return Outcome.CANCELLED, "stream_without_end"
    return Outcome.UNKNOWN, "stream_end_not_seen"  # a name, a list and code end with a word, and so does half a text


def _text(evidence: Evidence) -> tuple[Outcome, str]:
    reasons = frozenset(reason.lower() for reason in evidence.finish_reasons)
    if evidence.documents == 0:
        return Outcome.NO_RESULT, "no_documents"
    if evidence.refusal_field or reasons & _FILTERED:
        return Outcome.REFUSED, "finish_reason"
    if reasons & _CUT_SHORT:
        return Outcome.PARTIAL, "finish_reason"
    if evidence.answer:
        return Outcome.ANSWERED, "answer_text"
    if reasons & _ENDED:
        return Outcome.ANSWERED, "finish_reason"
    return Outcome.UNKNOWN, "no_evidence"


def _any_of(words: Iterable[str], texts: Sequence[str]) -> bool:
    lowered = [text.lower().replace("_", "") for text in texts]
    return any(word in text for word in words for text in lowered)
