"""Bias, coverage and budget of the whole product while everything goes wrong. Run it: make closed-loop RUNS=200

Each run is one seeded day through pipelines, ledger, judge's queue, settling and estimator with duplicates, crashes,
moved partitions, late feedback and ten times the traffic (`tests/harness/partition_loop.py`). Progress goes to
standard error; the last line is one JSON object. Seeds are 1, 2, 3 ...: the same numbers come again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from partition_loop import Loop, Plan, summary

SHM = Path("/dev/shm")  # the database is thrown away; its syncs would be most of the time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=1, help="of days that nobody has looked at")
    options = parser.parse_args()
    plan, runs, started = Plan(), [], time.process_time()
    for seed in range(options.first_seed, options.first_seed + options.runs):
        with tempfile.TemporaryDirectory(dir=SHM if SHM.is_dir() else None) as scratch:
            runs.append(Loop(plan, seed, Path(scratch)).run())
        if len(runs) > 1 and (len(runs) % 10 == 0 or len(runs) == options.runs):
            print(f"{len(runs)} days: {summary(runs, plan.judged_a_day)}", file=sys.stderr, flush=True)
    happened = {name: sum(getattr(run.counts, name) for run in runs) for name in COUNTED}
    result = {"plan": asdict(plan), **asdict(summary(runs, plan.judged_a_day)), "happened": happened}
    result["judged"] = sum(run.judged for run in runs)
    print(json.dumps(result | {"cpu_seconds": round(time.process_time() - started)}))


COUNTED = ("traces", "duplicates", "crashes", "moves", "fenced", "late", "shed")

if __name__ == "__main__":
    main()
