"""How much processor time the local judge takes for one trace. Run: ``python tests/bench/bench_local_judge.py``.

The trace is the size that the documentation promises for: five passages of 1,000 characters in the context, of five
or of twenty that were retrieved, and an answer of 1,000 that shares only frequent words with them. "cold" texts were
never seen before; "warm" ones were, as the passages of an application are. ``reference_ms`` is what a fixed piece of
work took in between: about 6 on a core that is left alone, up to twice as much where others crowd its caches.
"""

from __future__ import annotations

import json
import random
import statistics
import time

from groundwatch_collector.ragtrace import Document, Outcome, RagTrace
from groundwatch_scorer import criteria
from groundwatch_scorer.local_judge import LocalJudge

LETTERS = "bcdfghklmnprstvw"
VOWELS = "aeiou"
FIRST_CHARACTER, CHARACTERS = 0x4E00, 700


def _word(rank: int) -> str:
    """The made-up word of this rank."""
    parts: list[str] = []
    for _ in range(3):
        rank, letter = divmod(rank, len(LETTERS))
        rank, vowel = divmod(rank + 1, len(VOWELS))
        parts.append(LETTERS[letter] + VOWELS[vowel])
    return "".join(parts)


def _rank(rng: random.Random, size: int) -> int:
    """Few words are frequent and many are rare, as in any language."""
    return int(size ** rng.random()) - 1


def _sentence(rng: random.Random, chinese: bool) -> str:
    if chinese:
        text = "".join(chr(FIRST_CHARACTER + 7 * _rank(rng, CHARACTERS)) for _ in range(rng.randrange(18, 40)))
        return f"{text}{rng.randrange(2, 400)}天。"
    return " ".join(_word(_rank(rng, 5000)) for _ in range(rng.randrange(8, 20))) + f" {rng.randrange(2, 400)} days. "


def _text(rng: random.Random, chinese: bool, characters: int) -> str:
    parts: list[str] = []
    while sum(map(len, parts)) < characters:
        parts.append(_sentence(rng, chinese))
    return "".join(parts)[:characters]


def _trace(rng: random.Random, chinese: bool, texts: list[str]) -> RagTrace:
    documents = tuple(Document(f"d{i}", i, text=text) for i, text in enumerate(texts, 1))
    return RagTrace(
        trace_id="bench",
        app="bench",
        version="1",
        started_at=0.0,
        duration_seconds=1.0,
        outcome=Outcome.ANSWERED,
        outcome_source="recorded",
        query=_text(rng, chinese, 60),
        candidates=documents,
        reranked=documents[:5],
        context=documents[:5],
        answer=_text(rng, chinese, 1000),
    )


def _reference() -> float:
    """Milliseconds that the same work takes each time on the same idle core."""
    started = time.process_time()
    counts: dict[str, int] = {}
    for i in range(20_000):
        counts[str(i % 700)] = counts.get(str(i % 700), 0) + i
    return 1000 * (time.process_time() - started)


def measure(chinese: bool, warm: bool, retrieved: int = 20, rounds: int = 200) -> dict[str, float | int | str]:
    """Milliseconds of processor time for reading one trace and turning it into judgements."""
    rng = random.Random(11)
    judge = LocalJudge()
    passages = [_text(rng, chinese, 1000) for _ in range(retrieved)]
    taken: list[float] = []
    reference: list[float] = []
    for _ in range(rounds):
        texts = passages if warm else [_text(rng, chinese, 1000) for _ in range(retrieved)]
        trace = _trace(rng, chinese, texts)
        started = time.process_time()
        criteria.judgements(trace, judge.assess(trace), 0.0)
        taken.append(1000 * (time.process_time() - started))
        reference.append(_reference())
    taken.sort()
    return {
        "language": "zh" if chinese else "en",
        "texts": "warm" if warm else "cold",
        "retrieved": retrieved,
        "traces": rounds,
        "p50_ms": round(statistics.median(taken), 2),
        "p95_ms": round(taken[int(0.95 * rounds)], 2),
        "reference_ms": round(statistics.median(reference), 2),
    }


if __name__ == "__main__":
    for language in (False, True):
        for seen in (True, False):
            for passages in (5, 20):
                print(json.dumps(measure(language, seen, passages)))
