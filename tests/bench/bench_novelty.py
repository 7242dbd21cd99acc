"""How new kinds of question are noticed, on questions nobody tuned it on. Run it: python tests/bench/bench_novelty.py

The threshold and the weights were chosen on the demo's bank of questions. Here the questions come from public
labelled data (the directory of GROUNDWATCH_SHARED_DATA, else ../shared/data): each source in turn is held out as
"new", the others are the known traffic of one application. One JSON line for each experiment; nothing is asserted.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from groundwatch_collector.novelty import AppNovelty, NoveltySettings
from groundwatch_collector.reasking import content_keys, similarity

DATA = Path(os.environ.get("GROUNDWATCH_SHARED_DATA") or Path(__file__).parents[3] / "shared" / "data")
FALSE_NOVEL = (0.01, 0.02, 0.05)
LOOKED_AT = ("delucionqa_en", "xstest_en", "halluqa_zh", "rgb_zh")  # while the use of the budget was chosen
LABELS = ("new_called_novel", "known_called_novel")
MIN_QUESTIONS = 20  # of a source that is held out
EDITS = {
    "en": (("", "?"), ("please tell me ", ""), ("hi, ", " thanks"), ("quick question: ", ""), ("", " please")),
    "zh": (("请问", ""), ("", "？谢谢"), ("我想知道", ""), ("您好，", ""), ("麻烦问一下", "呢")),
}


def questions() -> dict[str, list[str]]:
    """Distinct questions by source; sources that ask one and the same thing of every text are left out."""
    found: dict[str, dict[str, None]] = {}
    with gzip.open(DATA / "judge_dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if row["question"]:
                found.setdefault(row["source"], {})[row["question"]] = None
    return {source: list(asked) for source, asked in sorted(found.items()) if len(asked) >= MIN_QUESTIONS}


def chinese(text: str) -> bool:
    return any("\u4e00" <= character <= "\u9fff" for character in text)


def reworded(text: str, rng: random.Random, share: float) -> str:
    """The same question in other words, by machine: a phrase around it, a share of its words or characters gone."""
    before, after = rng.choice(EDITS["zh" if chinese(text) else "en"])
    parts, joint = (list(text), "") if chinese(text) else (text.lower().split(), " ")
    kept = [part for part in parts if rng.random() >= share] or parts
    return before + joint.join(kept) + after


def warmed(known: Sequence[str], rng: random.Random, drop: float) -> AppNovelty:
    """A memory that has seen the known questions, the popular ones often, in changing words."""
    memory = AppNovelty(NoveltySettings(warm_up=10**9))
    weights = [1 / rank for rank in range(1, len(known) + 1)]
    stream = [*known, *rng.choices(known, weights, k=4 * len(known))]
    rng.shuffle(stream)
    for text in stream:
        memory.see(reworded(text, rng, drop), 0.0)
    return memory


def nearness(memory: AppNovelty, asked: Sequence[str]) -> list[float]:
    return [memory.nearness(text) for text in asked]


def recall(known: Sequence[float], new: Sequence[float]) -> dict[str, float]:
    """Share of the new below the threshold that calls this share of the known new."""
    ordered = sorted(known)
    return {
        f"recall_at_{share:.0%}_false": round(sum(x < ordered[int(share * len(ordered))] for x in new) / len(new), 3)
        for share in FALSE_NOVEL
    }


def area(known: Sequence[float], new: Sequence[float]) -> float:
    return round(sum((k > n) + 0.5 * (k == n) for k in known for n in new) / (len(known) * len(new)), 3)


def reworded_known(asked: dict[str, list[str]], drop: float, seed: int) -> list[dict[str, object]]:
    """Known: questions of all other sources, asked again in other words. New: the held-out source."""
    results = []
    for held_out, new in asked.items():
        rng = random.Random(f"{seed} {held_out} {drop}")
        known = [text for source, texts in asked.items() if source != held_out for text in texts]
        rng.shuffle(known)
        memory = warmed(known, rng, drop)
        again = [reworded(text, rng, drop) for text in rng.sample(known, 200)]
        near, far = nearness(memory, again), nearness(memory, rng.sample(new, min(60, len(new))))
        results.append({"held_out": held_out, "area": area(near, far), **recall(near, far)})
    return results


def unseen_known(asked: dict[str, list[str]], seed: int) -> list[dict[str, object]]:
    """The hard one. Known: one source. Its other half, never asked, should look known, and other sources new."""
    results = []
    for home, texts in asked.items():
        rng = random.Random(f"{seed} {home}")
        mixed = rng.sample(texts, len(texts))
        seen, unseen = mixed[: len(mixed) // 2], mixed[len(mixed) // 2 :]
        same = [
            t for source, other in asked.items() if source != home for t in other if chinese(t) == chinese(seen[0])
        ]
        memory = warmed(seen, rng, 0.0)
        near, far = nearness(memory, unseen), nearness(memory, rng.sample(same, min(60, len(same))))
        results.append({"home": home, "area": area(near, far), **recall(near, far)})
    return results


def mean(results: Sequence[dict[str, object]], name: str) -> float:
    return round(statistics.mean(float(str(result[name])) for result in results), 4)


def stream(asked: dict[str, list[str]], held_out: str, seed: int, before: int) -> dict[str, object]:
    """The product's own labels with its defaults: known traffic, then 5 % of a new kind among 1,000 questions.

    10,000 questions a day. With *before* = 4,000 the application is not a day old, and known questions still come in
    for the first time; with 20,000 nearly all of them are more than a day old.
    """
    rng = random.Random(f"{seed} {held_out}")
    known = [text for source, texts in asked.items() if source != held_out for text in texts]
    rng.shuffle(known)
    weights = [1 / rank for rank in range(1, len(known) + 1)]
    memory = AppNovelty(NoveltySettings())
    clock = itertools.count(0, 8.64)
    quiet = [memory.see(reworded(t, rng, 0.1), next(clock)).novel for t in rng.choices(known, weights, k=before)]
    novel: dict[bool, list[bool]] = {True: [], False: []}
    for _ in range(1000):
        new = rng.random() < 0.05
        text = rng.choice(asked[held_out]) if new else rng.choices(known, weights)[0]
        novel[new].append(memory.see(reworded(text, rng, 0.1), next(clock)).novel)
    return {
        "held_out": held_out,
        "questions_before": before,
        "novel_share_before": round(statistics.mean(quiet), 4),
        "novel_share_last_1000_before": round(statistics.mean(quiet[-1000:]), 4),
        "new_called_novel": round(statistics.mean(novel[True]), 3),
        "known_called_novel": round(statistics.mean(novel[False]), 4),
        "threshold": round(memory.threshold, 3),
        "leaders": memory.leaders,
    }


def cost(asked: dict[str, list[str]], seed: int) -> dict[str, object]:
    """CPU of one question, with as many leaders as there may be."""
    rng = random.Random(seed)
    texts = [text for source in asked.values() for text in source]
    memory = AppNovelty(NoveltySettings(nearness=0.6))
    while memory.leaders < 1000 and memory.questions < 20_000:
        memory.see(reworded(" ".join(rng.sample(texts, 2)), rng, 0.3), 0.0)
    micros = []
    for text in rng.choices(texts, k=2000):
        changed = reworded(text, rng, 0.1)
        started = time.thread_time_ns()
        memory.see(changed, 0.0)
        micros.append((time.thread_time_ns() - started) / 1000)
    micros.sort()
    pairs = [(content_keys(a), content_keys(b)) for a, b in itertools.pairwise(texts)]
    started = time.thread_time_ns()
    for one, other in pairs:
        similarity(one, other)
    return {
        "leaders": memory.leaders,
        "cpu_us_p50": round(micros[1000]),
        "cpu_us_p99": round(micros[1980]),
        "cpu_us_max": round(micros[-1]),
        "reask_pair_us": round((time.thread_time_ns() - started) / 1000 / len(pairs), 1),
    }


def main() -> int:
    if not (DATA / "judge_dev.jsonl.gz").exists():
        print(json.dumps({"skipped": "the public labelled data is not here; set GROUNDWATCH_SHARED_DATA"}))
        return 0
    asked = questions()
    shared = {"sources": len(asked), "questions": sum(map(len, asked.values()))}
    names = ["area", *(f"recall_at_{share:.0%}_false" for share in FALSE_NOVEL)]
    for drop in (0.0, 0.1, 0.3):
        results = reworded_known(asked, drop, 1)
        worst = min(results, key=lambda result: float(str(result["recall_at_2%_false"])))
        print(json.dumps({"experiment": "known questions reworded", "words_dropped": drop, **shared,
                          **{name: mean(results, name) for name in names}, "worst": worst}))  # fmt: skip
    results = unseen_known(asked, 1)
    print(json.dumps({"experiment": "unseen questions of a known source", **shared,
                      **{name: mean(results, name) for name in names}, "by_source": results}))  # fmt: skip
    for before in (4_000, 20_000):
        results = [stream(asked, held_out, 1, before) for held_out in asked]
        for looked_at in (True, False):
            chosen = [result for result in results if (result["held_out"] in LOOKED_AT) == looked_at]
            print(json.dumps({"experiment": "labels of a stream", "questions_before": before, "looked_at": looked_at,
                              **{name: mean(chosen, name) for name in LABELS}, "by_source": chosen}))  # fmt: skip
    print(json.dumps({"experiment": "cost", **cost(asked, 1)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
