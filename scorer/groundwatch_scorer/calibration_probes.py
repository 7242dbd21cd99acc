"""Whether a judge's verdicts move with what should not move them: a second reading, the order, the length.

And whether they do move with what must: passages of another case support nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from groundwatch_collector.ragtrace import Document, RagTrace

from .judgement import Assessment, Judge, Verdict, read_again
from .text import is_chinese

REPEATS = 3
FLAGGED_ABOVE = 0.05  # spread of one answer's probability over the repeats
MOST_CASES = 50  # that are read again: six more readings each
_PADDING = 1  # passages of another case at the end of the context


def stability(traces: Sequence[RagTrace], judge: Judge) -> dict[str, Any]:
    """Read up to 50 of *traces* again, as they are and changed; traces with claims and context only."""
    chosen = [trace for trace in traces if trace.context and (trace.answer or "").strip()][:: _step(len(traces))]
    chosen = chosen[:MOST_CASES]
    first = [judge.assess(trace) for trace in chosen]
    again = [[read_again(judge, trace) for trace in chosen] for _ in range(REPEATS - 1)]
    spreads = [_spread(readings) for readings in zip(first, *again, strict=True)]
    return {
        "cases": len(chosen),
        "repeats": REPEATS,
        "largest_spread": max(spreads, default=0.0),
        "flagged": sum(spread > FLAGGED_ABOVE for spread in spreads),
        "moved": {
            name: sum(_verdict(judge.assess(change(i, chosen))) != _verdict(first[i]) for i in range(len(chosen)))
            for name, change in _CHANGES.items()
        },
        "false_support": _false_support(chosen, judge),
    }


def _false_support(traces: Sequence[RagTrace], judge: Judge) -> dict[str, int]:
    """Of the claims of *traces*, read with the passages of another case each, how many are called supported."""
    strangers = [trace for i in range(len(traces)) if (trace := _with_passages_of_another(i, traces)) is not None]
    claims = [claim for trace in strangers for claim in judge.assess(trace).claims]
    return {
        "cases": len(strangers),
        "claims": len(claims),
        "supported": sum(claim.verdict is Verdict.SUPPORTED for claim in claims),
    }


def _with_passages_of_another(index: int, traces: Sequence[RagTrace]) -> RagTrace | None:
    """With the passages of a case of the same language that shares none with it; None: there is no such case."""
    trace = traces[index]
    mine = {document.text for document in trace.context or ()}
    for step in range(len(traces)):
        other = traces[(index + len(traces) // 2 + step) % len(traces)]
        theirs = other.context or ()
        alike = is_chinese(other.answer or "") == is_chinese(trace.answer or "")
        if alike and mine.isdisjoint(document.text for document in theirs):
            return replace(trace, context=theirs, candidates=None, reranked=None, citations=())
    return None


def _step(count: int) -> int:
    return max(1, count // (2 * MOST_CASES))


def _spread(readings: Sequence[Assessment]) -> float:
    worst = [_worst(reading) for reading in readings]
    return max(worst) - min(worst)


def _worst(reading: Assessment) -> float:
    return max((claim.unsupported_probability for claim in reading.claims), default=0.0)


def _verdict(reading: Assessment) -> str:
    """Of the worst claim, or what stands in its place."""
    if not reading.claims:
        return reading.refusal.value
    return max(reading.claims, key=lambda claim: claim.unsupported_probability).verdict.value


def _reversed_order(index: int, traces: Sequence[RagTrace]) -> RagTrace:
    trace = traces[index]
    return replace(trace, context=(trace.context or ())[::-1])


def _longer(index: int, traces: Sequence[RagTrace]) -> RagTrace:
    """With passages of another case, which say nothing of the matter."""
    others = (traces[(index + len(traces) // 2) % len(traces)].context or ())[:_PADDING]
    padding = tuple(Document(f"padding{i}", 1000 + i, text=d.text) for i, d in enumerate(others))
    return replace(traces[index], context=(*(traces[index].context or ()), *padding))


def _blank_lines(index: int, traces: Sequence[RagTrace]) -> RagTrace:
    spaced = tuple(replace(d, text=f"\n\n  {d.text}\n\n") for d in traces[index].context or ())
    return replace(traces[index], context=spaced)


_CHANGES: Mapping[str, Callable[[int, Sequence[RagTrace]], RagTrace]] = {
    "passages_reversed": _reversed_order,
    "unrelated_passage_added": _longer,
    "blank_lines_added": _blank_lines,
}
