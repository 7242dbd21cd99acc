"""How well the cheap score ranks answers, and what it costs. Run it: python tests/bench/bench_score.py

Area under the ROC curve (0.5 is chance) on the answers of public labelled data that have a faithfulness label and a
context (the directory of GROUNDWATCH_SHARED_DATA, else ../shared/data). The weights were set by hand, the cuts are
quantiles of the faithful answers there. Prints one JSON line; nothing is asserted.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import time
from pathlib import Path

from groundwatch_collector import signals
from groundwatch_collector.ragtrace import Document, Outcome, RagTrace

DATA = Path(os.environ.get("GROUNDWATCH_SHARED_DATA") or Path(__file__).parents[3] / "shared" / "data")
FEWEST = 15  # of each label, for a source to be named


def trace(question: str | None, contexts: list[str], answer: str) -> RagTrace:
    return RagTrace(
        trace_id="1" * 32,
        app="bench",
        version="1",
        started_at=0.0,
        duration_seconds=1.0,
        outcome=Outcome.ANSWERED,
        outcome_source="recorded",
        query=question,
        context=tuple(Document(str(rank), rank, text=text) for rank, text in enumerate(contexts, start=1)),
        answer=answer,
    )


def area(scored: list[tuple[bool, float]]) -> float:
    good = [score for faithful, score in scored if faithful]
    bad = [score for faithful, score in scored if not faithful]
    return round(sum((b > g) + 0.5 * (b == g) for b in bad for g in good) / (len(bad) * len(good)), 3)


def main() -> int:
    path = DATA / "judge_dev.jsonl.gz"
    if not path.exists():
        print(json.dumps({"skipped": "the public labelled data is not here; set GROUNDWATCH_SHARED_DATA"}))
        return 0
    groups: dict[str, list[tuple[bool, float]]] = {}
    micros = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if row["faithful"] is None or not row["contexts"] or not row["answer"]:
                continue
            one = trace(row["question"], row["contexts"], row["answer"])
            started = time.thread_time_ns()
            score = signals.score(signals.measure(one))
            micros.append((time.thread_time_ns() - started) / 1000)
            for group in ("all", row["lang"], row["source"]):
                groups.setdefault(group, []).append((bool(row["faithful"]), score))
    micros.sort()
    named = {name: found for name, found in groups.items() if min(map(sum, _counts(found))) >= FEWEST}
    cost = {"cpu_us_p50": round(micros[len(micros) // 2]), "cpu_us_p99": round(micros[int(len(micros) * 0.99)])}
    print(
        json.dumps({"answers": len(micros), "area": {n: area(found) for n, found in sorted(named.items())}, **cost})
    )
    return 0


def _counts(found: list[tuple[bool, float]]) -> tuple[list[bool], list[bool]]:
    return [faithful for faithful, _ in found], [not faithful for faithful, _ in found]


if __name__ == "__main__":
    sys.exit(main())
