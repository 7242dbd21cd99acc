"""How often `groundwatch gate` blocks the demo's own version on luck alone, and how often it sees each bad deploy.

Run: `python tests/bench/bench_gate.py --runs 100`. Each line is one JSON object; the baseline is one run of seed 0.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from groundwatch_deploy.demo import regression
from groundwatch_deploy.demo.app import Cancelled, RagApp, SearchUnavailable
from groundwatch_deploy.demo.behaviour import INCIDENTS, deployed
from groundwatch_deploy.demo.retrieval import Index
from groundwatch_review.gate import items, running
from groundwatch_review.gate.comparison import compare
from groundwatch_review.gate.items import Item
from groundwatch_review.gate.scores import Scorer
from groundwatch_review.gate.targets import NotAsked, Request
from groundwatch_scorer.local_judge import LocalJudge


class _Demo:
    """One version with its luck. A cancelled request, or a search that failed twice, is a failed execution."""

    def __init__(self, app: RagApp, seed: int) -> None:
        self.app, self.seed = app, seed

    def ask(self, request: Request, timeout_seconds: float) -> object:
        try:
            return regression.answer(self.app, request, random.Random(f"{self.seed}:{request['item_id']}"))
        except (Cancelled, SearchUnavailable) as error:
            raise NotAsked("crashed", type(error).__name__) from error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "set.jsonl")
        regression.main([str(path)])
        asked = items.read_set(path)
    index = Index(regression._index_passages())
    scorer, policy = Scorer(LocalJudge(), 5), running.AskPolicy(retries=0, parallel=1)
    apps = {name: RagApp(deployed(name), index) for name in (None, *INCIDENTS)}
    ask = partial(_ask, asked, scorer, policy)
    before = ask(apps[None], 0)
    for name, app in apps.items():
        runs = arguments.runs if name is None else max(1, arguments.runs // 10)
        started = time.process_time()
        blocked = sum(any(c.blocks for c in compare(before, ask(app, seed))) for seed in range(1, runs + 1))
        seconds = (time.process_time() - started) / runs
        print(
            json.dumps({"version": name or "the same", "runs": runs, "blocked": blocked, "cpu_s": round(seconds, 2)})
        )


def _ask(
    asked: Sequence[Item], scorer: Scorer, policy: running.AskPolicy, app: RagApp, seed: int
) -> list[running.ItemResult]:
    return running.run(asked, running.Asker(_Demo(app, seed), policy), scorer)


if __name__ == "__main__":
    main()
